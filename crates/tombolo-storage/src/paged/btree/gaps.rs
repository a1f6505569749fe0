//! Which gap between entries it is that a search found nothing in, an insertion divides, or a removal makes
//! larger: the one below the next entry, which may lie in the next leaf.
//!
//! While a caller decides on a gap, two leaves are held: the one that an entry of the gap would be in, and that
//! of the entry above. Leaves without entries between the two are passed over only while `steps` is held, and an
//! entry is put into such a leaf only then, too, where gaps may be locked: so none comes in between meanwhile.
//!
//! Not here: locks.

use super::BTree;
use super::keys::KeyFormat;
use super::node::Node;
use crate::paged::page::PageId;
use crate::paged::pool::{PageAccess, ReadPage, Result};
use crate::row::RowId;

/// Where a gap ends, which is what it is known by: a hash of the entry above it, key and row. A row alone
/// would not do: while it moves it has two entries.
///
/// Two of `n` entries have the same hash with a probability of `n`² / 2⁶⁵. It is in the log (prepared
/// transactions), so it is a part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapEnd(u64);

impl GapEnd {
    /// That of the gap behind all entries.
    pub const INDEX_END: Self = Self(0);

    /// That of the gap below the entry of a stored key and a row.
    #[inline]
    pub fn below(key: &[u8], row: RowId) -> Self {
        let (words, rest) = key.as_chunks();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The last word is padded with zeros; the length distinguishes them from zeros of the key.
        let start = mixed(row.location().wrapping_add((key.len() as u64) << 48));
        let words = words.iter().chain(std::iter::once(&last));
        Self(words.fold(start, |hash, word| mixed(hash ^ u64::from_le_bytes(*word))))
    }

    /// The hash.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }
}

/// Each number has another one (the finaliser of MurmurHash3), so that words which differ never meet at once.
#[inline(always)]
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let word = (word ^ word >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ word >> 33
}

/// What a session does about gaps, each known by where it ends.
/// All runs under the latches of leaves: it may try locks, not wait, nor reach pages.
pub trait Gaps {
    /// Whether gaps are locked at all. If not, nothing else is asked.
    const LOCKED: bool;

    /// Whether any gap may be locked.
    fn in_use(&self) -> bool {
        false
    }

    /// From now on gaps may be locked.
    fn announce(&self) {}

    /// A search saw that nothing of what it looked for is in the gap.
    fn read(&self, _gap: impl FnOnce() -> GapEnd) {}

    /// A search comes from above: it reads the gap as soon as it has seen the entry below, or none.
    fn expect(&self, _gap: impl FnOnce() -> GapEnd) {}

    /// It has: it reads the gap it expected to read, if any.
    fn read_expected(&self) {}

    /// Whether an entry may come into the gap, which it divides: `lower` is the part below it.
    fn enter(&self, _gap: GapEnd, _lower: GapEnd) -> bool {
        true
    }

    /// Whether others have to know if the gap vanishes.
    fn is_locked(&self, _gap: GapEnd) -> bool {
        false
    }

    /// The entry at the end of `gap` has gone, and the gap `above` reaches as far down as that did.
    fn hand_on(&self, _gap: GapEnd, _above: GapEnd) {}
}

/// For searches that lock nothing.
impl Gaps for () {
    const LOCKED: bool = false;
}

/// What is to the right of a leaf.
pub(super) enum Beyond<G> {
    /// The next leaf that has entries.
    Leaf(G),
    /// None.
    End,
    /// That is to be asked while `steps` is held.
    Unsure,
}

/// The gap at a place in a leaf, while it is held.
pub(super) struct Gap<G> {
    pub(super) end: GapEnd,
    /// The leaf of the entry above, if it is another one.
    pub(super) right: Option<G>,
}

impl<K: KeyFormat> Node<'_, K> {
    /// The gap below the entry at `at` of a leaf.
    #[inline]
    pub(super) fn gap_below(&self, at: usize) -> GapEnd {
        GapEnd::below(self.key(at), RowId::new(self.row(at)))
    }
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// The next leaf with entries, from `next` on. The caller holds the leaf before `next`, and says whether it
    /// may pass over leaves without entries.
    #[inline]
    pub(super) fn beyond<'a>(
        &self,
        access: &'a P,
        mut next: Option<PageId>,
        passes: bool,
    ) -> Result<Beyond<P::Shared<'a>>> {
        let mut passed = None;
        while let Some(id) = next {
            let leaf = access.fix_shared(id)?;
            drop(passed.take());
            let node = self.node(leaf.page());
            self.verify_level(node, id, 0)?;
            if node.count() > 0 {
                return Ok(Beyond::Leaf(leaf));
            }
            if !passes {
                return Ok(Beyond::Unsure);
            }
            next = leaf.page().next();
            passed = Some(leaf);
        }
        Ok(Beyond::End)
    }

    /// The gap below the entry at `at` of a leaf, which may be the next leaf's first; `None` where `steps` has
    /// to be held to know it.
    pub(super) fn gap_at<'a>(
        &self,
        access: &'a P,
        leaf: &impl ReadPage<Size = P::Size>,
        at: usize,
        has_steps: bool,
    ) -> Result<Option<Gap<P::Shared<'a>>>> {
        let node = self.node(leaf.page());
        if at < node.count() {
            return Ok(Some(Gap { end: node.gap_below(at), right: None }));
        }
        Ok(match self.beyond(access, leaf.page().next(), has_steps)? {
            Beyond::Leaf(right) => {
                let end = self.node(right.page()).gap_below(0);
                Some(Gap { end, right: Some(right) })
            }
            Beyond::End => Some(Gap { end: GapEnd::INDEX_END, right: None }),
            Beyond::Unsure => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_of_an_entry_tells_its_gap_from_others() {
        let mut ends = BTreeSet::from([GapEnd::INDEX_END.word()]);
        let mut add = |key: &[u8], row| {
            let end = GapEnd::below(key, RowId::new(row));
            assert!(ends.insert(end.word()), "{key:?} of row {row} has the gap of another");
        };
        for length in 0..40 {
            for row in 1..100 {
                add(&vec![0; length], row << 16);
            }
            for (at, bit) in (0..length).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut key = vec![0; length];
                key[at] = 1 << bit;
                add(&key, 0x1_0000_0000);
            }
        }
        for number in 0..100_000_u32 {
            add(&number.to_be_bytes(), 1);
        }
    }

    /// Prepared transactions have it in the log.
    #[test]
    fn it_is_the_same_in_every_build() {
        let row = RowId::new(7 << 16 | 3);
        let golden = [&b""[..], b"seven", b"eight by", b"a key of three words"];
        let golden = golden.map(|key| GapEnd::below(key, row).word());
        let expected = [
            0xFCCA_4CB9_A670_F224,
            0x75E7_23AC_65D7_8109,
            0xA4AA_5607_0E0C_3360,
            0x6C30_CF74_AE4C_AC9F,
        ];
        assert_eq!(golden, expected);
    }
}
