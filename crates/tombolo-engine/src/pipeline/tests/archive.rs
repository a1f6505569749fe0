//! The archive stage by itself, on a log and an archive in memory: when it writes, what a disk that is full
//! or fails does to it, being far behind, another process.
//!
//! Not here: whether a database can be restored from an archive (storage `value_log/archive/`, the simulator).

use std::io::ErrorKind;

use tombolo_storage::disk::{Disk, Fault, MemDisk, Operation};
use tombolo_storage::value_log::archive::{Archiver, LogArchive};
use tombolo_storage::value_log::{LogSettings, LogWriter, RecoverOptions, recover};

use super::*;
use crate::pipeline::stages::{ArchiveHandle, ArchiveStage, ArchiveState};
use crate::pipeline::state::Shared;

/// How long something may wait to be archived, and how long the stage pauses after a failure.
const TIME_NS: u64 = 1_000;
const RETRY_NS: u64 = 1_000_000_000;

/// Nothing is to be done before then.
const fn idle(until_ns: u64) -> Step {
    Step::IdleUntil(Some(until_ns))
}

/// A log, its archive and the stage between them.
struct Rig {
    log: MemDisk,
    archive: MemDisk,
    writer: LogWriter,
    shared: Arc<Shared<u64>>,
    state: Arc<ArchiveState>,
    stage: ArchiveStage<u64>,
}

/// A segment holds seven groups of [`Rig::write`].
fn settings() -> LogSettings {
    LogSettings { segment_bytes: 16 << 10, block_bytes: 512, ..LogSettings::default() }
}

fn taken(disk: &MemDisk) -> LogArchive {
    LogArchive::open(Arc::new(disk.clone())).unwrap()
}

impl Rig {
    fn new() -> Self {
        let (log, archive) = (MemDisk::new(), MemDisk::new());
        let writer = LogWriter::create(Arc::new(log.clone()), settings()).unwrap();
        let archiver = taken(&archive).attach(writer.reader(), writer.position()).unwrap();
        Self::of(log, archive, writer, archiver)
    }

    fn of(log: MemDisk, archive: MemDisk, mut writer: LogWriter, archiver: Archiver) -> Self {
        let shared = Arc::new(Shared::new(Room { bytes: 0, is_all: true, more_is_wanted: false }));
        shared.set_durable_group(writer.durable());
        let archived = archiver.position().group;
        writer.keep_from(archived + 1);
        let state = Arc::new(ArchiveState::new(archived, Arc::new(Signal::default())));
        let archiving = Archiving { archiver, time_ns_max: TIME_NS };
        let logging = Arc::new(Signal::default());
        let stage = ArchiveStage::new(archiving, state.clone(), shared.clone(), logging);
        Self { log, archive, writer, shared, state, stage }
    }

    /// Writes so many groups, durably; the last one's number.
    fn write(&mut self, groups: usize) -> u64 {
        for _ in 0..groups {
            self.writer.append_group(&[&[7; 900]], 1, None).unwrap();
        }
        self.writer.sync().unwrap();
        self.shared.set_durable_group(self.writer.durable());
        self.writer.durable()
    }

    fn ask(&self) -> ArchiveHandle {
        ArchiveHandle::ask(Some(&self.state), self.shared.durable_group())
    }

    fn fail(&self, operation: Operation, after: u64) {
        let kind = ErrorKind::Other;
        self.archive.set_fault(Some(Fault { operation, after, kind }));
    }

    /// The process ends; the next one's log keeps what the archive lacks.
    fn restarted(self) -> Self {
        let Self { log, archive, writer, stage, .. } = self;
        drop((writer, stage));
        let held = taken(&archive);
        let options = RecoverOptions { keep: held.keep(), ..RecoverOptions::default() };
        let mut replay = |_: u64, _: &[u8]| Ok::<_, String>(());
        let door = Arc::new(log.clone());
        let recovered = recover(door, settings(), options, &mut replay, &mut |_| {});
        let writer = recovered.unwrap().writer;
        let archiver = held.attach(writer.reader(), writer.position()).unwrap();
        Self::of(log, archive, writer, archiver)
    }

    /// The last group of the archive's, as the next process finds it: all before it is there.
    fn held(self) -> u64 {
        drop((self.writer, self.stage));
        taken(&self.archive).held().map_or(0, |held| held.last.group)
    }
}

#[test]
fn what_is_durable_is_archived_in_time_on_demand_and_by_segments() {
    let mut rig = Rig::new();
    assert_eq!((rig.stage.step(0), rig.state.archived()), (idle(TIME_NS), 1));
    let fourth = rig.write(3);
    assert_eq!(rig.stage.step(TIME_NS - 1), idle(TIME_NS));
    assert_eq!((rig.stage.step(TIME_NS), rig.state.archived()), (Step::Progress, fourth));
    assert_eq!(rig.stage.step(TIME_NS), idle(2 * TIME_NS));
    let sixth = rig.write(2);
    let asked = rig.ask();
    assert_eq!(rig.stage.step(TIME_NS + 1), Step::Progress);
    assert_eq!(asked.wait(), Ok(sixth));
    // What lies in segments that were left behind goes soon, so that they can be used again.
    let newest = rig.write(5);
    let left_behind = rig.writer.left_behind();
    assert!((sixth + 1..newest).contains(&left_behind), "{left_behind}");
    rig.state.left_behind(left_behind);
    assert_eq!(rig.stage.step(TIME_NS + 2), Step::Progress);
    assert_eq!(rig.state.archived(), left_behind);
    assert!(matches!(rig.stage.step(TIME_NS + 2), Step::IdleUntil(Some(_))));
    assert_eq!(rig.held(), left_behind);
}

#[test]
fn a_full_archive_is_reported_and_tried_again() {
    let mut rig = Rig::new();
    rig.stage.step(0);
    let newest = rig.write(3);
    rig.archive.set_capacity_bytes(Some(1));
    let asked = rig.ask();
    assert_eq!(rig.stage.step(10), idle(10 + RETRY_NS));
    let seen = rig.state.statistics();
    // What was written when it was opened is counted with the next part.
    assert_eq!((seen.group, seen.parts, seen.failures), (1, 0, 1));
    assert!(seen.failure.unwrap().contains("full"), "{:?}", rig.state.statistics().failure);
    assert!(!rig.archive.exists("archive-unfinished").unwrap(), "it takes no room meanwhile");
    // It is left alone for a while, whatever is asked.
    drop(rig.ask());
    assert_eq!(rig.stage.step(RETRY_NS), idle(10 + RETRY_NS));
    assert_eq!(rig.state.statistics().failures, 1);
    rig.archive.set_capacity_bytes(None);
    assert_eq!(rig.stage.step(10 + RETRY_NS), Step::Progress);
    assert_eq!(asked.wait(), Ok(newest));
    let seen = rig.state.statistics();
    assert_eq!((seen.group, seen.parts, seen.failure), (newest, 2, None));
}

/// A waiting thread gets the failure, and need not wait for a disk that fails.
#[test]
fn a_wait_for_an_archive_that_fails_gets_the_reason() {
    let mut rig = Rig::new();
    rig.write(1);
    rig.fail(Operation::Write, 0);
    let (asked, answer) = (rig.ask(), Arc::new(Mutex::new(None)));
    let own = answer.clone();
    let waits = move || *own.lock().unwrap() = Some(asked.wait());
    let thread = crate::threads::Running::start("waits", waits).unwrap();
    let mut now_ns = 0;
    while answer.lock().unwrap().is_none() {
        rig.stage.step(now_ns);
        now_ns += RETRY_NS;
    }
    thread.join();
    let answer = answer.lock().unwrap().take().unwrap();
    let Err(ArchiveRefusal::Failed(why)) = &answer else { panic!("{answer:?}") };
    assert!(why.contains("archive-unfinished"), "{why}");
}

#[test]
fn a_call_to_the_archive_may_fail_at_any_point() {
    let operations = [Operation::Open, Operation::Write, Operation::Sync, Operation::Rename];
    for operation in operations {
        for after in 0.. {
            let mut rig = Rig::new();
            rig.stage.step(0);
            let newest = rig.write(10);
            rig.fail(operation, after);
            let mut now_ns = TIME_NS;
            while rig.stage.step(now_ns) == Step::Progress {}
            let failures = rig.state.statistics().failures;
            rig.archive.set_fault(None);
            now_ns += RETRY_NS;
            while rig.stage.step(now_ns) == Step::Progress {}
            assert_eq!(rig.state.archived(), newest, "{operation:?} {after}");
            assert_eq!((rig.state.statistics().failure, rig.held()), (None, newest));
            if failures == 0 {
                assert!(after > 0, "{operation:?} is none of the archive's calls");
                break;
            }
        }
    }
}

/// The log keeps what is not archived, even if it is released, and gives it back part by part.
#[test]
fn one_that_is_far_behind_archives_a_segment_at_a_time() {
    let mut rig = Rig::new();
    let newest = rig.write(60);
    assert_eq!(rig.writer.release_before(newest), 0, "nothing is archived");
    rig.stage.step(0);
    let (mut parts, mut released) = (0, 0);
    while rig.stage.step(TIME_NS) == Step::Progress {
        parts += 1;
        released += rig.writer.keep_from(rig.state.archived() + 1);
    }
    assert_eq!(rig.state.archived(), newest);
    assert!(parts >= 8 && parts == rig.state.statistics().parts - 1, "{parts} parts");
    assert!(released >= 7, "{released} segments were given back");
    assert_eq!(rig.held(), newest);
}

#[test]
fn the_next_process_archives_what_is_missing() {
    let mut rig = Rig::new();
    rig.stage.step(0);
    rig.write(4);
    rig.stage.step(TIME_NS);
    let archived = rig.state.archived();
    for _ in 0..3 {
        let newest = rig.write(30);
        rig.writer.release_before(newest);
        rig = rig.restarted();
    }
    assert_eq!(rig.state.archived(), archived, "it ended each time before anything was archived");
    // The groups that begin an epoch are archived like any others.
    let newest = rig.write(1);
    rig.stage.step(0);
    while rig.stage.step(TIME_NS) == Step::Progress {}
    assert!(newest > archived + 3 * 30 && rig.state.archived() == newest);
    assert_eq!(rig.held(), newest);
}

#[test]
fn a_close_archives_the_rest_or_tries_once() {
    for fails in [false, true] {
        let mut rig = Rig::new();
        rig.stage.step(0);
        let newest = rig.write(3);
        rig.state.close();
        if fails {
            rig.fail(Operation::Sync, 0);
            // The pause after a failure does not hold up a close.
            assert_eq!(rig.stage.step(1), Step::Ended);
            assert_eq!(rig.ask().wait(), Err(ArchiveRefusal::Closed));
            rig.archive.set_fault(None);
            assert_eq!(rig.held(), 1);
        } else {
            assert_eq!(rig.stage.step(1), Step::Progress);
            assert_eq!((rig.stage.step(1), rig.held()), (Step::Ended, newest));
        }
    }
}

/// A thread that asks before or after a breakdown of the stage gets the breakdown, and not that the database is
/// closed.
#[test]
fn a_stage_that_broke_down_says_so() {
    let mut rig = Rig::new();
    rig.write(1);
    let before = rig.ask();
    rig.state.broken("the archive stage panicked: as asked");
    for asked in [before, rig.ask()] {
        let answer = asked.wait();
        assert_eq!(
            answer,
            Err(ArchiveRefusal::Broken("the archive stage panicked: as asked".into()))
        );
    }
}
