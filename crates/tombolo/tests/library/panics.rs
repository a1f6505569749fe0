//! Panics of what a user wrote, in every place where it runs: the database continues, memory and disk agree,
//! and an answer says what is true.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo::procedure::{
    Committed, Procedure, Reading, SchemaError, Store, resolve_index, resolve_table,
};
use tombolo::{
    CallOptions, Database, DeclaredTable, Error, Fields, Index, Outcome, Schema, Stop, StoreError,
    Table, TableDef,
};

use super::{ById, Counter, Counters, adding, open, value};

/// Code that panics while it writes a row, caught or not, in a new row or in an existing one.
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
        db.register_closure("broken", |_, _: &Spiteful| -> Result<(), Stop> { panic!("as asked") });
    assert_eq!(broken.call(Spiteful), Err(Error::Panicked("as asked".into())));
    for value in 1..=3 {
        assert_eq!(adding(&db).call(1), Ok(value));
    }
    db.close().unwrap();
}

/// How a procedure continues that has called `commit` or `abort`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Afterwards {
    Returns,
    Aborts,
    Fails,
    Panics,
}

/// Makes a row unless it aborts, and has second thoughts.
struct Late(Table<Counter>, Index<ById>);

impl Procedure for Late {
    type Input = (i32, bool, Afterwards);
    type Answer = ();

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self(resolve_table(schema)?, resolve_index(schema)?))
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        &(id, aborts, afterwards): &(i32, bool, Afterwards),
    ) -> Result<Committed<()>, tombolo::procedure::Stop> {
        let ended = match aborts {
            true => tx.abort("as asked"),
            false => {
                let mut tx = tx.write();
                let row = tx.create(&self.0, |row| row.set(Counter::ID, id))?;
                tx.insert(&self.1, id, row)?;
                tx.commit(())
            }
        };
        match afterwards {
            Afterwards::Returns => ended,
            Afterwards::Aborts => Err(tombolo::procedure::Stop::Abort("second thoughts")),
            Afterwards::Fails => {
                Err(tombolo::procedure::Stop::Error(StoreError::NoSuchRow { table: 0 }))
            }
            Afterwards::Panics => panic!("behind {ended:?}"),
        }
    }
}

/// What a procedure returns decides, and nothing it did before: the answer, the row, the statistics and
/// the request id agree, in memory and after a restart.
#[test]
fn a_commit_counts_when_its_procedure_has_returned_it() {
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
    let mut made = Vec::new();
    for db in [without_indexes().in_memory().unwrap(), directory] {
        let late = db.register::<Late>().unwrap();
        let mut id = 0;
        made.clear();
        use Afterwards::{Aborts, Fails, Panics, Returns};
        for (aborts, afterwards) in
            [Returns, Aborts, Fails, Panics].into_iter().flat_map(|how| [(false, how), (true, how)])
        {
            let commits = !aborts && afterwards == Returns;
            for has_id in [false, true] {
                id += 1;
                let before = db.statistics();
                let input = (id, aborts, afterwards);
                let said = match has_id {
                    true => late.once(id as u128).call(input),
                    false => late.call(input),
                };
                assert_eq!(said.is_ok(), commits, "{said:?}");
                if let Err(error) = said {
                    assert!(!error.may_have_committed() && !error.is_final(), "{error}");
                }
                let after = db.statistics();
                assert_eq!(after.committed - before.committed, u64::from(commits));
                let failed = |counted: &tombolo::Statistics| counted.aborted + counted.panicked;
                assert_eq!(failed(&after) - failed(&before), u64::from(!commits));
                assert_eq!(there(&db, id), commits, "{aborts} {afterwards:?}");
                made.push((id, commits));
                if has_id {
                    let outcome = if commits { Outcome::Committed } else { Outcome::Aborted };
                    assert_eq!(db.outcome(id as u128), Ok(outcome));
                }
            }
        }
        db.close().unwrap();
    }
    let db = without_indexes().open(place.path()).unwrap();
    assert!(made.into_iter().all(|(id, commits)| there(&db, id) == commits));
}
