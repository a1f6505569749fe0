//! `HashTable`: a hash index from 64-bit keys to 32-bit values, for where only equality is asked.
//!
//! Linear hashing over buckets of one cache line: five keys, five values, the id of an overflow
//! bucket. The table grows by splitting one bucket after every few insertions, so there is no
//! moment at which everything is hashed again, nor two copies of the table: no insertion stalls. A
//! look-up reads 1.1 to 1.2 lines on average.
//!
//! Two ways to use it, not to be mixed in one table. *Unique*: `insert`, `get`, `remove`.
//! *Candidates*: the key is the hash of a longer key (see [`HashTable::hash_bytes`]) and may occur several
//! times; `insert_pair`, `candidates`, `remove_pair`; the caller compares the rows. Many equal keys
//! make one long chain, so this is for hashes of unique keys, not for columns with few values.
//!
//! Each table multiplies by a number of its own, drawn when it is made: keys chosen for one chain in
//! another table or process are spread like others here. So no bucket's number may be stored, and
//! [`HashTable::hash_bytes`] means nothing to another table.
//!
//! Not here: order. The table does not shrink; the buckets that a deletion empties fill again.
//!
//! Invariants: those `check` walks: every entry is in the chain of its bucket, chains have no gaps
//! and no empty overflow bucket, and every overflow bucket is reached once.
//!
//! Implements the "hash tables may win" of LG-59 and the hash indexes of LG-S11.

use super::btree::nodes::{Nodes, Plain};
use super::btree::{ABSENT, InsertError, LOCK_STEP};
use super::budget::Allowance;
use super::region::RegionError;
use super::slab::NO_SLOT;

/// Entries of a bucket.
const ENTRIES: usize = 5;
/// A bucket is split when there are more entries than this many per three buckets: two thirds full.
const ENTRIES_PER_THREE_BUCKETS: usize = 10;

/// One cache line: entries without gaps from the front, the rest marked by the value [`ABSENT`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    keys: [u64; ENTRIES],
    values: [u32; ENTRIES],
    /// The overflow bucket that continues the chain, or [`NO_SLOT`].
    next: u32,
}

// SAFETY: integers only; the size is 64.
unsafe impl Plain for Bucket {}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket { keys: [0; ENTRIES], values: [ABSENT; ENTRIES], next: NO_SLOT };

impl Bucket {
    /// One bit for each place whose key is `key`, whether or not it is in use.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    #[inline(always)]
    fn matches(&self, key: u64) -> u32 {
        use std::arch::x86_64::{
            _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
            _mm256_set1_epi64x,
        };
        // SAFETY: AVX2 is available statically, and the load reads the first four of five keys.
        let four = unsafe {
            let keys = _mm256_loadu_si256(self.keys.as_ptr().cast());
            let equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(key as i64));
            _mm256_movemask_pd(_mm256_castsi256_pd(equal))
        };
        four as u32 | u32::from(self.keys[4] == key) << 4
    }

    /// One bit for each place whose key is `key`, whether or not it is in use.
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    #[inline(always)]
    fn matches(&self, key: u64) -> u32 {
        let bits = self.keys.iter().enumerate().map(|(at, &k)| u32::from(k == key) << at);
        bits.fold(0, |mask, bit| mask | bit)
    }

    /// The first place in use whose key is `key`.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<usize> {
        let at = self.matches(key).trailing_zeros() as usize;
        // Places in use come first, so if the first match is not in use, none is.
        (at < ENTRIES && self.values[at] != ABSENT).then_some(at)
    }

    fn len(&self) -> usize {
        self.values.iter().position(|&value| value == ABSENT).unwrap_or(ENTRIES)
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let entries = self.keys.iter().copied().zip(self.values);
        entries.take_while(|&(_, value)| value != ABSENT)
    }
}

/// Which bucket of a chain: the one the key hashes to, or one behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Home(u32),
    Overflow(u32),
}

/// A hash index. See the module's head.
#[derive(Debug)]
pub struct HashTable {
    /// Bucket `i` is node `i`: they are allocated in turn and never freed.
    home: Nodes<Bucket>,
    overflow: Nodes<Bucket>,
    buckets: u32,
    /// One less than the smallest power of two that is at least `buckets`.
    mask: u32,
    /// What keys are multiplied by: odd, and unknown outside.
    multiplier: u64,
    len: usize,
}

impl HashTable {
    /// An empty table whose buckets, and whose overflow buckets, may each take so much memory, and where
    /// keys lie follows from `seed`.
    ///
    /// # Errors
    /// When there is no memory for the first bucket or no address space.
    pub fn new(allowance: impl Into<Allowance>, seed: u64) -> Result<HashTable, RegionError> {
        let allowance = allowance.into();
        let mut home: Nodes<Bucket> = Nodes::new(allowance.clone())?;
        let first = home.allocate()?;
        *home.get_mut(first) = EMPTY;
        let (overflow, multiplier) = (Nodes::new(allowance)?, multiplier(seed));
        Ok(HashTable { home, overflow, buckets: 1, mask: 0, multiplier, len: 0 })
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory taken from the system.
    pub fn committed_bytes(&self) -> usize {
        self.home.committed_bytes() + self.overflow.committed_bytes()
    }

    /// Lets the table take more memory than its limit, or no longer (see `Region::lift_limit`).
    pub fn lift_limit(&mut self, is_lifted: bool) {
        self.home.lift_limit(is_lifted);
        self.overflow.lift_limit(is_lifted);
    }

    /// Takes the memory for `more` further entries beforehand.
    ///
    /// # Errors
    /// When it is not to be had; the table is unchanged.
    pub fn reserve(&mut self, more: usize) -> Result<(), RegionError> {
        let buckets = (self.len + more) * 3 / ENTRIES_PER_THREE_BUCKETS + 1;
        let count = |buckets: usize| u32::try_from(buckets).unwrap_or(u32::MAX);
        self.home.reserve(count(buckets.saturating_sub(self.home.len())))?;
        self.overflow.reserve(count(more / 50))
    }

    /// Makes an empty table as large as it is to be with so many entries, so that no bucket is split
    /// on the way there.
    ///
    /// # Errors
    /// No memory; the table is smaller then, and whole.
    ///
    /// # Panics
    /// When there is an entry.
    pub fn grow_to(&mut self, entries: usize) -> Result<(), RegionError> {
        assert!(self.is_empty(), "entries lie where a smaller table has them");
        self.reserve(entries)?;
        let buckets = (entries * 3).div_ceil(ENTRIES_PER_THREE_BUCKETS);
        while (self.buckets as usize) < buckets {
            let id = self.home.allocate()?;
            assert_eq!(id, self.buckets, "home buckets are allocated in turn");
            *self.home.get_mut(id) = EMPTY;
            self.buckets += 1;
            self.mask = self.buckets.next_power_of_two() - 1;
        }
        Ok(())
    }

    /// The bucket that `key` belongs to.
    #[inline(always)]
    fn place(&self, key: u64) -> u32 {
        let at = fold(key, self.multiplier) as u32 & self.mask;
        // A bucket that has not been split yet answers for its other half.
        if at < self.buckets { at } else { at & (self.mask >> 1) }
    }

    /// A 64-bit hash of a byte string, by folded multiplication of its 8-byte words.
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        hash_bytes(bytes, self.multiplier)
    }

    #[inline(always)]
    fn bucket(&self, at: At) -> &Bucket {
        match at {
            At::Home(id) => self.home.get(id),
            At::Overflow(id) => self.overflow.get(id),
        }
    }

    #[inline(always)]
    fn bucket_mut(&mut self, at: At) -> &mut Bucket {
        match at {
            At::Home(id) => self.home.get_mut(id),
            At::Overflow(id) => self.overflow.get_mut(id),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        let mut bucket = self.home.get(self.place(key));
        loop {
            if let Some(at) = bucket.find(key) {
                return Some(bucket.values[at]);
            }
            if bucket.next == NO_SLOT {
                return None;
            }
            bucket = self.overflow.get(bucket.next);
        }
    }

    /// The values of several keys, [`ABSENT`] for those that are not there; the buckets of
    /// [`LOCK_STEP`] keys are asked for together.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn get_many(&self, keys: &[u64], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len());
        for (keys, found) in keys.chunks(LOCK_STEP).zip(found.chunks_mut(LOCK_STEP)) {
            for &key in keys {
                self.prefetch(key);
            }
            for (&key, found) in keys.iter().zip(found) {
                *found = self.get(key).unwrap_or(ABSENT);
            }
        }
    }

    /// Asks the processor for the bucket of a key.
    #[inline(always)]
    pub fn prefetch(&self, key: u64) {
        self.home.prefetch(self.place(key));
    }

    /// The values of all entries with this key.
    #[inline]
    pub fn candidates(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let chain = self.chain(At::Home(self.place(key)));
        chain
            .flat_map(|(_, bucket)| bucket.entries())
            .filter(move |&(k, _)| k == key)
            .map(|(_, v)| v)
    }

    /// All entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let chains = (0..self.buckets).flat_map(|id| self.chain(At::Home(id)));
        chains.flat_map(|(_, bucket)| bucket.entries())
    }

    fn chain(&self, first: At) -> impl Iterator<Item = (At, &Bucket)> + '_ {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let at = next?;
            let bucket = self.bucket(at);
            next = (bucket.next != NO_SLOT).then_some(At::Overflow(bucket.next));
            Some((at, bucket))
        })
    }

    /// Inserts a key that is not there yet. `value` must not be [`ABSENT`].
    ///
    /// # Errors
    /// The key is there already, or no memory; the table is unchanged.
    pub fn insert(&mut self, key: u64, value: u32) -> Result<(), InsertError> {
        match self.get(key) {
            Some(existing) => Err(InsertError::Duplicate(existing)),
            None => self.insert_pair(key, value),
        }
    }

    /// Inserts an entry, whether or not there is one with the same key.
    ///
    /// # Errors
    /// No memory; the table is unchanged.
    pub fn insert_pair(&mut self, key: u64, value: u32) -> Result<(), InsertError> {
        assert_ne!(value, ABSENT, "this value marks places not in use");
        self.overflow.reserve(1)?;
        let end = self.end(At::Home(self.place(key)));
        self.push(end, key, value)?;
        self.len += 1;
        if self.len * 3 > self.buckets as usize * ENTRIES_PER_THREE_BUCKETS {
            self.split_next();
        }
        Ok(())
    }

    /// The last bucket of a chain.
    fn end(&self, first: At) -> At {
        self.chain(first).last().map_or(first, |(at, _)| at)
    }

    /// Adds an entry to a chain that ends with bucket `end`, and returns where the chain ends now.
    fn push(&mut self, end: At, key: u64, value: u32) -> Result<At, RegionError> {
        let bucket = self.bucket_mut(end);
        let len = bucket.len();
        if len < ENTRIES {
            (bucket.keys[len], bucket.values[len]) = (key, value);
            return Ok(end);
        }
        let next = self.overflow.allocate()?;
        let bucket = self.overflow.get_mut(next);
        *bucket = EMPTY;
        (bucket.keys[0], bucket.values[0]) = (key, value);
        self.bucket_mut(end).next = next;
        Ok(At::Overflow(next))
    }

    /// Removes the entry of a key and returns its value.
    pub fn remove(&mut self, key: u64) -> Option<u32> {
        self.remove_where(key, |_| true)
    }

    /// Removes the entry with this key and this value; says whether there was one.
    pub fn remove_pair(&mut self, key: u64, value: u32) -> bool {
        self.remove_where(key, |candidate| candidate == value).is_some()
    }

    fn remove_where(&mut self, key: u64, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let home = At::Home(self.place(key));
        let (at, place, value) = self.chain(home).find_map(|(at, bucket)| {
            let place = bucket.entries().position(|(k, value)| k == key && wanted(value))?;
            Some((at, place, bucket.values[place]))
        })?;
        // The last entry of the chain closes the gap.
        let end = self.end(at);
        let last_bucket = self.bucket_mut(end);
        let last = last_bucket.len() - 1;
        let entry = (last_bucket.keys[last], last_bucket.values[last]);
        let bucket = self.bucket_mut(at);
        (bucket.keys[place], bucket.values[place]) = entry;
        self.bucket_mut(end).values[last] = ABSENT;
        self.drop_if_empty(home, end);
        self.len -= 1;
        Some(value)
    }

    /// Takes the bucket at the end of a chain out of it if it is an overflow bucket without
    /// entries.
    fn drop_if_empty(&mut self, home: At, end: At) {
        let At::Overflow(id) = end else { return };
        if self.overflow.get(id).values[0] != ABSENT {
            return;
        }
        let before = self.chain(home).find(|(_, bucket)| bucket.next == id).map(|(at, _)| at);
        assert!(before.is_some(), "overflow bucket {id} is in no chain");
        if let Some(before) = before {
            self.bucket_mut(before).next = NO_SLOT;
        }
        self.overflow.free(id);
    }

    /// Splits the bucket whose turn it is. Without the memory for it the table stays as it is and
    /// is only slower.
    #[inline(never)]
    fn split_next(&mut self) {
        let mask = (self.buckets + 1).next_power_of_two() - 1;
        let (old, new) = (self.buckets & (mask >> 1), self.buckets);
        let chain_len = self.chain(At::Home(old)).count() as u32;
        if self.home.reserve(1).and(self.overflow.reserve(chain_len)).is_err() {
            return;
        }
        let Ok(id) = self.home.allocate() else { return };
        assert_eq!(id, new, "home buckets are allocated in turn");
        *self.home.get_mut(new) = EMPTY;
        let mut rest = *self.home.get(old);
        *self.home.get_mut(old) = EMPTY;
        (self.buckets, self.mask) = (new + 1, mask);
        let mut ends = [At::Home(old), At::Home(new)];
        loop {
            // Freed before its entries are pushed, so that at most as many overflow buckets are in
            // use as before.
            let next = rest.next;
            let following = (next != NO_SLOT).then(|| *self.overflow.get(next));
            if following.is_some() {
                self.overflow.free(next);
            }
            for (key, value) in rest.entries() {
                let end = &mut ends[usize::from(self.place(key) == new)];
                let pushed = self.push(*end, key, value);
                assert!(pushed.is_ok(), "the overflow buckets of a split are reserved");
                *end = pushed.unwrap_or(*end);
            }
            match following {
                Some(bucket) => rest = bucket,
                None => return,
            }
        }
    }

    /// Walks the whole table and its slabs.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let (mut entries, mut overflow) = (0, 0);
        for id in 0..self.buckets {
            for (at, bucket) in self.chain(At::Home(id)) {
                let len = bucket.len();
                if bucket.values[len..].iter().any(|&value| value != ABSENT) {
                    return Err(format!("{at:?} has a gap"));
                }
                if bucket.next != NO_SLOT && len < ENTRIES || at != At::Home(id) && len == 0 {
                    return Err(format!("{at:?} has {len} entries in the middle of its chain"));
                }
                if let Some((key, _)) = bucket.entries().find(|&(key, _)| self.place(key) != id) {
                    return Err(format!("key {key} does not belong in the chain of bucket {id}"));
                }
                entries += len;
                overflow += usize::from(at != At::Home(id));
                if overflow > self.overflow.len() {
                    return Err(format!("the chain of bucket {id} has a cycle"));
                }
            }
        }
        if (entries, overflow) != (self.len, self.overflow.len()) {
            return Err(format!(
                "{entries} entries and {overflow} overflow buckets reached, {} and {} counted",
                self.len,
                self.overflow.len()
            ));
        }
        if self.home.len() != self.buckets as usize {
            return Err(format!("{} buckets of {}", self.buckets, self.home.len()));
        }
        self.home.check()?;
        self.overflow.check()
    }
}

/// What a table of this seed multiplies by: odd, with bits set everywhere.
fn multiplier(seed: u64) -> u64 {
    let mixed = fold(fold(seed ^ 0x9E37_79B9_7F4A_7C15, MULTIPLIER) ^ MULTIPLIER, MULTIPLIER);
    mixed | 1 << 63 | 1
}

const MULTIPLIER: u64 = 0xA076_1D64_78BD_642F;

/// Both halves of a product, together: the upper half alone follows arithmetic sequences too closely, and
/// the lower half forgets the key's upper bits.
#[inline(always)]
fn fold(word: u64, multiplier: u64) -> u64 {
    let product = u128::from(word) * u128::from(multiplier);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn hash_bytes(bytes: &[u8], multiplier: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let next = |hash, word| fold(hash ^ u64::from_le_bytes(word), multiplier);
    let start = fold(0x9E37_79B9_7F4A_7C15 ^ bytes.len() as u64, multiplier);
    let hash = words.iter().fold(start, |hash, &word| next(hash, word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(next(hash, last) ^ MULTIPLIER, multiplier)
}

#[cfg(test)]
mod tests {
    use super::super::region::RESERVATION_BYTES;
    use super::super::test_random::Random;
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn table() -> HashTable {
        HashTable::new(RESERVATION_BYTES, 1).unwrap()
    }

    #[test]
    fn unique_keys() {
        for (seed, space) in [(1, 40), (2, 5_000), (3, u64::MAX)] {
            let (mut random, mut table) = (Random::new(seed), table());
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for step in 0..30_000u32 {
                let key = random.below(space);
                if random.below(100) < if step % 10_000 < 6_000 { 75 } else { 20 } {
                    let expected = match model.get(&key) {
                        Some(&existing) => Err(InsertError::Duplicate(existing)),
                        None => Ok(()),
                    };
                    assert_eq!(table.insert(key, step), expected);
                    model.entry(key).or_insert(step);
                } else {
                    let near = model.range(key..).next().map_or(key, |(&key, _)| key);
                    assert_eq!(table.remove(near), model.remove(&near));
                }
                if step % 1_000 == 0 {
                    table.check().unwrap();
                    let mut entries: Vec<(u64, u32)> = table.entries().collect();
                    entries.sort_unstable();
                    assert!(entries.into_iter().eq(model.iter().map(|(&k, &v)| (k, v))));
                    let keys: Vec<u64> = (0..40).map(|_| random.below(space)).collect();
                    let keys: Vec<u64> =
                        keys.into_iter().chain(model.keys().copied().take(30)).collect();
                    let mut found = vec![0; keys.len()];
                    table.get_many(&keys, &mut found);
                    for (key, found) in keys.iter().zip(found) {
                        assert_eq!((found != ABSENT).then_some(found), model.get(key).copied());
                    }
                }
            }
            for (&key, &value) in &model {
                assert_eq!(table.get(key), Some(value));
                assert_eq!(table.remove(key), Some(value));
            }
            table.check().unwrap();
            assert!(table.is_empty() && table.overflow.len() == 0);
        }
    }

    /// A table that was made for its entries is the one that grew to them.
    #[test]
    fn a_table_may_be_made_as_large_as_it_will_be() {
        for entries in [0, 1, 3, 4, 100, 3_333, 10_000] {
            let (mut grown, mut made) = (table(), table());
            made.grow_to(entries as usize).unwrap();
            for n in 0..entries {
                let key = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                grown.insert(key, n).unwrap();
                made.insert(key, n).unwrap();
                assert_eq!(made.insert(key, n), Err(InsertError::Duplicate(n)));
            }
            made.check().unwrap();
            assert_eq!(made.buckets, grown.buckets, "{entries} entries");
            let sorted = |table: &HashTable| table.entries().collect::<BTreeSet<_>>();
            assert_eq!(sorted(&made), sorted(&grown));
            made.insert(1, 1).unwrap();
            made.check().unwrap();
        }
    }

    #[test]
    fn candidates_are_all_entries_of_a_key() {
        for (seed, space) in [(5, 1), (6, 30), (7, 4_000)] {
            let (mut random, mut table) = (Random::new(seed), table());
            let mut model: BTreeSet<(u64, u32)> = BTreeSet::new();
            for step in 0..8_000u32 {
                let key = random.below(space);
                if random.below(100) < if step < 4_000 { 80 } else { 30 } {
                    table.insert_pair(key, step).unwrap();
                    model.insert((key, step));
                } else {
                    let near = (key, random.below(u64::from(step)) as u32);
                    let pair = model.range(near..).next().copied().unwrap_or(near);
                    assert_eq!(table.remove_pair(pair.0, pair.1), model.remove(&pair));
                }
                if step % 400 == 0 {
                    table.check().unwrap();
                    let mut values: Vec<u32> = table.candidates(key).collect();
                    values.sort_unstable();
                    let expected = model.range((key, 0)..=(key, u32::MAX)).map(|&(_, value)| value);
                    assert!(values.into_iter().eq(expected));
                }
            }
            assert_eq!(table.len(), model.len());
        }
    }

    #[test]
    fn chains_stay_short_for_regular_keys() {
        let strides = [1u64, 256, 1 << 32, 10_007, (1 << 40) + 1];
        for (stride, seed) in strides.into_iter().flat_map(|at| (0..12).map(move |seed| (at, seed)))
        {
            let mut table = HashTable::new(RESERVATION_BYTES, seed).unwrap();
            for i in 0..20_000 {
                table.insert(i * stride, i as u32).unwrap();
            }
            table.check().unwrap();
            let overflowing = table.overflow.len() as f64 / f64::from(table.buckets);
            assert!(overflowing < 0.4, "stride {stride}, seed {seed}: {overflowing} a bucket");
        }
    }

    /// Keys that one table has in one chain are spread over another one.
    #[test]
    fn chosen_keys_are_chosen_for_one_table() {
        let longest = |table: &HashTable| {
            (0..table.buckets).map(|id| table.chain(At::Home(id)).count()).max().unwrap()
        };
        let made = |seed| HashTable::new(RESERVATION_BYTES, seed).unwrap();
        let (mut known, mut other) = (made(1), made(2));
        let place = |key| fold(key, known.multiplier) as u32 & 0xFFFF;
        let chosen: Vec<u64> = (0..).filter(|&key| place(key) == 7).take(400).collect();
        for &key in &chosen {
            known.insert(key, 1).unwrap();
            other.insert(key, 1).unwrap();
        }
        assert_eq!(longest(&known), 400 / ENTRIES);
        assert!(longest(&other) < 6, "{} buckets in a chain", longest(&other));
        let text = b"the same bytes in both tables";
        assert_ne!(known.hash_bytes(text), other.hash_bytes(text));
    }

    #[test]
    fn without_memory_the_table_stays_whole() {
        let mut table = HashTable::new(64 << 10, 1).unwrap();
        let mut count = 0;
        let error = loop {
            match table.insert(count, 1) {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, InsertError::NoSpace(_)));
        table.check().unwrap();
        assert!(table.len() as u64 == count && (0..count).all(|key| table.get(key) == Some(1)));
    }

    #[test]
    fn hash_bytes_tells_strings_apart() {
        let mut seen = BTreeSet::new();
        for len in 0..40 {
            for bit in 0..len * 8 + 1 {
                let mut bytes = vec![0u8; len];
                if bit > 0 {
                    bytes[(bit - 1) / 8] = 1 << ((bit - 1) % 8);
                }
                assert!(seen.insert(hash_bytes(&bytes, multiplier(1))), "{len} bytes, bit {bit}");
            }
        }
    }
}
