//! What one transaction holds: a small hash map from names to its requests, and the order in which
//! they came.
//!
//! It answers the commonest question, "do I hold this already?", without touching the lock table.
//! Its session owns it and nothing else looks into it; memory is kept from transaction to
//! transaction. The session owns a stock of requests too: those of the locks it holds, in the order
//! in which they were granted, and behind them free ones. So the lock table's common chain of free
//! requests is visited once in many locks, and releasing all locks is forgetting how many there
//! are.
//!
//! Locks that are *kept* from the last transaction are in a short list of their own, not held: their
//! requests are the session's again if the table says so (`Table::claim`).
//!
//! Invariant: there are more places than requests owned, so a search ends.

use super::mode::Mode;
use super::name::LockName;
use super::session::NONE;
use super::table::ChainNumber;

/// Places of a new map; twice as many as a usual transaction holds locks.
const PLACES: usize = 256;

/// Locks that a session keeps at most.
const KEPT_MAX: usize = 16;

/// A held lock, or an empty place.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The lock's name, 0 where the place is empty.
    name: u64,
    request: u32,
    /// Locks one level below that may be taken one by one until escalation is tried; of a gap, the store
    /// of its index's table.
    below_left: u16,
    mode: Mode,
}

const EMPTY: Place = Place { name: 0, request: NONE, below_left: 0, mode: Mode::IntentionShared };

/// A request the session owns and, if it is a held lock's, the lock's place in the map and its chain in the lock
/// table: so releasing it takes no hash.
#[derive(Clone, Copy, Debug)]
struct Owned {
    request: u32,
    place: u32,
    chain: ChainNumber,
}

impl Owned {
    #[inline(always)]
    fn free(request: u32) -> Self {
        Self { request, place: 0, chain: ChainNumber::default() }
    }
}

/// The locks of one session's transaction.
#[derive(Debug)]
pub struct HeldLocks {
    pub(super) session: u32,
    /// How far a name's hash is shifted to make a place's number.
    shift: u32,
    places: Box<[Place]>,
    /// All requests the session owns; the first `held` are those of held locks, oldest first.
    owned: Vec<Owned>,
    held: usize,
    /// Locks on stores kept from the last transaction: name, request and chain.
    kept: Vec<(LockName, u32, ChainNumber)>,
    /// How often a gap was locked.
    pub(super) gaps: u32,
    /// Requests of gaps that vanished, whose names are those of other gaps by now.
    strays: Vec<u32>,
    /// What is in use while the map is laid out anew.
    aside: Vec<(Place, ChainNumber, bool)>,
}

/// Where in the map a held lock is; good until a lock is added or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(usize);

/// Where in the map a lock that is not held would be; good until a lock is added or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vacant(usize);

impl HeldLocks {
    pub(super) fn new(session: u32) -> Self {
        Self {
            session,
            shift: u64::BITS - PLACES.trailing_zeros(),
            places: vec![EMPTY; PLACES].into(),
            owned: Vec::new(),
            held: 0,
            kept: Vec::with_capacity(KEPT_MAX),
            gaps: 0,
            strays: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// How many locks are held.
    #[inline]
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether none is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The mode in which `name` is held, if it is.
    pub fn mode_of(&self, name: LockName) -> Option<Mode> {
        self.find(name).map(|at| self.mode(at))
    }

    pub(super) fn find(&self, name: LockName) -> Option<At> {
        self.search(name).ok()
    }

    /// Where the lock is, or where it would be.
    #[inline(always)]
    pub(super) fn search(&self, name: LockName) -> Result<At, Vacant> {
        let mask = self.places.len() - 1;
        let mut at = (name.hash() >> self.shift) as usize & mask;
        loop {
            let place = self.places[at].name;
            if place == name.word() {
                return Ok(At(at));
            }
            if place == 0 {
                return Err(Vacant(at));
            }
            at = (at + 1) & mask;
        }
    }

    /// Where `name` would be, which would have been at `vacant` before a lock was added at `taken`.
    #[inline(always)]
    pub(super) fn vacant_beside(&self, taken: At, vacant: Vacant, name: LockName) -> Vacant {
        match taken.0 == vacant.0 {
            true => self.search(name).err().unwrap_or(vacant),
            false => vacant,
        }
    }

    #[inline(always)]
    pub(super) fn mode(&self, at: At) -> Mode {
        self.places[at.0].mode
    }

    pub(super) fn set_mode(&mut self, at: At, mode: Mode) {
        self.places[at.0].mode = mode;
    }

    #[inline(always)]
    pub(super) fn request(&self, at: At) -> u32 {
        self.places[at.0].request
    }

    /// Counts one more lock below; `false` if that is more than may be taken one by one.
    #[inline(always)]
    pub(super) fn count_below(&mut self, at: At) -> bool {
        let left = &mut self.places[at.0].below_left;
        if *left == 0 {
            return false;
        }
        *left -= 1;
        true
    }

    /// From now on `count` locks below may be taken one by one.
    pub(super) fn allow_below(&mut self, at: At, count: u16) {
        self.places[at.0].below_left = count;
    }

    /// The request that the next lock uses; `None` when the stock is used up.
    #[inline(always)]
    pub(super) fn free_request(&self) -> Option<u32> {
        self.owned.get(self.held).map(|owned| owned.request)
    }

    /// The requests that the next two locks use.
    #[inline(always)]
    pub(super) fn free_two(&self) -> Option<[u32; 2]> {
        let [first, second] = self.owned.get(self.held..)?.first_chunk()?;
        Some([first.request, second.request])
    }

    /// How many locks the stock suffices for.
    #[inline(always)]
    pub(super) fn free_count(&self) -> usize {
        self.owned.len() - self.held
    }

    /// Notes a lock that was granted to [`HeldLocks::free_request`], where `search` said it would
    /// be; its queue is in `chain`.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        vacant: Vacant,
        (name, chain): (LockName, ChainNumber),
        mode: Mode,
        below: u16,
    ) -> At {
        let owned = &mut self.owned[self.held];
        (owned.place, owned.chain) = (vacant.0 as u32, chain);
        self.held += 1;
        let place = &mut self.places[vacant.0];
        debug_assert!(place.name == 0);
        *place = Place { name: name.word(), request: owned.request, below_left: below, mode };
        At(vacant.0)
    }

    /// The store of the table of a gap that is held.
    pub(super) fn table_of_gap(&self, name: LockName) -> Option<u16> {
        let at = self.find(name).filter(|_| name.is_gap())?;
        Some(self.places[at.0].below_left)
    }

    /// Makes the free request that comes next the one of the held gap at `at`, whose own has another name
    /// by now: that one is held until all are released.
    #[cold]
    pub(super) fn replace(&mut self, at: At) {
        let next = self.owned.swap_remove(self.held).request;
        let owned = self.owned[..self.held].iter_mut().find(|owned| owned.place as usize == at.0);
        let Some(owned) = owned else { panic!("a held lock has a request") };
        self.strays.push(std::mem::replace(&mut owned.request, next));
        self.places[at.0].request = next;
    }

    /// Requests that are held under names that the session does not know, all of gaps.
    pub(super) fn strays(&self) -> impl Iterator<Item = u32> {
        self.strays.iter().copied()
    }

    /// Puts the requests whose names are not known into the stock and passes them to `release`.
    #[cold]
    pub(super) fn remove_strays(&mut self, release: impl FnMut(u32)) {
        let strays = std::mem::take(&mut self.strays);
        strays.iter().for_each(|stray| self.stock(*stray));
        strays.into_iter().for_each(release);
    }

    /// The request and the chain of a lock that was kept, which is kept no longer.
    #[inline(always)]
    pub(super) fn take_kept(&mut self, name: LockName) -> Option<(u32, ChainNumber)> {
        // The one that the last transaction locked first is the last.
        let at = self.kept.iter().rposition(|kept| kept.0 == name)?;
        let (_, request, chain) = self.kept.swap_remove(at);
        Some((request, chain))
    }

    /// Makes a request the one that the next lock uses.
    #[inline(always)]
    pub(super) fn put_next(&mut self, request: u32) {
        let next = Owned::free(request);
        let later = match self.owned.get_mut(self.held) {
            Some(free) => std::mem::replace(free, next),
            None => next,
        };
        self.owned.push(later);
    }

    /// Locks kept from the last transaction.
    pub(super) fn kept(&self) -> impl Iterator<Item = (LockName, u32)> {
        self.kept.iter().map(|&(name, request, _)| (name, request))
    }

    /// Forgets them.
    pub(super) fn forget_kept(&mut self) -> Vec<(LockName, u32)> {
        let kept = self.kept().collect();
        self.kept.clear();
        kept
    }

    /// Adds a free request to the stock.
    pub(super) fn stock(&mut self, request: u32) {
        self.owned.push(Owned::free(request));
        if self.owned.len() * 2 > self.places.len() {
            self.set_aside(|_, _| false);
            self.places = vec![EMPTY; self.places.len() * 2].into();
            self.shift -= 1;
            self.lay_out(|_| {});
        }
    }

    /// Takes free requests out of the stock until it has `keep`, and passes them to `give`.
    pub(super) fn unstock(&mut self, keep: usize, mut give: impl FnMut(u32)) {
        let keep = keep.max(self.held);
        while self.owned.len() > keep {
            self.owned.pop().into_iter().for_each(|owned| give(owned.request));
        }
    }

    /// How many requests the session owns.
    #[inline]
    pub(super) fn owned(&self) -> usize {
        self.owned.len()
    }

    /// The free ones of them.
    pub(super) fn free_requests(&self) -> impl Iterator<Item = u32> {
        self.owned[self.held..].iter().map(|owned| owned.request)
    }

    /// Forgets the locks that `leaves` names and passes their names and requests to `release`.
    pub(super) fn remove_where(
        &mut self,
        leaves: impl Fn(&HeldLocks, LockName) -> bool,
        release: impl FnMut((LockName, u32)),
    ) {
        self.set_aside(leaves);
        self.places.fill(EMPTY);
        self.lay_out(release);
    }

    fn set_aside(&mut self, leaves: impl Fn(&HeldLocks, LockName) -> bool) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.clear();
        aside.extend(self.owned[..self.held].iter().map(|owned| {
            let place = self.places[owned.place as usize];
            (place, owned.chain, leaves(self, LockName::from_word(place.name)))
        }));
        self.aside = aside;
    }

    fn lay_out(&mut self, mut release: impl FnMut((LockName, u32))) {
        let aside = std::mem::take(&mut self.aside);
        let mut freed = self.held;
        self.held = 0;
        for (place, _, leaves) in aside.iter().rev() {
            let name = LockName::from_word(place.name);
            if *leaves {
                release((name, place.request));
                freed -= 1;
                self.owned[freed].request = place.request;
            }
        }
        for (place, chain, _) in aside.iter().filter(|(.., leaves)| !leaves) {
            let name = LockName::from_word(place.name);
            let Err(vacant) = self.search(name) else { panic!("{name} is held twice") };
            self.owned[self.held].request = place.request;
            self.add(vacant, (name, *chain), place.mode, place.below_left);
        }
        assert_eq!(self.held, freed);
        self.aside = aside;
    }

    /// Forgets all locks, the last granted first, and passes their chains and requests to `release`:
    /// whether it left them with the session, which keeps at most `kept_max`.
    #[inline(always)]
    pub(super) fn remove_all(
        &mut self,
        kept_max: usize,
        mut release: impl FnMut((ChainNumber, u32), bool) -> bool,
    ) {
        let Self { owned, places, kept, held, .. } = self;
        let (kept_max, kept_before) = (kept_max.min(KEPT_MAX), kept.len());
        // Where in `owned` those are that stay.
        let mut stay = [0; KEPT_MAX];
        for (at, &Owned { request, place, chain }) in owned[..*held].iter().enumerate().rev() {
            let name = std::mem::take(&mut places[place as usize].name);
            let may_stay = chain.is_of_stores() && kept.len() < kept_max;
            if release((chain, request), may_stay) {
                stay[kept.len() - kept_before] = at;
                kept.push((LockName::from_word(name), request, chain));
            }
        }
        for at in &stay[..kept.len() - kept_before] {
            owned.swap_remove(*at);
        }
        *held = 0;
    }

    /// All held locks: name, request, mode.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockName, u32, Mode)> {
        self.owned[..self.held].iter().map(|owned| {
            let place = self.places[owned.place as usize];
            (LockName::from_word(place.name), place.request, place.mode)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: u32) -> LockName {
        LockName::page(3, i)
    }

    fn held(count: u32) -> HeldLocks {
        let mut held = HeldLocks::new(0);
        for i in 0..count {
            if held.free_request().is_none() {
                (i..i + 64).for_each(|request| held.stock(request));
            }
            let vacant = held.search(name(i)).unwrap_err();
            assert_eq!(held.free_request(), Some(i));
            let lock = (name(i), ChainNumber::default());
            held.add(vacant, lock, Mode::ALL[i as usize % 5], 0);
        }
        held
    }

    #[test]
    fn a_map_grows_and_finds_all_it_holds() {
        let held = held(1_000);
        assert_eq!((held.len(), held.places.len()), (1_000, 2_048));
        for i in 0..1_000 {
            assert_eq!(held.mode_of(name(i)), Some(Mode::ALL[i as usize % 5]));
        }
        assert_eq!(held.mode_of(name(1_000)), None);
        let order: Vec<u32> = held.iter().map(|(_, request, _)| request).collect();
        assert_eq!(order, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn some_leave_and_the_others_stay_in_order() {
        let mut held = held(100);
        let even = |request: u32| request.is_multiple_of(2);
        let mut left = Vec::new();
        held.remove_where(
            |held, name| held.find(name).is_some_and(|at| even(held.request(at))),
            |(_, request)| left.push(request),
        );
        assert_eq!(left, (0..100).step_by(2).rev().collect::<Vec<_>>());
        for i in 0..100 {
            assert_eq!(held.mode_of(name(i)).is_some(), !even(i));
        }
        let free: Vec<u32> = held.free_requests().collect();
        assert_eq!(free, (0..100).step_by(2).chain(100..128).collect::<Vec<_>>());
        let mut removed = Vec::new();
        held.remove_all(0, |(_, request), _| {
            removed.push(request);
            false
        });
        assert_eq!(removed, (1..100).rev().step_by(2).collect::<Vec<_>>());
        assert!(held.is_empty() && held.places.iter().all(|place| place.name == 0));
    }

    #[test]
    fn the_stock_is_given_back_and_held_locks_stay() {
        let mut held = held(10);
        let mut given = Vec::new();
        held.unstock(12, |request| given.push(request));
        assert_eq!((held.owned(), given.len()), (12, 52));
        held.unstock(0, |request| given.push(request));
        assert_eq!((held.owned(), held.len()), (10, 10));
        given.sort_unstable();
        assert_eq!(given, (10..64).collect::<Vec<_>>());
    }
}
