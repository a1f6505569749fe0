//! The five lock modes and the two tables that define them.
//!
//! Shared and exclusive locks are for reading and changing what is named. An intention lock on a
//! page or a store says that something below it is locked in the mode intended; a transaction that
//! wants the whole page sees that it is in use without looking at its rows. On a row an intention means that
//! the row exists: a reader that has read it and does not mind changes keeps IS, so that it is not deleted;
//! SIX changes the row while such readers hold IS and excludes all others, X also deletes it.

/// How a lock is held. The order of the variants is their position in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// IS: something below is read.
    IntentionShared,
    /// IX: something below is changed.
    IntentionExclusive,
    /// S: all of it is read.
    Shared,
    /// SIX: all of it is read and something below is changed.
    SharedIntentionExclusive,
    /// X: all of it is changed.
    Exclusive,
}

use Mode::{
    Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, Shared as S,
    SharedIntentionExclusive as SIX,
};

/// Which modes two transactions may hold on one thing at a time.
const COMPATIBLE: [[bool; 5]; 5] = [
    // IS   IX     S      SIX    X
    [true, true, true, true, false],     // IS
    [true, true, false, false, false],   // IX
    [true, false, true, false, false],   // S
    [true, false, false, false, false],  // SIX
    [false, false, false, false, false], // X
];

/// The weakest mode that grants what both modes grant.
const SUPREMUM: [[Mode; 5]; 5] = [
    [IS, IX, S, SIX, X],
    [IX, IX, SIX, SIX, X],
    [S, SIX, S, SIX, X],
    [SIX, SIX, SIX, SIX, X],
    [X, X, X, X, X],
];

/// For each mode the modes it covers, one bit each.
const COVERED: [u8; 5] = {
    let mut covered = [0; 5];
    let mut held = 0;
    while held < 5 {
        let mut wanted = 0;
        while wanted < 5 {
            if SUPREMUM[held][wanted] as usize == held {
                covered[held] |= 1 << wanted;
            }
            wanted += 1;
        }
        held += 1;
    }
    covered
};

/// For each mode the modes it makes needless on everything below, one bit each.
const COVERED_BELOW: [u8; 5] = {
    let reading = 1 << IS as u8 | 1 << S as u8;
    [0, 0, reading, reading, 0b11111]
};

impl Mode {
    /// All modes, in the order of the tables.
    pub const ALL: [Mode; 5] = [IS, IX, S, SIX, X];

    /// Whether one transaction may hold this mode while another holds `other`.
    #[inline(always)]
    pub const fn compatible(self, other: Mode) -> bool {
        COMPATIBLE[self as usize][other as usize]
    }

    /// The weakest mode that grants what `self` and `other` grant.
    #[inline(always)]
    pub const fn supremum(self, other: Mode) -> Mode {
        SUPREMUM[self as usize][other as usize]
    }

    /// Whether a holder of `self` need not ask for `wanted` on the same thing.
    #[inline(always)]
    pub const fn covers(self, wanted: Mode) -> bool {
        COVERED[self as usize] >> wanted as u8 & 1 != 0
    }

    /// Whether a holder of `self` need not ask for `wanted` on anything below.
    #[inline(always)]
    pub const fn covers_below(self, wanted: Mode) -> bool {
        COVERED_BELOW[self as usize] >> wanted as u8 & 1 != 0
    }

    /// What has to be held above a lock of this mode.
    #[inline(always)]
    pub const fn intention(self) -> Mode {
        match self {
            IS | S => IS,
            IX | SIX | X => IX,
        }
    }

    /// Whether the mode announces locks below.
    #[inline(always)]
    pub const fn is_intention(self) -> bool {
        matches!(self, IS | IX | SIX)
    }

    /// The lock on the whole that stands for locks below of this intention.
    pub(super) const fn escalated(self) -> Mode {
        match self {
            IS | S => S,
            IX | SIX | X => X,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a mode lets its holder do, and so what it must exclude: an independent definition.
    struct Rights {
        read_all: bool,
        change_all: bool,
        read_below: bool,
        change_below: bool,
    }

    fn rights(mode: Mode) -> Rights {
        Rights {
            read_all: matches!(mode, S | SIX | X),
            change_all: mode == X,
            read_below: true,
            change_below: matches!(mode, IX | SIX | X),
        }
    }

    fn includes(held: &Rights, wanted: &Rights) -> bool {
        (held.read_all || !wanted.read_all)
            && (held.change_all || !wanted.change_all)
            && (held.read_below || !wanted.read_below)
            && (held.change_below || !wanted.change_below)
    }

    fn pairs() -> impl Iterator<Item = (Mode, Mode)> {
        Mode::ALL.into_iter().flat_map(|a| Mode::ALL.into_iter().map(move |b| (a, b)))
    }

    #[test]
    fn modes_are_compatible_unless_one_changes_what_the_other_reads_or_changes() {
        for (a, b) in pairs() {
            let (left, right) = (rights(a), rights(b));
            // Changes below meet locks below, unless the other holds the whole.
            let conflict = |one: &Rights, other: &Rights| {
                one.change_all || (one.change_below && other.read_all)
            };
            let compatible = !conflict(&left, &right) && !conflict(&right, &left);
            assert_eq!(a.compatible(b), compatible, "{a:?} {b:?}");
            assert_eq!(a.compatible(b), b.compatible(a), "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_supremum_is_the_weakest_mode_with_both_rights() {
        for (a, b) in pairs() {
            let both = a.supremum(b);
            assert!(includes(&rights(both), &rights(a)) && includes(&rights(both), &rights(b)));
            for weaker in Mode::ALL {
                let enough =
                    includes(&rights(weaker), &rights(a)) && includes(&rights(weaker), &rights(b));
                assert!(!enough || includes(&rights(weaker), &rights(both)), "{a:?} {b:?}");
            }
            assert_eq!(both, b.supremum(a));
        }
    }

    #[test]
    fn covering_is_having_all_rights() {
        for (held, wanted) in pairs() {
            assert_eq!(held.covers(wanted), includes(&rights(held), &rights(wanted)));
        }
    }

    #[test]
    fn what_is_held_above_covers_reading_or_all_below() {
        for (held, wanted) in pairs() {
            let wanted_changes = rights(wanted).change_below;
            let held = (rights(held), held.covers_below(wanted));
            assert_eq!(held.1, held.0.change_all || (held.0.read_all && !wanted_changes));
        }
    }

    #[test]
    fn a_stronger_mode_excludes_no_less() {
        for (a, b) in pairs().filter(|(a, b)| a.covers(*b)) {
            for other in Mode::ALL {
                assert!(!a.compatible(other) || b.compatible(other), "{a:?} {b:?} {other:?}");
            }
        }
    }

    #[test]
    fn intentions_and_escalation() {
        let expected = [(IS, IS, S), (IX, IX, X), (S, IS, S), (SIX, IX, X), (X, IX, X)];
        for (mode, intention, whole) in expected {
            assert_eq!((mode.intention(), mode.escalated()), (intention, whole));
            assert!(mode.escalated().covers(mode));
            assert_eq!(mode.is_intention(), [IS, IX, SIX].contains(&mode));
        }
    }
}
