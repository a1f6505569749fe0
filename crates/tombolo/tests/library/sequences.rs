//! Sequences: each number once, without gaps, whatever aborts, from any thread, across restarts.

use std::collections::BTreeSet;

use tombolo::{Database, Error, Stop, StoreError};

use super::{both, open};

#[test]
fn numbers_are_given_out_once_and_without_gaps() {
    both(|db| {
        let (orders, others) = (db.sequence("orders").unwrap(), db.sequence("others").unwrap());
        let next = db.register_closure("next", move |tx, aborts: &bool| {
            let number = tx.next(&orders)?;
            if *aborts { Err(Stop::Abort("as asked")) } else { Ok(number) }
        });
        let numbers: BTreeSet<i64> = std::thread::scope(|scope| {
            let take = || (0..100).filter_map(|n| next.call(n % 3 == 0).ok()).collect::<Vec<_>>();
            let takers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        assert_eq!(numbers, (1..=4 * 66).collect());
        // Another one has numbers of its own; the same name is the same sequence.
        assert_eq!(db.transaction(move |tx| tx.next(&others)), Ok(1));
        let same = db.sequence("orders").unwrap();
        assert_eq!(
            db.transaction(move |tx| Ok([tx.next(&same)?, tx.next(&orders)?])),
            Ok([265, 266])
        );
    });
}

#[test]
fn a_sequence_continues_after_a_restart_and_where_it_is_set() {
    let place = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let db = open(place.path()).unwrap();
        let ids = db.sequence("ids").unwrap();
        assert_eq!(db.transaction(move |tx| tx.next(&ids)), Ok(1 + 10 * round));
        db.transaction(move |tx| tx.set_next(&ids, 11 + 10 * round)).unwrap();
    }
}

#[test]
fn a_sequence_used_wrongly_is_refused() {
    both(|db| {
        let long = db.sequence(&"n".repeat(61)).unwrap_err();
        assert!(matches!(&long, Error::Schema(what) if what.contains("60 bytes")), "{long}");
        let last = db.sequence("last").unwrap();
        db.transaction(move |tx| tx.set_next(&last, i64::MAX)).unwrap();
        let refused = db.transaction(move |tx| tx.next(&last));
        assert!(matches!(
            refused,
            Err(Error::RefusedAt { error: StoreError::OutOfRange { .. }, .. })
        ));
        let other = Database::in_memory().unwrap();
        let refused = other.transaction(move |tx| tx.next(&last));
        assert_eq!(refused, Err(Error::Refused(StoreError::OtherDatabase)));
    });
}
