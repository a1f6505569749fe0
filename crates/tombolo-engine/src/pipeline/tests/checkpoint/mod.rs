//! The checkpoint stages step by step, with a store, a log and an image on disks in memory.
//!
//! Here: the database they are of.

mod failures;
mod remote;
mod written;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_storage::disk::{Disk, Fault, MemDisk, Operation};
use tombolo_storage::memory::image::{
    CheckpointPart, Checkpoints, Image, ImageSettings, LoadedPart, MirroredPart, RowsInPlace,
    SecondCopy,
};
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{
    LogBuffer, LogFailure, LogSettings, LogWriter, RecoverOptions, recover,
};

use super::*;
use crate::checkpointing::Checkpointing;
use crate::transaction::{Committed, Reading, execute};
use StageKind::Checkpoint;

tombolo_storage::table! {
    /// Accounts.
    struct Account = "account" {
        ID: Integer [0..=999_999];
        BALANCE: BigInt;
    }
}
tombolo_storage::index! {
    /// By number.
    struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}
tombolo_storage::table! {
    /// What was paid in.
    struct Payment = "payment" {
        ACCOUNT: Integer [0..=999_999];
        BALANCE: BigInt;
    }
}

type Rows = MemoryStore<MemoryLogged>;

/// Pays 1 into an account, and notes that.
struct Bank {
    store: Rows,
    accounts: Table<Account>,
    payments: Table<Payment>,
    key: Index<AccountKey>,
}

impl Bank {
    fn new(mut store: Rows) -> Self {
        if store.schema().tables.is_empty() {
            store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
            store.create_table(TableDef::of::<Payment>()).unwrap();
        }
        let schema = store.schema();
        let (accounts, payments) = (resolve_table(schema).unwrap(), resolve_table(schema).unwrap());
        let key = resolve_index(schema).unwrap();
        Self { store, accounts, payments, key }
    }

    fn pay(&mut self, id: i32) -> Result<i64, Stop> {
        let Self { store, accounts, payments, key } = self;
        execute(store, |mut tx: Reading<'_, Rows>| -> Result<Committed<i64>, Stop> {
            let found = tx.lookup(key, id)?;
            let balance = match found {
                Some(row) => tx.pin(accounts, row)?.get(Account::BALANCE) + 1,
                None => 1,
            };
            let mut tx = tx.write();
            match found {
                Some(row) => {
                    let fields = tombolo_storage::row::Fields::none().with(Account::BALANCE);
                    tx.update(accounts, row, fields, |row| row.set(Account::BALANCE, balance))?;
                }
                None => {
                    let row = tx.create(accounts, |row| {
                        row.set(Account::ID, id);
                        row.set(Account::BALANCE, balance);
                    })?;
                    tx.insert(key, id, row)?;
                }
            }
            tx.create(payments, |row| {
                row.set(Payment::ACCOUNT, id);
                row.set(Payment::BALANCE, balance);
            })?;
            tx.commit(balance)
        })
    }

    /// The balances, and how many payments there are.
    fn contents(&mut self) -> (BTreeMap<i32, i64>, i64) {
        assert_eq!(self.store.check(), []);
        let Self { store, accounts, payments, .. } = self;
        let read = execute(store, |mut tx: Reading<'_, Rows>| {
            let (mut rows, mut balances, mut paid) = (Vec::new(), BTreeMap::new(), 0);
            tx.rows(accounts, |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })?;
            for row in rows {
                let row = tx.pin(accounts, row)?;
                balances.insert(row.get(Account::ID), row.get(Account::BALANCE));
            }
            tx.rows(payments, |_| {
                paid += 1;
                ControlFlow::Continue(())
            })?;
            tx.commit((balances, paid))
        });
        read.unwrap()
    }
}

impl Executor for Bank {
    type Request = i32;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, i32, i64>) {
        batch.each(|id| (self.pay(*id), self.store.log_bytes()));
    }

    fn log_bytes_max(&self, _: &i32) -> u64 {
        256
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.store.rows_in_place()
    }
}

/// A clock on which every look takes a microsecond.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
    fn unix_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1_000
    }
    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

const SEGMENT_BYTES: u64 = 16 << 10;

fn log_settings(log_bytes_max: u64) -> LogSettings {
    LogSettings {
        segment_bytes: SEGMENT_BYTES,
        block_bytes: 512,
        log_bytes_max,
        salt: 0x5eed,
        ..LogSettings::default()
    }
}

const POLICY: CheckpointPolicy = CheckpointPolicy {
    log_bytes: u64::MAX,
    device_percent: 100,
    queue_bytes_max: 1 << 20,
    at_close: true,
};

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
struct How {
    parts: usize,
    copy: SecondCopy,
    policy: CheckpointPolicy,
    log_bytes_max: u64,
}

const HOW: How =
    How { parts: 1, copy: SecondCopy::Memory, policy: POLICY, log_bytes_max: u64::MAX };

/// In how many parts the image is written, and where DB′ is.
const WAYS: [(usize, SecondCopy); 4] = [
    (1, SecondCopy::Memory),
    (2, SecondCopy::Memory),
    (1, SecondCopy::None),
    (2, SecondCopy::None),
];

/// A database whose stages the test steps.
struct Database {
    pipeline: Option<Pipeline<Bank>>,
    stages: Vec<Box<dyn Stage>>,
    clock: Arc<TickingClock>,
    caller: Caller<i32, i64>,
    /// Bytes of records that were replayed.
    replayed: u64,
    /// What was answered: payments by account.
    paid: BTreeMap<i32, i64>,
}

/// The log and the image's catalogue on the first disk, its rings on both.
type Disks = [MemDisk; 2];

/// The image on some disks, what it and the log hold, the log, and how many bytes of records were
/// replayed.
struct Recovered {
    settings: ImageSettings,
    image: Image,
    loaded: LoadedPart,
    writer: LogWriter,
    replayed: u64,
}

fn recovered(disks: &Disks, how: How) -> Recovered {
    let doors: Vec<Arc<dyn Disk>> =
        disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect();
    let settings = ImageSettings { block_bytes: 4096, copy: how.copy, ..ImageSettings::default() };
    let image = Image::find(doors.clone(), settings).unwrap();
    let mut loaded = image.load(0, 1, Limits::default(), &mut |_| {}).unwrap();
    let options =
        RecoverOptions { first: image.log_start(loaded.known()), ..RecoverOptions::default() };
    let mut replayed = 0;
    let mut replay = |group, records: &[u8]| {
        replayed += records.len() as u64;
        loaded.replay.apply_group(group, records)
    };
    let log = log_settings(how.log_bytes_max);
    let writer = match recover(doors[0].clone(), log, options, &mut replay, &mut |_| {}) {
        Err(LogFailure::NoLog) => LogWriter::create(doors[0].clone(), log).unwrap(),
        recovered => recovered.unwrap().writer,
    };
    Recovered { settings, image, loaded, writer, replayed }
}

fn bank_of(replay: ReplayPart) -> Bank {
    Bank::new(Rows::from_replay(Limits::default(), vec![replay.finish().unwrap()]).unwrap())
}

fn opened(disks: &Disks, how: How) -> (Bank, LogWriter, Checkpointing, u64) {
    let Recovered { image, mut loaded, writer, replayed, .. } = recovered(disks, how);
    let mirrored = vec![loaded.mirror().unwrap()];
    let bank = bank_of(loaded.replay);
    let checkpoints = Checkpoints::start(image, &mirrored, writer.salt(), writer.epoch()).unwrap();
    let part = |part| CheckpointPart::new(part, &checkpoints, writer.position());
    let parts = MirroredPart::divide(mirrored, how.parts).into_iter().map(part).collect();
    (bank, writer, Checkpointing { checkpoints, parts }, replayed)
}

impl Database {
    fn open(disks: &Disks, how: How) -> Self {
        let (bank, writer, checkpointing, replayed) = opened(disks, how);
        let clock = Arc::new(TickingClock::default());
        let options = Options { checkpoint: how.policy, ..options() };
        let log = Box::new(ValueLogGroups::new(writer));
        let builder = Builder::new(bank, options).log(log).checkpoints(checkpointing, replayed);
        let (pipeline, stages) = builder.assemble(clock.clone());
        let caller = pipeline.caller(100_000);
        let (pipeline, paid) = (Some(pipeline), BTreeMap::new());
        Self { pipeline, stages, clock, caller, replayed, paid }
    }

    fn pipeline(&self) -> &Pipeline<Bank> {
        self.pipeline.as_ref().unwrap()
    }

    fn statistics(&self) -> CheckpointStatistics {
        self.pipeline().statistics().checkpoint
    }

    /// Steps the stages that `may` be stepped until none has work, or so many times.
    fn step(&mut self, times: usize, may: impl Fn(StageKind) -> bool) {
        for _ in 0..times {
            let now_ns = self.clock.now_ns();
            let stages = self.stages.iter_mut().filter(|stage| may(stage.kind()));
            let steps = stages.map(|stage| stage.step(now_ns));
            if steps.filter(|&step| step == Step::Progress).count() == 0 {
                return;
            }
        }
    }

    /// Pays into some accounts and waits for the answers; checkpoint stages do nothing.
    fn pay(&mut self, payments: u64) {
        for n in 0..payments {
            let id = (n % 7) as i32;
            self.caller.try_submit(id, n, Durability::Group).unwrap();
            if n % 5 == 4 {
                self.step(1_000, |kind| kind != Checkpoint);
            }
        }
        self.step(1_000, |kind| kind != Checkpoint);
        let mut replies = Vec::new();
        self.caller.take(&mut replies);
        assert_eq!(replies.len() as u64, payments);
        for (n, reply) in replies {
            let Reply::Durable(Ok(_)) = reply else { panic!("{reply:?}") };
            *self.paid.entry((n % 7) as i32).or_default() += 1;
        }
    }

    fn checkpoint(&mut self) -> Result<(), CheckpointRefusal> {
        let asked = self.pipeline().checkpoint();
        self.step(10_000, |_| true);
        asked.poll().unwrap()
    }

    /// Closes the pipeline and steps until all have ended.
    fn close(mut self) -> Closed<Bank> {
        let pipeline = self.pipeline.take().unwrap();
        pipeline.shut();
        for _ in 0..10_000 {
            // Another process is waited for before it is started again.
            self.clock.0.fetch_add(1_000_000, Ordering::Relaxed);
            let now_ns = self.clock.now_ns();
            let stages = std::mem::take(&mut self.stages);
            for mut stage in stages {
                match stage.step(now_ns) {
                    Step::Ended => stage.retire(),
                    _ => self.stages.push(stage),
                }
            }
            if self.stages.is_empty() {
                return pipeline.close();
            }
        }
        panic!("the pipeline does not end");
    }
}

/// A database on threads.
fn started(disks: &Disks, how: How, spread: Spread) -> Pipeline<Bank> {
    let (bank, writer, checkpointing, replayed) = opened(disks, how);
    let log = Box::new(ValueLogGroups::new(writer));
    let options = Options { checkpoint: how.policy, spread, ..options() };
    let builder = Builder::new(bank, options).log(log).checkpoints(checkpointing, replayed);
    builder.start(Arc::new(crate::clock::SystemClock::new())).unwrap()
}

/// What comes back from the disks: as many payments as were answered, in all.
fn verify(disks: &Disks, how: How, paid: &BTreeMap<i32, i64>) -> u64 {
    let (mut bank, _, _, replayed) = opened(disks, how);
    assert_eq!(bank.contents(), (paid.clone(), paid.values().sum()));
    replayed
}
