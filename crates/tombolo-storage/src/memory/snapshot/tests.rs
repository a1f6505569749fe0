//! Snapshots against a trivial map: a copy of all rows, made when the snapshot was opened.

use std::collections::BTreeMap;

use super::*;
use crate::dynamic::DynamicTable;
use crate::memory::Limits;
use crate::memory::test_random::Random;
use crate::profile::{Bare, Memory, MemoryLogged};
use crate::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use crate::types::SqlType;
use crate::value::{Value, read_value};
use crate::value_log::LogBuffer;

fn column(name: &'static str, sql: SqlType) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range: None,
        hot: false,
        added: false,
        default: None,
    }
}

fn table(name: &'static str, has_text: bool) -> TableDef {
    let mut columns = vec![column("id", SqlType::Integer), column("n", SqlType::BigInt)];
    if has_text {
        columns.push(column("name", SqlType::Varchar(40)));
        columns.push(column("blob", SqlType::Bytes));
    }
    let index =
        |name: String, columns, unique, kind| IndexDef { name: name.into(), columns, unique, kind };
    let indexes = vec![
        index(format!("{name}_pk"), vec![0], true, IndexKind::Tree),
        index(format!("{name}_n"), vec![1], false, IndexKind::Tree),
    ];
    TableDef { name: name.into(), columns, indexes }
}

type Rows = BTreeMap<(usize, u64), String>;

fn store<P: MemoryProfile>() -> (MemoryStore<P>, Vec<DynamicTable>) {
    let mut store = MemoryStore::new(Limits { structure_bytes_max: 64 << 20, ..Limits::default() });
    store.create_table(table("plain", false)).unwrap();
    store.create_table(table("texts", true)).unwrap();
    let tables = (0..2).map(|at| DynamicTable::new(store.schema(), at)).collect();
    (store, tables)
}

/// All rows as they are.
fn now<P: MemoryProfile>(store: &mut MemoryStore<P>, tables: &[DynamicTable]) -> Rows {
    let mut rows = Rows::new();
    for (position, table) in tables.iter().enumerate() {
        for row in table.row_ids(store).unwrap() {
            let text = table.read(store, row, |values| format!("{values:?}")).unwrap();
            rows.insert((position, row.location()), text);
        }
    }
    rows
}

fn text(table: &DynamicTable, row: &Row<crate::key::Dynamic, MemoryRow<'_>>) -> String {
    let columns = table.columns();
    let values: Vec<_> = (0..columns.len()).map(|i| read_value(row.pin(), columns, i)).collect();
    format!("{values:?}")
}

/// One snapshot being read.
struct Reader {
    snapshot: Snapshot,
    then: Rows,
    seen: Rows,
    table: usize,
    cursor: SnapshotCursor,
}

impl Reader {
    fn open<P: MemoryProfile>(store: &mut MemoryStore<P>, tables: &[DynamicTable]) -> Self {
        let (then, snapshot) = (now(store, tables), store.open_snapshot().unwrap());
        Self { snapshot, then, seen: Rows::new(), table: 0, cursor: SnapshotCursor::default() }
    }

    /// Reads a slice; whether all is read, which is verified then.
    fn read<P: MemoryProfile>(
        &mut self,
        store: &MemoryStore<P>,
        tables: &[DynamicTable],
        rows_max: usize,
    ) -> bool {
        let Some(table) = tables.get(self.table) else {
            assert_eq!(self.seen, self.then);
            return true;
        };
        let (position, seen) = (self.table, &mut self.seen);
        let (mut visited, mut last) = (0, None);
        let visit = |row: RowId, values: Row<_, MemoryRow<'_>>| {
            visited += 1;
            assert!(last < Some(row.location()), "rows come in order");
            last = Some(row.location());
            assert_eq!(seen.insert((position, row.location()), text(table, &values)), None);
        };
        let cursor = &mut self.cursor;
        match store.read_slice(&self.snapshot, table.handle(), cursor, rows_max, visit).unwrap() {
            Slice::More => assert!(visited <= rows_max),
            Slice::Done => (self.table, self.cursor) = (position + 1, SnapshotCursor::default()),
        }
        false
    }

    /// Reads single rows by id.
    fn point<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        tables: &[DynamicTable],
        random: &mut Random,
    ) {
        for _ in 0..5 {
            let position = random.below(2) as usize;
            let (table, location) = (&tables[position], random.below(120));
            let row =
                store.snapshot_row(&self.snapshot, table.handle(), RowId::new(location)).unwrap();
            let row = row.map(|row| text(table, &row));
            assert_eq!(row.as_ref(), self.then.get(&(position, location)));
        }
    }
}

fn change<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    tables: &[DynamicTable],
    random: &mut Random,
) {
    let table = &tables[random.below(2) as usize];
    let mut text = |length| "tombolo ".repeat(random.below(length) as usize / 8);
    let (name, blob) = (text(32), text(2_000));
    let (id, n) = (random.below(150) as i64, random.below(1_000) as i64);
    let all =
        [Value::Integer(id), Value::Integer(n), Value::Text(&name), Value::Bytes(blob.as_bytes())];
    let values = &all[..table.columns().len()];
    let ids = table.row_ids(store).unwrap();
    let picked = (!ids.is_empty()).then(|| ids[random.below(ids.len() as u64) as usize]);
    let done = match (random.below(10), picked) {
        (0..=3, _) | (_, None) => table.insert(store, values).map(drop),
        (4..=7, Some(row)) => table.update(store, row, values),
        (_, Some(row)) => table.delete(store, row),
    };
    assert!(matches!(done, Ok(()) | Err(Error::Duplicate { .. })), "{done:?}");
}

fn transact<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    tables: &[DynamicTable],
    random: &mut Random,
) {
    store.begin().unwrap();
    store.begin_writes();
    for _ in 0..random.below(8) {
        change(store, tables, random);
    }
    if random.below(4) == 0 {
        store.abort().unwrap();
    } else {
        store.commit().unwrap();
    }
}

#[test]
fn model() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut store, tables) = store::<MemoryLogged>();
        let mut readers: Vec<Reader> = Vec::new();
        let mut read = 0;
        for _ in 0..400 {
            match random.below(12) {
                0 if readers.len() < 4 => readers.push(Reader::open(&mut store, &tables)),
                1..=4 if !readers.is_empty() => {
                    let at = random.below(readers.len() as u64) as usize;
                    let rows_max = 1 + random.below(40) as usize;
                    readers[at].point(&store, &tables, &mut random);
                    if readers[at].read(&store, &tables, rows_max) {
                        store.close_snapshot(readers.swap_remove(at).snapshot);
                        read += 1;
                    }
                }
                5 if !readers.is_empty() && random.below(8) == 0 => {
                    let at = random.below(readers.len() as u64) as usize;
                    store.close_snapshot(readers.swap_remove(at).snapshot);
                }
                _ => transact(&mut store, &tables, &mut random),
            }
        }
        assert!(read > 2, "seed {seed}: {read} snapshots were read");
        assert_eq!(store.check(), []);
        for mut reader in readers.drain(..) {
            while !reader.read(&store, &tables, 7) {}
            store.close_snapshot(reader.snapshot);
        }
        assert_eq!((store.snapshot_bytes(), store.check()), (0, vec![]));
        store.take_log(&mut LogBuffer::default());
    }
}

/// A store of `rows` rows of table `plain` whose `n` is 1.
fn filled(rows: i64) -> (MemoryStore<Memory>, DynamicTable, Vec<RowId>) {
    let (mut store, mut tables) = store::<Memory>();
    let table = tables.swap_remove(0);
    let mut ids = Vec::new();
    store.begin().unwrap();
    store.begin_writes();
    for id in 0..rows {
        let values = [Value::Integer(id), Value::Integer(1)];
        ids.push(table.insert(&mut store, &values).unwrap());
    }
    store.commit().unwrap();
    (store, table, ids)
}

fn set(store: &mut MemoryStore<Memory>, table: &DynamicTable, row: RowId, id: i64, n: i64) {
    store.begin().unwrap();
    store.begin_writes();
    table.update(store, row, &[Value::Integer(id), Value::Integer(n)]).unwrap();
    store.commit().unwrap();
}

#[test]
fn without_room_the_oldest_ends_and_transactions_go_on() {
    let (mut store, table, ids) = filled(10_000);
    store.set_snapshot_bytes_max(200_000);
    let old = store.open_snapshot().unwrap();
    for (id, &row) in ids[..3_000].iter().enumerate() {
        set(&mut store, &table, row, id as i64, 2);
    }
    assert!(store.snapshot_row(&old, table.handle(), ids[0]).unwrap().is_some());
    let held = store.snapshot_bytes();
    assert!(held > 3_000 * 16 && held <= 200_000, "{held} bytes");
    let young = store.open_snapshot().unwrap();
    for (id, &row) in ids.iter().enumerate() {
        set(&mut store, &table, row, id as i64, 3);
        if store.snapshot_row(&old, table.handle(), ids[0]).is_err() {
            break;
        }
    }
    let ended = store.snapshot_row(&old, table.handle(), ids[0]).map(|row| row.is_some());
    assert_eq!(ended, Err(Error::SnapshotEnded { bytes_max: 200_000 }));
    let row = store.snapshot_row(&young, table.handle(), ids[0]).unwrap().unwrap();
    assert_eq!(text(&table, &row), "[Integer(0), Integer(2)]");
    let mut cursor = SnapshotCursor::default();
    let read = store.read_slice(&old, table.handle(), &mut cursor, 10, |_, _| ());
    assert!(matches!(read, Err(Error::SnapshotEnded { .. })));
    store.close_snapshot(old);
    store.close_snapshot(young);
    assert_eq!((store.snapshot_bytes(), store.check()), (0, vec![]));
}

#[test]
fn a_snapshot_alone_ends_too_when_nothing_is_left() {
    let (mut store, table, ids) = filled(5_000);
    store.set_snapshot_bytes_max(20_000);
    let snapshot = store.open_snapshot().unwrap();
    for (id, &row) in ids.iter().enumerate() {
        set(&mut store, &table, row, id as i64, 9);
    }
    assert!(store.snapshot_row(&snapshot, table.handle(), ids[0]).is_err());
    assert_eq!(store.snapshot_bytes(), 0);
    store.close_snapshot(snapshot);
    let next = store.open_snapshot().unwrap();
    assert!(store.snapshot_row(&next, table.handle(), ids[0]).unwrap().is_some());
    store.close_snapshot(next);
}

/// A store of 2,000 rows with a value of 4 KB each, and how to change one of them.
fn long_rows() -> (MemoryStore<Memory>, impl Fn(&mut MemoryStore<Memory>, usize)) {
    let (mut store, mut tables) = store::<Memory>();
    let table = tables.remove(1);
    store.begin().unwrap();
    store.begin_writes();
    let values =
        |n| [Value::Integer(n), Value::Integer(n), Value::Text("row"), Value::Bytes(&[7; 4_000])];
    let ids = (0..2_000).map(|n| table.insert(&mut store, &values(n)).unwrap()).collect::<Vec<_>>();
    store.commit().unwrap();
    let change = move |store: &mut MemoryStore<Memory>, at: usize| {
        store.begin().unwrap();
        store.begin_writes();
        table.update(store, ids[at], &values(at as i64)).unwrap();
        store.commit().unwrap();
    };
    (store, change)
}

/// The most that one call may give back: a piece, and what each structure rounds up to.
const GIVEN_BACK_MAX: u64 = crate::memory::before_images::PIECE_BYTES as u64 + (64 << 10);

#[test]
fn a_closed_snapshot_is_given_back_in_pieces() {
    let (mut store, change) = long_rows();
    let snapshot = store.open_snapshot().unwrap();
    (0..2_000).for_each(|at| change(&mut store, at));
    let mut held = store.snapshot_bytes();
    assert!(held > 8_000_000, "{held} bytes");
    store.close_snapshot(snapshot);
    let mut pieces = 0;
    loop {
        let left = store.snapshot_bytes();
        assert!(held - left <= GIVEN_BACK_MAX, "{} bytes at once", held - left);
        (held, pieces) = (left, pieces + 1);
        if !store.give_back_closed() {
            break;
        }
    }
    assert!(pieces > 6 && store.snapshot_bytes() == 0, "{pieces} pieces, {held} bytes");
    assert_eq!(store.check(), []);
}

#[test]
fn a_commit_without_room_gives_back_no_more_than_it_needs() {
    let (mut store, change) = long_rows();
    store.set_snapshot_bytes_max(6 << 20);
    let old = store.open_snapshot().unwrap();
    let (mut held, mut fell) = (0, 0);
    let mut young = None;
    for at in 0..2_000 {
        if at == 1_000 {
            young = Some(store.open_snapshot().unwrap());
        }
        change(&mut store, at);
        let now = store.snapshot_bytes();
        assert!(held <= now + GIVEN_BACK_MAX, "{} bytes in one commit", held - now);
        fell += u64::from(held > now);
        held = now;
    }
    assert!(fell > 1 && held > 4 << 20, "{held} bytes, {fell} times less");
    let table = DynamicTable::new(store.schema(), 1);
    assert!(store.snapshot_row(&old, table.handle(), RowId::new(0)).is_err());
    let young = young.unwrap();
    assert!(store.snapshot_row(&young, table.handle(), RowId::new(0)).unwrap().is_some());
    store.close_snapshot(old);
    store.close_snapshot(young);
    while store.give_back_closed() {}
    assert_eq!((store.snapshot_bytes(), store.check()), (0, vec![]));
}

#[test]
fn slices_of_an_emptied_table_are_bounded_too() {
    let (mut store, table, ids) = filled(20_000);
    store.begin().unwrap();
    store.begin_writes();
    for &row in &ids[1..] {
        table.delete(&mut store, row).unwrap();
    }
    store.commit().unwrap();
    let snapshot = store.open_snapshot().unwrap();
    let (mut cursor, mut slices, mut rows) = (SnapshotCursor::default(), 1, 0);
    while store.read_slice(&snapshot, table.handle(), &mut cursor, 10, |_, _| rows += 1).unwrap()
        == Slice::More
    {
        slices += 1;
    }
    assert!(rows == 1 && (20_000 / 64 / 10..=20_000 / 64 / 10 + 2).contains(&slices), "{slices}");
    store.close_snapshot(snapshot);
}

#[test]
fn what_came_later_is_not_in_it() {
    let (mut store, table, _) = filled(3);
    let snapshot = store.open_snapshot().unwrap();
    store.create_table(self::table("later", true)).unwrap();
    let later = DynamicTable::new(store.schema(), 2);
    store.begin().unwrap();
    store.begin_writes();
    let row = later
        .insert(
            &mut store,
            &[Value::Integer(1), Value::Integer(1), Value::Text("new"), Value::Bytes(b"")],
        )
        .unwrap();
    table.insert(&mut store, &[Value::Integer(70), Value::Integer(1)]).unwrap();
    store.commit().unwrap();
    assert!(store.snapshot_row(&snapshot, later.handle(), row).unwrap().is_none());
    let mut rows = 0;
    for table in [&table, &later] {
        let mut cursor = SnapshotCursor::default();
        let read = store.read_slice(&snapshot, table.handle(), &mut cursor, 100, |_, _| rows += 1);
        assert_eq!(read, Ok(Slice::Done));
    }
    assert_eq!(rows, 3);
    store.close_snapshot(snapshot);
    assert_eq!(store.snapshot_bytes(), 0);
}

#[test]
fn without_undo_there_are_none() {
    let (mut store, _) = store::<Bare>();
    let error = store.open_snapshot().unwrap_err();
    assert_eq!(error, Error::NoSnapshots);
    assert!(error.to_string().contains("profile memory"), "{error}");
}

#[test]
#[should_panic(expected = "between transactions")]
fn within_a_transaction_none_is_opened() {
    let (mut store, ..) = filled(1);
    store.begin().unwrap();
    let _ = store.open_snapshot();
}
