//! Savepoints over the paged store: what is refused, rows' ids, and other transactions.
//!
//! Not here: closures against a model (`src/tx/tests.rs`), islands (`paged_islands.rs`), restart (storage).

use std::sync::Barrier;

use tombolo::{Database, Error, PagedDatabase, PagedRowId, PagedTx, Stop, StoreError};
use tombolo_engine::threads::on_each;

use super::{ById, Counter, Counters, definition};

fn open(directory: &std::path::Path) -> PagedDatabase {
    let builder = Database::builder().table(definition()).paged().pool_bytes(4 << 20);
    builder.open(directory).unwrap()
}

fn counters(db: &PagedDatabase) -> Counters {
    Counters { table: db.table().unwrap(), by_id: db.index::<ById>().unwrap() }
}

fn insert(own: &Counters, tx: &mut PagedTx<'_>, id: i32, value: i64) -> Result<PagedRowId, Stop> {
    tx.insert(&own.table, |row| {
        row.set(Counter::ID, id);
        row.set(Counter::VALUE, value);
    })
}

fn value(own: &Counters, tx: &mut PagedTx<'_>, id: i32) -> Result<Option<i64>, Stop> {
    Ok(tx.find(&own.by_id, id)?.map(|(_, row)| row.get(Counter::VALUE)))
}

const THIS_PART: Stop = Stop::Abort("this part");

#[test]
fn a_write_that_is_refused_ends_its_part_and_not_the_transaction() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    db.transaction(|tx| {
        insert(&own, tx, 1, 1)?;
        let twice = tx.savepoint(|tx| {
            insert(&own, tx, 2, 2)?;
            insert(&own, tx, 1, 2).map(drop)
        });
        assert!(matches!(twice, Err(Stop::Error(StoreError::Duplicate { .. }))), "{twice:?}");
        // A part does not get away with what was refused in it.
        let silent = tx.savepoint(|tx| {
            let _ = insert(&own, tx, 1, 2);
            insert(&own, tx, 2, 2).map(drop).or(Ok(()))
        });
        assert_eq!(silent, twice);
        // Nor do those around it.
        let nested = tx.savepoint(|tx| {
            assert_eq!(tx.savepoint(|tx| insert(&own, tx, 1, 3).map(drop)), twice);
            insert(&own, tx, 3, 3).map(drop)
        });
        assert_eq!(nested, Ok(()));
        Ok(())
    })
    .unwrap();
    let read = |id| db.read(|tx| value(&own, tx, id)).unwrap();
    assert_eq!([1, 2, 3].map(read), [Some(1), None, Some(3)]);
    // What was refused outside of a part dooms the transaction.
    let refused = db.transaction(|tx| {
        let _ = insert(&own, tx, 1, 1);
        let part = tx.savepoint(|_| Ok(()));
        assert!(matches!(part, Err(Stop::Error(StoreError::Duplicate { .. }))), "{part:?}");
        Ok(())
    });
    assert_eq!(refused, Err(Error::Duplicate { index: "counter_by_id".to_owned() }));
    let wrote = db.read(|tx| Ok(tx.savepoint(|tx| insert(&own, tx, 4, 4).map(drop)).is_err()));
    assert_eq!(wrote, Ok(true));
}

/// The place of a row in an id, as it is shown.
fn shown(id: PagedRowId) -> String {
    let text = format!("{id:?}");
    text[text.find("row:").unwrap()..].to_owned()
}

#[test]
fn an_id_names_its_own_row_or_none() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    db.transaction(|tx| insert(&own, tx, 1, 1)).unwrap();
    db.transaction(|tx| {
        let first = tx.lookup(&own.by_id, 1)?.unwrap();
        let kept = tx.savepoint(|tx| insert(&own, tx, 2, 2))?;
        let mut lost = None;
        let part = tx.savepoint(|tx| {
            lost = Some(insert(&own, tx, 3, 3)?);
            tx.delete(&own.table, first)?;
            assert!(tx.get(&own.table, first).is_err());
            Err::<(), _>(THIS_PART)
        });
        assert_eq!(part, Err(THIS_PART));
        let again = insert(&own, tx, 4, 4)?;
        let lost = lost.unwrap();
        assert_eq!(shown(lost), shown(again), "the place is another row's");
        let of = |tx: &PagedTx<'_>, id| Ok(tx.get(&own.table, id)?.get(Counter::VALUE));
        let gone = Err(Stop::Error(StoreError::NoSuchRow { table: own.table.position() as u32 }));
        assert_eq!([first, kept, again, lost].map(|id| of(tx, id)), [Ok(1), Ok(2), Ok(4), gone]);
        Ok(())
    })
    .unwrap();
    // No row was made in the part, so its ids are good.
    db.transaction(|tx| {
        let mut found = None;
        let part = tx.savepoint(|tx| {
            let row = tx.lookup(&own.by_id, 1)?.unwrap();
            tx.set(&own.table, row, Counter::VALUE, 7)?;
            found = Some(row);
            Err::<(), _>(THIS_PART)
        });
        assert_eq!(part, Err(THIS_PART));
        assert_eq!(tx.get(&own.table, found.unwrap())?.get(Counter::VALUE), 1);
        Ok(())
    })
    .unwrap();
}

/// A transaction that was chosen to give way ends, whatever it does with its part.
#[test]
fn a_part_that_waited_in_a_circle_ends_its_transaction() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    db.transaction(|tx| (0..2).try_for_each(|id| insert(&own, tx, id, 0).map(drop))).unwrap();
    let add = |tx: &mut PagedTx<'_>, id| {
        let row = tx.lookup_for_update(&own.by_id, id)?.unwrap();
        let more = tx.get(&own.table, row)?.get(Counter::VALUE) + 1;
        tx.set(&own.table, row, Counter::VALUE, more)
    };
    let met = Barrier::new(2);
    let ended = on_each([(0, 1), (1, 0)], |(first, second)| {
        db.transaction_once(|tx| {
            add(tx, first)?;
            met.wait();
            let _ = tx.savepoint(|tx| add(tx, second));
            Ok(())
        })
    });
    let victims: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
    assert_eq!(victims, [Error::Refused(StoreError::Deadlock)]);
    let both = db.read(|tx| Ok([value(&own, tx, 0)?, value(&own, tx, 1)?]));
    assert_eq!(both, Ok([Some(1), Some(1)]));
}
