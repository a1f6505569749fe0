//! Branch-free search in a node: how many of its keys are smaller than the one sought.
//!
//! Keys are stored *biased* (the top bit flipped), because AVX2 only compares signed integers; a
//! node's unused keys hold [`PAD`], the largest one, which is smaller than nothing and so never
//! counted. All keys of the node are always compared: there is no branch to mispredict and no loop
//! to leave. (LG-S1.)

/// The largest biased key; fills what a node does not use.
pub(super) const PAD: i64 = i64::MAX;

/// Maps unsigned order to signed order.
#[inline(always)]
pub(super) fn bias(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

/// The inverse of [`bias`].
#[inline(always)]
pub(super) fn unbias(key: i64) -> u64 {
    key as u64 ^ (1 << 63)
}

/// The number of keys smaller than `key`.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(always)]
pub(super) fn rank<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm_castsi128_pd, _mm_cmpgt_epi64, _mm_loadu_si128, _mm_movemask_pd,
        _mm_set1_epi64x, _mm256_castps_si256, _mm256_castsi256_pd, _mm256_castsi256_ps,
        _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_movemask_pd,
        _mm256_movemask_ps, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_set1_epi64x,
        _mm256_shuffle_ps,
    };
    let (mut count, mut i) = (0, 0);
    // SAFETY: AVX2 is available statically (the `cfg` above), and every load of `LANES` keys at `i`
    // is guarded by `i + LANES <= N`.
    unsafe {
        let needle = _mm256_set1_epi64x(key);
        let dwords = |a: __m256i, b: __m256i| -> __m256i {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b))
        };
        let smaller = |i: usize| -> __m256i {
            _mm256_cmpgt_epi64(needle, _mm256_loadu_si256(keys.as_ptr().add(i).cast()))
        };
        if N == 20 {
            // The size of the tree's nodes. Sixteen comparisons shrink to a byte each and four to
            // four bytes, of which the mask counts one.
            let low = dwords(smaller(0), smaller(4));
            let high = dwords(smaller(8), smaller(12));
            let bytes = _mm256_packs_epi16(_mm256_packs_epi32(low, high), smaller(16));
            return (_mm256_movemask_epi8(bytes) & 0x11FF_11FF).count_ones() as usize;
        }
        while i + 8 <= N {
            let lanes = _mm256_packs_epi32(smaller(i), smaller(i + 4));
            count += _mm256_movemask_ps(_mm256_castsi256_ps(lanes)).count_ones();
            i += 8;
        }
        if i + 4 <= N {
            count += _mm256_movemask_pd(_mm256_castsi256_pd(smaller(i))).count_ones();
            i += 4;
        }
        if i + 2 <= N {
            let lanes =
                _mm_cmpgt_epi64(_mm_set1_epi64x(key), _mm_loadu_si128(keys.as_ptr().add(i).cast()));
            count += _mm_movemask_pd(_mm_castsi128_pd(lanes)).count_ones();
            i += 2;
        }
    }
    if i < N {
        count += u32::from(keys[i] < key);
    }
    count as usize
}

/// The number of keys smaller than `key`.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
#[inline(always)]
pub(super) fn rank<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    keys.iter().map(|&k| usize::from(k < key)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::test_random::Random;
    use super::*;

    fn check<const N: usize>() {
        let mut random = Random::new(N as u64);
        for _ in 0..2_000 {
            let used = random.below(N as u64 + 1) as usize;
            let bits = 1 + random.below(64);
            let mut keys = [PAD; N];
            for key in &mut keys[..used] {
                *key = bias(random.next() >> (64 - bits));
            }
            keys.sort_unstable();
            let sought = match random.below(3) {
                0 => random.next() >> (64 - bits),
                1 => unbias(keys[random.below(N as u64) as usize]),
                _ => u64::MAX,
            };
            let expected = keys.iter().filter(|&&key| unbias(key) < sought).count();
            assert_eq!(rank(&keys, bias(sought)), expected);
        }
    }

    #[test]
    fn rank_counts_the_smaller_keys() {
        check::<1>();
        check::<2>();
        check::<7>();
        check::<9>();
        check::<10>();
        check::<13>();
        check::<20>();
        check::<31>();
        check::<42>();
    }

    #[test]
    fn bias_keeps_order() {
        let keys = [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
        assert!(keys.windows(2).all(|pair| bias(pair[0]) < bias(pair[1])));
        assert!(keys.iter().all(|&key| unbias(bias(key)) == key));
        assert_eq!(bias(u64::MAX), PAD);
    }
}
