//! Opening and closing a gap in the small arrays of a node, branch-free.
//!
//! A move of a few elements by `memmove` is dominated by the call and by the branches on the
//! length, which random positions mispredict. Here every element is rewritten, with itself or with
//! its neighbour, by vector blends: about four instructions for each 32 bytes.

/// Moves the elements from `at` on one place up; the last one is lost, the one at `at` stays as
/// well.
#[inline(always)]
pub(super) fn shift_up<T: Element, const N: usize>(array: &mut [T; N], at: usize) {
    let mut end = N;
    // From the top down, so that a block reads elements below it that have not been moved yet.
    while end > T::LANES {
        let start = end - T::LANES;
        // SAFETY: the block `start..end` and the same one place lower lie in the array, as `start`
        // is at least 1.
        unsafe { T::blend(array.as_mut_ptr().add(start), -1, start, at) };
        end = start;
    }
    for i in (1..end).rev() {
        array[i] = if i > at { array[i - 1] } else { array[i] };
    }
}

/// Moves the elements above `at` one place down; the one at `at` is lost, the last one stays as
/// well.
#[inline(always)]
pub(super) fn shift_down<T: Element, const N: usize>(array: &mut [T; N], at: usize) {
    let mut start = 0;
    while start + T::LANES < N {
        // SAFETY: the block from `start` on and the same one place higher lie in the array.
        unsafe { T::blend(array.as_mut_ptr().add(start), 1, start, at) };
        start += T::LANES;
    }
    for i in start..N - 1 {
        array[i] = if i >= at { array[i + 1] } else { array[i] };
    }
}

/// What can be shifted.
pub(super) trait Element: Copy {
    /// How many fit in a block.
    const LANES: usize;

    /// Rewrites the block at `block`, whose first element has index `start`: elements that a shift
    /// concerns take the value of their neighbour, one below (`step` −1, elements above `at`) or
    /// one above (`step` 1, elements from `at` on).
    ///
    /// # Safety
    /// The block and the block `step` elements away must be valid.
    unsafe fn blend(block: *mut Self, step: isize, start: usize, at: usize);
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
mod blocks {
    use super::Element;
    use std::arch::x86_64::{
        __m256i, _mm256_blendv_epi8, _mm256_cmpgt_epi32, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setr_epi64x,
        _mm256_storeu_si256,
    };

    impl Element for i64 {
        const LANES: usize = 4;

        #[inline(always)]
        unsafe fn blend(block: *mut i64, step: isize, start: usize, at: usize) {
            // SAFETY: AVX2 is available statically (the `cfg` above); the caller vouches for both
            // blocks.
            unsafe {
                let own = _mm256_loadu_si256(block.cast());
                let neighbour = _mm256_loadu_si256(block.offset(step).cast());
                // Indexes relative to the block: `i > at` for a shift up, `i > at - 1` for one
                // down.
                let last_kept = at as i64 - start as i64 - i64::from(step == 1);
                let index = _mm256_setr_epi64x(0, 1, 2, 3);
                let moves = _mm256_cmpgt_epi64(index, _mm256_set1_epi64x(last_kept));
                store(block.cast(), own, neighbour, moves);
            }
        }
    }

    impl Element for u32 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn blend(block: *mut u32, step: isize, start: usize, at: usize) {
            // SAFETY: as above.
            unsafe {
                let own = _mm256_loadu_si256(block.cast());
                let neighbour = _mm256_loadu_si256(block.offset(step).cast());
                let last_kept = at as i32 - start as i32 - i32::from(step == 1);
                let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let moves = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(last_kept));
                store(block.cast(), own, neighbour, moves);
            }
        }
    }

    /// # Safety
    /// `block` must be valid for 32 bytes.
    #[inline(always)]
    unsafe fn store(block: *mut __m256i, own: __m256i, neighbour: __m256i, moves: __m256i) {
        // SAFETY: AVX2 is available statically; the caller vouches for the block.
        unsafe { _mm256_storeu_si256(block, _mm256_blendv_epi8(own, neighbour, moves)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
mod blocks {
    use super::Element;

    impl Element for i64 {
        /// No array is this long: all is done element by element.
        const LANES: usize = usize::MAX / 2;

        unsafe fn blend(_: *mut i64, _: isize, _: usize, _: usize) {}
    }

    impl Element for u32 {
        const LANES: usize = usize::MAX / 2;

        unsafe fn blend(_: *mut u32, _: isize, _: usize, _: usize) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>() {
        let keys: [i64; N] = std::array::from_fn(|i| i as i64 * 7 - 20);
        let values: [u32; N] = std::array::from_fn(|i| i as u32 * 11);
        for at in 0..N {
            let (mut up, mut down) = (keys, keys);
            shift_up(&mut up, at);
            shift_down(&mut down, at);
            let (mut up_values, mut down_values) = (values, values);
            shift_up(&mut up_values, at);
            shift_down(&mut down_values, at);
            let (mut expected_up, mut expected_down) = (keys, keys);
            expected_up.copy_within(at..N - 1, at + 1);
            expected_down.copy_within(at + 1..N, at);
            assert_eq!((up, down), (expected_up, expected_down));
            let (mut expected_up, mut expected_down) = (values, values);
            expected_up.copy_within(at..N - 1, at + 1);
            expected_down.copy_within(at + 1..N, at);
            assert_eq!((up_values, down_values), (expected_up, expected_down));
        }
    }

    #[test]
    fn shifts_move_what_memmove_moves() {
        check::<1>();
        check::<4>();
        check::<5>();
        check::<9>();
        check::<10>();
        check::<11>();
        check::<21>();
    }
}
