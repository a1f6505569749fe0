//! Memory store, pipeline and value log together: what was answered is there after a restart.
//!
//! Not here: what holds with any log (`common/mod.rs`).
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Account, AccountKey, Ask, Bank as _, CLIENTS, Increment, answer, start};
use tombolo_engine::pipeline::{Batch, Call, Durability, Executor, Refusal, Reply, Spread};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::threads::{on_each, pause};
use tombolo_storage::disk::MemDisk;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::{
    LogBuffer, LogFailure, LogSettings, LogWriter, RecoverOptions, recover,
};

type Accounts = MemoryStore<MemoryLogged>;

struct Bank {
    store: Accounts,
    increment: Increment,
}

impl Bank {
    fn new(store: Accounts) -> Self {
        let increment = Increment::bind(store.schema()).unwrap();
        Self { store, increment }
    }
}

impl Executor for Bank {
    type Request = Ask;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, i64>) {
        batch.each(|ask| {
            let outcome = self.increment.call(&mut self.store, ask);
            (outcome, self.store.log_bytes())
        });
    }

    fn locate(&mut self, calls: &mut [Call<Ask>]) {
        assert!(!calls.is_empty());
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        if matches!(ask, Ask::Read(_) | Ask::Abort) { 0 } else { 256 }
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 256 << 10, direct: false, ..LogSettings::default() }
}

/// A store with its table, and the log that knows of it.
fn created(disk: &MemDisk, settings: LogSettings) -> (Bank, LogWriter) {
    let mut store = Accounts::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let mut writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    let mut log = LogBuffer::new();
    store.take_log(&mut log);
    writer.append_group(&[log.as_slice()], log.transactions(), None).unwrap();
    writer.sync().unwrap();
    (Bank::new(store), writer)
}

impl common::Bank for Bank {
    const STARTS_DURABLE: bool = true;
    const LOCATE_AHEAD: usize = 3;

    fn created(disk: &MemDisk) -> (Self, LogWriter) {
        created(disk, settings())
    }

    fn recovered(disk: &MemDisk) -> (Self, LogWriter) {
        let mut part = ReplayPart::new(0, 1, Limits::default());
        let (disk, options) = (Arc::new(disk.clone()), RecoverOptions::default());
        let recovered = recover(disk, settings(), options, &mut part, &mut |_| {}).unwrap();
        let parts = vec![part.finish().unwrap()];
        (Self::new(Accounts::from_replay(Limits::default(), parts).unwrap()), recovered.writer)
    }

    fn balance(&mut self, id: i32) -> i64 {
        self.increment.call(&mut self.store, &Ask::Read(id)).unwrap()
    }
}

#[test]
fn a_database_comes_back_after_a_close_as_often_as_you_like() {
    common::comes_back_after_closes::<Bank>();
}

#[test]
fn what_was_answered_survives_a_kill_at_any_write_or_sync() {
    common::survives_kills::<Bank>();
}

#[test]
fn a_full_disk_refuses_writes_and_reads_go_on() {
    let disk = MemDisk::new();
    let (bank, writer) = created(&disk, settings());
    disk.set_capacity_bytes(Some(600 << 10));
    let pipeline = start(bank, writer, Spread::Two);
    let mut caller = pipeline.caller(1);
    let mut balance = 0;
    let refused = loop {
        match caller.call(Ask::Add(1), Durability::Group) {
            Reply::Durable(Ok(next)) => balance = next,
            other => break other,
        }
        assert!(balance < 100_000, "the disk never fills");
    };
    assert_eq!(refused, Reply::Refused(Refusal::LogFull));
    assert!(balance > 10, "{balance} came first");
    assert_eq!(answer(&mut caller, Ask::Read(1)), balance);
    assert_eq!(caller.call(Ask::Add(1), Durability::Group), Reply::Refused(Refusal::LogFull));
    // Room is made: writing resumes by itself, after at most a few refusals.
    disk.set_capacity_bytes(None);
    let resumed = (0..10_000).find_map(|_| match caller.call(Ask::Add(1), Durability::Group) {
        Reply::Durable(Ok(next)) => Some(next),
        _ => None,
    });
    assert_eq!(resumed, Some(balance + 1));
    drop(pipeline.close());
    let (mut bank, _) = Bank::recovered(&disk);
    assert_eq!(bank.balances(), [(1, balance + 1)].into());
}

#[test]
fn a_log_goes_on_through_many_segments_while_calls_wait_for_them() {
    let disk = MemDisk::new();
    let small = LogSettings { segment_bytes: 64 << 10, ..settings() };
    let (bank, writer) = created(&disk, small);
    let pipeline = start(bank, writer, Spread::Two);
    on_each(0..CLIENTS, |client| {
        let mut caller = pipeline.caller(1);
        for n in 1..=200 {
            assert_eq!(answer(&mut caller, Ask::Add(client)), n);
        }
    });
    let closed = pipeline.close();
    assert_eq!((closed.poison.clone(), closed.statistics.refused), (None, 0));
    drop(closed);
    let (mut bank, _) = Bank::recovered(&disk);
    assert_eq!(bank.balances(), (0..CLIENTS).map(|id| (id, 200)).collect());
}

#[test]
fn tables_made_before_the_pipeline_are_logged_by_it() {
    let disk = MemDisk::new();
    let mut store = Accounts::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let writer = LogWriter::create(Arc::new(disk.clone()), settings()).unwrap();
    drop(start(Bank::new(store), writer, Spread::Two).close());
    assert!(Bank::recovered(&disk).0.balances().is_empty());
}

/// The disk has no room for another segment, and what is left of the one in use is too little: the caller gets
/// an error, and is not left to wait for a group that cannot be written.
#[test]
fn tables_without_room_in_the_log_let_nothing_run() {
    let disk = MemDisk::new();
    let settings = LogSettings { segment_bytes: 16 << 10, segments_ahead: 4, ..settings() };
    let writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    disk.set_capacity_bytes(Some(16 << 10));
    let mut store = Accounts::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let pipeline = start(Bank::new(store), writer, Spread::Two);
    let mut caller = pipeline.caller(1);
    for ask in [Ask::Read(1), Ask::Add(1), Ask::Read(1)] {
        assert!(caller.try_submit(ask, 0, Durability::Group).is_ok());
        let mut replies = Vec::new();
        while replies.is_empty() {
            assert_eq!(pipeline.statistics().stalls, 0, "a group waits for room");
            pause(Duration::from_micros(100));
            caller.take(&mut replies);
        }
        assert_eq!(replies, [(0, Reply::Refused(Refusal::LogFull))]);
    }
    disk.set_capacity_bytes(None);
    let begun = (0..10_000).find_map(|_| match caller.call(Ask::Add(1), Durability::Group) {
        Reply::Durable(Ok(next)) => Some(next),
        _ => None,
    });
    assert_eq!(begun, Some(1));
    assert!(pipeline.close().poison.is_none());
    assert_eq!(Bank::recovered(&disk).0.balances(), [(1, 1)].into());
}

#[test]
fn one_process_per_directory() {
    let disk = MemDisk::new();
    let (bank, writer) = created(&disk, settings());
    let pipeline = start(bank, writer, Spread::One);
    let mut part = ReplayPart::new(0, 1, Limits::default());
    let options = RecoverOptions::default();
    let second = recover(Arc::new(disk.clone()), settings(), options, &mut part, &mut |_| {});
    assert!(matches!(second, Err(LogFailure::InUse { .. })));
    drop(pipeline);
    Bank::recovered(&disk);
}
