//! How long islands, and transactions over several of them, wait for each other.
//!
//! Each time has a setting of [`IslandsBuilder`], one default, and bounds. Pauses of microseconds before a transaction
//! runs again are no settings. Not here: the deadlines of single calls ([`CallOptions`](crate::CallOptions)), what
//! happens when a time is over (`deadlines.rs`, `transaction.rs`, `mod.rs`).

use std::time::Duration;

use super::opening::IslandsBuilder;
use crate::error::Error;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// How long islands wait. See the file's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For locks, votes and islands that others have.
    pub(super) others: Duration,
    /// For a decision, before a participant asks.
    pub(super) decision: Duration,
    /// For transactions under way, when the database is closed.
    pub(super) closing: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        let [others, decision, closing] = [5, 2, 10].map(Duration::from_secs);
        Self { others, decision, closing }
    }
}

impl Waits {
    /// Refuses times that are out of bounds.
    pub(super) fn verify(&self) -> Result<(), Error> {
        let Self { others, decision, closing } = *self;
        let all = [("wait_max", others), ("ask_after", decision), ("closing_max", closing)];
        match all.into_iter().find(|(_, time)| !(MS..=HOUR).contains(time)) {
            None => Ok(()),
            Some((name, time)) => Err(Error::Setting(format!(
                "{name} = {time:?}: give a time between {MS:?} and {} s",
                HOUR.as_secs()
            ))),
        }
    }

    pub(super) fn others_ns(&self) -> u64 {
        nanoseconds(self.others)
    }

    pub(super) fn decision_ns(&self) -> u64 {
        nanoseconds(self.decision)
    }
}

/// Of a time that is at most [`HOUR`].
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl IslandsBuilder {
    /// The longest that a transaction over several islands waits for rows and islands that others have, and for the
    /// votes of its islands, and that a call of one island waits for a row that such a transaction holds: 5 s by
    /// default, 1 ms to an hour. Then it is refused ([`Error::is_retryable`]), and nothing was changed. It is not
    /// undone while it runs: a closure takes as long as it takes, unless it has a deadline
    /// ([`Islands::transaction_within`](crate::Islands::transaction_within)), and what has been prepared stays until
    /// it is decided. A call's own deadline ([`CallOptions::within`](crate::CallOptions::within)) may be earlier.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tombolo::{Database, Error};
    /// let db = Database::builder().islands(2).wait_max(Duration::from_millis(200)).in_memory()?;
    /// # let refused = Database::builder().islands(2).wait_max(Duration::ZERO).in_memory();
    /// # assert!(matches!(refused, Err(Error::Setting(_))));
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn wait_max(mut self, time: Duration) -> Self {
        self.waits.others = time;
        self
    }

    /// How long an island that has prepared its part of a transaction waits for the decision until it asks for it, and
    /// how long between two questions: 2 s by default, 1 ms to an hour. The part is held meanwhile, so this is how long
    /// rows may stay locked because a decision was lost, with an island's process. Islands of one process lose none.
    pub const fn ask_after(mut self, time: Duration) -> Self {
        self.waits.decision = time;
        self
    }

    /// The longest that closing waits until the transactions over several islands that are under way have ended: 10 s
    /// by default, 1 ms to an hour. One that is not decided then is decided when the database is opened again.
    pub const fn closing_max(mut self, time: Duration) -> Self {
        self.waits.closing = time;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_bounds_are_refused_by_name() {
        let waits = Waits::default();
        assert_eq!(waits.verify(), Ok(()));
        let names = [
            ("wait_max", Waits { others: Duration::ZERO, ..waits }),
            ("ask_after", Waits { decision: MS / 2, ..waits }),
            ("closing_max", Waits { closing: HOUR + MS, ..waits }),
        ];
        for (name, waits) in names {
            let refused = waits.verify().unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("1ms and 3600 s"), "{refused}");
        }
        for time in [MS, HOUR] {
            let waits = Waits { others: time, decision: time, closing: time };
            assert_eq!(waits.verify(), Ok(()));
            assert_eq!(u128::from(waits.others_ns()), time.as_nanos());
        }
    }
}
