//! Calls that are looked ahead at: the rows found for them are used, and never wrong ones.

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo::procedure::{
    Ahead, Committed, Hints, Procedure, Reading, SchemaError, Store, resolve_index, resolve_table,
};
use tombolo::{CallOptions, Error, Fields, RowId, Schema, Stop};

use super::{Counter, Counters, builder};

/// Calls that used the row that was found ahead, of those that never panic and of those that may.
static LOCATED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Adds one to a counter.
struct Add<const PANICS: bool>(Counters);

impl<const PANICS: bool> Add<PANICS> {
    fn located() -> &'static AtomicU64 {
        &LOCATED[usize::from(PANICS)]
    }
}

impl<const PANICS: bool> Procedure for Add<PANICS> {
    type Input = i32;
    type Answer = ();

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self(Counters { table: resolve_table(schema)?, by_id: resolve_index(schema)? }))
    }

    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        store.removals(&self.0.by_id)
    }

    fn locate<S: Store>(&self, store: &S, &id: &i32, ahead: Ahead, hints: &mut Hints) {
        if ahead == Ahead::Rows
            && let Some(row) = store.find_ahead(&self.0.by_id, id)
        {
            hints.push(row);
        }
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        id: &i32,
    ) -> Result<Committed<()>, tombolo::procedure::Stop> {
        self.run_located(tx, id, &[])
    }

    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &id: &i32,
        located: &[RowId],
    ) -> Result<Committed<()>, tombolo::procedure::Stop> {
        const VALUE: Fields<Counter> = Fields::none().with(Counter::VALUE);
        let found =
            tx.lookup(&self.0.by_id, id)?.ok_or(tombolo::procedure::Stop::Abort("no counter"))?;
        if let [row] = *located {
            assert_eq!(row, found, "counter {id} is elsewhere by now");
            let located = Self::located().fetch_add(1, Ordering::Relaxed);
            assert!(!PANICS || located % 101 != 100, "one that panics uses up its own hints only");
        }
        let value = tx.pin(&self.0.table, found)?.get(Counter::VALUE) + 1;
        let mut tx = tx.write();
        tx.update(&self.0.table, found, VALUE, |row| row.set(Counter::VALUE, value))?;
        tx.commit(())
    }
}

#[test]
fn rows_found_ahead_are_used_as_long_as_they_are_right() {
    const COUNTERS: i32 = 50;
    let db = builder().in_memory().unwrap();
    let counters = Counters::of(&db);
    let add = db.register::<Add<true>>().unwrap();
    let of = counters.clone();
    // Gives a counter's row to the next one's number, and the other way round.
    let exchange = db.register_closure("exchange", move |tx, &id: &i32| {
        let (a, b) = (of.row(tx, id)?, of.row(tx, (id + 1) % COUNTERS)?);
        let (value_a, value_b) =
            (tx.get(&of.table, a)?.get(Counter::VALUE), tx.get(&of.table, b)?.get(Counter::VALUE));
        tx.delete(&of.table, a)?;
        tx.delete(&of.table, b)?;
        for (id, value) in [((id + 1) % COUNTERS, value_b), (id, value_a)] {
            tx.insert(&of.table, |row| {
                row.set(Counter::ID, id);
                row.set(Counter::VALUE, value);
            })?;
        }
        Ok(())
    });
    (0..COUNTERS).for_each(|id| exchange.call(id).unwrap());
    let mut added = 0;
    for round in 0..40 {
        let mut pending = Vec::new();
        for n in 0..500 {
            let id = (round * 7 + n * 13) % COUNTERS;
            if n % 97 == 50 {
                exchange.with(CallOptions::new()).submit(id).unwrap().wait().unwrap();
            }
            pending.push(add.submit(id).unwrap());
        }
        for call in pending {
            match call.wait() {
                Ok(()) => added += 1,
                Err(Error::Panicked(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        // Carried by this thread, behind a batch that may have ended in a panic.
        added += i64::from(add.call(round % COUNTERS).is_ok());
    }
    let total = db.transaction(move |tx| {
        let mut total = 0;
        for row in tx.rows(&counters.table)? {
            total += tx.get(&counters.table, row)?.get(Counter::VALUE);
        }
        Ok(total)
    });
    assert_eq!(total, Ok(added));
    assert!(Add::<true>::located().load(Ordering::Relaxed) > 100, "{LOCATED:?}");
    db.close().unwrap();
}

#[test]
fn steps_on_islands_use_rows_found_ahead_as_long_as_they_are_right() {
    let db = builder().islands(2).in_memory().unwrap();
    let (table, by_id) = (db.table().unwrap(), db.index().unwrap());
    let counters = Counters { table, by_id };
    // Gives a counter another row; makes one that is not there.
    let remake = db.register_closure("remake", move |tx, &id: &i32| {
        let mut value = 0;
        if let Some(row) = tx.lookup(&counters.by_id, id)? {
            value = tx.get(&counters.table, row)?.get(Counter::VALUE);
            tx.delete(&counters.table, row)?;
        }
        for id in [id + 1_000, id] {
            tx.insert(&counters.table, |row| {
                row.set(Counter::ID, id);
                row.set(Counter::VALUE, value);
            })?;
        }
        let spare = tx.lookup(&counters.by_id, id + 1_000)?.ok_or(Stop::Abort("just made"))?;
        tx.delete(&counters.table, spare)
    });
    let add = db.register::<Add<false>>().unwrap();
    let is_here = |id: &i32| db.island_of(id).unwrap() == db.island_of(&0).unwrap();
    let there = (1..).find(|id| !is_here(id)).unwrap();
    for id in [0, there] {
        remake.at(&id).unwrap().call(id).unwrap();
    }
    let located = || Add::<false>::located().load(Ordering::Relaxed);
    for round in 1..=20 {
        let mut across = db.across();
        across.part(&add, &there, there).unwrap();
        across.part(&add, &0, 0).unwrap();
        across.commit().unwrap();
        assert_eq!(located(), 4 * round - 2, "both rows were found");
        let mut across = db.across();
        across.part(&add, &0, 0).unwrap();
        across.part(&remake, &0, 0).unwrap();
        across.part(&add, &0, 0).unwrap();
        across.part(&add, &there, there).unwrap();
        across.commit().unwrap();
        assert_eq!(located(), 4 * round, "not the row that was remade");
    }
    let value = |id: i32| {
        let found = db.at(&id).unwrap().transaction(move |tx| {
            let row = tx.lookup(&counters.by_id, id)?.ok_or(Stop::Abort("no counter"))?;
            Ok(tx.get(&counters.table, row)?.get(Counter::VALUE))
        });
        found.unwrap()
    };
    assert_eq!((value(0), value(there)), (60, 40));
    db.close().unwrap();
}
