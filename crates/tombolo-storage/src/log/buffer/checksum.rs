//! CRC-32C of few bytes: not three instructions for eight, where the processor has one for that.
//!
//! The library that pages use is made for long input; a record's 200 bytes take it nearly three
//! times as many instructions. Not here: what is summed.

/// Continues the CRC-32C `seed` over `bytes`; the same as `crc32c::crc32c_append`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse4.2"))]
#[inline(always)]
pub(in crate::log) fn append(seed: u32, bytes: &[u8]) -> u32 {
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

/// Continues the CRC-32C `seed` over `bytes`.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse4.2")))]
#[inline(always)]
pub(in crate::log) fn append(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_librarys() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * i % 251) as u8).collect();
        for from in 0..20 {
            for to in from..bytes.len() {
                let (seed, bytes) = (to as u32, &bytes[from..to]);
                assert_eq!(super::append(seed, bytes), crc32c::crc32c_append(seed, bytes));
            }
        }
    }
}
