//! The granted group of a lock: in one word, how many requests hold it in each mode, and how many wait.
//! So granting and releasing look at no other request, however many there are.
//!
//! ```text
//!   bits 0–14, 15–29, 30–44   requests granted IS, IX, S
//!   bits 45, 46               whether one is granted SIX, X
//!   bits 48–62                waiting requests
//! ```

use super::mode::Mode;

/// One request in a mode.
const ONE: [u64; 5] = [1, 1 << 15, 1 << 30, 1 << 45, 1 << 46];
/// All requests in a mode.
const ALL: [u64; 5] = [COUNT, COUNT << 15, COUNT << 30, 1 << 45, 1 << 46];
const COUNT: u64 = REQUESTS_MAX as u64;
const ONE_WAITS: u64 = 1 << 48;

/// How many requests a lock may have at most.
pub(super) const REQUESTS_MAX: u32 = (1 << 15) - 1;

/// For each mode the requests that exclude it.
const EXCLUDING: [u64; 5] = {
    let mut excluding = [0; 5];
    let mut wanted = 0;
    while wanted < 5 {
        let mut granted = 0;
        while granted < 5 {
            if !Mode::ALL[granted].compatible(Mode::ALL[wanted]) {
                excluding[wanted] |= ALL[granted];
            }
            granted += 1;
        }
        wanted += 1;
    }
    excluding
};

/// Who holds a lock, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub(super) u64);

impl Group {
    /// One request, granted `mode`.
    #[inline(always)]
    pub(super) const fn of(mode: Mode) -> Self {
        Self(ONE[mode as usize])
    }

    #[inline(always)]
    pub(super) const fn with(self, mode: Mode) -> Self {
        Self(self.0 + ONE[mode as usize])
    }

    #[inline(always)]
    pub(super) const fn without(self, mode: Mode) -> Self {
        Self(self.0 - ONE[mode as usize])
    }

    pub(super) const fn with_waiting(self) -> Self {
        Self(self.0 + ONE_WAITS)
    }

    pub(super) const fn without_waiting(self) -> Self {
        Self(self.0 - ONE_WAITS)
    }

    /// Whether all granted requests allow `wanted`.
    #[inline(always)]
    pub(super) const fn allows(self, wanted: Mode) -> bool {
        self.0 & EXCLUDING[wanted as usize] == 0
    }

    /// Whether a request wants something.
    #[inline(always)]
    pub(super) const fn waits(self) -> bool {
        self.0 >= ONE_WAITS
    }

    /// Whether at least three requests are granted `mode`. With one less, what waits waits all the
    /// same: one of two may be its own, the other is in its way as before.
    pub(super) const fn has_three(self, mode: Mode) -> bool {
        (self.0 & ALL[mode as usize]) / ONE[mode as usize] > 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_allows_what_each_of_its_requests_does() {
        for first in Mode::ALL {
            assert!(!Group::of(first).waits());
            for second in Mode::ALL.into_iter().filter(|second| second.compatible(first)) {
                let group = Group::of(first).with(second);
                for wanted in Mode::ALL {
                    let expected = first.compatible(wanted) && second.compatible(wanted);
                    assert_eq!(group.allows(wanted), expected, "{first:?} {second:?} {wanted:?}");
                }
                assert_eq!(group.without(first), Group::of(second));
                assert_eq!(group.with_waiting().without_waiting(), group);
                assert!(group.with_waiting().waits() && !group.waits());
                assert!(!group.has_three(first) && !group.has_three(second));
                assert!(first != second || group.with(first).has_three(first));
            }
        }
    }

    #[test]
    fn counts_do_not_meet() {
        let mut group = Group::of(Mode::IntentionShared);
        (1..REQUESTS_MAX).for_each(|_| group = group.with(Mode::IntentionShared));
        assert_eq!(group.0, ALL[0]);
        assert!(group.allows(Mode::IntentionExclusive) && !group.allows(Mode::Exclusive));
        (0..REQUESTS_MAX).for_each(|_| group = group.with_waiting());
        assert_eq!(group.0 >> 63, 0);
    }
}
