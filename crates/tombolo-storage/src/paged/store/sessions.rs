//! Sessions (S10): transactions are registered when they begin, monitored while they run and torn
//! down when they end.
//!
//! Registered transactions can be listed with what they did so far; the oldest of them bounds how
//! far a log may be cut. With the switch off there is one session and what is left is a counter of
//! transactions. Not here: connections, the places of the lock table.

use std::cell::{Cell, RefCell};

use crate::latch::{Counter, Latch, Latching};

/// A transaction under way, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveTransaction {
    /// Its number; numbers grow.
    pub transaction: u64,
    /// Its session's place.
    pub session: u32,
    /// Calls it made so far.
    pub calls: u64,
    /// Changes among them.
    pub changes: u64,
}

/// What all ended transactions of the registry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTotals {
    /// Committed.
    pub committed: u64,
    /// Aborted.
    pub aborted: u64,
    /// Their calls.
    pub calls: u64,
    /// Their changes.
    pub changes: u64,
}

/// S10: what knows the transactions under way.
pub trait Sessions<L: Latching>: Default + Send + 'static {
    /// What a session keeps of its place and of its transaction.
    type Place: Default + Send;

    /// Takes a place.
    fn open(&self) -> Self::Place;

    /// Gives a place back.
    fn close(&self, place: &Self::Place);

    /// Registers a transaction and returns its number.
    fn begin(&self, place: &mut Self::Place) -> u64;

    /// Notes a call, which changes something or not.
    fn call(&self, place: &Self::Place, changes: bool);

    /// Tears the transaction down.
    fn end(&self, place: &mut Self::Place, committed: bool);

    /// Gives no transaction a number up to this one. None was given yet.
    fn continue_behind(&self, number: u64);

    /// The transactions under way.
    fn active(&self) -> Vec<ActiveTransaction>;
}

/// There is one session; transactions are only numbered.
#[derive(Debug, Default)]
pub struct OneSession(Cell<u64>);

impl<L: Latching> Sessions<L> for OneSession {
    type Place = ();

    fn open(&self) {}

    fn close(&self, (): &()) {}

    #[inline(always)]
    fn begin(&self, (): &mut ()) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    #[inline(always)]
    fn call(&self, (): &(), _: bool) {}

    #[inline(always)]
    fn end(&self, (): &mut (), _: bool) {}

    fn continue_behind(&self, number: u64) {
        self.0.set(number);
    }

    fn active(&self) -> Vec<ActiveTransaction> {
        Vec::new()
    }
}

/// Transactions are registered.
pub struct Registered<L: Latching> {
    numbers: L::Counter,
    registry: Latch<RefCell<Registry>, L>,
}

#[derive(Debug, Default)]
struct Registry {
    /// One entry for each place that was ever taken; the transaction is 0 between transactions.
    entries: Vec<ActiveTransaction>,
    /// Places that were given back.
    free: Vec<u32>,
    totals: SessionTotals,
}

/// A session's place, and what its transaction did since the registry was last updated.
#[derive(Debug, Default)]
pub struct RegisteredPlace {
    session: u32,
    calls: Cell<u32>,
    changes: Cell<u32>,
}

/// The number of calls after which they are entered in the registry.
const CALLS_UNREPORTED_MAX: u32 = 64;

impl<L: Latching> Default for Registered<L> {
    fn default() -> Self {
        Self { numbers: L::Counter::new(1), registry: Latch::default() }
    }
}

impl<L: Latching> Registered<L> {
    /// What ended transactions did.
    pub fn totals(&self) -> SessionTotals {
        self.registry.hold().borrow().totals
    }

    /// Adds what a place counted to its entry.
    #[cold]
    fn publish(&self, place: &RegisteredPlace) {
        let registry = self.registry.hold();
        let entry = &mut registry.borrow_mut().entries[place.session as usize];
        entry.calls += u64::from(place.calls.take());
        entry.changes += u64::from(place.changes.take());
    }
}

impl<L: Latching> Sessions<L> for Registered<L> {
    type Place = RegisteredPlace;

    fn open(&self) -> RegisteredPlace {
        let registry = self.registry.hold();
        let mut registry = registry.borrow_mut();
        let session = match registry.free.pop() {
            Some(session) => session,
            None => {
                let session = registry.entries.len() as u32;
                let entry = ActiveTransaction { transaction: 0, session, calls: 0, changes: 0 };
                registry.entries.push(entry);
                session
            }
        };
        RegisteredPlace { session, ..RegisteredPlace::default() }
    }

    fn close(&self, place: &RegisteredPlace) {
        self.registry.hold().borrow_mut().free.push(place.session);
    }

    #[inline]
    fn begin(&self, place: &mut RegisteredPlace) -> u64 {
        let transaction = self.numbers.advance(1);
        let registry = self.registry.hold();
        let entry = &mut registry.borrow_mut().entries[place.session as usize];
        debug_assert_eq!(entry.transaction, 0, "the place's last transaction has not ended");
        *entry = ActiveTransaction { transaction, session: place.session, calls: 0, changes: 0 };
        transaction
    }

    #[inline]
    fn call(&self, place: &RegisteredPlace, changes: bool) {
        let calls = place.calls.get() + 1;
        place.calls.set(calls);
        place.changes.set(place.changes.get() + u32::from(changes));
        if calls == CALLS_UNREPORTED_MAX {
            self.publish(place);
        }
    }

    #[inline]
    fn end(&self, place: &mut RegisteredPlace, committed: bool) {
        let registry = self.registry.hold();
        let mut registry = registry.borrow_mut();
        let Registry { entries, totals, .. } = &mut *registry;
        let entry = &mut entries[place.session as usize];
        totals.calls += entry.calls + u64::from(place.calls.take());
        totals.changes += entry.changes + u64::from(place.changes.take());
        totals.committed += u64::from(committed);
        totals.aborted += u64::from(!committed);
        entry.transaction = 0;
    }

    fn continue_behind(&self, number: u64) {
        self.numbers.advance(number);
    }

    fn active(&self) -> Vec<ActiveTransaction> {
        let registry = self.registry.hold();
        let registry = registry.borrow();
        registry.entries.iter().filter(|entry| entry.transaction != 0).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::Latched;

    #[test]
    fn a_transaction_is_seen_while_it_runs() {
        let sessions = Registered::<Latched>::default();
        let mut first = sessions.open();
        let mut second = sessions.open();
        let numbers = (sessions.begin(&mut first), sessions.begin(&mut second));
        assert!(numbers.0 < numbers.1);
        for call in 0..100 {
            sessions.call(&first, call % 2 == 0);
        }
        let active = sessions.active();
        assert_eq!(active.len(), 2);
        assert_eq!(
            active[0].calls,
            u64::from(CALLS_UNREPORTED_MAX),
            "the rest is reported at the end"
        );
        sessions.end(&mut first, true);
        sessions.end(&mut second, false);
        assert_eq!(sessions.active(), []);
        let totals = SessionTotals { committed: 1, aborted: 1, calls: 100, changes: 50 };
        assert_eq!(sessions.totals(), totals);
    }

    #[test]
    fn a_place_is_taken_again() {
        let sessions = Registered::<Latched>::default();
        let first = sessions.open();
        sessions.close(&first);
        assert_eq!(sessions.open().session, first.session);
    }
}
