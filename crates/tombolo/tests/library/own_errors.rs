//! Errors of the application's own: `?` takes them in closures, the caller finds them again, and nothing
//! of the transaction stays.

use std::error::Error as _;
use std::fmt;

use tombolo::{Error, Outcome, Stop, StoreError, Tx};

use super::{Counters, adding, both, builder};

/// Why a counter is not raised.
#[derive(Debug, PartialEq)]
struct TooHigh {
    most: i64,
}

impl fmt::Display for TooHigh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {}", self.most)
    }
}

impl std::error::Error for TooHigh {}

fn check(value: i64, most: i64) -> Result<(), TooHigh> {
    if value > most { Err(TooHigh { most }) } else { Ok(()) }
}

/// Raises counter 1 by what the text says, to `most` at most.
fn raise(counters: &Counters, tx: &mut Tx<'_>, text: &str, most: i64) -> Result<i64, Stop> {
    let mut value = 0;
    for _ in 0..text.parse::<u8>()? {
        value = counters.add(tx, 1)?;
        check(value, most)?;
    }
    Ok(value)
}

#[test]
fn an_error_of_the_applications_own_undoes_the_transaction_and_reaches_the_caller() {
    both(|db| {
        let counters = Counters::of(db);
        let raise = db.register_closure("raise", move |tx, &(text, most): &(&'static str, i64)| {
            raise(&counters, tx, text, most)
        });
        assert_eq!(raise.call(("3", 10)), Ok(3));
        let error = raise.call(("20", 10)).unwrap_err();
        assert_eq!(error.own(), Some(&TooHigh { most: 10 }));
        assert_eq!(error.source().unwrap().to_string(), "more than 10");
        assert_eq!(error.to_string(), "aborted: more than 10");
        assert!(!error.is_retryable() && !error.is_final() && !error.may_have_committed());
        // One of the standard library's, of another type; and the one that is queued.
        let error = raise.submit(("many", 10)).unwrap().wait().unwrap_err();
        assert!(
            error.own::<std::num::ParseIntError>().is_some() && error.own::<TooHigh>().is_none()
        );
        assert_eq!(raise.call(("1", 10)), Ok(4));
        // An error of the library's keeps its type on its way through an application's function.
        let refused = db.transaction(|_| -> Result<(), _> {
            Err(Error::Refused(StoreError::OtherDatabase))?;
            Ok(())
        });
        assert_eq!(refused, Err(Error::Refused(StoreError::OtherDatabase)));
    });
}

#[test]
fn a_refused_write_is_undone_whatever_error_the_closure_returns() {
    let db = builder().in_memory().unwrap();
    adding(&db).call(1).unwrap();
    let counters = Counters::of(&db);
    let error = db.transaction(move |tx| -> Result<(), _> {
        let twice = tx.insert(&counters.table, |row| row.set(super::Counter::ID, 1));
        assert!(twice.is_err());
        Err(TooHigh { most: 1 }.into())
    });
    // The caller gets the error that the closure returned; the refused write is undone either way.
    assert_eq!(error.unwrap_err().own(), Some(&TooHigh { most: 1 }));
    assert_eq!(adding(&db).call(1), Ok(2));
}

#[test]
fn an_error_of_the_applications_own_is_an_abort_to_a_request_id() {
    both(|db| {
        let call =
            || db.once(77).transaction(|_| -> Result<(), _> { Err(TooHigh { most: 7 }.into()) });
        assert_eq!(call().unwrap_err().own(), Some(&TooHigh { most: 7 }));
        assert_eq!(call(), Err(Error::Repeated(Outcome::Aborted)));
    });
}
