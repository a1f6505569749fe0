//! Panics of what a user wrote, in every place where it runs: the database goes on, memory and disk tell
//! the same, and an answer says what is true.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo::procedure::{
    Committed, Procedure, Reading, SchemaError, Store, resolve_index, resolve_table,
};
use tombolo::{
    CallOptions, Database, DeclaredTable, Error, Fields, Index, Outcome, Schema, Stop, Table,
    TableDef,
};

use super::{ById, Counter, Counters, adding, open, value};

/// A row that is being written when who writes it panics, caught or not, in a row that is made or one
/// that is there.
#[test]
fn a_panic_within_a_row_is_in_memory_what_it_is_on_disk() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(1));
    for (is_caught, inserts) in [(false, false), (false, true), (true, false), (true, true)] {
        let counters = Counters::of(&db);
        let said = db.transaction(move |tx| {
            let row = counters.row(tx, 1)?;
            let mut write = || match inserts {
                true => tx
                    .insert(&counters.table, |row| {
                        row.set(Counter::ID, 2);
                        panic!("within a row");
                    })
                    .map(drop),
                false => tx.update(&counters.table, row, Fields::whole(Counter::SIZE), |row| {
                    row.set(Counter::VALUE, 7);
                    panic!("within a row");
                }),
            };
            match is_caught {
                true => assert!(catch_unwind(AssertUnwindSafe(write)).is_err()),
                false => write()?,
            }
            Ok(())
        });
        let panicked = Err(Error::Panicked("within a row".into()));
        assert_eq!(said, if is_caught { Ok(()) } else { panicked });
    }
    let add_ten_to_all = |db: &Database| {
        let table = Counters::of(db).table;
        let added = db.transaction(move |tx| {
            let rows = tx.rows(&table)?;
            for &row in &rows {
                let value = tx.get(&table, row)?.get(Counter::VALUE);
                tx.set(&table, row, Counter::VALUE, value + 10)?;
            }
            Ok(rows.len())
        });
        assert_eq!(added, Ok(1));
    };
    add_ten_to_all(&db);
    db.checkpoint().unwrap();
    add_ten_to_all(&db);
    db.close().unwrap();
    let db = open(place.path()).unwrap();
    add_ten_to_all(&db);
    assert_eq!(value(&db, 1), 31);
}

/// Panics when it is dropped, but not on the way out of another panic, which would end the process.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped in spite");
    }
}

#[test]
fn what_a_refused_call_holds_ends_no_database() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    let refused = CallOptions::new().log_bytes_max(u64::MAX);
    let waiting = [Spiteful, Spiteful, Spiteful].map(|held| {
        let closure = move |_: &mut tombolo::Tx<'_>| {
            let _held = &held;
            Ok(())
        };
        db.with(refused).submit(closure).unwrap()
    });
    for pending in waiting {
        assert!(matches!(pending.wait(), Err(Error::TooLarge { .. })));
    }
    // An input that is still there when its procedure has panicked.
    let broken =
        db.register_closure("broken", |_, _: &Spiteful| -> Result<(), Stop> { panic!("as told") });
    assert_eq!(broken.call(Spiteful), Err(Error::Panicked("as told".into())));
    for value in 1..=3 {
        assert_eq!(adding(&db).call(1), Ok(value));
    }
    db.close().unwrap();
}

/// Commits, and panics before it answers.
struct Late(Table<Counter>, Index<ById>);

impl Procedure for Late {
    type Input = (i32, bool);
    type Answer = ();

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self(resolve_table(schema)?, resolve_index(schema)?))
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        &(id, aborts): &(i32, bool),
    ) -> Result<Committed<()>, Stop> {
        let committed = match aborts {
            true => tx.abort("as told"),
            false => {
                let mut tx = tx.write();
                let row = tx.create(&self.0, |row| row.set(Counter::ID, id))?;
                tx.insert(&self.1, id, row)?;
                tx.commit(())
            }
        };
        panic!("behind {committed:?}");
    }
}

#[test]
fn a_panic_behind_a_commit_says_that_it_committed() {
    let place = tempfile::tempdir().unwrap();
    let without_indexes = || {
        let table = TableDef::of::<Counter>().with::<ById>();
        Database::builder().table(table).set("log_segment_bytes", "1 MB")
    };
    let there = |db: &Database, id| {
        let by_id = db.index::<ById>().unwrap();
        db.transaction(move |tx| Ok(tx.lookup(&by_id, id)?.is_some())).unwrap()
    };
    let directory = without_indexes().open(place.path()).unwrap();
    for db in [without_indexes().in_memory().unwrap(), directory] {
        let late = db.register::<Late>().unwrap();
        for (id, call) in [(1, late.clone()), (2, late.with(CallOptions::new().request_id(2)))] {
            let aborted = call.call((id + 10, true)).unwrap_err();
            assert!(matches!(aborted, Error::Panicked(_)), "{aborted}");
            assert!(!aborted.may_have_committed() && !there(&db, id + 10));
        }
        for (id, call) in [(1, late.clone()), (2, late.with(CallOptions::new().request_id(3)))] {
            let committed = call.call((id, false)).unwrap_err();
            assert!(matches!(committed, Error::PanickedCommitted(_)), "{committed}");
            assert!(committed.may_have_committed() && !committed.is_retryable());
            assert!(committed.to_string().contains("committed, but"), "{committed}");
            assert!(there(&db, id));
        }
        assert_eq!((db.outcome(2), db.outcome(3)), (Ok(Outcome::Aborted), Ok(Outcome::Committed)));
    }
    let db = without_indexes().open(place.path()).unwrap();
    assert!(there(&db, 1) && there(&db, 2) && !there(&db, 11) && !there(&db, 12));
}
