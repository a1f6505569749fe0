//! Databases of one table with the keys 1, 2, 3 …, in which each text begins with the key of its own row: how they are
//! loaded, and that no row is lost and no text is in another row.

use tombolo_engine::rng::Rng;
use tombolo_engine::transaction::execute;
use tombolo_storage::error::Result;
use tombolo_storage::key::IndexType;
use tombolo_storage::row::{Column, Fields, Row, RowBytes, RowMut};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, TableDef};
use tombolo_storage::store::{Index, Store, Table};
use tombolo_storage::types::Integer;

use super::Check;
use super::error::WorkloadError;
use super::loading::{self, Fill, store_keyed};
use super::resolve::Resolve;
use super::rows::{HasRows, in_transaction};
use crate::store::DynamicStore;

/// The conditions' names, in order.
pub(crate) const CHECKS: [&str; 2] = ["records", "values"];
/// Digits of the key in front of a text.
const DIGITS: usize = 10;
/// Rows that are loaded together, at most.
const PART: usize = 10_000;

/// A table of such rows.
pub(crate) trait Labelled: DeclaredTable + Sized {
    /// Its primary key.
    type Key: DeclaredIndex + for<'k> IndexType<Key<'k> = i32>;
    /// The column that is the key.
    const KEY: Column<Self, Integer>;
    /// Bytes of a text.
    const TEXT_BYTES: usize;

    /// Fills a row that is loaded.
    fn fill(row: &mut RowMut<'_, Self>, key: i32, text: &[u8]);

    /// Its texts.
    fn texts<P: RowBytes>(row: &Row<Self, P>) -> impl Iterator<Item = &[u8]>;

    /// What [`Labelled::spoil`] changes.
    const SPOILT: Fields<Self>;

    /// Writes a text that should be another row's.
    fn spoil(row: &mut RowMut<'_, Self>, text: &[u8]);
}

/// The functions of [`Workload`](super::Workload) of one whose database is the table `$table`, of which `$rows` rows
/// are loaded; `rng` is a function of its module.
macro_rules! labelled {
    ($table:ty, $rows:ident) => {
        fn all_tables() -> Vec<tombolo_storage::schema::TableDef> {
            $crate::workload::labelled::tables::<$table>()
        }

        fn load_parts<S: Store>(
            &self,
            store: &mut S,
            threads: usize,
            after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
        ) -> Result<(), WorkloadError> {
            let (last, rng) = (self.$rows as i32, |part| rng(self.seed, 0, part));
            $crate::workload::labelled::load_parts::<$table, S>(
                store, last, threads, rng, after_part,
            )
        }

        /// How many rows were to be loaded is not recorded: a load that was broken off is a smaller database. Rows
        /// that are inserted come behind the newest.
        fn find(
            &self,
            store: &mut dyn $crate::store::DynamicStore,
        ) -> Result<Option<Self>, WorkloadError> {
            let newest = $crate::workload::labelled::newest::<$table>(store)?;
            Ok(newest.map(|$rows| Self { $rows, ..*self }))
        }

        fn checks(
            store: &mut dyn $crate::store::DynamicStore,
        ) -> Result<Vec<Check>, WorkloadError> {
            $crate::workload::labelled::checks::<$table>(store)
        }

        fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError> {
            $crate::workload::labelled::tamper::<$table, S>(store, check)
        }
    };
}
pub(super) use labelled;

/// The text that begins with `key`, the rest of which `letters` are.
pub(crate) fn write_text(text: &mut [u8], key: i32, letters: impl FnMut() -> u8) {
    let (front, rest) = text.split_at_mut(DIGITS);
    let mut left = key;
    for digit in front.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    rest.fill_with(letters);
}

handles! {
    /// The table and its key.
    #[derive(Debug)]
    pub(crate) struct Handles<R: Labelled> {
        pub(crate) rows: Table<R>,
        pub(crate) key: Index<R::Key>,
    }
}

/// The one table's definition.
pub(crate) fn tables<R: Labelled>() -> Vec<TableDef> {
    vec![TableDef::of::<R>().with::<R::Key>()]
}

/// A row of the initial database.
struct Initial {
    key: i32,
    text: Vec<u8>,
}

impl<R: Labelled> Fill<R> for Initial {
    fn fill(&self, row: &mut RowMut<'_, R>) {
        R::fill(row, self.key, &self.text);
    }
}

/// Creates the table in `store` and loads the rows 1 to `last`; see
/// [`Workload::load_parts`](super::Workload::load_parts). `rng` gives the random numbers of the part that begins with a
/// key.
///
/// # Errors
/// What the store refused, or `after_part` failed with.
pub(crate) fn load_parts<R: Labelled, S: Store>(
    store: &mut S,
    last: i32,
    threads: usize,
    rng: impl Fn(u64) -> Rng + Sync,
    after_part: impl FnMut(&mut S, usize, usize) -> std::result::Result<(), WorkloadError>,
) -> std::result::Result<(), WorkloadError> {
    for table in tables::<R>() {
        store.create_table(table)?;
    }
    let Handles::<R> { rows, key } = Resolve::resolve(store.schema())?;
    let parts: Vec<_> = (1..=last).step_by(PART).collect();
    let generate = |first: &i32| {
        let mut rng = rng(u64::from(first.unsigned_abs()));
        let initial = |key| {
            let mut text = vec![0; R::TEXT_BYTES];
            write_text(&mut text, key, || b'a' + rng.below(26) as u8);
            Initial { key, text }
        };
        (*first..=last.min(first + PART as i32 - 1)).map(initial).collect::<Vec<_>>()
    };
    let store_part =
        |store: &mut S, part: &Vec<Initial>| store_keyed(store, (&rows, &key), part, |row| row.key);
    loading::load_parts(store, &parts, threads, generate, store_part, after_part)
}

/// The greatest key; none of an empty table.
///
/// # Errors
/// When the store does not hold the table or refuses to be read.
pub(crate) fn newest<R: Labelled>(
    store: &mut dyn DynamicStore,
) -> std::result::Result<Option<u32>, WorkloadError> {
    let Handles::<R> { rows, .. } = Resolve::resolve(store.schema())?;
    let mut newest = 0;
    in_transaction(store, |mut store| {
        store.for_each_row(&rows, |row| newest = newest.max(row.get(R::KEY)))
    })?;
    Ok((newest > 0).then_some(newest.unsigned_abs()))
}

/// Asks both conditions of the database in `store`.
///
/// # Errors
/// When the store does not hold the table or refuses to be read.
pub(crate) fn checks<R: Labelled>(
    store: &mut dyn DynamicStore,
) -> std::result::Result<Vec<Check>, WorkloadError> {
    let Handles::<R> { rows, .. } = Resolve::resolve(store.schema())?;
    let (mut keys, mut foreign, mut own) = (Vec::new(), None, [0; DIGITS]);
    in_transaction(store, |mut store| -> Result<()> {
        store.for_each_row(&rows, |row| {
            let key = row.get(R::KEY);
            keys.push(key);
            write_text(&mut own, key, || 0);
            if !R::texts(row).all(|text| text[..DIGITS] == own) {
                foreign.get_or_insert(key);
            }
        })
    })?;
    keys.sort_unstable();
    // Rows are inserted behind those that were loaded, perhaps not all of them, and never deleted.
    let missing = keys.first().is_none_or(|first| *first != 1);
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let records = match (missing, twice) {
        (true, _) => Some("record 1 is missing".to_owned()),
        (_, twice) => twice.map(|key| format!("record {key} is there twice")),
    };
    let values = foreign.map(|key| format!("record {key} has a value of another one"));
    let check = |(name, violation)| Check { name, violation };
    Ok(CHECKS.into_iter().zip([records, values]).map(check).collect())
}

/// Breaks the condition called `check`, and no other.
///
/// # Errors
/// When no check has that name, there is no row 1, or the store refuses a call.
pub(crate) fn tamper<R: Labelled, S: Store>(
    store: &mut S,
    check: &str,
) -> std::result::Result<(), WorkloadError> {
    let Handles::<R> { rows, key } = Resolve::resolve(store.schema())?;
    if !CHECKS.contains(&check) {
        return Err(WorkloadError::NoSuchCheck {
            name: check.to_owned(),
            known: "records or values",
        });
    }
    let mut foreign = vec![0; R::TEXT_BYTES];
    write_text(&mut foreign, 2, || b'x');
    let is_done = execute(store, |mut tx| {
        let Some(row) = tx.lookup_for_update(&key, 1)? else { return tx.commit(false) };
        let mut tx = tx.write();
        if check == CHECKS[0] {
            tx.remove(&key, 1, row)?;
            tx.delete(&rows, row)?;
        } else {
            tx.update(&rows, row, R::SPOILT, |row| R::spoil(row, &foreign))?;
        }
        tx.commit(true)
    })?;
    if is_done { Ok(()) } else { Err(WorkloadError::NothingToTamper("a record 1")) }
}
