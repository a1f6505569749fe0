//! The stage in another process: sent what is durable, ended at any moment, started again.
//!
//! Here the processes are stepped together with the stages, over a link in memory.

use std::sync::{Mutex, MutexGuard, Weak};

use super::*;
use crate::link::{MemoryFaults, memory_pair};
use crate::pipeline::remote_checkpoint::{
    CheckpointProcess, Companion, Process, RemoteCheckpoints, StartCompanion,
};

/// A process that was started, until it is killed.
struct Running {
    process: CheckpointProcess,
    stages: Vec<Box<dyn Stage>>,
    /// It is there and does nothing any more.
    hangs: bool,
}

impl Running {
    /// Steps everything once; whether anything made progress, and whether it has ended.
    fn step(&mut self, now_ns: u64) -> (bool, bool) {
        if self.hangs {
            return (false, false);
        }
        let step = self.process.step(now_ns);
        self.stages.extend(self.process.take_stages().into_iter().map(|(stage, _)| stage));
        let mut has_worked = step == Step::Progress;
        self.stages.retain_mut(|stage| {
            let step = stage.step(now_ns);
            has_worked |= step == Step::Progress;
            step != Step::Ended
        });
        (has_worked, step == Step::Ended && self.stages.is_empty())
    }
}

type Slot = Arc<Mutex<Option<Running>>>;

/// The processes of one database, in the order they were started.
#[derive(Clone, Default)]
struct Processes(Arc<Mutex<Vec<Slot>>>);

impl Processes {
    fn newest(&self) -> Slot {
        self.0.lock().unwrap().last().cloned().unwrap()
    }
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
    fn slots(&self) -> Vec<Slot> {
        self.0.lock().unwrap().clone()
    }
}

fn locked(slot: &Slot) -> MutexGuard<'_, Option<Running>> {
    slot.lock().unwrap()
}

/// As `kill -9` does.
fn kill(slot: &Slot) {
    *locked(slot) = None;
}

struct Killed(Slot);

impl Process for Killed {
    fn ended(&mut self) -> Option<String> {
        locked(&self.0).is_none().then(|| "it ended with signal: 9 (SIGKILL)".to_owned())
    }
    fn kill(&mut self) {
        kill(&self.0);
    }
}

struct Starter {
    disks: Disks,
    clock: Arc<TickingClock>,
    processes: Processes,
    faults: MemoryFaults,
    /// Gone when the database is.
    _token: Arc<()>,
}

impl StartCompanion for Starter {
    fn start(&mut self) -> Result<Companion, String> {
        let seed = self.processes.count() as u64;
        let (own, other) = memory_pair(self.faults, seed);
        let disks = self.disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>);
        let clock = self.clock.clone();
        let process = CheckpointProcess::new(Box::new(other), disks.collect(), clock);
        let slot =
            Arc::new(Mutex::new(Some(Running { process, stages: Vec::new(), hangs: false })));
        self.processes.0.lock().unwrap().push(Arc::clone(&slot));
        Ok(Companion { link: Box::new(own), process: Box::new(Killed(slot)) })
    }
}

/// All processes as one stage, for tests that step stages.
struct Others {
    processes: Processes,
    token: Weak<()>,
}

impl Stage for Others {
    fn kind(&self) -> StageKind {
        Checkpoint
    }
    fn step(&mut self, now_ns: u64) -> Step {
        let (mut has_worked, mut are_there) = (false, false);
        for slot in self.processes.slots() {
            let mut running = locked(&slot);
            let Some(process) = &mut *running else { continue };
            let (worked, has_ended) = process.step(now_ns);
            (has_worked, are_there) = (has_worked || worked || has_ended, true);
            if has_ended {
                *running = None;
            }
        }
        match () {
            () if has_worked => Step::Progress,
            () if !are_there && self.token.strong_count() == 0 => Step::Ended,
            () => Step::IdleUntil(None),
        }
    }
}

fn open_with(disks: &Disks, how: How, faults: MemoryFaults) -> (Database, Processes) {
    let Recovered { settings: image, loaded, writer, replayed, .. } = recovered(disks, how);
    let bank = bank_of(loaded.replay);
    let (clock, processes) = (Arc::new(TickingClock::default()), Processes::default());
    let token = Arc::new(());
    let others = Others { processes: processes.clone(), token: Arc::downgrade(&token) };
    let start = Starter {
        disks: disks.clone(),
        clock: clock.clone(),
        processes: processes.clone(),
        faults,
        _token: token,
    };
    let apart = RemoteCheckpoints {
        start: Box::new(start),
        image,
        limits: Limits::default(),
        parts: how.parts,
        salt: writer.salt(),
        epoch: writer.epoch(),
        log_is_direct: true,
    };
    let options = Options { checkpoint: how.policy, ..options_of(how) };
    let log = Box::new(ValueLogGroups::new(writer));
    let builder = Builder::new(bank, options).log(log).remote_checkpoints(apart);
    let (pipeline, mut stages) = builder.assemble(clock.clone());
    stages.push(Box::new(others));
    let caller = pipeline.caller(100_000);
    let (pipeline, paid) = (Some(pipeline), BTreeMap::new());
    (Database { pipeline, stages, clock, caller, replayed, paid }, processes)
}

fn options_of(how: How) -> Options {
    Options { checkpoint: how.policy, ..options() }
}

fn open(disks: &Disks, how: How) -> (Database, Processes) {
    open_with(disks, how, MemoryFaults::default())
}

/// Longer than a stage waits before it starts another process.
const LATER_NS: u64 = 6_000_000_000;

impl Database {
    /// Lets so much time pass that another process is started, and everything happen that does.
    fn later(&mut self) {
        self.clock.0.fetch_add(LATER_NS, Ordering::Relaxed);
        self.step(100_000, |_| true);
    }
}

#[test]
fn a_close_leaves_nothing_to_replay_and_no_process() {
    for parts in [1, 2] {
        let (disks, how) = (Disks::default(), How { parts, ..HOW });
        let mut paid = BTreeMap::new();
        for round in 1..=3_i64 {
            let (mut database, processes) = open(&disks, how);
            assert_eq!(database.replayed, 0);
            database.pay(70);
            (0..7).for_each(|id| *paid.entry(id).or_default() = round * 10);
            let closed = database.close();
            assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
            let counted = closed.statistics.checkpoint;
            assert!(counted.count == 1 && counted.bytes > 0, "{counted:?}");
            assert!(counted.processes == 1 && processes.count() == 1);
            assert!(locked(&processes.newest()).is_none());
            drop((closed.executor, closed.log));
            assert_eq!(verify(&disks, how, &paid), 0);
        }
        // Either side may write them: the files are the same.
        let closed = Database::open(&disks, how).close();
        assert_eq!(closed.statistics.checkpoint.bytes, 0, "nothing was logged since");
    }
}

#[test]
fn a_close_without_a_last_one_waits_for_nobody() {
    let policy = CheckpointPolicy { at_close: false, ..POLICY };
    let (disks, how) = (Disks::default(), How { policy, ..HOW });
    let (mut database, processes) = open(&disks, how);
    database.pay(70);
    database.later();
    kill(&processes.newest());
    let paid = database.paid.clone();
    let closed = database.close();
    assert_eq!((closed.statistics.checkpoint.count, processes.count()), (0, 1));
    drop((closed.executor, closed.log));
    assert!(verify(&disks, how, &paid) > 70 * 20);
}

#[test]
fn the_log_is_released_for_what_the_process_has_completed() {
    let policy = CheckpointPolicy { log_bytes: SEGMENT_BYTES, ..POLICY };
    let how = How { policy, log_bytes_max: 5 * SEGMENT_BYTES, ..HOW };
    let disks = Disks::default();
    let (mut database, processes) = open(&disks, how);
    for round in 0..60 {
        database.pay(25);
        database.step(10_000, |_| true);
        if round % 20 == 13 {
            kill(&processes.newest());
            database.pay(25);
            database.step(10, |_| true);
            let why = database.pipeline().checkpoint_failure().unwrap();
            assert!(why.contains("SIGKILL"), "{why}");
            database.later();
            assert_eq!(database.pipeline().checkpoint_failure(), None);
        }
    }
    let counted = database.statistics();
    assert!(counted.count >= 4 && counted.processes == 4, "{counted:?}");
    let paid = database.paid.clone();
    drop(database);
    processes.slots().iter().for_each(kill);
    assert!(verify(&disks, how, &paid) < 3 * SEGMENT_BYTES);
}

/// Lets a database of `payments` ask for a checkpoint, and both sides continue for so many steps.
fn interrupted(
    disks: &Disks,
    how: How,
    steps: usize,
    faults: MemoryFaults,
) -> (Database, Processes) {
    let (mut database, processes) = open_with(disks, how, faults);
    database.pay(150);
    database.later();
    database.pay(60);
    let asked = database.pipeline().checkpoint();
    database.step(steps, |_| true);
    drop(asked);
    (database, processes)
}

#[test]
fn a_process_may_end_at_any_step() {
    let disks = Disks::default();
    let mut steps = 0;
    let (mut was_writing, mut was_complete) = (0, false);
    while !was_complete {
        let disks = match steps % 2 {
            0 => Disks::default(),
            _ => disks.clone(), // with a checkpoint that others left
        };
        let before: i64 = verify_contents(&disks).values().sum();
        let (mut database, processes) = interrupted(&disks, HOW, steps, MemoryFaults::default());
        was_complete = database.statistics().count > 0;
        was_writing += u32::from(database.statistics().is_writing);
        kill(&processes.newest());
        database.pay(10);
        let asked = database.pipeline().checkpoint();
        for _ in 0..3 {
            database.later();
        }
        assert_eq!(asked.poll(), Some(Ok(())), "after {steps} steps");
        assert!(processes.count() == 2 && database.statistics().count >= 1);
        let paid: i64 = database.paid.values().sum();
        let closed = database.close();
        assert_eq!(closed.checkpoint_failure, None);
        drop((closed.executor, closed.log));
        let found = verify_contents(&disks).values().sum::<i64>();
        assert_eq!(found, before + paid, "after {steps} steps");
        steps += 1;
    }
    assert!(was_writing > 1, "it was interrupted between two batches");
}

/// What a restart finds.
fn verify_contents(disks: &Disks) -> BTreeMap<i32, i64> {
    let (mut bank, _, _, _) = opened(disks, HOW);
    bank.contents().0
}

#[test]
fn both_may_end_at_any_step() {
    let (mut steps, mut was_complete) = (0, false);
    while !was_complete {
        let disks = Disks::default();
        let (database, processes) = interrupted(&disks, HOW, steps, MemoryFaults::default());
        was_complete = database.statistics().count > 0;
        let paid = database.paid.clone();
        // The database ends first or the process does.
        if steps % 2 == 0 {
            kill(&processes.newest());
        }
        drop(database);
        processes.slots().iter().for_each(kill);
        verify(&disks, HOW, &paid);
        steps += 1;
    }
}

#[test]
fn a_link_may_be_cut_behind_any_byte() {
    for cut_after in (0..40_000).step_by(701) {
        let faults = MemoryFaults { cut_after, piece_bytes: 900, ..MemoryFaults::default() };
        let disks = Disks::default();
        let (mut database, processes) = interrupted(&disks, HOW, 1_000, faults);
        // Every process has a link that is cut, and what it has completed stays.
        for _ in 0..10 {
            database.pay(5);
            database.later();
        }
        let paid = database.paid.clone();
        assert!(processes.count() > 1 || cut_after > 4_000, "cut after {cut_after}");
        assert_eq!(database.pipeline().poison(), None);
        let closed = database.close();
        drop((closed.executor, closed.log));
        verify(&disks, HOW, &paid);
    }
}

#[test]
fn what_the_link_has_no_room_for_is_read_from_the_log() {
    let faults =
        MemoryFaults { capacity_bytes: 700, piece_bytes: 50, delays: 3, ..MemoryFaults::default() };
    let policy = CheckpointPolicy { queue_bytes_max: 2_000, ..POLICY };
    let (disks, how) = (Disks::default(), How { policy, ..HOW });
    let (mut database, _) = open_with(&disks, how, faults);
    database.later();
    for _ in 0..20 {
        database.pay(50);
        database.step(3, |_| true);
    }
    let asked = database.pipeline().checkpoint();
    for _ in 0..20_000 {
        // Not long enough for a process that answers slowly to be given up.
        database.clock.0.fetch_add(3_000_000, Ordering::Relaxed);
        database.step(100, |_| true);
    }
    assert_eq!(asked.poll(), Some(Ok(())));
    assert!(database.statistics().read_back_bytes > 0, "{:?}", database.statistics());
    let paid = database.paid.clone();
    drop(database);
    assert!(verify(&disks, how, &paid) < 500);
}

#[test]
fn checkpoints_that_are_held_off_wait_in_the_process_too() {
    let disks = Disks::default();
    let (mut database, processes) = open(&disks, HOW);
    database.pay(50);
    database.later();
    assert_eq!(processes.count(), 1);
    let holding = database.pipeline().holding();
    let held = Arc::new(Mutex::new(None));
    let own = Arc::clone(&held);
    let hold = move || *own.lock().unwrap() = Some(holding());
    let thread = crate::threads::Running::start("holds", hold).unwrap();
    while held.lock().unwrap().is_none() {
        database.clock.0.fetch_add(1_000_000, Ordering::Relaxed);
        database.step(100, |_| true);
        std::thread::yield_now();
    }
    thread.join();
    let hold = held.lock().unwrap().take().unwrap().unwrap();
    let asked = database.pipeline().checkpoint();
    database.pay(50);
    database.later();
    assert_eq!((asked.poll(), database.statistics().count), (None, 0));
    // Another one does not begin either, nor write anything before it may.
    kill(&processes.newest());
    database.later();
    let before = disks[0].list().unwrap();
    for _ in 0..3 {
        database.later();
    }
    assert_eq!((asked.poll(), disks[0].list().unwrap()), (None, before));
    drop(hold);
    database.later();
    assert_eq!((asked.poll(), database.statistics().count), (Some(Ok(())), 1));
}

#[test]
fn an_image_that_fails_ends_checkpoints_and_nothing_else() {
    let disks = Disks::default();
    let (mut database, processes) = open(&disks, HOW);
    database.pay(50);
    database.later();
    disks[1].set_fault(Some(Fault {
        operation: Operation::Write,
        after: 0,
        kind: ErrorKind::Other,
    }));
    let asked = database.pipeline().checkpoint();
    database.later();
    let Some(Err(CheckpointRefusal::Failed(why))) = asked.poll() else { panic!("{asked:?}") };
    assert!(why.contains("the last complete checkpoint is valid"), "{why}");
    disks[1].set_fault(None);
    database.pay(50);
    database.later();
    assert_eq!(database.pipeline().checkpoint_failure(), Some(why));
    assert!(locked(&processes.newest()).is_none() && processes.count() == 1);
    let paid = database.paid.clone();
    let closed = database.close();
    assert!(closed.poison.is_none() && closed.checkpoint_failure.is_some());
    drop((closed.executor, closed.log));
    verify(&disks, HOW, &paid);
}

#[test]
fn a_full_disk_is_reported_and_tried_again() {
    let disks = Disks::default();
    let (mut database, _) = open(&disks, HOW);
    database.pay(100);
    database.later();
    disks.iter().for_each(|disk| disk.set_capacity_bytes(Some(1 << 10)));
    let asked = database.pipeline().checkpoint();
    database.step(10_000, |_| true);
    let Some(Err(CheckpointRefusal::Full(why))) = asked.poll() else { panic!("{asked:?}") };
    assert!(why.contains("full") && database.statistics().put_off == 1, "{why}");
    disks.iter().for_each(|disk| disk.set_capacity_bytes(None));
    let asked = database.pipeline().checkpoint();
    database.later();
    assert_eq!(asked.poll(), Some(Ok(())));
}

/// Wherever it was when it stopped: the database does not wait for it forever.
#[test]
fn a_process_that_hangs_is_ended_and_another_one_started() {
    for steps in 1..40 {
        let disks = Disks::default();
        let (mut database, processes) = open(&disks, HOW);
        database.pay(50);
        let asked = database.pipeline().checkpoint();
        database.step(steps, |_| true);
        let hangs = |running: &mut Running| running.hangs = true;
        let is_there = locked(&processes.newest()).as_mut().map(hangs).is_some();
        assert!(is_there, "after {steps} steps");
        let was_met = asked.poll().is_some();
        let (mut why, mut waited_ns) = (None, 0_u64);
        while why.is_none() {
            database.clock.0.fetch_add(100_000_000, Ordering::Relaxed);
            waited_ns += 100_000_000;
            database.step(10, |_| true);
            why = database.pipeline().checkpoint_failure();
            assert!(waited_ns < 700_000_000_000, "after {steps} steps");
        }
        let why = why.unwrap();
        assert!(why.contains("has not answered for"), "{why}");
        assert!(waited_ns >= 30_000_000_000, "after {steps} steps");
        database.pay(5);
        let again = database.pipeline().checkpoint();
        database.later();
        assert_eq!((asked.poll(), again.poll()), (Some(Ok(())), Some(Ok(()))), "{was_met}");
        assert_eq!((processes.count(), database.statistics().processes), (2, 2));
        assert_eq!(database.pipeline().checkpoint_failure(), None);
        let paid = database.paid.clone();
        let closed = database.close();
        drop((closed.executor, closed.log));
        assert!(verify(&disks, HOW, &paid) <= 200, "a group at most");
    }
}

/// The process takes its lock before it says anything, so the next process that opens the directory finds it.
#[test]
fn a_process_that_outlives_its_database_keeps_others_out_until_it_ends() {
    use tombolo_storage::value_log::DirectoryLock;
    let disks = Disks::default();
    let (mut database, processes) = open(&disks, HOW);
    database.pay(50);
    database.later();
    let running = locked(&processes.newest()).take().unwrap();
    let mut running = running;
    let paid = database.paid.clone();
    drop(database);
    let refused = DirectoryLock::take(&disks[0]).unwrap_err();
    assert!(matches!(refused, LogFailure::InUse { .. }), "{refused}");
    while !running.step(0).1 {}
    assert!(
        DirectoryLock::take(&disks[0]).is_err(),
        "its stages may have been at a batch until now"
    );
    drop(running);
    verify(&disks, HOW, &paid);
}

#[test]
fn a_process_that_cannot_is_started_again_less_and_less_often() {
    let disks = Disks::default();
    let (mut database, processes) = open(&disks, HOW);
    database.pay(50);
    // Another process has the image.
    disks[1].set_fault(Some(Fault {
        operation: Operation::Open,
        after: 0,
        kind: ErrorKind::Other,
    }));
    let begun_ns = database.clock.now_ns();
    while processes.count() < 8 {
        database.clock.0.fetch_add(10_000_000, Ordering::Relaxed);
        database.step(100, |_| true);
    }
    let taken_ns = database.clock.now_ns() - begun_ns;
    assert!(taken_ns > 6_300_000_000, "{taken_ns}");
    assert!(database.pipeline().checkpoint_failure().is_some());
    let paid = database.paid.clone();
    database.clock.0.fetch_add(LATER_NS, Ordering::Relaxed);
    // A close tries a few more, and then says why not.
    let pipeline = database.pipeline.take().unwrap();
    pipeline.shut();
    for _ in 0..10 {
        database.later();
    }
    drop(std::mem::take(&mut database.stages));
    let closed = pipeline.close();
    let why = closed.checkpoint_failure.unwrap();
    assert!(why.contains("is not there"), "{why}");
    assert!(processes.count() <= 8 + 4, "{}", processes.count());
    disks[1].set_fault(None);
    drop((closed.executor, closed.log));
    verify(&disks, HOW, &paid);
}
