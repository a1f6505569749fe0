//! CRC-32C, the checksum of everything on disk and of every message between processes.
//!
//! The library has hardware CRC-32C and is made for long input; a log record's 200 bytes take it nearly three
//! times as many instructions as [`append_short`]: not three for eight bytes, where the processor has an
//! instruction for that. Not here: what is summed.

pub use crc32c::crc32c_append as append;

/// The checksum of `parts`, one behind the other.
pub fn of(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| append(sum, part))
}

/// The same as [`append`], for few bytes.
#[cfg(all(target_arch = "x86_64", target_feature = "sse4.2"))]
#[inline(always)]
pub(crate) fn append_short(seed: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = u64::from(!seed);
    for word in words {
        // SAFETY: this is compiled only for processors that have SSE 4.2.
        sum = unsafe { _mm_crc32_u64(sum, u64::from_le_bytes(*word)) };
    }
    let mut sum = sum as u32;
    for byte in rest {
        // SAFETY: as above.
        sum = unsafe { _mm_crc32_u8(sum, *byte) };
    }
    !sum
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse4.2")))]
pub(crate) use append as append_short;

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_librarys() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * i % 251) as u8).collect();
        for from in 0..20 {
            for to in from..bytes.len() {
                let (seed, bytes) = (to as u32, &bytes[from..to]);
                assert_eq!(append_short(seed, bytes), append(seed, bytes));
                let (first, rest) = bytes.split_at(bytes.len() / 3);
                assert_eq!(of(&[first, rest]), crc32c::crc32c(bytes));
            }
        }
    }
}
