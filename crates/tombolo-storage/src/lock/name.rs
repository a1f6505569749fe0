//! What a lock is on: a store, a page of it, a row, a gap between two entries of an index. One word, so
//! that comparing names is comparing numbers.
//!
//! ```text
//!   bits 62–63   1 store, 2 page, 3 row, 0 gap (no name at all: 0)
//!   store        bits 0–15  store
//!   page         bits 32–47 store, bits 0–31 page
//!   row          bits 0–61  location of the row: page << 16 | slot
//!   gap          bits 0–61  a hash of the index and of the entry above the gap, key and row
//! ```
//!
//! Two locked gaps have the same name with a probability of 2⁻⁶². While they do, a request for either waits for holders
//! of both; and if the entry above one is removed, the locks on the other are handed on, too, so that an insertion that
//! they exclude may enter the other gap. At a million removals a second and a thousand locked gaps that happens to one
//! removal in 146 years.

use crate::row::RowId;

/// The name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockName(u64);

const STORE: u64 = 1 << 62;
const PAGE: u64 = 2 << 62;
const ROW: u64 = 3 << 62;
const KIND: u64 = 3 << 62;
const SLOT_BITS: u32 = 16;

/// Chains of a bucket for rows, by slot, and for what is of another kind, by kind.
const ROW_CHAINS: usize = 8;
const OTHER_CHAINS: usize = 4;
pub(super) const CHAINS: usize = ROW_CHAINS + OTHER_CHAINS;

/// Those for gaps and for stores.
pub(super) const GAP_CHAIN: usize = ROW_CHAINS;
#[cfg(test)]
const STORE_CHAIN: usize = ROW_CHAINS + (STORE >> KIND.trailing_zeros()) as usize;

/// 2^64 divided by the golden ratio: multiplying by it spreads neighbours over the high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// How much a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Store,
    Page,
    Row,
    Gap,
}

impl LockName {
    /// A whole table or index.
    #[inline(always)]
    pub const fn store(store: u16) -> LockName {
        LockName(STORE | store as u64)
    }

    /// A page of a store.
    #[inline(always)]
    pub const fn page(store: u16, page: u32) -> LockName {
        LockName(PAGE | (store as u64) << 32 | page as u64)
    }

    /// A row.
    #[inline(always)]
    pub const fn row(row: RowId) -> LockName {
        debug_assert!(row.location() < STORE, "a row's location has 62 bits");
        LockName(ROW | row.location())
    }

    /// The gap in an index that is known by `end`, a hash of the entry above it; 0: behind all entries.
    #[inline(always)]
    pub const fn gap(index: u16, end: u64) -> LockName {
        // No two indexes have the same product, so their ends have names of their own.
        let word = (end ^ (index as u64).wrapping_mul(SPREAD)) & !KIND;
        LockName(if word == 0 { 1 } else { word })
    }

    /// The page a row lies on.
    #[inline(always)]
    pub const fn page_of(row: RowId) -> u32 {
        (row.location() >> SLOT_BITS) as u32
    }

    /// The name as a number, never 0.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The name that `word` stands for.
    #[inline(always)]
    pub(super) const fn from_word(word: u64) -> LockName {
        debug_assert!(word != 0);
        LockName(word)
    }

    /// The name that a number stands for that was written to disk; `None` if it stands for none.
    pub(crate) const fn from_stored(word: u64) -> Option<LockName> {
        if word == 0 { None } else { Some(LockName(word)) }
    }

    /// A hash in the high bits.
    #[inline(always)]
    pub(super) const fn hash(self) -> u64 {
        self.0.wrapping_mul(SPREAD)
    }

    /// A hash in the high bits, the same of a page and its rows.
    #[inline(always)]
    pub(super) const fn neighbours_hash(self) -> u32 {
        let slot_bits = if self.is_row() { SLOT_BITS } else { 0 };
        ((self.0 >> slot_bits) as u32).wrapping_mul((SPREAD >> 32) as u32)
    }

    /// Which of its bucket's chains has its queue.
    #[inline(always)]
    pub(super) const fn chain(self) -> usize {
        match self.is_row() {
            true => self.0 as usize % ROW_CHAINS,
            false => ROW_CHAINS + (self.0 >> KIND.trailing_zeros()) as usize % OTHER_CHAINS,
        }
    }

    #[inline(always)]
    pub(super) const fn level(self) -> Level {
        match self.0 & KIND {
            STORE => Level::Store,
            PAGE => Level::Page,
            ROW => Level::Row,
            _ => Level::Gap,
        }
    }

    /// The store's number, if it is a store's name.
    #[inline(always)]
    pub(super) const fn store_number(self) -> Option<u16> {
        if self.is_store() { Some(self.0 as u16) } else { None }
    }

    #[inline(always)]
    pub(super) const fn is_store(self) -> bool {
        self.0 & KIND == STORE
    }

    #[inline(always)]
    pub(super) const fn is_row(self) -> bool {
        self.0 & KIND == ROW
    }

    #[inline(always)]
    pub(crate) const fn is_gap(self) -> bool {
        self.0 & KIND == 0
    }

    /// Whether this is a page of `store`.
    pub(super) const fn is_page_of(self, store: u16) -> bool {
        self.0 & KIND == PAGE && (self.0 >> 32) as u16 == store
    }

    /// The page a row's name says it lies on.
    pub(super) const fn row_page(self) -> Option<u32> {
        if self.is_row() { Some((self.0 >> SLOT_BITS) as u32) } else { None }
    }
}

impl std::fmt::Display for LockName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.level() {
            Level::Store => write!(f, "store {}", self.0 as u16),
            Level::Page => write!(f, "page {} of store {}", self.0 as u32, (self.0 >> 32) as u16),
            Level::Row => write!(f, "row {}.{}", (self.0 >> SLOT_BITS) as u32, self.0 as u16),
            Level::Gap => write!(f, "gap {:016x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_know_what_they_name() {
        let row = RowId::new(7 << SLOT_BITS | 3);
        let names = [
            LockName::store(7),
            LockName::page(0, 7),
            LockName::page(7, 7),
            LockName::row(row),
            LockName::gap(7, 0x0123_4567_89AB_CDEF),
            LockName::gap(7, 0),
            LockName::gap(8, 0),
            LockName::gap(0, 0),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(names[..i].iter().all(|other| other != name));
            assert_eq!(LockName::from_word(name.word()), *name);
            assert_ne!(name.word(), 0);
        }
        assert_eq!(LockName::page_of(row), 7);
        // A page and its rows are in one bucket, whatever the store, in chains of their own.
        let neighbours = [2, 3].map(|at: usize| names[at].neighbours_hash());
        assert_eq!(neighbours[0], neighbours[1]);
        assert_eq!(names[1].neighbours_hash(), neighbours[0]);
        assert_eq!([names[2].chain(), names[3].chain()], [ROW_CHAINS + 2, 3]);
        for name in names {
            let of_kind = [name.chain() == STORE_CHAIN, name.chain() == GAP_CHAIN];
            assert_eq!(of_kind, [name.is_store(), name.is_gap()]);
            assert!(name.chain() < CHAINS);
        }
        let expected = [None, None, None, Some(7), None, None, None, None];
        assert_eq!(names.map(LockName::row_page), expected);
        for (i, name) in names.iter().enumerate() {
            assert_eq!((name.is_page_of(7), name.is_gap()), (i == 2, i > 3));
        }
        let shown = names.map(|name| name.to_string());
        let expected = [
            "store 7",
            "page 7 of store 0",
            "page 7 of store 7",
            "row 7.3",
            "gap 12a71175f2a2a97c",
            "gap 138454127b096493",
            "gap 31bbcdcbfa53e0a8",
            "gap 0000000000000001",
        ];
        assert_eq!(shown, expected);
    }
}
