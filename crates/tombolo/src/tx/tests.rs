//! Closures' transactions against a model, over both stores: every index follows, whatever is written and undone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::rng::Rng;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::key::Range;
use tombolo_storage::memory::Limits;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Order;

use super::*;
use crate::calls::Kept;
use crate::cancels::Cancels;
use crate::{Database, Error, PagedRowId, PagedTx};

crate::table! {
    /// Rows whose columns are in indexes of every kind.
    struct Entry = "entry" {
        ID: Integer [0..=99];
        CODE: Nullable<SmallInt>;
        NAME: Nullable<Text>;
        NOTE: Bytes;
        PLACE: Varchar<8>;
        SIZE: BigInt;
    }
}
crate::index! {
    /// Packed, unique.
    struct ById = "entry_by_id" on Entry (ID: Integer) unique Tree;
}
crate::index! {
    /// Nullable first.
    struct ByCode = "entry_by_code" on Entry (CODE: Nullable<SmallInt>, SIZE: BigInt) multiple Tree;
}
crate::index! {
    /// A value outside the row.
    struct ByName = "entry_by_name" on Entry (NAME: Nullable<Text>, ID: Integer) unique Tree;
}
crate::index! {
    /// Hashed bytes.
    struct ByPlace = "entry_by_place" on Entry (PLACE: Varchar<8>, ID: Integer) unique Hash;
}

type Model = BTreeMap<i32, (Option<i16>, Option<String>, i64)>;

/// The calls of a transaction that the test makes.
trait Calls: Sized {
    type Id: Copy;
    fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()>;
    fn row(&mut self, by_id: &Index<ById>, id: i32) -> Result<Self::Id>;
    fn insert(
        &mut self,
        table: &Table<Entry>,
        fill: impl FnOnce(&mut NewRow<'_, Entry>),
    ) -> Result<()>;
    fn delete(&mut self, table: &Table<Entry>, row: Self::Id) -> Result<()>;
    fn update(
        &mut self,
        table: &Table<Entry>,
        row: Self::Id,
        fields: Fields<Entry>,
        change: impl FnOnce(&mut RowMut<'_, Entry>),
    ) -> Result<()>;
    fn set<T: InlineType>(
        &mut self,
        table: &Table<Entry>,
        row: Self::Id,
        column: Column<Entry, T>,
        value: T::Value<'_>,
    ) -> Result<()>;
    fn set_variable<T: VariableType>(
        &mut self,
        table: &Table<Entry>,
        row: Self::Id,
        column: Column<Entry, T>,
        value: T::Given<'_>,
    ) -> Result<()>;
    /// What the store holds, read by one of its indexes.
    fn held<I: IndexType>(&mut self, table: &Table<Entry>, index: &Index<I>) -> Result<Model>;
}

macro_rules! calls {
    ($tx:ident, $id:ty) => {
        impl Calls for $tx<'_> {
            type Id = $id;
            fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
                self.savepoint(part)
            }
            fn row(&mut self, by_id: &Index<ById>, id: i32) -> Result<$id> {
                self.lookup(by_id, id)?.ok_or(Stop::Abort("no row"))
            }
            fn insert(
                &mut self,
                table: &Table<Entry>,
                fill: impl FnOnce(&mut NewRow<'_, Entry>),
            ) -> Result<()> {
                $tx::insert(self, table, fill).map(drop)
            }
            fn delete(&mut self, table: &Table<Entry>, row: $id) -> Result<()> {
                $tx::delete(self, table, row)
            }
            fn update(
                &mut self,
                table: &Table<Entry>,
                row: $id,
                fields: Fields<Entry>,
                change: impl FnOnce(&mut RowMut<'_, Entry>),
            ) -> Result<()> {
                $tx::update(self, table, row, fields, change)
            }
            fn set<T: InlineType>(
                &mut self,
                table: &Table<Entry>,
                row: $id,
                column: Column<Entry, T>,
                value: T::Value<'_>,
            ) -> Result<()> {
                $tx::set(self, table, row, column, value)
            }
            fn set_variable<T: VariableType>(
                &mut self,
                table: &Table<Entry>,
                row: $id,
                column: Column<Entry, T>,
                value: T::Given<'_>,
            ) -> Result<()> {
                $tx::set_variable(self, table, row, column, value)
            }
            fn held<I: IndexType>(
                &mut self,
                table: &Table<Entry>,
                index: &Index<I>,
            ) -> Result<Model> {
                let mut model = Model::new();
                for row in self.range(index, Range::all(), Order::Forward)? {
                    let row = self.get(table, row)?;
                    let name =
                        row.get(Entry::NAME).map(|name| String::from_utf8_lossy(name).into_owned());
                    model.insert(
                        row.get(Entry::ID),
                        (row.get(Entry::CODE), name, row.get(Entry::SIZE)),
                    );
                }
                Ok(model)
            }
        }
    };
}
calls!(Tx, RowId);
calls!(PagedTx, PagedRowId);

/// One change of a row, in the store and in the model.
fn change(
    tx: &mut impl Calls,
    (table, by_id): (&Table<Entry>, &Index<ById>),
    model: &mut Model,
    rng: &mut Rng,
) -> Result<(), Stop> {
    let (id, size) = (rng.below(100) as i32, rng.below(5) as i64);
    let name = (rng.below(3) > 0).then(|| "n".repeat(rng.below(50) as usize));
    let code = (rng.below(3) > 0).then(|| rng.below(4) as i16);
    if let MapEntry::Vacant(entry) = model.entry(id) {
        tx.insert(table, |row| {
            row.set(Entry::ID, id);
            row.set(Entry::CODE, code);
            row.set_variable(Entry::NAME, name.as_deref());
            row.set(Entry::PLACE, b"here");
            row.set(Entry::SIZE, size);
        })?;
        entry.insert((code, name, size));
        return Ok(());
    }
    let found = tx.row(by_id, id)?;
    match rng.below(5) {
        0 => {
            tx.delete(table, found)?;
            model.remove(&id);
        }
        1 => {
            tx.set_variable(table, found, Entry::NAME, name.as_deref())?;
            model.entry(id).and_modify(|entry| entry.1 = name);
        }
        2 => {
            let fields = Fields::none().with(Entry::CODE).with(Entry::SIZE);
            tx.update(table, found, fields, |row| {
                row.set(Entry::CODE, code);
                row.set(Entry::SIZE, size);
            })?;
            model.entry(id).and_modify(|entry| (entry.0, entry.2) = (code, size));
        }
        3 => {
            tx.set(table, found, Entry::PLACE, &b"elsewhere"[..size as usize])?;
            tx.set_variable(table, found, Entry::NOTE, &[7; 300][..60 * size as usize])?;
        }
        _ => {
            // A new number: refused where there is such a row, and then all is undone.
            let to = rng.below(100) as i32;
            tx.set(table, found, Entry::ID, to)?;
            if let Some(entry) = model.remove(&id) {
                model.insert(to, entry);
            }
        }
    }
    Ok(())
}

/// Some changes, and some of them behind savepoints, which are taken back now and then.
fn changes(
    tx: &mut impl Calls,
    handles: (&Table<Entry>, &Index<ById>),
    model: &mut Model,
    (rng, depth): (&mut Rng, usize),
) -> Result<(), Stop> {
    for _ in 0..rng.below(6) {
        if depth == 2 || rng.below(4) > 0 {
            change(tx, handles, model, rng)?;
            continue;
        }
        let mut after = model.clone();
        let part = tx.part(|tx| {
            changes(tx, handles, &mut after, (&mut *rng, depth + 1))?;
            if rng.below(3) == 0 { Err(Stop::Abort("this part")) } else { Ok(()) }
        });
        match part {
            Ok(()) => *model = after,
            Err(Stop::Error(StoreError::Duplicate { .. }) | Stop::Abort("this part")) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

#[test]
fn indexes_follow_whatever_is_written_and_undone() {
    let mut store = Product::new(Limits::default());
    let table = TableDef::of::<Entry>().with::<ById>().with::<ByCode>();
    store.create_table(table.with::<ByName>().with::<ByPlace>()).unwrap();
    store.create_table(crate::calls::request_table()).unwrap();
    let kept = Kept { ids: 1, time_us: 0 };
    let tables = Tables::new(
        store.schema(),
        kept,
        Arc::new(SystemClock::new()),
        Arc::new(Cancels::default()),
    )
    .unwrap();
    let schema = tables.known().get();
    let table = tombolo_storage::store::resolve_table::<Entry>(&schema).unwrap();
    let by_id = tombolo_storage::store::resolve_index::<ById>(&schema).unwrap();
    let by_code = tombolo_storage::store::resolve_index::<ByCode>(&schema).unwrap();
    let by_name = tombolo_storage::store::resolve_index::<ByName>(&schema).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::stream(1, &[]));
    let (mut committed, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let mut after = model.clone();
        let ended = run(&mut store, None, &tables, |tx| {
            changes(tx, (&table, &by_id), &mut after, (&mut rng, 0))?;
            if rng.below(8) == 0 { Err(Stop::Abort("at random")) } else { Ok(()) }
        });
        match ended {
            Ok(()) => (model, committed) = (after, committed + 1),
            Err(Stop::Error(StoreError::Duplicate { .. })) => refused += 1,
            Err(stop) => assert_eq!(stop, Stop::Abort("at random")),
        }
    }
    assert!(committed > 500 && refused > 50 && model.len() > 20, "{committed} {refused}");
    let read = run(&mut store, None, &tables, |tx| {
        Ok([tx.held(&table, &by_id)?, tx.held(&table, &by_code)?, tx.held(&table, &by_name)?])
    });
    assert!(read.unwrap().iter().all(|held| *held == model));
    assert_eq!(store.check(), []);
}

/// The same over the paged store, closed and opened again between.
#[test]
fn indexes_of_a_paged_database_follow_whatever_is_written_and_undone() {
    let place = tempfile::tempdir().unwrap();
    let table = TableDef::of::<Entry>().with::<ById>().with::<ByCode>();
    let table = table.with::<ByName>().with::<ByPlace>();
    let (mut model, mut rng) = (Model::new(), Rng::stream(2, &[]));
    let (mut committed, mut refused) = (0, 0);
    for round in 0..6 {
        let builder = Database::builder().table(table.clone()).paged().pool_bytes(1 << 20);
        let db = builder.open(place.path()).unwrap();
        let (table, by_id) = (db.table::<Entry>().unwrap(), db.index::<ById>().unwrap());
        let (by_code, by_name) = (db.index::<ByCode>().unwrap(), db.index::<ByName>().unwrap());
        for _ in 0..200 {
            let mut after = model.clone();
            let ended = db.transaction_once(|tx| {
                changes(tx, (&table, &by_id), &mut after, (&mut rng, 0))?;
                if rng.below(8) == 0 { Err(Stop::Abort("at random")) } else { Ok(()) }
            });
            match ended {
                Ok(()) => (model, committed) = (after, committed + 1),
                Err(Error::Duplicate { .. }) => refused += 1,
                Err(error) => assert_eq!(error, Error::Aborted("at random")),
            }
        }
        let read = db.read(|tx| {
            Ok([tx.held(&table, &by_id)?, tx.held(&table, &by_code)?, tx.held(&table, &by_name)?])
        });
        assert!(read.unwrap().iter().all(|held| *held == model), "round {round}");
        assert_eq!(db.check(), []);
        db.close().unwrap();
    }
    assert!(committed > 500 && refused > 50 && model.len() > 20, "{committed} {refused}");
}
