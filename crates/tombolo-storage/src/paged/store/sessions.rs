//! Sessions (S10): transactions are registered when they begin, monitored while they run and torn
//! down when they end.
//!
//! Registered transactions can be listed, with counts of their calls so far. Each session writes into a cache line of
//! its own, which others only read. With the switch off there is one session, and only a counter of
//! transactions remains. Not here: connections, the places of the lock table.

use std::cell::{Cell, RefCell};

use crate::latch::{Counter, GuardedU64, Latch, Latching, Line};
use crate::sync::Arc;

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
    type Place: Send;

    /// Takes a place.
    fn open(&self) -> Self::Place;

    /// Gives a place back.
    fn close(&self, place: &Self::Place);

    /// Registers a transaction and returns its number.
    fn begin(&self, place: &Self::Place) -> u64;

    /// Registers a transaction that has its number already.
    fn resume(&self, place: &Self::Place, number: u64);

    /// Notes a call, which changes something or not.
    fn call(&self, place: &Self::Place, changes: bool);

    /// Tears the transaction down.
    fn end(&self, place: &Self::Place, committed: bool);

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
    fn begin(&self, (): &()) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn resume(&self, (): &(), _: u64) {}

    #[inline(always)]
    fn call(&self, (): &(), _: bool) {}

    #[inline(always)]
    fn end(&self, (): &(), _: bool) {}

    fn continue_behind(&self, number: u64) {
        self.0.set(number);
    }

    fn active(&self) -> Vec<ActiveTransaction> {
        Vec::new()
    }
}

/// Transactions are registered.
pub struct Registered<L: Latching> {
    numbers: Line<L::Counter>,
    registry: Latch<RefCell<Registry>, L>,
}

#[derive(Debug, Default)]
struct Registry {
    /// Every place that was ever taken.
    places: Vec<Arc<RegisteredPlace>>,
    /// Those of them that were given back.
    free: Vec<u32>,
}

/// A session's place: what its transaction did, and all that ended. Its session alone writes here, and only
/// while a transaction runs in it: a place that is taken again is seen as it was given back.
#[derive(Debug)]
#[repr(align(64))]
pub struct RegisteredPlace {
    session: u32,
    /// 0 between transactions.
    transaction: GuardedU64,
    calls: GuardedU64,
    changes: GuardedU64,
    committed: GuardedU64,
    aborted: GuardedU64,
    /// Of ended transactions.
    all_calls: GuardedU64,
    all_changes: GuardedU64,
}

impl RegisteredPlace {
    fn new(session: u32) -> Arc<Self> {
        let zero = || GuardedU64::new(0);
        Arc::new(Self {
            session,
            transaction: zero(),
            calls: zero(),
            changes: zero(),
            committed: zero(),
            aborted: zero(),
            all_calls: zero(),
            all_changes: zero(),
        })
    }
}

#[inline(always)]
fn add(number: &GuardedU64, amount: u64) {
    number.set(number.get() + amount);
}

impl<L: Latching> Default for Registered<L> {
    fn default() -> Self {
        Self { numbers: Line(L::Counter::new(1)), registry: Latch::default() }
    }
}

impl<L: Latching> Registered<L> {
    /// What ended transactions did.
    pub fn totals(&self) -> SessionTotals {
        let registry = self.registry.hold();
        let registry = registry.borrow();
        registry.places.iter().fold(SessionTotals::default(), |all, place| SessionTotals {
            committed: all.committed + place.committed.get(),
            aborted: all.aborted + place.aborted.get(),
            calls: all.calls + place.all_calls.get(),
            changes: all.changes + place.all_changes.get(),
        })
    }
}

impl<L: Latching> Sessions<L> for Registered<L> {
    type Place = Arc<RegisteredPlace>;

    fn open(&self) -> Self::Place {
        let registry = self.registry.hold();
        let Registry { places, free } = &mut *registry.borrow_mut();
        if let Some(session) = free.pop() {
            return Arc::clone(&places[session as usize]);
        }
        let place = RegisteredPlace::new(places.len() as u32);
        places.push(Arc::clone(&place));
        place
    }

    fn close(&self, place: &Self::Place) {
        self.registry.hold().borrow_mut().free.push(place.session);
    }

    #[inline]
    fn begin(&self, place: &Self::Place) -> u64 {
        debug_assert_eq!(place.transaction.get(), 0, "the place's last transaction has not ended");
        let transaction = self.numbers.advance(1);
        place.calls.set(0);
        place.changes.set(0);
        place.transaction.set(transaction);
        transaction
    }

    fn resume(&self, place: &Self::Place, number: u64) {
        place.calls.set(0);
        place.changes.set(0);
        place.transaction.set(number);
    }

    #[inline(always)]
    fn call(&self, place: &Self::Place, changes: bool) {
        add(&place.calls, 1);
        if changes {
            add(&place.changes, 1);
        }
    }

    #[inline]
    fn end(&self, place: &Self::Place, committed: bool) {
        add(&place.all_calls, place.calls.get());
        add(&place.all_changes, place.changes.get());
        add(if committed { &place.committed } else { &place.aborted }, 1);
        place.transaction.set(0);
    }

    fn continue_behind(&self, number: u64) {
        self.numbers.advance(number);
    }

    fn active(&self) -> Vec<ActiveTransaction> {
        let registry = self.registry.hold();
        let registry = registry.borrow();
        let seen = registry.places.iter().map(|place| ActiveTransaction {
            transaction: place.transaction.get(),
            session: place.session,
            calls: place.calls.get(),
            changes: place.changes.get(),
        });
        seen.filter(|transaction| transaction.transaction != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::Latched;

    #[test]
    fn a_transaction_is_seen_while_it_runs() {
        let sessions = Registered::<Latched>::default();
        let (first, second) = (sessions.open(), sessions.open());
        let numbers = (sessions.begin(&first), sessions.begin(&second));
        assert!(numbers.0 < numbers.1);
        for call in 0..100 {
            sessions.call(&first, call % 2 == 0);
        }
        let active = sessions.active();
        assert_eq!(active.len(), 2);
        assert_eq!((active[0].calls, active[0].changes), (100, 50));
        sessions.end(&first, true);
        sessions.end(&second, false);
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
