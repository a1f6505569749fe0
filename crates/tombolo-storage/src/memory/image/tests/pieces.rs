//! Tables whose rows got longer several times, by handles among others: the pieces of a row lie in blocks
//! of different moments, and every handle is whole in one of them.
//!
//! A divided handle might be half of what it was and half of what it became: a handle that was never
//! made, which leads to some other row's value. The database would not open, since that row seems to have
//! lost its value.

use super::*;
use crate::dynamic::DynamicTable;
use crate::memory::columns::RowShape;
use crate::memory::variable::HANDLE_BYTES;
use crate::row::RowId;
use crate::schema::TableDef;
use crate::value::Value;
use crate::value_log::tests::crash_disk::CrashDisk;

/// A table of one number, which gets longer.
const PLAIN: usize = 1;

/// Rows: several blocks of each piece.
const ROWS: u64 = 700;

fn column(number: usize, sql: SqlType, nullable: bool) -> ColumnDef {
    let name = format!("added_{number}").into();
    ColumnDef { name, sql, nullable, range: None, hot: false, added: true, default: None }
}

/// Adds a column to the table.
fn add(database: &mut Database, sql: SqlType) {
    let number = database.store.schema().tables[PLAIN].columns.len();
    let build = database
        .store
        .begin_column("plain", column(number, sql, number.is_multiple_of(2)))
        .unwrap();
    while database.store.column_slice(&build, 50).unwrap() != Built::Done {}
    drop(database.store.finish_column(build).unwrap());
}

/// A transaction that changes some rows in each of their added columns, or makes them; durable and
/// installed.
fn change_some(database: &mut Database, random: &mut Random, ids: impl Iterator<Item = u64>) {
    commit(database, |store, table, rows| {
        for id in ids {
            let text = "tombolo".repeat(random.below(15) as usize);
            let of = |column: &ColumnDef| match column.sql {
                SqlType::Text => Value::Text(&text),
                _ => Value::Integer(text.len() as i64),
            };
            let mut values = vec![Value::Integer(id as i64)];
            values.extend(table.columns()[1..].iter().map(of));
            match rows.get(id as usize) {
                Some(&row) => table.update(store, row, &values).unwrap(),
                None => _ = table.insert(store, &values).unwrap(),
            }
        }
    });
}

/// A transaction on the table and its rows; durable and installed.
fn commit(database: &mut Database, change: impl FnOnce(&mut Logged, &DynamicTable, &[RowId])) {
    let table = DynamicTable::new(database.store.schema(), PLAIN);
    let rows = table.row_ids(&mut database.store).unwrap();
    database.store.begin().unwrap();
    database.store.begin_writes();
    change(&mut database.store, &table, &rows);
    database.store.commit().unwrap();
    database.write().unwrap();
    database.sync().unwrap();
    while !database.waiting[0].is_empty() {
        database.install(0).unwrap();
    }
}

/// The table with many rows, in one piece, then in two and in three.
fn make(database: &mut Database, random: &mut Random) {
    (0..3).for_each(|_| database.create_table());
    for first in (0..ROWS).step_by(50) {
        change_some(database, random, first..first + 50);
    }
    for sql in [SqlType::Integer, SqlType::Text, SqlType::Text, SqlType::Text] {
        add(database, sql);
        for first in (0..ROWS).step_by(50) {
            change_some(database, random, first..first + 50);
        }
        database.checkpoint().unwrap();
    }
}

/// Rows change between any two blocks of checkpoints, the last of which ends in a crash; four times over.
fn run(seed: u64, is_in_place: impl Fn(u64) -> bool) {
    let mut random = Random::new(seed);
    let mut disk = CrashDisk::default();
    let mut expected = Vec::new();
    for life in 0..4 {
        let settings = if is_in_place(life) { in_place(1) } else { image_settings(1) };
        let doors: [Arc<dyn Disk>; 1] = [Arc::new(disk.clone())];
        let opened = Database::open_with(&doors, settings, 1, None);
        let mut database = opened.unwrap_or_else(|why| panic!("seed {seed}, life {life}: {why:?}"));
        assert_eq!(database.store.check(), [], "seed {seed}, life {life}");
        match life {
            0 => make(&mut database, &mut random),
            _ => assert!(rows(&mut database.store) == expected, "seed {seed}, life {life}"),
        }
        for _ in 0..40 + random.below(80) {
            database.begin().unwrap();
            database.step(0).unwrap();
            let ids = (0..4).map(|_| random.below(ROWS)).collect::<Vec<_>>();
            change_some(&mut database, &mut random, ids.into_iter());
        }
        expected = rows(&mut database.store);
        drop(database);
        disk = disk.crash(&mut random);
    }
}

#[test]
fn rows_change_between_the_blocks_of_their_pieces() {
    (0..6).for_each(|seed| run(seed, |_| false));
}

#[test]
fn rows_change_between_the_blocks_of_their_pieces_without_a_second_copy() {
    (0..6).for_each(|seed| run(seed, |_| true));
}

#[test]
fn rows_change_between_the_blocks_of_their_pieces_wherever_the_second_copy_is() {
    (0..6).for_each(|seed| run(seed, |life| (seed + life).is_multiple_of(2)));
}

/// A row dies with a value in its second piece, another row gets that value's slot, and a new row the
/// dead one's. Of this only the new row's first piece is written before a crash: the second one, which is
/// the dead row's, must not claim the value for it.
#[test]
fn a_dead_row_leaves_no_handle_in_its_further_pieces() {
    for steps in 0..12 {
        let disk = CrashDisk::default();
        let doors: [Arc<dyn Disk>; 1] = [Arc::new(disk.clone())];
        let mut database = Database::open_with(&doors, in_place(1), 1, None).unwrap();
        (0..3).for_each(|_| database.create_table());
        [SqlType::Text, SqlType::Text].into_iter().for_each(|sql| add(&mut database, sql));
        let row = |id, text| [Value::Integer(id), Value::Text(""), Value::Text(text)];
        let insert = |database: &mut Database, id, text| {
            commit(database, |store, table, _| _ = table.insert(store, &row(id, text)).unwrap());
        };
        insert(&mut database, 1, "tombolo");
        insert(&mut database, 2, "");
        insert(&mut database, 4, "");
        database.checkpoint().unwrap();
        commit(&mut database, |store, table, rows| table.delete(store, rows[0]).unwrap());
        database.checkpoint().unwrap();
        let update = |database: &mut Database, at: usize, id, text| {
            commit(database, |store, table, rows| {
                table.update(store, rows[at], &row(id, text)).unwrap();
            });
        };
        update(&mut database, 0, 2, "island");
        // The group that an image is complete as of is replayed once more: not the one before it.
        update(&mut database, 1, 5, "");
        database.checkpoint().unwrap();
        insert(&mut database, 3, "");
        let expected = rows(&mut database.store);
        assert!(expected[0].starts_with("1 0"), "the dead row's slot is used again: {expected:?}");
        database.begin().unwrap();
        (0..steps).for_each(|_| _ = database.step(0).unwrap());
        drop(database);
        let doors: [Arc<dyn Disk>; 1] = [Arc::new(disk.crash(&mut Random::new(steps)))];
        let opened = Database::open_with(&doors, in_place(1), 1, None);
        let mut database = opened.unwrap_or_else(|why| panic!("{steps} steps: {why:?}"));
        assert_eq!(rows(&mut database.store), expected, "{steps} steps");
    }
}

/// Whatever is added to whatever table.
#[test]
fn no_handle_is_divided() {
    let types = [
        SqlType::Boolean,
        SqlType::Text,
        SqlType::Varchar(40),
        SqlType::Bytes,
        SqlType::Integer,
        SqlType::Char(61),
    ];
    let mut random = Random::new(1);
    let mut handles = 0;
    for _ in 0..2_000 {
        let mut table = TableDef { name: "t".into(), columns: Vec::new(), indexes: Vec::new() };
        let base = 1 + random.below(3) as usize;
        for number in 0..base + random.below(7) as usize {
            let sql = types[random.below(types.len() as u64) as usize];
            let added = number >= base;
            table.columns.push(ColumnDef { added, ..column(number, sql, random.below(2) == 0) });
        }
        let RowShape { widths, variable_offsets, row_bytes, .. } = RowShape::of(&table);
        assert!(widths.last().is_some_and(|&width| width >= row_bytes));
        for offset in variable_offsets {
            handles += 1;
            let is_divided = |&&end: &&usize| offset < end && end < offset + HANDLE_BYTES;
            assert_eq!(widths.iter().find(is_divided), None, "{table:?}");
        }
    }
    assert!(handles > 2_000);
}
