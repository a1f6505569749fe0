//! What one transaction holds: a small hash map from names to its requests, and the order in which
//! they came.
//!
//! It answers the most frequent question, "do I hold this already?", without access to the lock table.
//! Only its session uses it, and reuses its memory for each transaction. The session also owns a stock of requests:
//! those of its locks, in the order in which they were granted, followed by free ones. So a session seldom visits the
//! lock table's common chain of free requests, and to forget all locks it only resets their number.
//!
//! Locks on stores have fixed places, one for each store's number: they are found without a hash, and a lock that is
//! *kept* from one transaction for the next stays in its place. The next transaction has it if the table lets it
//! claim the request (`Table::claim`).
//!
//! Invariants: the map has more places than the session has requests, so a search ends; while a store's lock is only
//! kept, nothing below it is locked.

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
    /// Of a store: whether its lock is not held, but kept from a transaction before.
    is_kept: bool,
}

const EMPTY: Place =
    Place { name: 0, request: NONE, below_left: 0, mode: Mode::IntentionShared, is_kept: false };

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
    /// The map, a power of two of places, and behind it those of stores, by number.
    places: Vec<Place>,
    /// One less than the places of the map.
    mask: usize,
    /// All requests the session owns but those of stores; the first `held` are those of held locks, oldest first.
    owned: Vec<Owned>,
    held: usize,
    /// Stores whose locks are held or kept.
    stores: Vec<(u16, ChainNumber)>,
    /// How many of them are held.
    stores_held: usize,
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
            places: vec![EMPTY; PLACES],
            mask: PLACES - 1,
            owned: Vec::new(),
            held: 0,
            stores: Vec::with_capacity(KEPT_MAX),
            stores_held: 0,
            gaps: 0,
            strays: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// How many locks are held.
    #[inline]
    pub fn len(&self) -> usize {
        self.held + self.stores_held
    }

    /// Whether none is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mode in which `name` is held, if it is.
    pub fn mode_of(&self, name: LockName) -> Option<Mode> {
        self.find(name).map(|at| self.mode(at))
    }

    pub(super) fn find(&self, name: LockName) -> Option<At> {
        match name.store_number() {
            Some(store) => self.store(store),
            None => self.search(name).ok(),
        }
    }

    /// Where the lock on a store is.
    #[inline(always)]
    pub(super) fn store(&self, store: u16) -> Option<At> {
        self.place_of_store(store).filter(|at| self.is_held(*at))
    }

    /// Where the lock on a store is, or would be, if there is a place for it.
    #[inline(always)]
    pub(super) fn place_of_store(&self, store: u16) -> Option<At> {
        let at = self.mask + 1 + usize::from(store);
        (at < self.places.len()).then_some(At(at))
    }

    #[inline(always)]
    fn is_held(&self, at: At) -> bool {
        let place = &self.places[at.0];
        place.name != 0 && !place.is_kept
    }

    /// Whether the lock on a store is kept from a transaction before.
    #[inline(always)]
    pub(super) fn is_kept(&self, at: At) -> bool {
        self.places[at.0].is_kept
    }

    /// Where the lock, which is on no store, is, or where it would be.
    #[inline(always)]
    pub(super) fn search(&self, name: LockName) -> Result<At, Vacant> {
        let mask = self.mask;
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

    /// The vacant place for `name` after a lock was added at `taken`; it was `vacant` before.
    #[inline(always)]
    pub(super) fn vacant_after(&self, taken: At, vacant: Vacant, name: LockName) -> Vacant {
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
        let (name, request) = (name.word(), owned.request);
        *place = Place { name, request, below_left: below, mode, is_kept: false };
        At(vacant.0)
    }

    /// Notes a lock on a store that was granted to [`HeldLocks::free_request`]; its queue is in `chain`.
    pub(super) fn add_store(
        &mut self,
        (store, chain): (u16, ChainNumber),
        mode: Mode,
        below: u16,
    ) -> At {
        let at = self.mask + 1 + usize::from(store);
        if at >= self.places.len() {
            self.places.resize(at + 1, EMPTY);
        }
        let request = self.owned.swap_remove(self.held).request;
        let name = LockName::store(store).word();
        debug_assert!(self.places[at].name == 0);
        self.places[at] = Place { name, request, below_left: below, mode, is_kept: false };
        self.stores.push((store, chain));
        self.stores_held += 1;
        At(at)
    }

    /// Notes that a lock that was kept is held.
    #[inline(always)]
    pub(super) fn take_up(&mut self, at: At, below: u16) {
        let place = &mut self.places[at.0];
        (place.is_kept, place.below_left) = (false, below);
        self.stores_held += 1;
    }

    /// Forgets a store's lock that was kept, and is no longer; its request is free.
    #[cold]
    pub(super) fn lose_kept(&mut self, at: At) {
        let store = at.0 - (self.mask + 1);
        self.stores.retain(|(other, _)| usize::from(*other) != store);
        let place = std::mem::replace(&mut self.places[at.0], EMPTY);
        self.owned.push(Owned::free(place.request));
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

    /// Locks kept from transactions before.
    pub(super) fn kept(&self) -> impl Iterator<Item = (LockName, u32)> {
        self.store_places().filter(|place| place.is_kept).map(name_and_request)
    }

    fn store_places(&self) -> impl Iterator<Item = &Place> {
        self.stores.iter().map(|(store, _)| &self.places[self.mask + 1 + usize::from(*store)])
    }

    /// Forgets them.
    pub(super) fn forget_kept(&mut self) -> Vec<(LockName, u32)> {
        let kept: Vec<_> = self.kept().collect();
        let Self { stores, places, mask, .. } = self;
        stores.retain(|(store, _)| {
            let place = &mut places[*mask + 1 + usize::from(*store)];
            let stays = !place.is_kept;
            if !stays {
                *place = EMPTY;
            }
            stays
        });
        kept
    }

    /// Adds a free request to the stock.
    pub(super) fn stock(&mut self, request: u32) {
        self.owned.push(Owned::free(request));
        let count = self.mask + 1;
        // Those of stores come back.
        if (self.owned.len() + self.stores.len()) * 2 > count {
            self.set_aside(|_, _| false);
            let mut larger = vec![EMPTY; count * 2];
            larger.extend_from_slice(&self.places[count..]);
            (self.places, self.mask) = (larger, count * 2 - 1);
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
        self.places[..=self.mask].fill(EMPTY);
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

    /// Forgets all locks but those on stores, the last granted first, and passes their chains and requests to
    /// `release`.
    #[inline(always)]
    pub(super) fn remove_all(&mut self, mut release: impl FnMut((ChainNumber, u32))) {
        let Self { owned, places, held, .. } = self;
        for &Owned { request, place, chain } in owned[..*held].iter().rev() {
            places[place as usize].name = 0;
            release((chain, request));
        }
        *held = 0;
    }

    /// Forgets the locks on stores and passes their chains and requests to `release`: whether it keeps them for the
    /// session's next transaction. It may keep some while there are fewer than `kept_max`.
    #[inline(always)]
    pub(super) fn remove_stores(
        &mut self,
        kept_max: usize,
        mut release: impl FnMut((ChainNumber, u32), bool) -> bool,
    ) {
        let Self { owned, places, mask, stores, stores_held, .. } = self;
        let mut kept = stores.len() - *stores_held;
        let mut at = 0;
        while let Some(&(store, chain)) = stores.get(at) {
            let place = &mut places[*mask + 1 + usize::from(store)];
            if !place.is_kept {
                if !release((chain, place.request), kept < kept_max.min(KEPT_MAX)) {
                    owned.push(Owned::free(place.request));
                    *place = EMPTY;
                    stores.swap_remove(at);
                    continue;
                }
                (place.is_kept, place.below_left) = (true, 0);
                kept += 1;
            }
            at += 1;
        }
        *stores_held = 0;
    }

    /// All held locks, those on stores first: name, request, mode.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockName, u32, Mode)> {
        let stores = self.store_places().filter(|place| !place.is_kept);
        let others = self.owned[..self.held].iter().map(|owned| &self.places[owned.place as usize]);
        stores.chain(others).map(|place| {
            let (name, request) = name_and_request(place);
            (name, request, place.mode)
        })
    }
}

fn name_and_request(place: &Place) -> (LockName, u32) {
    (LockName::from_word(place.name), place.request)
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
    fn stores_stay_where_they_are_while_the_map_grows() {
        let mut held = held(10);
        let store = |number| LockName::store(number);
        for number in [7, 3] {
            held.add_store((number, ChainNumber::default()), Mode::IntentionExclusive, 5);
        }
        let kept = |held: &mut HeldLocks, max| {
            held.remove_all(|_| ());
            held.remove_stores(max, |_, may_stay| may_stay);
            held.kept().map(|(name, _)| name).collect::<Vec<_>>()
        };
        (1_000..2_000).for_each(|request| held.stock(request));
        let names = [7, 3].map(store);
        assert_eq!(held.iter().take(2).map(|lock| lock.0).collect::<Vec<_>>(), names);
        assert_eq!((held.len(), held.owned()), (12, 62 + 1_000));
        assert_eq!(kept(&mut held, 2), names);
        assert_eq!((held.len(), names.map(|name| held.mode_of(name))), (0, [None; 2]));
        // One is taken up and is too much then, the other one is lost.
        let places = [7, 3].map(|number| held.place_of_store(number).unwrap());
        assert!(!held.count_below(places[0]) && held.is_kept(places[0]));
        held.take_up(places[0], 5);
        assert!(held.count_below(places[0]) && held.mode_of(names[0]).is_some());
        assert_eq!(kept(&mut held, 1), [names[1]]);
        held.lose_kept(places[1]);
        assert_eq!((held.kept().count(), held.owned()), (0, 64 + 1_000));
        held.add_store((3, ChainNumber::default()), Mode::IntentionShared, 5);
        kept(&mut held, 1);
        assert_eq!(held.forget_kept().len(), 1);
        assert_eq!((held.stores.len(), held.owned()), (0, 63 + 1_000));
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
        held.remove_all(|(_, request)| removed.push(request));
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
