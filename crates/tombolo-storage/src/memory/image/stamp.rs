//! Stamps: what distinguishes a block of a checkpoint from one of an earlier try with the same number
//! (TPK-19).
//!
//! A checkpoint's *course* is what happens from its beginning to its end, in one process or, across
//! crashes, in several. A medium that loses what it called durable may lose the catalogue that names a
//! course and keep blocks of it. The catalogue before counts then, and the next course has the same
//! number. If the log lost groups too, the blocks of the abandoned course hold changes of groups whose
//! numbers other groups have by now, and neither number nor newest group gives them away.
//!
//! So a block says in which *epoch* it was written, and the catalogue in which one a course began. A
//! block is of a course if it has its number and was not written in an earlier epoch; a course that is
//! continued after a restart keeps the epoch it began in, so its older blocks count as well.
//! *Invariant*: a course begins in a later epoch than that of every intact block on the disks of its
//! number or a greater one. For that an epoch is the log's (how many times it was opened), or
//! one more than the latest that the image knows if that is later: the medium may have lost the group
//! that began an epoch of the log as well.
//!
//! Epoch 0 is unknown: of blocks and catalogues of format version 1, and of no course that begins now.
//!
//! Not here: where a block and a catalogue say so (`block.rs`, `catalogue.rs`), reading all blocks
//! (`load.rs`).

use crate::plant::{self, Plant};

/// A checkpoint and an epoch: of a course, the one it began in; of a block, the one it was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// 0 for none.
    pub(super) checkpoint: u64,
    pub(super) epoch: u32,
}

impl Stamp {
    /// Whether a block with this stamp is of the course that began with this one.
    pub(super) fn is_of(self, course: Self) -> bool {
        let is_abandoned = self.epoch < course.epoch && !plant::is(Plant::BlockEpochIgnored);
        self.checkpoint == course.checkpoint && !is_abandoned
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_of_the_course_it_was_written_in_whatever_process_wrote_it() {
        let stamp = |checkpoint, epoch| Stamp { checkpoint, epoch };
        let course = stamp(4, 7);
        for (block, is_of) in [
            (stamp(4, 7), true),
            (stamp(4, 9), true), // continued after a restart
            (stamp(4, 6), false),
            (stamp(4, 0), false), // of version 1: abandoned
            (stamp(3, 7), false),
            (stamp(5, 7), false),
        ] {
            assert_eq!(block.is_of(course), is_of, "{block:?}");
        }
        // A course of version 1 that is continued.
        assert!(stamp(4, 0).is_of(stamp(4, 0)) && stamp(4, 8).is_of(stamp(4, 0)));
    }
}
