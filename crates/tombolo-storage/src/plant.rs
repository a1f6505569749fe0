//! Bugs planted on purpose, to prove that the simulator and the tests of models detect such bugs.
//!
//! Production code asks [`is`] where a real bug of that kind would sit and does the wrong thing if the
//! answer is yes. Without `--cfg tombolo_plants` the answer is the constant `false` and no instruction
//! is left; with it, one plant is chosen by name for the whole process ([`choose`]) before anything
//! runs. `cargo xtask sim --plant NAME` builds and runs that; a plant that no oracle notices within
//! 10,000 seeds is a hole in the simulator. No shipped build sets the cfg. In the crate's own tests, and
//! under loom and shuttle, a plant can be chosen for a thread (`with`).
//!
//! Not here: faults of the medium (the simulator's disk makes those); any plant's code.

/// Declares [`Plant`]: what is planted, its name on the command line and what it breaks, in one line.
macro_rules! plants {
    ($($(#[$what:meta])* $plant:ident: $name:literal, $breaks:literal;)*) => {
        /// A bug that can be planted; what production code does wrong when it is chosen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Plant {
            $($(#[$what])* $plant,)*
        }

        impl Plant {
            /// All of them, in the order they are listed.
            pub const ALL: &[Self] = &[$(Self::$plant),*];

            const fn text(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$plant => ($name, $breaks),)*
                }
            }
        }
    };
}

plants! {
    /// Value log: a sync reports success without having asked the disk.
    SkippedFsync: "skipped-fsync", "a sync succeeds without asking the disk";
    /// Value log: a new segment's directory entry is not synced.
    DroppedDirectoryFsync: "dropped-directory-fsync",
        "a new segment's directory entry is not synced";
    /// Value log: a sync that failed is tried again, and the second answer believed.
    RetriedFsync: "retried-fsync", "a failed sync is tried again and believed";
    /// Value log: a failed write leaves the writer open for more.
    ForgottenWriteFailure: "forgotten-write-failure", "a failed write leaves the log open for more";
    /// Value log: when a segment is full the next one is begun without the old one being synced.
    UnsyncedSegmentChange: "unsynced-segment-change",
        "a full segment is left behind without a sync";
    /// Value log: a group's header calls the group itself durable.
    WatermarkAhead: "watermark-ahead", "a group calls itself durable";
    /// Value log: a restart does not raise the epoch.
    EpochNotRaised: "epoch-not-raised", "a restart keeps the old epoch";
    /// Value log: a group's checksum covers its header only.
    ChecksumOfHeader: "checksum-of-header", "a group's checksum covers its header only";
    /// Value log: a segment is given back though its last group is still needed.
    SegmentReleasedEarly: "segment-released-early",
        "a segment is given back whose last group is needed";
    /// Value log: the records of an aborted transaction stay in the buffer.
    AbortedRecordsKept: "aborted-records-kept", "an aborted transaction's records stay in the log";
    /// Value log: an update of more than eight bytes logs the first eight only.
    UpdateCutShort: "update-cut-short", "an update logs its first eight bytes only";
    /// Value log: a changed variable-length value is not logged.
    VariableNotLogged: "variable-not-logged", "a changed variable-length value is not logged";
    /// Pipeline: what a transaction over several pipelines logged counts as durable when one log of it is flushed.
    OneLogSuffices: "one-log-suffices",
        "a transaction over several pipelines is durable when one log is flushed";
    /// Islands: a log that has a transaction which another island lacks is not cut off.
    OrderedNotCutOff: "ordered-not-cut-off",
        "after a crash an island keeps a transaction that another lacks";
    /// Islands: an ordered transaction is not noted for one of its other islands.
    OrderedNotNoted: "ordered-not-noted",
        "an ordered transaction is not noted for one of its islands";
    /// Pipeline: what follows a group in a log is of its epoch.
    EpochNotEnded: "epoch-not-ended", "transactions behind a group that was closed are of its epoch";
    /// Pipeline: answers leave when their group is written, before it is synced.
    AnswerBeforeFsync: "answer-before-fsync",
        "answers leave when their group is written, not synced";
    /// Pipeline: a group's sync also releases the answers of the group after it.
    ReleasedEarly: "released-early", "a sync releases the answers of the next group as well";
    /// Pipeline: a read-only answer does not wait for what it read.
    ReadOnlyReleasedEarly: "read-only-released-early",
        "a read-only answer does not wait for what it read";
    /// Pipeline: two groups reach the log in the wrong order.
    SwappedGroups: "swapped-groups", "two groups reach the log in the wrong order";
    /// Pipeline: what a panicking transaction changed stays.
    PanicNotUndone: "panic-not-undone", "what a panicking transaction changed stays";
    /// Pipeline: after a failed sync the answers that waited for it leave as successes.
    ReleasedAfterFailure: "released-after-failure",
        "a failed sync releases its answers as successes";
    /// Pipeline: writes execute without a reservation of log space.
    ReservationSkipped: "reservation-skipped", "writes execute without room in the log";
    /// Seats: word that was left with a thread that has a stage is ignored when it gives that back.
    WordIgnored: "word-ignored", "a thread that gives a stage back ignores word that was left";
    /// Seats: a thread that finds a stage taken leaves no word.
    WordNotLeft: "word-not-left", "a thread that finds a stage taken leaves no word";
    /// Carrying: a caller sleeps without having entered itself among those that wait for the log.
    WaiterNotEntered: "waiter-not-entered", "a caller sleeps where no flush finds it";
    /// Carrying: a caller that is done forgets word that was left with it.
    WordForgotten: "word-forgotten", "a caller that is done forgets word that was left with it";
    /// Carrying: after a flush, with more behind it, no caller is woken to lead the next.
    LeaderNotWoken: "leader-not-woken", "no caller is woken to lead the next flush";
    /// Links: a thread that found nothing more to send gives up sending later, without another look.
    SenderLooksAway: "sender-looks-away",
        "a thread stops sending over a link without a look at what came meanwhile";
    /// Carrying: the flush of an answer that left early is not asked for.
    FlushNotAskedFor: "flush-not-asked-for",
        "no flush is asked for behind a carried call's early answer";
    /// Pipeline: what execution hands on does not wake the logging stage.
    HandedOnSilently: "handed-on-silently", "execution hands on and does not wake the logging stage";
    /// Carrying: a carried call is answered before the log is durable behind it.
    CarriedAnsweredEarly: "carried-answered-early", "a carried call's answer does not wait for the log";
    /// Carrying: a carried call that logged nothing does not wait for what it read.
    CarriedReadNotWaiting: "carried-read-not-waiting",
        "a carried call that logged nothing waits for nothing";
    /// Recovery: a group is accepted whatever its checksum.
    IgnoredChecksum: "ignored-checksum", "recovery accepts a group whatever its checksum";
    /// Recovery: redo begins one group too late.
    WrongRedoStart: "wrong-redo-start", "redo begins one group too late";
    /// Recovery: a group of an earlier epoch is accepted behind the cut.
    StaleEpochAccepted: "stale-epoch-accepted",
        "recovery accepts an earlier epoch's group at the tail";
    /// Recovery: a torn tail is skipped but not cut on the disk.
    TailNotCut: "tail-not-cut", "recovery leaves a torn tail on the disk";
    /// Recovery: what was cut off stays where a segment begins.
    CutNotWiped: "cut-not-wiped", "recovery leaves cut-off groups at the beginning of segments";
    /// Recovery: damage anywhere is taken for a torn tail.
    DamageTakenForTail: "damage-taken-for-tail", "recovery takes any damage for a torn tail";
    /// Recovery: deletes are not replayed.
    DeletesNotReplayed: "deletes-not-replayed", "recovery skips deletes";
    /// Image: blocks are not synced before what they replace is written over.
    ImageSyncSkipped: "image-sync-skipped",
        "blocks are not synced before older copies are written over";
    /// Image: the log is given back before the catalogue that makes it needless is durable.
    LogReleasedEarly: "log-released-early", "the log is given back before the catalogue is durable";
    /// Image: the blocks of a ring are written from the last to the first.
    BlocksDescending: "blocks-descending", "a ring's blocks are written from the last to the first";
    /// Image: blocks are written before the catalogue that names their rings and checkpoint is durable.
    RingNotInCatalogueFirst: "ring-not-in-catalogue-first",
        "blocks are written before the catalogue names their ring";
    /// Image: of a block's copies the first one found is loaded, however old.
    StaleBlockAccepted: "stale-block-accepted",
        "loading takes the first copy of a block, however old";
    /// Image: blocks of an abandoned checkpoint are taken for those of the next with its number.
    BlockEpochIgnored: "block-epoch-ignored",
        "blocks of an abandoned checkpoint are the next one's";
    /// Image: a value that neither image nor log holds is accepted as missing.
    DanglingAccepted: "dangling-accepted", "a value that neither image nor log holds is accepted";
    /// Image: entries of rings in directories but the first are not synced.
    StripeNotSynced: "stripe-not-synced", "new rings in further directories are not synced";
    /// Checkpoints apart: the log is given back for a checkpoint that is not complete.
    ApartReleasedEarly: "apart-released-early",
        "the log goes before the other process's checkpoint is complete";
    /// Checkpoints apart: a new process takes the image for all there is and reads no log.
    ApartLogNotRead: "apart-log-not-read", "a new checkpoint process reads the image and no log";
    /// Checkpoints apart: what the link had no room for is never read back.
    ApartPositionLost: "apart-position-lost",
        "records that were not sent are never read from the log";
    /// No second copy: blocks are written before the log is durable that they hold.
    BlockWrittenEarly: "block-written-early",
        "without a second copy blocks are written before their log is durable";
    /// No second copy: a block is called whole after the first slice of it.
    BlockHalfCopied: "block-half-copied",
        "without a second copy a block has the slots of its first slice alone";
    /// No second copy: a checkpoint is to hold what became durable after the rows were surveyed.
    SurveyTooOld: "survey-too-old",
        "without a second copy a checkpoint holds more than what was surveyed";
    /// Added indexes: the definition is not logged.
    IndexNotLogged: "index-not-logged", "an index that is added is not in the log";
    /// Added indexes: commits do not keep them.
    IndexNotKept: "index-not-kept", "commits do not keep an index their procedures do not know";
    /// Added columns: the definition is not logged, and values are.
    ColumnNotLogged: "column-not-logged", "a column that is added is not in the log";
    /// Added columns: commits do not copy what they change while rows get longer.
    ColumnNotKept: "column-not-kept", "commits do not copy the rows they change to the longer ones";
    /// Added columns: what a row had in them stays in its slot when that is given back.
    AddedNotCleared: "added-not-cleared", "a slot is given back with what was in added columns";
    /// Added columns: of a row that dies while rows get longer, the copy stays.
    AddedCopyNotCleared: "added-copy-not-cleared",
        "what a row had in added columns stays where rows get longer";
    /// Request ids: the row of an id is not of its request's transaction.
    IdCommittedAlone: "id-committed-alone", "the row of a request's id commits before the request";
    /// Request ids: that a request had no effect is not remembered.
    AbortNotRemembered: "abort-not-remembered",
        "nothing remembers that a request with an id aborted";
    /// Request ids: replay takes no rows of ids.
    IdsNotReplayed: "ids-not-replayed", "recovery forgets which ids ran";
    /// Request ids: the outcome of a request that did not run is reported as an abort.
    UnknownIsAborted: "unknown-is-aborted", "a request that did not run yet is said to have aborted";
    /// Archive: a part gets its name before it is synced.
    ArchiveNotSynced: "archive-not-synced",
        "a part of an archive gets its name before it is synced";
    /// Archive: the log is given back before it is archived.
    ArchiveNotWaitedFor: "archive-not-waited-for", "the log is given back before it is archived";
    /// Archive: a log that is opened gives away what is not archived.
    ArchiveNotKept: "archive-not-kept", "opening gives away what of the log is not archived";
    /// Archive: a part is taken that does not follow the one before.
    ArchiveUnchained: "archive-unchained", "a part is restored that does not follow the one before";
    /// Atomic commit: a caller is answered before the decision is durable.
    AnsweredBeforeDecision: "answered-before-decision",
        "a caller hears of a commit before the decision is durable";
    /// Atomic commit: participants hear the decision before it is durable.
    DecisionSentEarly: "decision-sent-early", "participants hear a decision before it is durable";
    /// Atomic commit: where one participant wrote, the decision has no row.
    DecisionNotWritten: "decision-not-written", "where one participant wrote the decision has no row";
    /// Atomic commit: an opening loads no decisions.
    DecisionForgotten: "decision-forgotten", "an opening does not load decisions";
    /// Atomic commit: an opening loads no prepared parts.
    DoubtForgotten: "doubt-forgotten", "an opening does not load prepared parts";
    /// Atomic commit: a participant votes yes before its part is durable.
    VotedBeforeDurable: "voted-before-durable", "a vote leaves before its part is durable";
    /// Atomic commit: a read-only vote does not wait for what it read.
    ReadsNotSettled: "reads-not-settled", "a read-only vote does not wait for what was read";
    /// Atomic commit: a part that only read releases its locks with its vote.
    ReadLocksReleased: "read-locks-released", "a read-only vote releases its locks";
    /// Atomic commit: a read-only vote counts though its locks were lost.
    TenureIgnored: "tenure-ignored", "a read-only vote counts though its island lost the locks";
    /// Atomic commit: a participant confirms a commit before it is durable.
    ConfirmedBeforeDurable: "confirmed-before-durable", "a commit is confirmed before it is durable";
    /// Atomic commit: the first confirmation lets the coordinator forget.
    ForgottenEarly: "forgotten-early", "a decision is forgotten with its first confirmation";
    /// Atomic commit: what the coordinator does not know is committed.
    ForgottenIsCommitted: "forgotten-is-committed", "a transaction that is not known is committed";
    /// Atomic commit: a question about a transaction that is not decided is answered.
    UndecidedIsAborted: "undecided-is-aborted", "a question before the decision is answered: aborted";
    /// Atomic commit: a participant in doubt aborts by itself.
    DoubtAborted: "doubt-aborted", "a prepared part is aborted when no decision comes";
    /// Atomic commit: a decision is not sent again when a link is made again.
    DecisionNotRepeated: "decision-not-repeated", "a decision is not sent again by the next link";
    /// Atomic commit: a part that arrives again runs again.
    PartRunsTwice: "part-runs-twice", "a part that arrives again runs again";
    /// Atomic commit: messages of and to earlier openings are accepted.
    EarlierOpeningAccepted: "earlier-opening-accepted",
        "messages of and to an earlier opening are accepted";
    /// Atomic commit: a vote no counts as one that only read.
    NoIgnored: "no-ignored", "a vote no does not abort";
    /// Atomic commit: a part waits for any lock, also an older transaction's.
    WaitNotDie: "wait-not-die", "a part waits for an older transaction's locks";
    /// Atomic commit: nothing that waits for a lock runs when it is released.
    WaitersNotWoken: "waiters-not-woken", "what waits for a lock does not run when it is released";
    /// Paged store: a restart sets no log space aside for what it undoes.
    RestartReservesNothing: "restart-reserves-nothing",
        "a restart of a paged store sets no room aside for what it undoes";
    /// Paged store: the log that a prepared transaction needs is let go.
    PreparedLogReleased: "prepared-log-released", "checkpoints do not know of prepared transactions";
    /// Paged store: the log is kept for a prepared transaction only from where it says so on.
    PreparedBeginningReleased: "prepared-beginning-released",
        "the changes of a prepared transaction are let go of the log";
    /// Paged store: after a restart, checkpoints do not know of prepared transactions.
    PreparedForgottenByRestart: "prepared-forgotten-by-restart",
        "after a restart checkpoints do not know of prepared transactions";
    /// Paged store: a restart does not lock again what prepared transactions had locked.
    PreparedLocksForgotten: "prepared-locks-forgotten",
        "a restart does not lock again what prepared transactions had locked";
    /// Paged store: a restart does not follow gaps that were handed on.
    HandedOnGapsForgotten: "handed-on-gaps-forgotten",
        "a restart locks gaps of prepared transactions by the names they had";
    /// Paged store: a restart takes a deletion that was undone behind a savepoint for one.
    UndoneDeletionsCleared: "undone-deletions-cleared",
        "a restart clears away what was deleted behind a savepoint, and is not deleted";
    /// Paged store: going back to a savepoint hands on the gaps of other transactions only.
    OwnGapsNotHandedOn: "own-gaps-not-handed-on",
        "what a transaction read behind a savepoint is not locked any more";
    /// Pool: a page is written before the log of its changes.
    PageBeforeItsLog: "page-before-its-log", "pages are written before the log of their changes";
    /// Pool: a page that was changed leaves its frame unwritten.
    DirtyPageDropped: "dirty-page-dropped", "a page that was changed leaves its frame unwritten";
    /// Pool: a checkpoint does not list the pages whose changes the file lacks.
    DirtyPagesNotListed: "dirty-pages-not-listed",
        "a checkpoint does not list the pages whose changes the file lacks";
    /// Pool: a page is written in place without a copy elsewhere.
    CopyNotKept: "copy-not-kept", "a page that is torn has no copy";
    /// Pool: the slots of copies are used again before the pages are durable in their places.
    SlotsUsedEarly: "slots-used-early", "copies of pages are overwritten while they are needed";
    /// Pool: a checkpoint lets go of the log before the pages are durable.
    PagesNotSynced: "pages-not-synced", "a checkpoint does not sync the pages";
    /// Paged log: a checkpoint lets go of the records of a transaction that is under way.
    OldestForgotten: "oldest-forgotten",
        "a checkpoint releases the log of a transaction under way";
    /// Paged log: a commit is answered before it is durable.
    CommitNotFlushed: "commit-not-flushed", "a commit is answered before it is durable";
    /// Paged store: a transaction that changed nothing is answered before what it read is durable.
    ReaderNotHardened: "reader-not-hardened",
        "a reader is answered before what it read is durable";
    /// Paged store: a restart makes a change once more that the page has.
    RedoneTwice: "redone-twice", "a restart repeats changes that a page has";
    /// Tree: the leaf behind two halves keeps its link to the first of them.
    NeighbourNotLinked: "neighbour-not-linked", "the leaf behind a divided one has an old link";
    /// Tree: what separates two halves is the last key of the first one.
    SeparatorTooLow: "separator-too-low", "a node's halves are separated one entry too early";
    /// Locks: a conversion is granted whatever others hold.
    ConversionIgnoresOthers: "conversion-ignores-others",
        "a lock is converted to a stronger mode though others hold it";
    /// Locks: a conversion that is given up grants nothing that waited behind it.
    CancelGrantsNone: "cancel-grants-none",
        "what waited behind a conversion that is given up goes on waiting";
    /// Locks: a transaction inserts where another has found that there is no row.
    GapEnteredAnyway: "gap-entered-anyway", "rows come where a transaction found none";
    /// Latch: a thread holds it alone while others read.
    ExclusivePastReaders: "exclusive-past-readers", "a latch is held alone while others read";
    /// Islands of paged stores: an opening does not look up what a coordinator decided.
    PagedDecisionNotLookedUp: "paged-decision-not-looked-up",
        "an opening aborts what islands of paged stores prepared, whatever was decided";
    /// Islands of paged stores: a transaction is decided before the participants' votes are durable.
    PagedVoteNotWaitedFor: "paged-vote-not-waited-for",
        "islands of paged stores decide before the votes are durable";
}

impl Plant {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        self.text().0
    }

    /// What it breaks, in one line.
    pub const fn breaks(self) -> &'static str {
        self.text().1
    }

    /// Whether the simulator is known to notice it. The others are noticed by this crate's tests:
    /// what recovery leaves behind a cut, which an honest disk never shows (a segment is begun when the one
    /// before is durable) and a lying one in fewer than one of 10,000 seeds; an abandoned checkpoint whose
    /// number comes again behind a log that lost groups, which only a lying disk shows, once in some
    /// 300,000 seeds; an archive that is so far behind when a process ends that the image is past it, which is as
    /// rare; and parts of two histories of a log, which the simulator never mixes. A thread that sleeps for ever and
    /// an item that stays in an outbox are noticed by loom: the simulator's callers do not sleep. Nor does it run the
    /// paged store, or islands of paged stores: those plants are noticed by this crate's tests (the crash model, the
    /// lock table's models, loom) and by the library's (`paged/islands/tests/`).
    pub const fn is_simulated(self) -> bool {
        !matches!(
            self,
            Self::CutNotWiped
                | Self::BlockEpochIgnored
                | Self::ArchiveNotKept
                | Self::ArchiveUnchained
                | Self::RestartReservesNothing
                | Self::PreparedLogReleased
                | Self::PreparedBeginningReleased
                | Self::PreparedForgottenByRestart
                | Self::PreparedLocksForgotten
                | Self::HandedOnGapsForgotten
                | Self::UndoneDeletionsCleared
                | Self::OwnGapsNotHandedOn
                | Self::PageBeforeItsLog
                | Self::DirtyPageDropped
                | Self::DirtyPagesNotListed
                | Self::CopyNotKept
                | Self::SlotsUsedEarly
                | Self::PagesNotSynced
                | Self::OldestForgotten
                | Self::CommitNotFlushed
                | Self::ReaderNotHardened
                | Self::RedoneTwice
                | Self::NeighbourNotLinked
                | Self::SeparatorTooLow
                | Self::ConversionIgnoresOthers
                | Self::CancelGrantsNone
                | Self::GapEnteredAnyway
                | Self::ExclusivePastReaders
                | Self::PagedDecisionNotLookedUp
                | Self::PagedVoteNotWaitedFor
                | Self::WordIgnored
                | Self::WordNotLeft
                | Self::WaiterNotEntered
                | Self::WordForgotten
                | Self::LeaderNotWoken
                | Self::SenderLooksAway
        )
    }

    /// Whether it is in ordered execution over islands, which has a simulation of its own.
    pub const fn is_of_ordered(self) -> bool {
        matches!(
            self,
            Self::OneLogSuffices
                | Self::OrderedNotCutOff
                | Self::OrderedNotNoted
                | Self::EpochNotEnded
        )
    }

    /// Whether it is in the commit between islands, which has a simulation of its own.
    pub const fn is_of_commit(self) -> bool {
        self as u8 >= Self::AnsweredBeforeDecision as u8
    }

    /// The plant of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|plant| plant.name() == name)
    }
}

#[cfg(not(any(tombolo_plants, test, loom, shuttle)))]
mod choice {
    use super::Plant;

    /// Whether this build can plant bugs.
    pub const POSSIBLE: bool = false;

    /// Whether this plant was chosen: never, in this build.
    #[inline(always)]
    pub const fn is(_: Plant) -> bool {
        false
    }

    /// Chooses a plant for the whole process: not in this build.
    ///
    /// # Panics
    /// Always.
    pub fn choose(plant: Plant) {
        panic!("{} needs a build with --cfg tombolo_plants", plant.name());
    }

    /// Whether the chosen plant's code was reached: never, in this build.
    pub fn reached() -> bool {
        false
    }
}

/// In this crate's own tests and under loom and shuttle a plant is chosen for the thread, so that a test shows that
/// another one would notice it. Loom and shuttle run all threads of a model on one.
#[cfg(all(any(test, loom, shuttle), not(tombolo_plants)))]
mod choice {
    use super::Plant;
    use std::cell::Cell;

    /// Whether this build can plant bugs for a whole process.
    pub const POSSIBLE: bool = false;

    thread_local! {
        static CHOSEN: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Whether this plant was chosen for this thread.
    pub fn is(plant: Plant) -> bool {
        CHOSEN.get() == Some(plant)
    }

    /// Chooses a plant for the whole process: not in this build.
    ///
    /// # Panics
    /// Always.
    pub fn choose(plant: Plant) {
        panic!("{} needs a build with --cfg tombolo_plants", plant.name());
    }

    /// Whether the chosen plant's code was reached; never called in this build.
    pub fn reached() -> bool {
        false
    }

    /// Runs `test` with this plant.
    pub fn with<T>(plant: Plant, test: impl FnOnce() -> T) -> T {
        CHOSEN.set(Some(plant));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        CHOSEN.set(None);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(tombolo_plants)]
mod choice {
    use super::Plant;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether this build can plant bugs.
    pub const POSSIBLE: bool = true;

    static CHOSEN: OnceLock<Plant> = OnceLock::new();
    static REACHED: AtomicBool = AtomicBool::new(false);

    /// Whether this plant was chosen.
    pub fn is(plant: Plant) -> bool {
        let chosen = CHOSEN.get() == Some(&plant);
        if chosen {
            // Relaxed: read once, after the threads that set it were joined.
            REACHED.store(true, Ordering::Relaxed);
        }
        chosen
    }

    /// Chooses a plant for the whole process.
    ///
    /// # Panics
    /// When another one was chosen before.
    pub fn choose(plant: Plant) {
        assert_eq!(*CHOSEN.get_or_init(|| plant), plant, "one plant per process");
    }

    /// Whether the chosen plant's code was reached; if not, no oracle had anything to notice.
    pub fn reached() -> bool {
        REACHED.load(Ordering::Relaxed) // after the threads that set it were joined
    }
}

#[cfg(all(any(test, loom, shuttle), not(tombolo_plants)))]
pub use choice::with;
pub use choice::{POSSIBLE, choose, is, reached};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plant_is_listed_once_and_found_by_its_name() {
        for (position, plant) in Plant::ALL.iter().copied().enumerate() {
            assert_eq!(plant as usize, position);
            assert_eq!(Plant::named(plant.name()), Some(plant));
            assert!(!plant.breaks().is_empty());
        }
        assert_eq!(Plant::named("no-such-plant"), None);
    }

    #[cfg(not(tombolo_plants))]
    #[test]
    fn nothing_is_planted_in_a_normal_build() {
        const { assert!(!POSSIBLE) };
        assert!(!is(Plant::SkippedFsync) && !reached());
        let chosen = std::panic::catch_unwind(|| choose(Plant::SkippedFsync));
        assert!(chosen.is_err());
    }
}
