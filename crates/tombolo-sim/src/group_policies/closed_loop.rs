//! One point: the production pipeline in a closed loop, on a simulated device, with one policy.
//!
//! Each stage has a core of its own. A transaction takes a fixed time in the execution stage and
//! leaves a record of a fixed length; the device takes a time for a flush, always the same or drawn
//! from a seed, and some for each byte. A client takes some time from its answer to its next call,
//! drawn from a seed, so that calls do not come in step. All that differs between two runs is the
//! policy, and every number is exact. Not here: what is compared (`mod.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tombolo_engine::pipeline::{
    Batch, Builder, Caller, Cost, Durability, Executor, GroupLog, GroupLogError, GroupPolicy,
    Options, Reply, Room, Spread, Stage, Step,
};
use tombolo_engine::rng::Rng;
use tombolo_engine::settings::Settings;
use tombolo_engine::threads::Running;

use super::turns::{Turn, take_turns};
use crate::clock::SimClock;
use crate::database::ByteBuffer;

/// Time a transaction takes in the execution stage.
pub(super) const EXECUTION_NS: u64 = 1_000;
/// Bytes a transaction logs.
pub(super) const RECORD_BYTES: usize = 200;
/// Time from an answer to the same client's next call, on average: from half of it to half as much
/// again.
pub(super) const TURNAROUND_NS: u64 = 5_000;
/// The time of a stage's step that did something: waking, taking, passing on.
pub(super) const STEP_NS: u64 = 500;

/// Calls come at multiples of this: fewer moments to be simulated.
const MOMENT_NS: u64 = 500;

/// Flushes that are looked at, and answers of each client, at least.
const FLUSHES_MIN: u64 = 100;
const ANSWERS_PER_CLIENT_MIN: u64 = 12;
/// What is left out before: flushes, and answers of each client.
const WARM_UP: u64 = 4;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Medium {
    /// Whether flushes take from half of the time to half as much again.
    pub(super) is_uneven: bool,
    /// What a flush takes in addition to its bytes.
    pub(super) flush_ns: u64,
    /// Megabytes that are written in a second.
    pub(super) mb_per_s: u64,
}

/// One point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) medium: Medium,
    pub(super) clients: u64,
    /// `None`: `auto`.
    pub(super) time_ns: Option<u64>,
    pub(super) transactions: u64,
}

/// The result of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Answers, and the simulated time in which they were given.
    pub(super) answers: u64,
    pub(super) ns: u64,
    pub(super) flushes: u64,
    /// From a call to its answer.
    pub(super) latency_p50_ns: u64,
    pub(super) latency_p99_ns: u64,
}

impl Measured {
    /// Answers a second.
    pub(super) fn tps(&self) -> f64 {
        self.answers as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// A store that logs and takes its time.
struct Worker {
    turn: Turn,
    /// Records without content.
    log: ByteBuffer,
}

impl Executor for Worker {
    type Request = ();
    type Answer = ();
    type Records = ByteBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.turn.work(batch.left() as u64 * EXECUTION_NS);
        let ByteBuffer { bytes, transactions } = &mut self.log;
        batch.each(|()| {
            bytes.resize(bytes.len() + RECORD_BYTES, 0);
            *transactions += 1;
            (Ok(()), bytes.len())
        });
    }

    fn log_bytes_max(&self, (): &()) -> u64 {
        RECORD_BYTES as u64
    }

    fn take_log(&mut self, into: &mut ByteBuffer) {
        std::mem::swap(&mut self.log, into);
    }
}

/// A log on the simulated device.
struct Device {
    turn: Turn,
    medium: Medium,
    /// Of a device whose flushes differ.
    rng: Option<Rng>,
}

impl GroupLog for Device {
    fn append(&mut self, records: &[&[u8]], _: u64) -> Result<(), GroupLogError> {
        let bytes: usize = records.iter().map(|part| part.len()).sum();
        self.turn.work(bytes as u64 * 1_000 / self.medium.mb_per_s);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), GroupLogError> {
        let flush_ns = match &mut self.rng {
            Some(rng) => self.medium.flush_ns / 2 + rng.below(self.medium.flush_ns + 1),
            None => self.medium.flush_ns,
        };
        self.turn.work(flush_ns);
        Ok(())
    }

    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.sync()
    }

    fn room(&mut self) -> Room {
        Room { bytes: 1 << 40, is_all: false, more_is_wanted: false }
    }

    fn group_bytes_max(&self) -> u64 {
        16 << 20
    }

    fn cost(&self) -> Cost {
        Cost { per_batch: 0, per_byte: 1 }
    }
}

/// The threads: the clients, and a stage each.
const CLIENTS: usize = 0;
const EXECUTION: usize = 1;
const LOGGING: usize = 2;
const OUTPUT: usize = 3;

/// Steps a stage until it has ended; `wakes` are those that may have something to do when it did
/// something.
fn run_stage(mut stage: Box<dyn Stage>, turn: Turn, wakes: &[usize]) {
    turn.begin();
    loop {
        match stage.step(turn.now_ns()) {
            Step::Progress => {
                turn.wake(wakes);
                turn.work(STEP_NS);
            }
            Step::IdleUntil(until_ns) => _ = turn.idle(until_ns),
            Step::Ended => {
                stage.retire();
                turn.wake(wakes);
                return turn.end();
            }
        }
    }
}

/// The clients, all in one thread, and what they notice.
struct Clients {
    caller: Caller<(), ()>,
    turn: Turn,
    /// When which client calls next, the first one on top.
    next: BinaryHeap<Reverse<(u64, u64)>>,
    rng: Rng,
    called_ns: Vec<u64>,
    latencies_ns: Vec<u64>,
    answers: u64,
    is_measuring: bool,
}

impl Clients {
    /// Takes answers and calls again; says whether there were answers.
    fn step(&mut self) -> bool {
        let (now_ns, mut replies, mut calls) = (self.turn.now_ns(), Vec::new(), Vec::new());
        self.caller.take(&mut replies);
        for (client, reply) in &replies {
            assert!(matches!(reply, Reply::Durable(Ok(()))), "every call is durable: {reply:?}");
            let turnaround_ns = TURNAROUND_NS / 2 + self.rng.below(TURNAROUND_NS + 1);
            let at_ns = (now_ns + turnaround_ns).next_multiple_of(MOMENT_NS);
            self.next.push(Reverse((at_ns, *client)));
            if self.is_measuring {
                self.latencies_ns.push(now_ns - self.called_ns[*client as usize]);
            }
        }
        self.answers += replies.len() as u64;
        while let Some(&Reverse((at_ns, client))) = self.next.peek()
            && at_ns <= now_ns
        {
            self.next.pop();
            self.called_ns[client as usize] = at_ns;
            calls.push(self.caller.prepare((), client, Durability::Group));
        }
        if !calls.is_empty() {
            let count = calls.len();
            let put = self.caller.try_submit_many(&mut calls);
            assert_eq!(put, Ok(count), "the queues hold what all clients ask");
            self.turn.wake(&[EXECUTION]);
        }
        !replies.is_empty()
    }

    fn idle(&self) {
        let is_alive = self.turn.idle(self.next.peek().map(|next| next.0.0));
        assert!(is_alive, "clients wait and no stage has anything to do");
    }
}

/// Runs one point.
pub(super) fn measure(point: Point) -> Measured {
    let clock = SimClock::new();
    let turns = take_turns(4, clock.clone());
    let options = Options::new(&Settings::default(), 8);
    let GroupPolicy { async_loss_ns_max, seal_ns_max, .. } = options.group;
    let Point { medium, clients, time_ns, transactions } = point;
    let group = GroupPolicy { transactions, time_ns, async_loss_ns_max, seal_ns_max };
    // Clients here are no threads that could carry: each stage is stepped by a thread of its own.
    let options = Options { group, spread: Spread::Each, output_stages: 1, ..options };
    let worker = Worker { turn: turns[EXECUTION].clone(), log: ByteBuffer::default() };
    let builder = Builder::new(worker, options);
    let builder = builder.log(Box::new(Device {
        turn: turns[LOGGING].clone(),
        medium,
        rng: medium.is_uneven.then(|| Rng::from_seed(2)),
    }));
    let (pipeline, stages) = builder.assemble(std::sync::Arc::new(clock));
    let wakes: [&'static [usize]; 3] = [&[LOGGING, OUTPUT], &[OUTPUT, EXECUTION], &[CLIENTS]];
    assert_eq!(stages.len(), wakes.len(), "execution, logging, output");
    let threads: Vec<Running> = stages
        .into_iter()
        .zip(turns[EXECUTION..].iter().cloned().zip(wakes))
        .map(|(stage, (turn, wakes))| {
            let started = Running::start("stage", move || run_stage(stage, turn, wakes));
            started.expect("a thread for a stage")
        })
        .collect();
    let mut clients = Clients {
        caller: pipeline.caller(clients as usize),
        turn: turns[CLIENTS].clone(),
        next: (0..clients).map(|client| Reverse((0, client))).collect(),
        rng: Rng::from_seed(1),
        called_ns: vec![0; clients as usize],
        latencies_ns: Vec::new(),
        answers: 0,
        is_measuring: false,
    };
    let flushes = || pipeline.statistics().flushes;
    let flushes_min = if medium.is_uneven { 4 * FLUSHES_MIN } else { FLUSHES_MIN };
    let measured = observe(&mut clients, point.clients, &flushes, flushes_min);
    pipeline.shut();
    clients.turn.wake(&[EXECUTION, LOGGING, OUTPUT]);
    while clients.turn.idle(None) {
        clients.caller.take(&mut Vec::new());
    }
    threads.into_iter().for_each(Running::join);
    drop(pipeline.close());
    measured
}

/// Lets the clients run, from one flush to another.
fn observe(
    clients: &mut Clients,
    count: u64,
    flushes: &dyn Fn() -> u64,
    flushes_min: u64,
) -> Measured {
    let run_until = |clients: &mut Clients, answers: u64, flushed: u64| {
        let (answers, flushed) = (clients.answers + answers, flushes() + flushed);
        // From answers to answers, so that whole flushes are counted.
        while !(clients.step() && clients.answers >= answers && flushes() >= flushed) {
            clients.idle();
        }
        clients.turn.now_ns()
    };
    let start_ns = run_until(clients, WARM_UP * count, WARM_UP * 5);
    let (answers, flushed) = (clients.answers, flushes());
    clients.is_measuring = true;
    let end_ns = run_until(clients, ANSWERS_PER_CLIENT_MIN * count, flushes_min);
    let latencies_ns = &mut clients.latencies_ns;
    latencies_ns.sort_unstable();
    let part = |percent: usize| {
        let last = latencies_ns.len().saturating_sub(1);
        latencies_ns.get(last * percent / 100).copied().unwrap_or_default()
    };
    Measured {
        answers: clients.answers - answers,
        ns: end_ns - start_ns,
        flushes: flushes() - flushed,
        latency_p50_ns: part(50),
        latency_p99_ns: part(99),
    }
}
