//! Panics of what a user wrote, in every place where it runs: the database goes on, memory and disk tell
//! the same, and an answer says what is true.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo::{CallOptions, Database, DeclaredTable, Error, Fields, Stop};

use super::{Counter, Counters, adding, open, value};

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
