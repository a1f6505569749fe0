//! The value log and the command log side by side: the same TPC-C inputs of the paper's mix, one
//! group every so many transactions, each group written and synced.
//!
//! `cargo run --release -p tombolo-lab --example logs -- --dir DIR > result.json`; also
//! `--warehouses`, `--transactions`, `--group` (transactions per group), `--rounds`, `--seed`.
//! Without `--dir` logs lie in memory only.
//!
//! One thread does all, in one loop, so that execution (the store and what it logs) and logging
//! (checksum, write, sync) can be separated by the thread's processor time. A database is loaded,
//! closed, opened (`recovery_of_load`), runs, is closed, opened again (`recovery`): what the
//! transactions add to recovery is the difference; on a busy machine only the least of several rounds
//! says something, and the loaded rows are the same bytes in both logs. Both kinds take turns within a
//! round. Exits with
//! an error when a state hash is not what it was, or differs between the logs.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it found")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::command_log::{self, CommandStore, ProcedureNumbers, Procedures, name};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::threads;
use tombolo_engine::transaction::Stop;
use tombolo_lab::host::Host;
use tombolo_lab::rows::state_hash;
use tombolo_lab::workload::tpcc::arguments;
use tombolo_lab::workload::tpcc::input::{Generator, Input, Mix};
use tombolo_lab::workload::tpcc::loader::{self, Scale};
use tombolo_lab::workload::tpcc::nurand::Constants;
use tombolo_lab::workload::tpcc::transactions::new_order::NewOrder;
use tombolo_lab::workload::tpcc::transactions::payment::Payment;
use tombolo_storage::command_log::ProcedureNumber;
use tombolo_storage::disk::{Disk, MemDisk, OsDisk};
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{MemoryCommandLogged, MemoryLogged, MemoryProfile};
use tombolo_storage::schema::{DeclaredTable, Schema};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::record::LENGTH_BYTES;
use tombolo_storage::value_log::{
    LogBuffer, LogKind, LogSettings, LogUsage, LogWriter, RecoverOptions, recover,
};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Bytes of loaded rows in one group, about.
const LOAD_GROUP_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, Serialize)]
struct Plan {
    mix: &'static str,
    warehouses: i32,
    transactions: usize,
    transactions_per_group: usize,
    rounds: usize,
    seed: u64,
    #[serde(skip)]
    directory: Option<String>,
}

impl Plan {
    fn of_arguments() -> Fallible<Self> {
        let mut plan = Self {
            mix: "paper",
            warehouses: 2,
            transactions: 200_000,
            transactions_per_group: 256,
            rounds: 1,
            seed: 1,
            directory: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--dir" => plan.directory = Some(value),
                "--warehouses" => plan.warehouses = value.parse()?,
                "--transactions" => plan.transactions = value.parse()?,
                "--group" => plan.transactions_per_group = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--seed" => plan.seed = value.parse()?,
                _ => return Err(format!("{argument} is no option").into()),
            }
        }
        Ok(plan)
    }

    fn log_settings(&self, kind: LogKind) -> LogSettings {
        LogSettings { kind, ..LogSettings::default() }
    }
}

/// Time and processor time of something.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Cost {
    wall_s: f64,
    cpu_s: f64,
}

/// Measures on the calling thread.
struct Watch<'a> {
    clock: &'a SystemClock,
    wall_ns: u64,
    cpu_ns: u128,
}

impl<'a> Watch<'a> {
    fn new(clock: &'a SystemClock) -> Self {
        Self { clock, wall_ns: clock.now_ns(), cpu_ns: clock.thread_cpu().as_nanos() }
    }

    /// Adds what has passed since the last call to `cost`.
    fn lap(&mut self, cost: &mut Cost) {
        let (wall_ns, cpu_ns) = (self.clock.now_ns(), self.clock.thread_cpu().as_nanos());
        cost.wall_s += (wall_ns - self.wall_ns) as f64 / 1e9;
        cost.cpu_s += (cpu_ns - self.cpu_ns) as f64 / 1e9;
        (self.wall_ns, self.cpu_ns) = (wall_ns, cpu_ns);
    }
}

/// What was found of one log on one disk.
#[derive(Clone, Debug, Serialize)]
struct Row {
    round: usize,
    log: &'static str,
    disk: &'static str,
    committed: u64,
    aborted: u64,
    groups: u64,
    syncs: u64,
    record_bytes: u64,
    record_bytes_per_committed: f64,
    written_bytes: u64,
    written_bytes_per_committed: f64,
    execution: Cost,
    execution_cpu_ns_per_transaction: f64,
    logging: Cost,
    logging_cpu_ns_per_transaction: f64,
    recovery_of_load: Cost,
    recovery: Cost,
    /// What the transactions add to recovery.
    replay: Cost,
    replay_cpu_ns_per_committed: f64,
    /// How much faster replaying is than executing and logging were, in processor time.
    replay_speed_up: f64,
    state_hash: String,
}

#[derive(Serialize)]
struct Report {
    experiment: &'static str,
    version: &'static str,
    settings: Plan,
    host: Host,
    rows: Vec<Row>,
}

/// The two transactions, bound, with their numbers in the log.
struct Called {
    new_order: (NewOrder, ProcedureNumber),
    payment: (Payment, ProcedureNumber),
}

fn procedures() -> Procedures {
    let mut procedures = Procedures::new();
    procedures.register::<NewOrder>(arguments::NEW_ORDER, arguments::VERSION);
    procedures.register::<Payment>(arguments::PAYMENT, arguments::VERSION);
    procedures
}

impl Called {
    fn bind(schema: &Schema, numbers: Option<&ProcedureNumbers>) -> Fallible<Self> {
        let number = |name| match numbers {
            Some(numbers) => numbers.of(name, arguments::VERSION),
            // A value log does without.
            None => ProcedureNumber::new(0),
        };
        let number = |name| number(name).ok_or("a procedure has no number");
        Ok(Self {
            new_order: (NewOrder::bind(schema)?, number(arguments::NEW_ORDER)?),
            payment: (Payment::bind(schema)?, number(arguments::PAYMENT)?),
        })
    }

    /// Runs one input; whether it committed.
    #[inline(never)]
    fn call<P: MemoryProfile>(&self, store: &mut MemoryStore<P>, input: &Input) -> Fallible<bool> {
        let outcome = match input {
            Input::NewOrder(input) => {
                name(store, self.new_order.1, input)?;
                self.new_order.0.call(store, input).map(drop)
            }
            Input::Payment(input) => {
                name(store, self.payment.1, input)?;
                self.payment.0.call(store, input).map(drop)
            }
            _ => return Err("no input of the paper's mix".into()),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Stop::Abort(_)) => Ok(false),
            Err(stop) => Err(stop.into()),
        }
    }
}

/// A new database on `disk`, loaded and closed.
fn load(disk: &Arc<dyn Disk>, plan: &Plan, kind: LogKind) -> Fallible<()> {
    let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
    let scale = Scale { seed: plan.seed, warehouses: plan.warehouses, mix: Mix::Paper };
    loader::load(&mut store, scale, threads::available(), |_, _| {})?;
    let mut writer = LogWriter::create(Arc::clone(disk), plan.log_settings(kind))?;
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    let mut rest = buffer.as_slice();
    while !rest.is_empty() {
        let (mut end, mut transactions) = (0, 0);
        while end < rest.len().min(LOAD_GROUP_BYTES) {
            let (length, _) = rest[end..].split_first_chunk().ok_or("a log buffer is cut off")?;
            end += LENGTH_BYTES + u32::from_le_bytes(*length) as usize;
            transactions += 1;
        }
        writer.append_group(&[&rest[..end]], transactions, None)?;
        rest = &rest[end..];
    }
    writer.sync()?;
    Ok(())
}

/// A database that is open.
struct Open<P: MemoryProfile> {
    store: MemoryStore<P>,
    writer: LogWriter,
    called: Called,
}

/// How a database with a profile is opened.
trait Opens: MemoryProfile + Sized {
    const KIND: LogKind;
    fn open(disk: &Arc<dyn Disk>, plan: &Plan) -> Fallible<Open<Self>>;
}

impl Opens for MemoryLogged {
    const KIND: LogKind = LogKind::Value;

    fn open(disk: &Arc<dyn Disk>, plan: &Plan) -> Fallible<Open<Self>> {
        let mut part = ReplayPart::new(0, 1, Limits::default());
        let (settings, options) = (plan.log_settings(Self::KIND), RecoverOptions::default());
        let found = recover(Arc::clone(disk), settings, options, &mut part, &mut |_| {})?;
        let store = MemoryStore::from_replay(Limits::default(), vec![part.finish()?])?;
        let called = Called::bind(store.schema(), None)?;
        Ok(Open { store, writer: found.writer, called })
    }
}

impl Opens for MemoryCommandLogged {
    const KIND: LogKind = LogKind::Command;

    fn open(disk: &Arc<dyn Disk>, plan: &Plan) -> Fallible<Open<Self>> {
        let (settings, limits) = (plan.log_settings(Self::KIND), Limits::default());
        let disk = Arc::clone(disk);
        let found =
            command_log::recover(disk, settings, false, limits, &procedures(), &mut |_| {})?;
        let store: CommandStore = found.store;
        let called = Called::bind(store.schema(), Some(&found.numbers))?;
        Ok(Open { store, writer: found.writer, called })
    }
}

/// Takes the memory for new rows beforehand, as `run` does.
fn reserve<P: MemoryProfile>(store: &mut MemoryStore<P>, inputs: &[Input]) -> Fallible<()> {
    use tombolo_lab::workload::tpcc::schema;
    let orders = inputs.iter().filter(|input| matches!(input, Input::NewOrder(_))).count();
    for (table, rows) in [
        (schema::Orders::NAME, orders),
        (schema::NewOrder::NAME, orders),
        (schema::OrderLine::NAME, orders * 10),
        (schema::History::NAME, inputs.len() - orders),
    ] {
        let position = store.schema().table(table).ok_or("a table is missing")?;
        store.reserve(position, rows)?;
    }
    Ok(())
}

fn measure<P: Opens>(
    plan: &Plan,
    clock: &SystemClock,
    inputs: &[Input],
    disk: &Arc<dyn Disk>,
    (round, disk_name): (usize, &'static str),
) -> Fallible<Row> {
    load(disk, plan, P::KIND)?;
    let (mut recovery_of_load, mut recovery) = (Cost::default(), Cost::default());
    let mut watch = Watch::new(clock);
    let Open { mut store, mut writer, called } = P::open(disk, plan)?;
    watch.lap(&mut recovery_of_load);
    reserve(&mut store, inputs)?;
    let LogUsage { groups, record_bytes, written_bytes, syncs, .. } = writer.usage();
    let (mut execution, mut logging) = (Cost::default(), Cost::default());
    let (mut committed, mut buffer) = (0, LogBuffer::new());
    let mut watch = Watch::new(clock);
    for batch in inputs.chunks(plan.transactions_per_group) {
        for input in batch {
            committed += u64::from(called.call(&mut store, input)?);
        }
        store.take_log(&mut buffer);
        watch.lap(&mut execution);
        writer.append_group(&[buffer.as_slice()], buffer.transactions(), None)?;
        writer.sync()?;
        buffer.clear();
        watch.lap(&mut logging);
    }
    let usage = writer.usage();
    let hash = state_hash(&mut store)?;
    drop((store, writer));
    let mut watch = Watch::new(clock);
    let mut again = P::open(disk, plan)?;
    watch.lap(&mut recovery);
    let found = state_hash(&mut again.store)?;
    if found != hash {
        return Err(format!("recovered state {found} is not the state left, {hash}").into());
    }
    let replay = Cost {
        wall_s: recovery.wall_s - recovery_of_load.wall_s,
        cpu_s: recovery.cpu_s - recovery_of_load.cpu_s,
    };
    let (record_bytes, written_bytes) =
        (usage.record_bytes - record_bytes, usage.written_bytes - written_bytes);
    let per_transaction = |cost: Cost| cost.cpu_s * 1e9 / inputs.len() as f64;
    let per_committed = |total: f64| total / committed as f64;
    Ok(Row {
        round,
        log: P::KIND.name(),
        disk: disk_name,
        committed,
        aborted: inputs.len() as u64 - committed,
        groups: usage.groups - groups,
        syncs: usage.syncs - syncs,
        record_bytes,
        record_bytes_per_committed: per_committed(record_bytes as f64),
        written_bytes,
        written_bytes_per_committed: per_committed(written_bytes as f64),
        execution,
        execution_cpu_ns_per_transaction: per_transaction(execution),
        logging,
        logging_cpu_ns_per_transaction: per_transaction(logging),
        recovery_of_load,
        recovery,
        replay,
        replay_cpu_ns_per_committed: per_committed(replay.cpu_s * 1e9),
        replay_speed_up: (execution.cpu_s + logging.cpu_s) / replay.cpu_s,
        state_hash: hash.to_string(),
    })
}

/// One measurement on a disk of its own.
fn measure_on<P: Opens>(
    plan: &Plan,
    clock: &SystemClock,
    inputs: &[Input],
    round: usize,
    directory: Option<&Path>,
) -> Fallible<Row> {
    let Some(directory) = directory else {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        return measure::<P>(plan, clock, inputs, &disk, (round, "memory"));
    };
    let directory = directory.join(format!("logs-{round}-{}", P::KIND.name()));
    std::fs::create_dir(&directory)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&directory)?);
    let row = measure::<P>(plan, clock, inputs, &disk, (round, "files"));
    drop(disk);
    std::fs::remove_dir_all(&directory)?;
    row
}

fn main() -> Fallible<()> {
    let plan = Plan::of_arguments()?;
    let clock = SystemClock::new();
    let constants = Constants::from_seed(plan.seed);
    let generator = Generator::new(plan.seed, Mix::Paper, plan.warehouses, constants);
    let inputs: Vec<_> = generator.take(plan.transactions).collect();
    let directory = plan.directory.clone();
    let directories = std::iter::once(None).chain(directory.as_deref().map(|d| Some(Path::new(d))));
    let mut rows: Vec<Row> = Vec::new();
    for directory in directories {
        for round in 1..=plan.rounds {
            let value = measure_on::<MemoryLogged>(&plan, &clock, &inputs, round, directory)?;
            let command =
                measure_on::<MemoryCommandLogged>(&plan, &clock, &inputs, round, directory)?;
            if value.state_hash != command.state_hash {
                return Err("the two logs left different states".into());
            }
            eprintln!("round {round} on {}", value.disk);
            rows.extend([value, command]);
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let host = Host::read();
    let report = Report { experiment: "logs", version, settings: plan, host, rows };
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
