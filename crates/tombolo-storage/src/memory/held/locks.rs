//! `Locks`: what all held parts of a store have locked, and the question whether an access may go on.
//!
//! Strict two-phase locking with predicates: a part has all of its locks from its execution until its decision,
//! and the keys that it did not find, and the ranges that it scanned, are among them. Nothing waits here: a refused
//! request returns the owner of the lock that it met.
//!
//! An access to a row, a table or a key is a look-up in a hash table by a number made of the thing's name, two to
//! write it, so it costs a cache line or two; two things with the same number (one pair in 2⁶⁴) exclude each other
//! needlessly, nothing worse. A change of a key is compared with the ranges that are read in its index, and a range
//! with the keys that are changed in its index, in order; that of most indexes is empty. Of each key the first
//! sixteen bytes are at hand, and the rest is in the part's own list.
//!
//! Not here: which locks an access needs (`guarded.rs`), waiting. Invariants: a part's locks and those of another
//! part do not exclude each other; after [`Locks::release`] nothing of its owner is left.

use super::lock::{Lock, LockSet, Mode, edge, leading};
use crate::error::{Error, Result};
use crate::memory::btree::Position;
use crate::memory::hash::HashTable;
use crate::owner::Owner;

/// Most bytes for the locks of all parts: ten million of them.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// Where a lock lies in the table is no secret: few locks are held at a time, so no chain is long.
const SEED: u64 = 0x5851_F42D_4C95_7F2D;

/// The locks of all held parts of a store.
#[derive(Debug)]
pub struct Locks {
    /// Parts by the numbers of the tables, rows and keys that they read, and of those that they change: so that an
    /// access meets no lock that does not exclude it, however many there are.
    names: HashTable,
    parts: Vec<Option<HeldPart>>,
    count: usize,
    /// By the position of the index.
    indexes: Vec<IndexLocks>,
}

#[derive(Debug)]
struct HeldPart {
    owner: Owner,
    locks: LockSet,
}

/// One of the two things that a mode consists of; they exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    Read,
    Change,
}

impl Aspect {
    /// Those of a mode.
    fn of(mode: Mode) -> &'static [Self] {
        match mode {
            Mode::Read => &[Self::Read],
            Mode::ChangeWithin => &[Self::Change],
            Mode::Write => &[Self::Read, Self::Change],
        }
    }

    /// Those that exclude a mode.
    fn excluding(mode: Mode) -> &'static [Self] {
        match mode {
            Mode::Read => &[Self::Change],
            Mode::ChangeWithin => &[Self::Read],
            Mode::Write => &[Self::Read, Self::Change],
        }
    }
}

/// What has an order in one index.
#[derive(Debug, Default)]
struct IndexLocks {
    /// The ranges that are read, in no order.
    ranges: Vec<ReadRange>,
    /// The keys that are changed, ascending by their first bytes.
    changed: Vec<ChangedKey>,
}

/// A part's place among the parts, and that of a lock in the part's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    part: u32,
    start: u32,
}

#[derive(Debug)]
struct ReadRange {
    /// The smallest and the largest number that the first bytes of a key in it can be.
    lowest: u128,
    highest: u128,
    place: Place,
}

#[derive(Debug)]
struct ChangedKey {
    leading: u128,
    place: Place,
}

/// The numbers between which the first bytes of a key in a range are.
fn bounds(lower: Position<'_>, upper: Position<'_>) -> (u128, u128) {
    let (upper, is_after) = edge(upper);
    (leading(edge(lower).0, 0), leading(upper, if is_after { u8::MAX } else { 0 }))
}

/// Whether a key lies between two places.
fn lies_between(key: &[u8], lower: Position<'_>, upper: Position<'_>) -> bool {
    let is_behind = match lower {
        Position::Before(lower) => key >= lower,
        Position::After(lower) => key > lower && !key.starts_with(lower),
    };
    is_behind
        && match upper {
            Position::Before(upper) => key < upper,
            Position::After(upper) => key < upper || key.starts_with(upper),
        }
}

impl Locks {
    /// No locks.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn new() -> Result<Self> {
        let names = HashTable::new(TABLE_BYTES_MAX, SEED).map_err(|_| no_space(0))?;
        Ok(Self { names, parts: Vec::new(), count: 0, indexes: Vec::new() })
    }

    /// Whether no part is held: then the store itself may run.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The transactions of which a part is held.
    pub fn owners(&self) -> impl Iterator<Item = Owner> {
        self.parts.iter().flatten().map(|part| part.owner)
    }

    /// The locks of an owner's part.
    pub fn of(&self, owner: Owner) -> Option<&LockSet> {
        let mut parts = self.parts.iter().flatten();
        parts.find(|part| part.owner == owner).map(|part| &part.locks)
    }

    /// Gives `owner` the locks of its part, right after it was executed: each access was compared with the locks
    /// of others then, so none excludes them. Of locks that come from elsewhere, [`Locks::conflict_with`] says that.
    ///
    /// # Errors
    /// `NoSpace`. The owner has none then.
    ///
    /// # Panics
    /// When it has locks already.
    pub fn acquire(&mut self, owner: Owner, locks: LockSet) -> Result<()> {
        assert!(self.owners().all(|held| held != owner), "a transaction has one part in a store");
        debug_assert_eq!(self.conflict_with(&locks), None, "locks that exclude each other");
        let vacant = self.parts.iter().position(Option::is_none).unwrap_or(self.parts.len());
        if vacant == self.parts.len() {
            self.parts.push(None);
        }
        let entered = locks
            .iter_placed()
            .try_for_each(|(start, lock)| self.enter(&lock, Place { part: vacant as u32, start }));
        self.parts[vacant] = Some(HeldPart { owner, locks });
        self.count += 1;
        if entered.is_err() {
            self.release(owner);
        }
        entered
    }

    /// Takes all locks of an owner from it; returns whether it had a part here.
    pub fn release(&mut self, owner: Owner) -> bool {
        let is_own =
            |part: &Option<HeldPart>| part.as_ref().is_some_and(|part| part.owner == owner);
        let Some(at) = self.parts.iter().position(is_own) else { return false };
        let Some(part) = self.parts[at].take() else { unreachable!("it was found") };
        self.count -= 1;
        for (start, lock) in part.locks.iter_placed() {
            self.leave(&lock, Place { part: at as u32, start });
        }
        true
    }

    /// An owner of a lock that excludes one of these, if there is one.
    pub fn conflict_with(&self, locks: &LockSet) -> Option<Owner> {
        locks.iter().find_map(|lock| self.conflict(&lock))
    }

    /// An owner of a lock that excludes this access, if there is one.
    #[inline]
    pub fn conflict(&self, access: &Lock<'_>) -> Option<Owner> {
        if self.is_empty() {
            return None;
        }
        let holder = match *access {
            Lock::Table { mode, .. } | Lock::Row { mode, .. } => self.holder(access, mode),
            Lock::Key { mode: Mode::Read, .. } => self.holder(access, Mode::Read),
            Lock::Key { index, key, mode } => {
                self.holder(access, mode).or_else(|| self.reader_of(index, key))
            }
            Lock::Range { index, lower, upper } => self.changer_in(index, lower, upper),
        };
        Some(self.part(holder?).owner)
    }

    /// Verifies that all locks are those of held parts.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        self.names.check()?;
        let mut counts = (0, 0, 0);
        for lock in self.parts.iter().flatten().flat_map(|part| part.locks.iter()) {
            match lock {
                Lock::Range { .. } => counts.1 += 1,
                Lock::Key { mode, .. } => {
                    counts.0 += Aspect::of(mode).len();
                    counts.2 += usize::from(mode != Mode::Read);
                }
                Lock::Table { mode, .. } | Lock::Row { mode, .. } => {
                    counts.0 += Aspect::of(mode).len();
                }
            }
        }
        let sum = |count: fn(&IndexLocks) -> usize| self.indexes.iter().map(count).sum::<usize>();
        let there =
            (self.names.len(), sum(|index| index.ranges.len()), sum(|index| index.changed.len()));
        match there == counts {
            true => Ok(()),
            false => Err(format!("names, ranges, changed keys: {there:?} instead of {counts:?}")),
        }
    }

    fn part(&self, part: u32) -> &HeldPart {
        let part = self.parts[part as usize].as_ref();
        part.expect("locks belong to parts that are held")
    }

    /// A part that has the named thing in a mode that excludes `mode`.
    #[inline]
    fn holder(&self, thing: &Lock<'_>, mode: Mode) -> Option<u32> {
        let mut aspects = Aspect::excluding(mode).iter();
        aspects.find_map(|&aspect| self.names.get(self.name(thing, aspect)))
    }

    /// A part that has read a range with this key.
    fn reader_of(&self, index: u32, key: &[u8]) -> Option<u32> {
        let of_index = self.indexes.get(index as usize)?;
        if of_index.ranges.is_empty() {
            return None;
        }
        let leading = leading(key, 0);
        let may_hold = |range: &&ReadRange| range.lowest <= leading && leading <= range.highest;
        let mut places = of_index.ranges.iter().filter(may_hold).map(|range| range.place);
        let reader = places.find(|&place| match self.lock_at(place) {
            Lock::Range { lower, upper, .. } => lies_between(key, lower, upper),
            _ => false,
        });
        reader.map(|place| place.part)
    }

    /// A part that has changed a key in a range.
    fn changer_in(&self, index: u32, lower: Position<'_>, upper: Position<'_>) -> Option<u32> {
        let changed = &self.indexes.get(index as usize)?.changed;
        if changed.is_empty() {
            return None;
        }
        let (lowest, highest) = bounds(lower, upper);
        let first = changed.partition_point(|key| key.leading < lowest);
        let near = changed[first..].iter().take_while(|key| key.leading <= highest);
        let mut places = near.map(|key| key.place);
        let changer = places.find(|&place| match self.lock_at(place) {
            Lock::Key { key, .. } => lies_between(key, lower, upper),
            _ => false,
        });
        changer.map(|place| place.part)
    }

    fn lock_at(&self, place: Place) -> Lock<'_> {
        self.part(place.part).locks.at(place.start)
    }

    /// The number of the name of a table, a row or a key, with what is done with it.
    #[inline]
    fn name(&self, thing: &Lock<'_>, aspect: Aspect) -> u64 {
        // The last byte distinguishes kinds and aspects.
        let named = |position: u32, kind: u8| {
            u64::from(position) << 8 | u64::from(kind << 1 | aspect as u8)
        };
        let (thing, within) = match *thing {
            Lock::Table { table, .. } => (named(table, 0), 0),
            Lock::Row { table, row, .. } => (named(table, 1), u64::from(row)),
            Lock::Key { index, key, .. } => {
                let key = match <[u8; 8]>::try_from(key) {
                    Ok(packed) => u64::from_be_bytes(packed),
                    Err(_) => self.names.hash_bytes(key),
                };
                (named(index, 2), key)
            }
            Lock::Range { .. } => unreachable!("ranges have an order, and no names"),
        };
        // Odd, so that different things within one give different numbers.
        within.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ thing.wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    fn of_index(&mut self, index: u32) -> &mut IndexLocks {
        let index = index as usize;
        if self.indexes.len() <= index {
            self.indexes.resize_with(index + 1, IndexLocks::default);
        }
        &mut self.indexes[index]
    }

    fn enter(&mut self, lock: &Lock<'_>, place: Place) -> Result<()> {
        let mode = match *lock {
            Lock::Range { index, lower, upper } => {
                let (lowest, highest) = bounds(lower, upper);
                self.of_index(index).ranges.push(ReadRange { lowest, highest, place });
                return Ok(());
            }
            Lock::Key { index, key, mode } if mode != Mode::Read => {
                let leading = leading(key, 0);
                let changed = &mut self.of_index(index).changed;
                let at = changed.partition_point(|key| key.leading < leading);
                changed.insert(at, ChangedKey { leading, place });
                mode
            }
            Lock::Table { mode, .. } | Lock::Row { mode, .. } | Lock::Key { mode, .. } => mode,
        };
        for &aspect in Aspect::of(mode) {
            let entered = self.names.insert_pair(self.name(lock, aspect), place.part);
            entered.map_err(|_| no_space(self.names.committed_bytes()))?;
        }
        Ok(())
    }

    /// Removes a lock, if it was entered.
    fn leave(&mut self, lock: &Lock<'_>, place: Place) {
        let mode = match *lock {
            Lock::Range { index, .. } => {
                self.of_index(index).ranges.retain(|range| range.place != place);
                return;
            }
            Lock::Key { index, key, mode } if mode != Mode::Read => {
                let leading = leading(key, 0);
                let changed = &mut self.of_index(index).changed;
                let first = changed.partition_point(|key| key.leading < leading);
                let own = changed[first..].iter().position(|key| key.place == place);
                if let Some(own) = own {
                    changed.remove(first + own);
                }
                mode
            }
            Lock::Table { mode, .. } | Lock::Row { mode, .. } | Lock::Key { mode, .. } => mode,
        };
        for &aspect in Aspect::of(mode) {
            self.names.remove_pair(self.name(lock, aspect), place.part);
        }
    }
}

#[cold]
fn no_space(held_bytes: usize) -> Error {
    Error::NoSpace { held_bytes: held_bytes as u64 }
}
