//! What a trace says equals what a counting reference says, and no disk delays a call.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use tombolo_engine::rng::Rng;
use tombolo_engine::trace::{self, Access, Call, Touched};
use tombolo_storage::disk::{Fault, MemDisk, Operation};
use tombolo_storage::key::Range;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Order;

use super::recorder::ROWS_MAX;
use super::*;
use crate::calls::Registered;
use crate::error::Stop;
use crate::procedure::{
    Committed, Procedure, Reading, SchemaError, Store, resolve_index, resolve_table,
};
use crate::{Fields, Index, Schema, Table};

crate::table! {
    /// Shops by number.
    struct Shop = "shop" { ID: Integer; SOLD: BigInt; }
}
crate::index! {
    /// By number.
    struct ShopKey = "shop_key" on Shop (ID: Integer) unique Tree;
}
crate::table! {
    /// Notes by a name that lies outside the row.
    struct Note = "note" { TEXT: Text; NAME: Text; }
}
crate::index! {
    /// By name.
    struct NoteKey = "note_key" on Note (NAME: Text) unique Tree;
}
crate::table! {
    /// Rows without a key.
    struct Loose = "loose" { N: Integer; }
}

#[derive(Clone, Debug)]
enum Op {
    Read(i32),
    Update(i32),
    Insert(i32),
    Delete(i32),
    Scan(i32, i32),
    Note(String),
    Loose,
    Abort,
}

fn database() -> Database {
    let builder = Database::builder().table(TableDef::of::<Shop>().with::<ShopKey>());
    let builder = builder.table(TableDef::of::<Note>().with::<NoteKey>());
    builder.table(TableDef::of::<Loose>()).in_memory().unwrap()
}

/// A closure that runs operations.
fn registered(db: &Database) -> Registered<Vec<Op>, ()> {
    let (shops, by_id) = (db.table::<Shop>().unwrap(), db.index::<ShopKey>().unwrap());
    let (notes, loose) = (db.table::<Note>().unwrap(), db.table::<Loose>().unwrap());
    db.register_closure("operations", move |tx, ops: &Vec<Op>| {
        for op in ops {
            match op {
                Op::Read(id) => _ = tx.find(&by_id, *id)?.map(|(_, row)| row.get(Shop::SOLD)),
                Op::Update(id) => {
                    if let Some(row) = tx.lookup(&by_id, *id)? {
                        tx.set(&shops, row, Shop::SOLD, 1)?;
                    }
                }
                Op::Insert(id) => {
                    if tx.lookup(&by_id, *id)?.is_none() {
                        tx.insert(&shops, |row| row.set(Shop::ID, *id))?;
                    }
                }
                Op::Delete(id) => {
                    if let Some(row) = tx.lookup(&by_id, *id)? {
                        tx.delete(&shops, row)?;
                    }
                }
                Op::Scan(from, to) => {
                    tx.range(&by_id, Range::between(*from, *to), Order::Forward)?;
                }
                Op::Note(name) => {
                    tx.insert(&notes, |row| row.set_variable(Note::NAME, name))?;
                }
                Op::Loose => {
                    tx.insert(&loose, |row| row.set(Loose::N, 1))?;
                }
                Op::Abort => return Err(Stop::Abort("as asked")),
            }
        }
        Ok(())
    })
}

/// What was done with rows, the table, the key in clear, how many rows.
type Rows = (Access, u32, Option<String>, u64);

/// What calls should be said to have done, and whether they aborted.
#[derive(Default)]
struct Reference {
    ids: BTreeSet<i32>,
    calls: Vec<(Vec<Rows>, bool)>,
}

impl Reference {
    fn call(&mut self, ops: &[Op]) {
        let before = self.ids.clone();
        let mut rows: Vec<(Access, u32, Option<String>)> = Vec::new();
        let mut known: BTreeMap<i32, usize> = BTreeMap::new();
        let mut is_aborted = false;
        for op in ops {
            let mut see = |access: Access, id: i32| match known.get(&id) {
                Some(&at) if rows[at].0 != Access::Deleted => rows[at].0 = rows[at].0.max(access),
                _ => {
                    known.insert(id, rows.len());
                    rows.push((access, 0, Some(id.to_string())));
                }
            };
            match op {
                Op::Read(id) if self.ids.contains(id) => see(Access::Read, *id),
                Op::Update(id) if self.ids.contains(id) => see(Access::Updated, *id),
                Op::Insert(id) if self.ids.insert(*id) => see(Access::Created, *id),
                Op::Delete(id) if self.ids.remove(id) => see(Access::Deleted, *id),
                Op::Scan(from, to) => {
                    self.ids.range(from..=to).for_each(|id| see(Access::Scanned, *id));
                }
                Op::Note(name) => rows.push((Access::Created, 1, Some(name.clone()))),
                Op::Loose => rows.push((Access::Created, 2, None)),
                Op::Abort => {
                    is_aborted = true;
                    self.ids = before;
                    break;
                }
                _ => {}
            }
        }
        let mut merged: Vec<Rows> = Vec::new();
        for (access, table, key) in rows {
            match merged.last_mut() {
                Some(last) if (last.0, last.1, &last.2) == (access, table, &key) => last.3 += 1,
                _ => merged.push((access, table, key, 1)),
            }
        }
        self.calls.push((merged, is_aborted));
    }

    /// Compares, and finds that hashes and keys belong to each other one by one.
    fn compare(&self, calls: &[Call]) {
        assert_eq!(calls.len(), self.calls.len());
        let (mut of_key, mut of_hash) = (BTreeMap::new(), BTreeMap::new());
        for (number, (call, (expected, is_aborted))) in calls.iter().zip(&self.calls).enumerate() {
            assert_eq!(call.is_aborted, *is_aborted, "call {number}");
            let said = |of: &Touched| (of.access, of.table, of.key.is_some(), of.rows);
            let said: Vec<_> = call.touched.iter().map(said).collect();
            let should = expected.iter().map(|of| (of.0, of.1, of.2.is_some(), of.3));
            assert_eq!(said, should.collect::<Vec<_>>(), "call {number}");
            for (touched, expected) in call.touched.iter().zip(expected) {
                if let (Some(hash), Some(key)) = (touched.key, &expected.2) {
                    assert_eq!(*of_key.entry(key.clone()).or_insert(hash), hash);
                    assert_eq!(of_hash.entry(hash).or_insert(key.clone()), key);
                }
            }
        }
        let in_order = calls.windows(2).all(|two| two[0].began_us <= two[1].began_us);
        assert!(in_order, "calls are in the order in which they ran");
    }
}

fn random_op(rng: &mut Rng, notes: &mut u32) -> Op {
    let id = rng.below(30) as i32;
    match rng.below(20) {
        0..=4 => Op::Read(id),
        5..=9 => Op::Update(id),
        10..=12 => Op::Insert(id),
        13..=14 => Op::Delete(id),
        15..=16 => Op::Scan(id, id + rng.below(6) as i32),
        17 => {
            *notes += 1;
            Op::Note(format!("note {notes}"))
        }
        18 => Op::Loose,
        _ => Op::Abort,
    }
}

/// The content of a file.
fn content(disk: &MemDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_trace_says_what_a_counting_reference_says() {
    for seed in 0..8 {
        let (db, disk) = (database(), MemDisk::new());
        let (operations, mut reference) = (registered(&db), Reference::default());
        let (mut rng, mut notes) = (Rng::from_seed(seed), 0);
        let run = |reference: &mut Reference, ops: Vec<Op>, is_queued: bool| {
            reference.call(&ops);
            let is_aborted = reference.calls.last().unwrap().1;
            let ended = match is_queued {
                true => operations.submit(ops).unwrap().wait(),
                false => operations.call(ops),
            };
            assert_eq!(ended.is_err(), is_aborted, "{ended:?}");
        };
        // What ran before is not in it.
        for id in 0..20 {
            run(&mut reference, vec![Op::Insert(id)], false);
        }
        reference.calls.clear();
        let trace = db.record_trace_on(&disk, "trace").unwrap();
        for _ in 0..500 {
            let ops: Vec<Op> = (0..rng.below(8)).map(|_| random_op(&mut rng, &mut notes)).collect();
            run(&mut reference, ops, rng.below(2) == 0);
        }
        let traced = trace.end();
        operations.call(vec![Op::Read(1)]).unwrap(); // nor what runs later
        let bytes = content(&disk, "trace");
        assert_eq!((traced.calls, traced.lost, traced.why_lost), (500, 0, None));
        assert_eq!(traced.bytes, bytes.len() as u64);
        let read = trace::read(&bytes).unwrap();
        assert_eq!(read.torn, None);
        assert_eq!(read.procedures, ["operations"]);
        let tables = read.tables.iter().map(|table| (&*table.name, table.key.as_deref()));
        let expected = [("shop", Some("id")), ("note", Some("name")), ("loose", None)];
        assert_eq!(tables.collect::<Vec<_>>(), expected);
        reference.compare(&read.calls);
    }
}

/// Counts how often a shop sold.
struct Sell {
    shops: Table<Shop>,
    by_id: Index<ShopKey>,
}

impl Procedure for Sell {
    type Input = i32;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { shops: resolve_table(schema)?, by_id: resolve_index(schema)? })
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &id: &i32,
    ) -> Result<Committed<i64>, tombolo_engine::transaction::Stop> {
        let Some(row) = tx.lookup(&self.by_id, id)? else { return tx.abort("no such shop") };
        let sold = tx.pin(&self.shops, row)?.get(Shop::SOLD) + 1;
        let mut tx = tx.write();
        let fields = Fields::none().with(Shop::SOLD);
        tx.update(&self.shops, row, fields, |row| row.set(Shop::SOLD, sold))?;
        tx.commit(sold)
    }
}

#[test]
fn procedures_closures_and_panics_are_in_it() {
    let (db, disk) = (database(), MemDisk::new());
    let (sell, shops) = (db.register::<Sell>().unwrap(), db.table::<Shop>().unwrap());
    let insert = move |tx: &mut crate::Tx<'_>| {
        tx.insert(&shops, |row| row.set(Shop::ID, 7))?;
        Ok(())
    };
    let trace = db.record_trace_on(&disk, "trace").unwrap();
    assert!(matches!(db.record_trace_on(&disk, "other"), Err(Error::Directory(_))));
    assert!(!disk.exists("other").unwrap());
    db.transaction(insert).unwrap();
    assert_eq!(sell.call(7), Ok(1));
    assert_eq!(sell.submit(7).unwrap().wait(), Ok(2));
    assert_eq!(sell.call(8), Err(Error::Aborted("no such shop")));
    let panics = db.transaction(move |tx| {
        tx.rows(&shops)?;
        if true { panic!("on purpose") } else { Ok(()) }
    });
    assert!(matches!(panics, Err(Error::Panicked(_))));
    db.once(5).transaction(move |tx| tx.count(&shops)).unwrap();
    trace.end();
    let read = trace::read(&content(&disk, "trace")).unwrap();
    let of = |call: &Call| {
        let touched: Vec<_> =
            call.touched.iter().map(|of| (of.access, of.table, of.rows)).collect();
        let name = &read.procedures[call.procedure as usize];
        (name.ends_with("::Sell"), touched, call.is_aborted)
    };
    let expected = [
        (false, vec![(Access::Created, 0, 1)], false),
        (true, vec![(Access::Updated, 0, 1)], false),
        (true, vec![(Access::Updated, 0, 1)], false),
        (true, vec![], true),
        (false, vec![(Access::Scanned, 0, 1)], true),
        (false, vec![], false),
    ];
    assert_eq!(read.calls.iter().map(of).collect::<Vec<_>>(), expected);
    // The next trace has a secret of its own: its hashes differ.
    let again = db.record_trace_on(&disk, "again").unwrap();
    sell.call(7).unwrap();
    again.end();
    let second = trace::read(&content(&disk, "again")).unwrap();
    assert_ne!(read.calls[1].touched[0].key, second.calls[0].touched[0].key);
}

/// A call of many rows is cut, and what is cut is counted.
#[test]
fn the_rows_of_a_call_have_a_bound() {
    let (db, disk) = (database(), MemDisk::new());
    let operations = registered(&db);
    let ids = ROWS_MAX as i32 + 10;
    for id in 0..ids {
        operations.call(vec![Op::Insert(id)]).unwrap();
    }
    let trace = db.record_trace_on(&disk, "trace").unwrap();
    operations.call(vec![Op::Scan(0, ids)]).unwrap();
    trace.end();
    let read = trace::read(&content(&disk, "trace")).unwrap();
    assert_eq!((read.calls[0].touched.len(), read.calls[0].more_rows), (ROWS_MAX, 10));
}

/// A disk that is full, or fails, ends the trace, and no call notices.
#[test]
fn a_disk_that_takes_no_more() {
    let (db, disk) = (database(), MemDisk::new());
    let operations = registered(&db);
    operations.call((0..30).map(Op::Insert).collect()).unwrap();
    for is_full in [true, false] {
        let name = if is_full { "full" } else { "failed" };
        let trace = db.record_trace_on(&disk, name).unwrap();
        disk.set_capacity_bytes(is_full.then_some(100_000));
        let fault = Fault { operation: Operation::Write, after: 2, kind: ErrorKind::Other };
        disk.set_fault((!is_full).then_some(fault));
        for _ in 0..2_000 {
            operations.call((0..30).map(Op::Update).collect()).unwrap();
        }
        let traced = trace.end();
        disk.set_capacity_bytes(None);
        disk.set_fault(None);
        assert!(traced.why_lost.is_some(), "{traced:?}");
        assert_eq!(traced.calls + traced.lost, 2_000);
        assert!(traced.calls > 0 && traced.lost > 0, "{traced:?}");
        let read = trace::read(&content(&disk, name)).unwrap();
        assert_eq!(read.calls.len() as u64, traced.calls);
        if let Some(end) = read.end {
            assert_eq!((end.calls, end.lost), (traced.calls, traced.lost));
        }
    }
}

/// The database may be closed first, and a trace may be dropped by a transaction.
#[test]
fn a_trace_ends_however_it_is_dropped() {
    let (db, disk) = (database(), MemDisk::new());
    let operations = registered(&db);
    let trace = db.record_trace_on(&disk, "dropped").unwrap();
    operations.call(vec![Op::Insert(1)]).unwrap();
    db.transaction(move |_| {
        drop(trace);
        Ok(())
    })
    .unwrap();
    operations.call(vec![Op::Read(1)]).unwrap();
    let read = trace::read(&content(&disk, "dropped")).unwrap();
    assert_eq!((read.calls.len(), read.torn), (1, None));
    let trace = db.record_trace_on(&disk, "closed").unwrap();
    operations.call(vec![Op::Read(1)]).unwrap();
    db.close().unwrap();
    assert_eq!(trace.end().calls, 1);
}
