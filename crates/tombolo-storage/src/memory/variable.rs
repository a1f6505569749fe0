//! `SizeClasses`: byte strings of up to 1 MB in slabs of geometrically growing slot sizes, for
//! columns that do not lie in the row.
//!
//! The slot sizes are 32, 48, 64, 96, 128, … 1 MB: two to a doubling, so a string wastes a quarter
//! of its slot on average. A [`Handle`] says class, length and slot in 64 bits; the slot holds
//! nothing but the string. The empty string takes no slot. A class's slab is made when its first
//! string comes.
//!
//! Not here: which row owns a handle. A string never changes: an update puts the new one, swaps the
//! handle and frees the old one. A handle that was not made by this structure, or was freed, reads
//! the wrong bytes or panics, but touches nothing outside.
//!
//! Implements the "variable part lives in a slot of its own" of the memory store's rows.

use super::budget::Allowance;
use super::region::RegionError;
use super::slab::Slab;
use crate::types::TEXT_BYTES_MAX;

/// The longest string that can be put.
pub const VALUE_BYTES_MAX: usize = TEXT_BYTES_MAX;

/// The size of a handle where it is stored.
pub const HANDLE_BYTES: usize = size_of::<u64>();

const SLOT_BYTES_MIN_LOG2: u32 = 5;
pub(super) const CLASSES: usize = class_of(VALUE_BYTES_MAX) + 1;

/// Where a string lies: bits 0–31 slot, 32–52 length, 53–57 class. Zero is the empty string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

const LEN_SHIFT: u32 = 32;
const CLASS_SHIFT: u32 = 53;
const LEN_MASK: u64 = (1 << (CLASS_SHIFT - LEN_SHIFT)) - 1;

const _: () = assert!(VALUE_BYTES_MAX as u64 <= LEN_MASK && CLASSES < 32);

impl Handle {
    /// The handle of the empty string.
    pub const EMPTY: Handle = Handle(0);

    /// A handle of no class: that of a value which an image does not hold and the log must bring.
    pub(super) const DANGLING: Handle = Handle(31 << CLASS_SHIFT);

    /// The handle of a string of `len` bytes, which is not empty, in this slot of its class.
    #[inline]
    pub(super) fn new(len: usize, slot: u32) -> Handle {
        Handle((class_of(len) as u64) << CLASS_SHIFT | (len as u64) << LEN_SHIFT | u64::from(slot))
    }

    /// The handle as it is stored.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// A handle that was stored.
    #[inline]
    pub fn from_bits(bits: u64) -> Handle {
        Handle(bits)
    }

    /// The little-endian handle at `offset` in a row.
    ///
    /// # Panics
    /// When the bytes end before it does.
    #[inline]
    pub fn read(bytes: &[u8], offset: usize) -> Handle {
        let mut bits = [0; HANDLE_BYTES];
        bits.copy_from_slice(&bytes[offset..offset + HANDLE_BYTES]);
        Handle(u64::from_le_bytes(bits))
    }

    /// The length of the string.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a handle is no container")]
    pub fn len(self) -> usize {
        (self.0 >> LEN_SHIFT & LEN_MASK) as usize
    }

    #[inline]
    pub(super) fn class(self) -> usize {
        (self.0 >> CLASS_SHIFT) as usize
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// Strings by size class. See the module's head.
#[derive(Debug)]
pub struct SizeClasses {
    slabs: [Option<Slab>; CLASSES],
    allowance: Allowance,
}

impl SizeClasses {
    /// Without strings, and without memory. Each class may take so much.
    pub fn new(allowance: impl Into<Allowance>) -> SizeClasses {
        SizeClasses { slabs: [const { None }; CLASSES], allowance: allowance.into() }
    }

    /// Keeps a copy of `value`.
    ///
    /// # Errors
    /// No memory, or a string longer than [`VALUE_BYTES_MAX`] ([`RegionError::Limit`] with that
    /// limit).
    pub fn put(&mut self, value: &[u8]) -> Result<Handle, RegionError> {
        if value.is_empty() {
            return Ok(Handle::EMPTY);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(RegionError::Limit { limit_bytes: VALUE_BYTES_MAX });
        }
        let class = class_of(value.len());
        let slab = self.slab_mut(class)?;
        let slot = slab.allocate()?;
        slab.slot_mut(slot)[..value.len()].copy_from_slice(value);
        Ok(Handle::new(value.len(), slot))
    }

    /// The string of a handle.
    ///
    /// # Panics
    /// When the handle is of no string that was ever put here.
    #[inline]
    pub fn get(&self, handle: Handle) -> &[u8] {
        if handle == Handle::EMPTY {
            return &[];
        }
        match self.slabs.get(handle.class()) {
            Some(Some(slab)) => &slab.slot(handle.slot())[..handle.len()],
            _ => panic!("{handle:?} was never handed out"),
        }
    }

    /// Gives the string's slot back.
    ///
    /// # Panics
    /// When the string was freed already.
    pub fn free(&mut self, handle: Handle) {
        if handle == Handle::EMPTY {
            return;
        }
        match self.slabs.get_mut(handle.class()) {
            Some(Some(slab)) => slab.free(handle.slot()),
            _ => panic!("{handle:?} was never handed out"),
        }
    }

    /// Whether the handle's slot is in use.
    pub fn is_live(&self, handle: Handle) -> bool {
        let slab = self.slabs.get(handle.class()).and_then(Option::as_ref);
        handle == Handle::EMPTY
            || slab.is_some_and(|slab| {
                slab.is_live(handle.slot()) && class_of(handle.len()) == handle.class()
            })
    }

    /// Whether the handle leads to bytes here, of whatever string: its class, length and slot agree
    /// and the slot is live.
    pub(super) fn leads_somewhere(&self, handle: Handle) -> bool {
        handle.class() < CLASSES && handle.len() > 0 && self.is_live(handle)
    }

    /// The slots of a class, if any was ever taken.
    pub(super) fn slab(&self, class: usize) -> Option<&Slab> {
        self.slabs[class].as_ref()
    }

    /// The slots of a class.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn slab_mut(&mut self, class: usize) -> Result<&mut Slab, RegionError> {
        Ok(match &mut self.slabs[class] {
            Some(slab) => slab,
            vacant => vacant.insert(Slab::new(slot_bytes(class), self.allowance.clone())?),
        })
    }

    /// The same strings behind the same handles, in memory of their own.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn mirror(&self, allowance: Allowance) -> Result<SizeClasses, RegionError> {
        let mut copy = SizeClasses::new(allowance.clone());
        for (slab, place) in self.slabs.iter().zip(&mut copy.slabs) {
            *place = slab.as_ref().map(|slab| slab.mirror(allowance.clone())).transpose()?;
        }
        Ok(copy)
    }

    /// As [`Slab::take_apart`].
    pub(super) fn take_apart(&mut self, bytes_max: usize) -> usize {
        self.slabs.iter_mut().flatten().fold(0, |bytes, slab| match bytes < bytes_max {
            true => bytes + slab.take_apart(bytes_max - bytes),
            false => bytes,
        })
    }

    /// How many strings take a slot.
    pub fn len(&self) -> usize {
        self.slabs.iter().flatten().map(Slab::len).sum()
    }

    /// Whether no string takes a slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory taken from the system.
    pub fn committed_bytes(&self) -> usize {
        self.slabs.iter().flatten().map(Slab::committed_bytes).sum()
    }

    /// Checks that `handles` are those of all strings, each named once.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub fn check_handles(&self, handles: impl Iterator<Item = Handle>) -> Result<(), String> {
        let words =
            |slab: &Slab| (0..slab.used().div_ceil(64)).map(|word| slab.live_word(word)).collect();
        let mut unnamed: [Vec<u64>; CLASSES] =
            self.slabs.each_ref().map(|slab| slab.as_ref().map_or(Vec::new(), words));
        for handle in handles.filter(|handle| *handle != Handle::EMPTY) {
            if !self.is_live(handle) {
                return Err(format!("{handle:?} leads to no string"));
            }
            let (slot, mask) = (handle.slot() as usize, 1 << (handle.slot() % 64));
            let word = &mut unnamed[handle.class()][slot / 64];
            if *word & mask == 0 {
                return Err(format!("{handle:?} is of two rows"));
            }
            *word &= !mask;
        }
        let count = |words: &Vec<u64>| words.iter().map(|word| word.count_ones()).sum::<u32>();
        match unnamed.iter().map(count).enumerate().find(|(_, count)| *count > 0) {
            Some((class, lost)) => {
                Err(format!("{lost} strings of up to {} bytes belong to no row", slot_bytes(class)))
            }
            None => Ok(()),
        }
    }

    /// Checks the slab of every class.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub fn check(&self) -> Result<(), String> {
        for (class, slab) in self.slabs.iter().enumerate() {
            if let Some(slab) = slab {
                let bytes = slot_bytes(class);
                if slab.slot_bytes() != bytes {
                    return Err(format!("class {class}: slots of {} bytes", slab.slot_bytes()));
                }
                slab.check().map_err(|error| format!("class of {bytes} bytes: {error}"))?;
            }
        }
        Ok(())
    }
}

/// The class of the smallest slot that holds `len` bytes, which are at least one.
pub(super) const fn class_of(len: usize) -> usize {
    if len <= 1 << SLOT_BYTES_MIN_LOG2 {
        return 0;
    }
    // The doubling that `len` lies in, and whether it is in its upper half.
    let doubling = (len - 1).ilog2();
    let is_upper = (len - 1) >> (doubling - 1) & 1;
    2 * (doubling - SLOT_BYTES_MIN_LOG2) as usize + 1 + is_upper
}

/// The slot size of a class: 32, 48, 64, 96, 128, …
pub(super) const fn slot_bytes(class: usize) -> usize {
    (2 + class % 2) << (class / 2 + SLOT_BYTES_MIN_LOG2 as usize - 1)
}

#[cfg(test)]
mod tests {
    use super::super::region::RESERVATION_BYTES;
    use super::super::test_random::Random;
    use super::*;

    #[test]
    fn every_string_has_one_owner() {
        let mut classes = SizeClasses::new(RESERVATION_BYTES);
        let mut handles: Vec<Handle> =
            (0..300).map(|n| classes.put(&vec![7; n * 5]).unwrap()).collect();
        let check = |classes: &SizeClasses, handles: &[Handle]| {
            classes.check_handles(handles.iter().copied()).map_err(|what| what + "!")
        };
        assert_eq!(check(&classes, &handles), Ok(()));
        let lost = handles.pop().unwrap();
        assert!(
            check(&classes, &handles).unwrap_err().contains("1 strings of up to 1536 bytes belong")
        );
        classes.free(lost);
        assert_eq!(check(&classes, &handles), Ok(()));
        handles.push(handles[40]);
        assert!(check(&classes, &handles).unwrap_err().contains("of two rows"));
        classes.free(handles.pop().unwrap());
        assert!(check(&classes, &handles).unwrap_err().contains("leads to no string"));
        handles[0] = Handle::DANGLING;
        assert!(check(&classes, &handles).unwrap_err().contains("leads to no string"));
    }

    #[test]
    fn classes_are_the_tightest() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(slot_bytes), [32, 48, 64, 96, 128, 192]);
        assert_eq!(slot_bytes(CLASSES - 1), VALUE_BYTES_MAX);
        for len in (1..5_000).chain(VALUE_BYTES_MAX - 3..=VALUE_BYTES_MAX) {
            let class = class_of(len);
            assert!(slot_bytes(class) >= len && (class == 0 || slot_bytes(class - 1) < len));
        }
    }

    #[test]
    fn model() {
        let mut random = Random::new(1);
        let mut classes = SizeClasses::new(RESERVATION_BYTES);
        let mut model: Vec<(Handle, Vec<u8>)> = Vec::new();
        for step in 0..4_000 {
            if random.below(100) < if step < 2_500 { 65 } else { 35 } {
                let bits = random.below(15);
                let mut value = vec![0; random.below(1 << bits) as usize];
                value.fill_with(|| random.next() as u8);
                let handle = classes.put(&value).unwrap();
                assert_eq!(
                    (handle.len(), Handle::from_bits(handle.to_bits())),
                    (value.len(), handle)
                );
                model.push((handle, value));
            } else if !model.is_empty() {
                let at = random.below(model.len() as u64) as usize;
                let (handle, value) = model.swap_remove(at);
                assert_eq!(classes.get(handle), value);
                classes.free(handle);
                assert!(!classes.is_live(handle) || handle == Handle::EMPTY);
            }
            if step % 200 == 0 {
                classes.check().unwrap();
                assert!(model.iter().all(|(handle, value)| classes.get(*handle) == value));
                assert!(model.iter().all(|(handle, _)| classes.is_live(*handle)));
            }
        }
        assert_eq!(classes.len(), model.iter().filter(|(_, value)| !value.is_empty()).count());
    }

    #[test]
    fn the_longest_string_fits_and_no_longer_one() {
        let mut classes = SizeClasses::new(RESERVATION_BYTES);
        let value = vec![9; VALUE_BYTES_MAX];
        let handle = classes.put(&value).unwrap();
        assert_eq!(classes.get(handle), value);
        let error = RegionError::Limit { limit_bytes: VALUE_BYTES_MAX };
        assert_eq!(classes.put(&vec![9; VALUE_BYTES_MAX + 1]), Err(error));
        assert_eq!(classes.get(Handle::EMPTY), b"");
        let mut row = vec![0; 20];
        row[4..12].copy_from_slice(&handle.to_bits().to_le_bytes());
        assert_eq!(Handle::read(&row, 4), handle);
    }

    #[test]
    fn a_foreign_handle_is_refused() {
        let classes = SizeClasses::new(RESERVATION_BYTES);
        let mut other = SizeClasses::new(RESERVATION_BYTES);
        let handle = other.put(b"elsewhere").unwrap();
        assert!(!classes.is_live(handle));
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| classes.get(handle).len()));
        assert!(result.is_err());
    }
}
