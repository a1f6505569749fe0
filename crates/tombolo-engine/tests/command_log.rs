//! Memory store, pipeline and command log together: what was answered is there after a restart,
//! because the commands are run again.
//!
//! Not here: what holds with any log (`common/mod.rs`), torn and reordered writes (storage
//! `command_log/tests/model.rs`).
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod common;

use std::sync::Arc;

use common::{Account, AccountKey, Ask, Increment};
use tombolo_engine::command_log::{
    Arguments, BadArguments, CommandStore, Decoder, Encoder, ProcedureNumbers, Procedures, call,
    log_bytes_max, recover,
};
use tombolo_engine::pipeline::{Batch, Executor};
use tombolo_engine::procedure::Procedure;
use tombolo_storage::disk::MemDisk;
use tombolo_storage::memory::Limits;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::{LogBuffer, LogKind, LogSettings, LogWriter};

impl Arguments for Ask {
    fn bytes_max(&self) -> usize {
        1 + Encoder::NUMBER_BYTES_MAX
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        let (kind, id) = match *self {
            Self::Add(id) => (0, id),
            Self::AddAndPanic(id) => (1, id),
            Self::Abort => (2, 0),
            Self::Read(id) => (3, id),
        };
        out.byte(kind);
        out.signed(id.into());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let (kind, id) = (from.byte()?, from.signed()? as i32);
        match kind {
            0 => Ok(Self::Add(id)),
            _ => Err(BadArguments::new("only an addition writes and commits")),
        }
    }
}

fn procedures() -> Procedures {
    let mut procedures = Procedures::new();
    procedures.register::<Increment>("increment", 1);
    procedures
}

struct Bank {
    store: CommandStore,
    increment: Increment,
    numbers: ProcedureNumbers,
}

impl Bank {
    fn new(store: CommandStore, numbers: ProcedureNumbers) -> Self {
        let increment = Increment::bind(store.schema()).unwrap();
        Self { store, increment, numbers }
    }
}

impl Executor for Bank {
    type Request = Ask;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, i64>) {
        let number = self.numbers.of("increment", 1).unwrap();
        batch.each(|ask| {
            let outcome = call(&self.increment, number, &mut self.store, ask);
            (outcome, self.store.log_bytes())
        });
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        if matches!(ask, Ask::Read(_) | Ask::Abort) { 0 } else { log_bytes_max(ask) }
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

fn settings() -> LogSettings {
    LogSettings {
        kind: LogKind::Command,
        segment_bytes: 256 << 10,
        direct: false,
        ..LogSettings::default()
    }
}

impl common::Bank for Bank {
    /// The pipeline logs the table, and the procedure's number.
    const STARTS_DURABLE: bool = false;
    const LOCATE_AHEAD: usize = 0;

    fn created(disk: &MemDisk) -> (Self, LogWriter) {
        let mut store = CommandStore::new(Limits::default());
        store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
        let numbers = procedures().define(&mut store).unwrap();
        let writer = LogWriter::create(Arc::new(disk.clone()), settings()).unwrap();
        (Self::new(store, numbers), writer)
    }

    fn recovered(disk: &MemDisk) -> (Self, LogWriter) {
        let (disk, limits) = (Arc::new(disk.clone()), Limits::default());
        let found = recover(disk, settings(), false, limits, &procedures(), &mut |_| {}).unwrap();
        (Self::new(found.store, found.numbers), found.writer)
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
