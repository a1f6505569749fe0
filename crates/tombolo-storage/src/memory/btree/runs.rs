//! `Runs`: where keys without gaps lie in full leaves that were made one after the other, so that a
//! key's leaf and its place there follow from the key alone: no node above the leaves is read.
//!
//! Loading a table by ascending numbers leaves such runs behind: in TPC-C, all items, stocks and
//! customers. One run per group of neighbouring keys (those that agree above their low 12 bits) is
//! remembered in a table of one place a group. A leaf enters when an ascending insertion splits the
//! next one off it, and joins the run it goes on from. Nothing is ever taken out: what a run says is
//! a guess, verified by one comparison with the key that lies at that place. A leaf changed or freed
//! since holds another key there (`integer_node.rs`: a freed leaf holds none), and the search
//! descends from the root.
//!
//! Two groups that meet in one place double the table as long as it stays small beside the leaves;
//! beyond that, the one that is inserted last has the place.
//!
//! Not here: leaves. Allocated by the first full leaf without gaps; other trees have no table.

use super::integer_node::LEAF_KEYS;

/// Keys without gaps, `LEAF_KEYS` in each of a sequence of leaves with ascending ids.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first key.
    first: u64,
    /// The leaf that holds it.
    leaf: u32,
    keys: u32,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Runs {
    places: Vec<Run>,
    /// 64 less the binary logarithm of the number of places.
    shift: u32,
}

const GROUP_BITS: u32 = 12;
const PLACES_MIN: usize = 64;
const PLACES_MAX: usize = 1 << 16;
/// Leaves whose keys are not below this are not remembered: the first key of a freed leaf looks like
/// one of them (a list's link in the padding's low half).
const KEYS_END: u64 = u64::MAX - u32::MAX as u64 - LEAF_KEYS as u64;

const NOTHING: Run = Run { first: 0, leaf: 0, keys: 0 };

impl Run {
    /// How many of its keys belong to `group`.
    fn keys_in(&self, group: u64) -> u32 {
        let first = self.first.max(group << GROUP_BITS);
        let end = (self.first + u64::from(self.keys)).min((group + 1) << GROUP_BITS);
        end.saturating_sub(first) as u32
    }

    fn groups(&self) -> std::ops::RangeInclusive<u64> {
        group_of(self.first)..=group_of(self.first + u64::from(self.keys) - 1)
    }
}

impl Runs {
    /// The leaf in which `key` may lie, and its place there. The leaf existed once.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Option<(u32, usize)> {
        let run = self.places.get(self.place(group_of(key)))?;
        let offset = key.wrapping_sub(run.first);
        if offset >= u64::from(run.keys) {
            return None;
        }
        let offset = offset as u32;
        Some((run.leaf + offset / LEAF_KEYS as u32, (offset % LEAF_KEYS as u32) as usize))
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Remembers a full leaf of keys without gaps, the first of them `first`, in a tree of `leaves`.
    pub(super) fn remember(&mut self, first: u64, leaf: u32, leaves: usize) {
        let new = Run { first, leaf, keys: LEAF_KEYS as u32 };
        if first >= KEYS_END {
            return;
        }
        if self.places.is_empty() && !self.resize(PLACES_MIN) {
            return;
        }
        // One, or the two that meet in this leaf.
        for group in new.groups() {
            while !self.join(group, new) {
                if !self.double(leaves) {
                    let place = self.place(group);
                    self.places[place] = new;
                }
            }
        }
    }

    /// Whether `new` is now part of the run at the place of `group`; not where that is another
    /// group's.
    fn join(&mut self, group: u64, new: Run) -> bool {
        let place = self.place(group);
        let run = &mut self.places[place];
        let offset = new.first.wrapping_sub(run.first);
        let leaf = u64::from(run.leaf) + offset / LEAF_KEYS as u64;
        let fits = offset.is_multiple_of(LEAF_KEYS as u64) && leaf == u64::from(new.leaf);
        match offset {
            _ if fits && offset < u64::from(run.keys) => true,
            _ if fits && offset == u64::from(run.keys) && run.keys > 0 => {
                run.keys += LEAF_KEYS as u32;
                true
            }
            _ if run.keys == 0 || run.keys_in(group) > 0 => {
                *run = new;
                true
            }
            _ => false,
        }
    }

    /// Doubles the table, if it is small beside the leaves.
    fn double(&mut self, leaves: usize) -> bool {
        let places = self.places.len() * 2;
        places <= PLACES_MAX && places <= leaves && self.resize(places)
    }

    fn resize(&mut self, places: usize) -> bool {
        let mut new = Vec::new();
        // Without memory for it the tree works as well, only slower.
        if new.try_reserve_exact(places).is_err() {
            return false;
        }
        new.resize(places, NOTHING);
        let old = std::mem::replace(&mut self.places, new);
        self.shift = 64 - places.ilog2();
        for run in old.into_iter().filter(|run| run.keys > 0) {
            // Not for the few keys of a leaf that reaches into the next group.
            let most = group_of(run.first + u64::from(run.keys / 2));
            let is_own = |group: &u64| *group == most || run.keys_in(*group) >= LEAF_KEYS as u32;
            for group in run.groups().filter(is_own) {
                let place = self.place(group);
                if run.keys > self.places[place].keys {
                    self.places[place] = run;
                }
            }
        }
        true
    }

    pub(super) fn committed_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Run>()
    }

    /// Multiplicative hashing.
    #[inline(always)]
    fn place(&self, group: u64) -> usize {
        (group.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (self.shift % 64)) as usize
    }
}

#[inline(always)]
fn group_of(key: u64) -> u64 {
    key >> GROUP_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: u64 = LEAF_KEYS as u64;

    fn remember(runs: &mut Runs, first: u64, keys: u64, leaf: u32) {
        for i in 0..keys / LEAF {
            runs.remember(first + i * LEAF, leaf + i as u32, 1 << 20);
        }
    }

    #[test]
    fn a_run_grows_leaf_by_leaf_and_across_groups() {
        let mut runs = Runs::default();
        assert_eq!(runs.find(0), None);
        assert!(runs.is_empty() && runs.committed_bytes() == 0);
        remember(&mut runs, 3, 40_000, 11);
        for key in 3..40_003 {
            let place = ((11 + (key - 3) / LEAF) as u32, ((key - 3) % LEAF) as usize);
            assert_eq!(runs.find(key), Some(place));
        }
        assert_eq!((runs.find(2), runs.find(40_003)), (None, None));
        let before = runs.places.clone();
        remember(&mut runs, 3, 2_000, 11);
        assert_eq!(runs.places.len(), before.len());
        assert!(runs.places.iter().zip(&before).all(|(a, b)| a.keys == b.keys), "known already");
    }

    #[test]
    fn a_new_run_of_a_group_takes_the_place_of_the_old() {
        let mut runs = Runs::default();
        remember(&mut runs, 0, 1_000, 5);
        // The leaf is another one, and so is the offset.
        remember(&mut runs, 1_000, 20, 99);
        assert_eq!((runs.find(0), runs.find(1_000)), (None, Some((99, 0))));
        remember(&mut runs, 2_003, 20, 100);
        assert_eq!((runs.find(1_000), runs.find(2_004)), (None, Some((100, 1))));
    }

    #[test]
    fn groups_that_meet_double_the_table() {
        let mut runs = Runs::default();
        for group in 0..1_000u64 {
            remember(&mut runs, group << 13, 3_000, group as u32 * 200);
        }
        let found = |runs: &Runs, group: u64| {
            runs.find((group << 13) + 2_999) == Some((group as u32 * 200 + 149, 19))
        };
        assert!((0..1_000).all(|group| found(&runs, group)));
        assert!(runs.places.len() < 16_000, "{} places", runs.places.len());
        // A table that may not grow keeps the last.
        let mut small = Runs::default();
        for group in 0..1_000u64 {
            small.remember(group << 13, group as u32, 100);
        }
        assert_eq!(small.places.len(), PLACES_MIN);
        assert_eq!(small.find(999 << 13), Some((999, 0)));
    }

    #[test]
    fn the_highest_keys_are_not_remembered() {
        let mut runs = Runs::default();
        remember(&mut runs, KEYS_END - 40, 100, 0);
        assert_eq!(runs.find(KEYS_END - 21), Some((0, 19)));
        assert!(runs.find(KEYS_END + 20).is_none() && runs.find(u64::MAX).is_none());
    }
}
