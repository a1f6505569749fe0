//! Errors as bytes: an island's process reports them, the database's process gives them to its callers.
//!
//! An error that a program decides by comes back as what it was. An error of the application's own type comes back as
//! its words, because its type has no bytes. Not here: which errors there are (`error/`).

use std::collections::BTreeSet;
use std::sync::Arc;

use tombolo_storage::error::Error as StoreError;
use tombolo_storage::sync::Mutex;

use crate::calls::Outcome;
use crate::error::Error;

/// Where bytes that are no words of an island begin: no UTF-8 text does.
pub(crate) const MARK: u8 = 0xFF;

/// Reasons of aborts that are kept for the rest of the process: each is a literal of the program.
const REASONS_MAX: usize = 4_096;

static REASONS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The literal in the program of an island, here.
fn literal(reason: &str) -> &'static str {
    let mut reasons = REASONS.lock();
    if let Some(known) = reasons.get(reason) {
        return known;
    }
    if reasons.len() >= REASONS_MAX {
        return "for a reason that its island reports in too many words to keep";
    }
    let kept: &'static str = String::from(reason).leak();
    reasons.insert(kept);
    kept
}

const OTHER: u8 = 0;
const OTHER_RETRYABLE: u8 = 1;
const ABORTED: u8 = 2;
const DUPLICATE: u8 = 3;
const PANICKED: u8 = 4;
const QUEUE_FULL: u8 = 5;
const LOG_FULL: u8 = 6;
const EXPIRED: u8 = 7;
const CANCELLED: u8 = 8;
const LOCK_TIMEOUT: u8 = 9;
const REPEATED_COMMITTED: u8 = 10;
const REPEATED_ABORTED: u8 = 11;
const REPEATED_UNKNOWN: u8 = 12;
const UNKNOWN: u8 = 13;
const STOPPED: u8 = 14;
const IN_USE: u8 = 15;
const DIRECTORY: u8 = 16;
const DAMAGED: u8 = 17;
const SCHEMA: u8 = 18;
const SETTING: u8 = 19;
const OTHER_VERSION: u8 = 20;
const SYSTEM: u8 = 21;
const NOT_PREPARED: u8 = 22;
const UNREACHABLE: u8 = 23;
const DISK_FULL: u8 = 24;

/// The bytes of an error: a mark, its kind, its words.
pub(crate) fn encode(error: &Error) -> Vec<u8> {
    let (kind, words) = match error {
        Error::Aborted(reason) => (ABORTED, (*reason).to_owned()),
        Error::Duplicate { index } => (DUPLICATE, index.clone()),
        Error::Panicked(message) => (PANICKED, message.to_string()),
        Error::QueueFull => (QUEUE_FULL, String::new()),
        Error::LogFull => (LOG_FULL, String::new()),
        Error::Expired => (EXPIRED, String::new()),
        Error::Cancelled => (CANCELLED, String::new()),
        Error::Refused(StoreError::LockTimeout | StoreError::Held { .. }) => {
            (LOCK_TIMEOUT, String::new())
        }
        Error::Repeated(Outcome::Committed) => (REPEATED_COMMITTED, String::new()),
        Error::Repeated(Outcome::Aborted) => (REPEATED_ABORTED, String::new()),
        Error::Repeated(_) => (REPEATED_UNKNOWN, String::new()),
        Error::Unknown(why) => (UNKNOWN, why.to_string()),
        Error::Poisoned(why) | Error::IslandRestarts { why, .. } => (STOPPED, why.to_string()),
        Error::Closed => (STOPPED, "it closes".to_owned()),
        Error::InUse { file } => (IN_USE, file.clone()),
        Error::Directory(what) => (DIRECTORY, what.clone()),
        Error::Damaged(what) => (DAMAGED, what.clone()),
        Error::Schema(what) => (SCHEMA, what.clone()),
        Error::Setting(what) => (SETTING, what.clone()),
        Error::OtherVersion(what) => (OTHER_VERSION, what.clone()),
        Error::System(what) => (SYSTEM, what.clone()),
        Error::NotPrepared(what) => (NOT_PREPARED, what.clone()),
        Error::IslandStopped(island) => (UNREACHABLE, island.to_string()),
        Error::DiskFull(what) => (DISK_FULL, what.clone()),
        other => {
            let kind = if other.is_retryable() { OTHER_RETRYABLE } else { OTHER };
            (kind, other.to_string())
        }
    };
    [&[MARK, kind], words.as_bytes()].concat()
}

/// The error in bytes that an island has sent.
pub(crate) fn decode(bytes: &[u8], island: usize) -> Error {
    let (kind, words) = match bytes {
        [MARK, kind, words @ ..] => (*kind, words),
        words => (NOT_PREPARED, words),
    };
    let words = String::from_utf8_lossy(words).into_owned();
    let why = || Arc::from(&*words);
    match kind {
        ABORTED => Error::Aborted(literal(&words)),
        DUPLICATE => Error::Duplicate { index: words },
        PANICKED => Error::Panicked(words.into()),
        QUEUE_FULL => Error::QueueFull,
        LOG_FULL => Error::LogFull,
        EXPIRED => Error::Expired,
        CANCELLED => Error::Cancelled,
        LOCK_TIMEOUT => Error::Refused(StoreError::LockTimeout),
        REPEATED_COMMITTED => Error::Repeated(Outcome::Committed),
        REPEATED_ABORTED => Error::Repeated(Outcome::Aborted),
        REPEATED_UNKNOWN => Error::Repeated(Outcome::Unknown),
        // Its process ends and is started again; so this one may go on.
        UNKNOWN => Error::AnswerLost { island, why: why() },
        STOPPED => Error::IslandRestarts { island, why: why() },
        IN_USE => Error::InUse { file: words },
        DIRECTORY => Error::Directory(words),
        DAMAGED => Error::Damaged(words),
        SCHEMA => Error::Schema(words),
        SETTING => Error::Setting(words),
        OTHER_VERSION => Error::OtherVersion(words),
        SYSTEM => Error::System(words),
        NOT_PREPARED => Error::NotPrepared(words),
        UNREACHABLE => {
            let (island, why) = (words.parse().unwrap_or(island), Arc::from(UNREACHED));
            Error::IslandRestarts { island, why }
        }
        DISK_FULL => Error::DiskFull(words),
        kind => Error::InIsland { island, what: words, is_retryable: kind == OTHER_RETRYABLE },
    }
}

/// Why an island that is not reached is said to restart.
const UNREACHED: &str = "another island does not reach it";

/// Whether an island was not reached by another one: as soon as it is there, the transaction may run.
pub(crate) fn is_unreached(error: &Error) -> bool {
    matches!(error, Error::IslandRestarts { why, .. } if &**why == UNREACHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_decides_by_stays() {
        let stays = [
            Error::Aborted("sold out"),
            Error::Duplicate { index: "account_pk".to_owned() },
            Error::Panicked("ouch".into()),
            Error::QueueFull,
            Error::LogFull,
            Error::Expired,
            Error::Refused(StoreError::LockTimeout),
            Error::Repeated(Outcome::Committed),
            Error::Repeated(Outcome::Aborted),
            Error::InUse { file: "island-0/lock".to_owned() },
            Error::Damaged("log-1".to_owned()),
            Error::NotPrepared("its log is full".to_owned()),
        ];
        for error in stays {
            assert_eq!(decode(&encode(&error), 3), error);
        }
        assert_eq!(decode(b"its log is full", 0), Error::NotPrepared("its log is full".to_owned()));
        let unknown = decode(&encode(&Error::Unknown("the disk".into())), 3);
        let lost = Error::AnswerLost { island: 3, why: "the disk".into() };
        assert_eq!((unknown.clone(), unknown.may_have_committed()), (lost, true));
        assert!(!unknown.is_final(), "other islands go on");
        let other = decode(&encode(&Error::NoCheckpoints), 3);
        assert!(
            !other.is_retryable() && other.to_string().contains("checkpoints are off"),
            "{other}"
        );
        assert!(is_unreached(&decode(&encode(&Error::IslandStopped(5)), 3)));
        assert!(decode(&encode(&Error::Poisoned("the disk".into())), 3).is_retryable());
    }
}
