//! The stages step by step, on a clock, a log and a store that the tests hold in their hands.

mod archive;
mod carry;
mod checkpoint;
mod durability;
mod flow;
mod full;
mod long;
mod threads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::transaction::Stop;

/// A clock that stands still until a test sets it.
#[derive(Debug, Default)]
struct HandClock(Mutex<u64>);

impl HandClock {
    fn set(&self, ns: u64) {
        *self.0.lock().unwrap() = ns;
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        *self.0.lock().unwrap()
    }
    fn unix_us(&self) -> u64 {
        *self.0.lock().unwrap() / 1_000
    }
    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a log was asked, and how it answers next.
#[derive(Debug, Default)]
struct Medium {
    written: Vec<Vec<u8>>,
    transactions: u64,
    /// How many of the groups are durable.
    durable: usize,
    syncs: usize,
    seals: usize,
    room: u64,
    /// Whether more room is being made, and how much the room stage makes next.
    more_to_come: bool,
    is_made: bool,
    making: u64,
    fail_making: Option<String>,
    /// Whether the room stage finds that there is no more.
    ends_making: bool,
    fail_append: Option<GroupLogError>,
    fail_sync: Option<GroupLogError>,
}

/// A log in memory; the test keeps the other end.
#[derive(Clone, Debug, Default)]
struct HandLog(Arc<Mutex<Medium>>);

const GROUP_BYTES_MAX: u64 = 1 << 16;
const OVERHEAD: u64 = 8;

impl HandLog {
    fn new() -> Self {
        let log = Self::default();
        log.with(|medium| medium.room = 1 << 30);
        log
    }

    fn with<T>(&self, look: impl FnOnce(&mut Medium) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// All durable records, in order.
    fn durable(&self) -> Vec<u8> {
        self.with(|medium| medium.written[..medium.durable].concat())
    }

    fn syncs(&self) -> usize {
        self.with(|medium| medium.syncs)
    }
}

impl GroupLog for HandLog {
    fn append(&mut self, records: &[&[u8]], transactions: u64) -> Result<(), GroupLogError> {
        self.with(|medium| {
            let group = records.concat();
            let bytes = group.len() as u64 + OVERHEAD;
            assert!(group.len() as u64 <= GROUP_BYTES_MAX, "{bytes}");
            if let Some(error) = medium.fail_append.clone() {
                return Err(error);
            }
            if bytes > medium.room {
                return Err(GroupLogError::Full);
            }
            medium.room -= bytes;
            medium.seals += usize::from(group.is_empty());
            medium.transactions += transactions;
            medium.written.push(group);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<(), GroupLogError> {
        self.with(|medium| {
            medium.syncs += 1;
            if let Some(error) = medium.fail_sync.clone() {
                return Err(error);
            }
            medium.durable = medium.written.len();
            Ok(())
        })
    }

    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.append(&[], 0)?;
        self.sync()
    }

    fn room(&mut self) -> Room {
        self.with(|medium| Room {
            bytes: medium.room,
            is_all: !medium.more_to_come,
            more_is_wanted: medium.more_to_come,
        })
    }
    fn room_maker(&mut self) -> Option<Box<dyn RoomMaker>> {
        self.with(|medium| medium.is_made).then(|| Box::new(self.clone()) as _)
    }
    fn group_bytes_max(&self) -> u64 {
        GROUP_BYTES_MAX
    }
    fn cost(&self) -> Cost {
        Cost { per_batch: OVERHEAD, per_byte: 1 }
    }
}

impl RoomMaker for HandLog {
    fn make(&mut self) -> Result<bool, String> {
        self.with(|medium| {
            if let Some(error) = &medium.fail_making {
                return Err(error.clone());
            }
            medium.more_to_come &= !medium.ends_making;
            let made = std::mem::take(&mut medium.making);
            medium.room += made;
            Ok(made > 0)
        })
    }
}

/// What the tests' store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    Add(u64, u64),
    Read(u64),
    Abort,
    Panic,
    /// Writes a record of so many bytes.
    Large(usize),
    /// Not valid before an input stage has made it an `Add`.
    Raw(u64),
}

/// What the store logged.
#[derive(Debug, Default)]
struct Notes {
    bytes: Vec<u8>,
    transactions: u64,
}

impl Records for Notes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn transactions(&self) -> u64 {
        self.transactions
    }
    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.transactions = 0;
    }
}

/// Balances by account; an `Add` logs account and balance, 16 bytes.
#[derive(Debug, Default)]
struct Accounts {
    balances: BTreeMap<u64, u64>,
    log: Notes,
    located: usize,
    /// Breaks the stage itself, not a transaction.
    breaks: bool,
}

impl Accounts {
    fn run(&mut self, ask: &Ask) -> Result<u64, Stop> {
        match *ask {
            Ask::Add(account, n) => {
                let balance = self.balances.entry(account).or_default();
                *balance += n;
                self.log.bytes.extend(account.to_le_bytes());
                self.log.bytes.extend(balance.to_le_bytes());
                self.log.transactions += 1;
                Ok(*balance)
            }
            Ask::Read(account) => Ok(self.balances.get(&account).copied().unwrap_or(0)),
            Ask::Abort => Err(Stop::Abort("asked to")),
            Ask::Panic => panic!("asked to panic"),
            Ask::Large(bytes) => {
                self.log.bytes.resize(self.log.bytes.len() + bytes, 0);
                Ok(0)
            }
            Ask::Raw(_) => Err(Stop::Abort("raw")),
        }
    }
}

impl Executor for Accounts {
    type Request = Ask;
    type Answer = u64;
    type Records = Notes;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, u64>) {
        batch.each(|ask| (self.run(ask), self.log.bytes.len()));
    }

    fn locate(&mut self, calls: &mut [Call<Ask>]) {
        self.located += calls.len();
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        match *ask {
            Ask::Add(..) => 16,
            Ask::Large(bytes) => bytes as u64,
            _ => 0,
        }
    }

    fn take_log(&mut self, into: &mut Notes) {
        assert!(!self.breaks || self.log.bytes.is_empty(), "asked to break");
        assert!(into.bytes.is_empty() && into.transactions == 0);
        std::mem::swap(&mut self.log, into);
    }
}

/// The balances a log's records lead to.
fn replayed(records: &[u8]) -> BTreeMap<u64, u64> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    records.chunks(16).map(|record| (number(&record[..8]), number(&record[8..]))).collect()
}

fn options() -> Options {
    let options = Options::new(&crate::settings::Settings::default(), 2);
    Options { spread: Spread::Two, spin_ns: 0, ..options }
}

/// A pipeline whose stages the test steps.
struct World {
    pipeline: Option<Pipeline<Accounts>>,
    stages: Vec<Box<dyn Stage>>,
    clock: Arc<HandClock>,
    log: HandLog,
    caller: Caller<Ask, u64>,
}

impl World {
    fn new(options: Options) -> Self {
        Self::with(options, |builder| builder)
    }

    fn with(options: Options, more: impl FnOnce(Builder<Accounts>) -> Builder<Accounts>) -> Self {
        Self::of(Accounts::default(), HandLog::new(), options, more)
    }

    fn of(
        accounts: Accounts,
        log: HandLog,
        options: Options,
        more: impl FnOnce(Builder<Accounts>) -> Builder<Accounts>,
    ) -> Self {
        let clock = Arc::new(HandClock::default());
        let builder = Builder::new(accounts, options).log(Box::new(log.clone()));
        let (pipeline, stages) = more(builder).assemble(clock.clone());
        let caller = pipeline.caller(100_000);
        Self { pipeline: Some(pipeline), stages, clock, log, caller }
    }

    fn unlogged(options: Options) -> Self {
        let clock = Arc::new(HandClock::default());
        let builder = Builder::new(Accounts::default(), options);
        let (pipeline, stages) = builder.assemble(clock.clone());
        let caller = pipeline.caller(100_000);
        Self { pipeline: Some(pipeline), stages, clock, log: HandLog::new(), caller }
    }

    fn pipeline(&self) -> &Pipeline<Accounts> {
        self.pipeline.as_ref().unwrap()
    }

    fn submit(&mut self, tag: u64, ask: Ask, durability: Durability) {
        self.caller.try_submit(ask, tag, durability).unwrap();
    }

    /// Steps all stages of a kind once; the last one's step.
    fn step(&mut self, kind: StageKind) -> Step {
        let now_ns = self.clock.now_ns();
        let of_kind = self.stages.iter_mut().filter(|stage| stage.kind() == kind);
        of_kind.map(|stage| stage.step(now_ns)).last().unwrap()
    }

    /// Executes everything that waits.
    fn execute(&mut self) {
        while self.step(StageKind::Execution) == Step::Progress {}
    }

    /// Hands out what has left, and fetches it.
    fn replies(&mut self) -> Vec<Tagged<u64>> {
        while self.step(StageKind::Output) == Step::Progress {}
        let mut replies = Vec::new();
        self.caller.take(&mut replies);
        replies
    }

    /// Lets every stage do all it can.
    fn settle(&mut self) {
        let now_ns = self.clock.now_ns();
        loop {
            let steps = self.stages.iter_mut().map(|stage| stage.step(now_ns));
            if steps.filter(|&step| step == Step::Progress).count() == 0 {
                return;
            }
        }
    }

    /// Closes the pipeline and steps until all have ended.
    fn close(mut self) -> (Closed<Accounts>, Vec<Tagged<u64>>) {
        let pipeline = self.pipeline.take().unwrap();
        pipeline.shut();
        let now_ns = self.clock.now_ns();
        for _ in 0..10_000 {
            let mut left = Vec::new();
            for mut stage in std::mem::take(&mut self.stages) {
                match stage.step(now_ns) {
                    Step::Ended => stage.retire(),
                    _ => left.push(stage),
                }
            }
            self.stages = left;
            if self.stages.is_empty() {
                let mut replies = Vec::new();
                self.caller.take(&mut replies);
                return (pipeline.close(), replies);
            }
        }
        panic!("the pipeline does not end");
    }
}

fn durable(tag: u64, answer: u64) -> Tagged<u64> {
    (tag, Reply::Durable(Ok(answer)))
}

fn early(tag: u64, answer: u64) -> Tagged<u64> {
    (tag, Reply::PreCommitted(Ok(answer)))
}
