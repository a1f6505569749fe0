//! The difference of a page from its earlier content, or from zeros, as runs of words: the form in which the log has
//! the pages of a step.
//!
//! | bytes | of a run |
//! |---|---|
//! | 2 | its beginning, in words of 8 bytes |
//! | 2 | the number of its words; 0: no run, but padding of the last word |
//! | | the words |
//!
//! Runs that are less than two words apart are joined, so runs never take more than the page and a word. All other
//! bytes are unchanged: every change of a page is logged, or happens in the same way when the page is
//! redone. Not here: the page's earlier content, log records (`record.rs`).

use super::PAGE_BYTES_MAX;

const WORD: usize = 8;
/// Words that are compared at a time.
const CHUNK: usize = 8;
/// Equal words that a run goes on over: they take less than another run does.
const GAP_MAX: usize = 1;

/// What a page is held against that is new.
static ZEROS: [u8; PAGE_BYTES_MAX] = [0; PAGE_BYTES_MAX];

/// The longest runs of a page of so many bytes.
pub(crate) const fn runs_bytes_max(page_bytes: usize) -> usize {
    page_bytes + WORD
}

/// Appends the runs of words in which `after` differs from `before`, or from zeros: a multiple of a word.
pub(crate) fn append_runs(before: Option<&[u8]>, after: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let before = before.unwrap_or(&ZEROS[..after.len()]);
    let ((before, _), (words, _)) = (before.as_chunks::<WORD>(), after.as_chunks::<WORD>());
    assert_eq!(before.len(), words.len(), "a page has one size");
    let (mut at, count) = (0, words.len());
    while at < count {
        if at.is_multiple_of(CHUNK) && are_equal(before, words, at) {
            at += CHUNK;
            continue;
        }
        if before[at] == words[at] {
            at += 1;
            continue;
        }
        let (first, mut end) = (at, at + 1);
        while end + GAP_MAX > at && at + 1 < count {
            at += 1;
            if before[at] != words[at] {
                end = at + 1;
            }
        }
        at += 1;
        out.extend_from_slice(&(first as u16).to_le_bytes());
        out.extend_from_slice(&((end - first) as u16).to_le_bytes());
        out.extend_from_slice(words[first..end].as_flattened());
    }
    out.resize(start + (out.len() - start).next_multiple_of(WORD), 0);
    debug_assert!(out.len() - start <= runs_bytes_max(after.len()));
}

/// Whether a whole chunk of words from `at` on is equal.
#[inline(always)]
fn are_equal(before: &[[u8; WORD]], words: &[[u8; WORD]], at: usize) -> bool {
    let chunk = |words: &[[u8; WORD]]| words.get(at..at + CHUNK)?.first_chunk::<CHUNK>().copied();
    let (Some(before), Some(words)) = (chunk(before), chunk(words)) else { return false };
    let differences = before.iter().zip(&words);
    let differences =
        differences.map(|(one, other)| u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other));
    differences.fold(0, |all, one| all | one) == 0
}

/// Puts runs of words in their places; `false` if they are none.
pub(super) fn put_runs(page: &mut [u8], mut runs: &[u8]) -> bool {
    while let Some((&[at0, at1, count0, count1], rest)) = runs.split_first_chunk() {
        let (at, count) = (u16::from_le_bytes([at0, at1]), u16::from_le_bytes([count0, count1]));
        if count == 0 {
            return at == 0 && rest.is_empty();
        }
        let (at, bytes) = (usize::from(at) * WORD, usize::from(count) * WORD);
        let words = rest.split_at_checked(bytes);
        let (Some((words, rest)), Some(place)) = (words, page.get_mut(at..at + bytes)) else {
            return false;
        };
        place.copy_from_slice(words);
        runs = rest;
    }
    runs.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::test_random::Random;

    const PAGE: usize = 8192;

    fn changed(random: &mut Random, page: &mut [u8]) {
        for _ in 0..random.below(30) {
            let at = random.below(PAGE as u64) as usize;
            let most = 1 << random.below(13);
            let end = PAGE.min(at + random.below(most) as usize);
            page[at..end].iter_mut().for_each(|byte| *byte = random.below(3) as u8);
        }
    }

    #[test]
    fn a_page_and_its_runs_make_the_next_one() {
        let (mut random, mut page) = (Random::new(17), vec![0; PAGE]);
        for turn in 0..2_000 {
            let before = page.clone();
            changed(&mut random, &mut page);
            let (mut runs, mut whole) = (vec![7], Vec::new());
            append_runs(Some(&before), &page, &mut runs);
            append_runs(None, &page, &mut whole);
            let runs = &runs[1..];
            assert!(runs.len().is_multiple_of(WORD) && whole.len() <= runs_bytes_max(PAGE));
            assert_eq!(runs.is_empty(), before == page);
            let mut again = before;
            assert!(put_runs(&mut again, runs) && again == page, "turn {turn}");
            again.fill(0);
            assert!(put_runs(&mut again, &whole) && again == page, "turn {turn}");
        }
    }

    #[test]
    fn runs_take_no_more_than_the_page_and_a_word() {
        for every in 1..6 {
            let mut page = [0; PAGE];
            page.chunks_mut(WORD).step_by(every).for_each(|word| word[0] = 1);
            let mut runs = Vec::new();
            append_runs(None, &page, &mut runs);
            assert!(runs.len() <= runs_bytes_max(PAGE), "every {every}: {}", runs.len());
        }
    }

    #[test]
    fn what_are_no_runs_is_refused() {
        let mut page = [0; 64];
        for runs in [
            &[1][..],
            &[0, 0, 1, 0, 9],
            &[8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0],
            &[0; 5],
        ] {
            assert!(!put_runs(&mut page, runs), "{runs:?}");
        }
        assert!(put_runs(&mut page, &[]) && put_runs(&mut page, &[0; 4]) && page == [0; 64]);
    }
}
