//! What a full scan costs concurrent transactions: latencies without and with it, and whether
//! it saw one state.
//!
//! ```text
//! cargo run -p tombolo-engine --release --example scan_under_load -- \
//!     [accounts=10000000] [tps=100000] [scans=10] [pause_ms=1000] [log=none|DIRECTORY] \
//!     [any setting=value]…
//! ```
//!
//! Accounts of about 100 bytes, transfers between two random ones. Calls are due at a fixed rate, whether or
//! not earlier ones are answered. A latency counts from the moment a call was due, so that delayed calls are
//! not left out. Scans come with pauses between them; a call counts as one next to a scan if it was under way
//! while one ran. A scan adds up all balances in slices on a snapshot. With a fresh DIRECTORY all is logged
//! there and answers are durable. Prints one line of JSON; exits with an error when a scan saw a sum that never
//! was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::StageLoop;
use tombolo_engine::pipeline::{
    Batch, Builder, Call, Caller, Durability, Executor, LongWork, Options, Pipeline, Reply, Sliced,
    Spread, Tagged, ValueLogGroups,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::rng::Rng;
use tombolo_engine::settings::{Settings, Source};
use tombolo_engine::threads;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::memory::snapshot::Slice;
use tombolo_storage::memory::{Limits, MemoryStore, Snapshot, SnapshotCursor};
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::row::Fields;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogSettings, LogWriter};

tombolo_storage::table! {
    /// An account.
    pub struct Account = "account" {
        ID: Integer [0..=999_999_999];
        BALANCE: BigInt => hot;
        FILLER: Char<84>;
    }
}
tombolo_storage::index! {
    /// By number.
    pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);
const EACH: i64 = 1_000;

/// From, to, amount.
type Transfer = (i32, i32, i64);

struct Transfers {
    table: Table<Account>,
    key: Index<AccountKey>,
}

impl Procedure for Transfers {
    type Input = Transfer;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { table: resolve_table(schema)?, key: resolve_index(schema)? })
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &Transfer,
    ) -> Result<Committed<i64>, Stop> {
        let (from, to, amount) = *input;
        let mut rows = [None; 2];
        tx.lookup_many(&self.key, &[from, to], &mut rows)?;
        let [Some(from), Some(to)] = rows else { return tx.abort("no such account") };
        let mut tx = tx.write();
        let mut add = |row, amount: i64| {
            tx.update(&self.table, row, BALANCE, |row| {
                row.set(Account::BALANCE, row.get(Account::BALANCE) + amount);
            })
        };
        add(from, -amount)?;
        add(to, amount)?;
        tx.commit(amount)
    }
}

struct Database<P: MemoryProfile> {
    store: MemoryStore<P>,
    transfers: Transfers,
}

impl<P> Executor for Database<P>
where
    P: MemoryProfile,
    MemoryStore<P>: Send,
{
    type Request = Transfer;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Transfer, i64>) {
        batch.each(|input| (self.transfers.call(&mut self.store, input), self.store.log_bytes()));
    }

    fn log_bytes_max(&self, _: &Transfer) -> u64 {
        256
    }

    fn name_of(&self, _: &Transfer) -> &'static str {
        "transfer"
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

/// Adds up all balances.
#[derive(Default)]
struct Audit {
    snapshot: Option<Snapshot>,
    cursor: SnapshotCursor,
    rows: u64,
    sum: i64,
    rows_wanted: u64,
}

impl<P> LongWork<Database<P>> for Audit
where
    P: MemoryProfile,
    MemoryStore<P>: Send,
{
    fn begin(&mut self, database: &mut Database<P>) -> Result<(), Stop> {
        self.snapshot = Some(database.store.open_snapshot()?);
        Ok(())
    }

    fn slice(
        &mut self,
        database: &mut Database<P>,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<i64>, Stop> {
        let Some(snapshot) = &self.snapshot else { return Err(Stop::Abort("it never began")) };
        let Database { store, transfers } = database;
        let (mut rows, sum) = (0, &mut self.sum);
        let table = &transfers.table;
        let left = store.read_slice(snapshot, table, &mut self.cursor, rows_max, |_, row| {
            *sum += row.get(Account::BALANCE);
            rows += 1;
        })?;
        self.rows += rows as u64;
        match left {
            Slice::More => Ok(Sliced::More { rows }),
            Slice::Done if self.rows == self.rows_wanted => Ok(Sliced::Done(self.sum)),
            Slice::Done => Err(Stop::Abort("the scan missed rows")),
        }
    }

    fn end(&mut self, database: &mut Database<P>) {
        if let Some(snapshot) = self.snapshot.take() {
            database.store.close_snapshot(snapshot);
        }
    }

    fn give_back(&mut self, database: &mut Database<P>) -> bool {
        database.store.give_back_closed()
    }
}

struct LoadPlan {
    accounts: u64,
    tps: u64,
    scans: u64,
    pause_ms: u64,
    log: String,
    settings: Settings,
}

fn plan() -> Result<LoadPlan, String> {
    let mut plan = LoadPlan {
        accounts: 10_000_000,
        tps: 100_000,
        scans: 10,
        pause_ms: 1_000,
        log: "none".to_owned(),
        settings: Settings::default(),
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or("give name=value")?;
        let number = || value.parse::<u64>().map_err(|error| format!("{argument}: {error}"));
        match name {
            "accounts" => plan.accounts = number()?.clamp(2, 999_999_999),
            "tps" => plan.tps = number()?.max(1),
            "scans" => plan.scans = number()?.max(1),
            "pause_ms" => plan.pause_ms = number()?.clamp(100, 60_000),
            "log" => plan.log = value.to_owned(),
            name => {
                let set = plan.settings.set(name, value, Source::Flag);
                set.map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(plan)
}

fn loaded<P: MemoryProfile>(plan: &LoadPlan) -> Result<Database<P>, Error> {
    let mut store = MemoryStore::<P>::new(Limits::default());
    let table = TableDef::of::<Account>().with::<AccountKey>();
    let refused = |_| Error::NoSpace { held_bytes: 0 };
    store.create_table(table).map_err(refused)?;
    let transfers = Transfers::bind(store.schema()).map_err(refused)?;
    let mut log = LogBuffer::default();
    for first in (0..plan.accounts).step_by(1_000) {
        store.begin()?;
        store.begin_writes();
        for id in first..plan.accounts.min(first + 1_000) {
            let row = store.create(&transfers.table, |row| {
                row.set(Account::ID, id as i32);
                row.set(Account::BALANCE, EACH);
            })?;
            store.insert(&transfers.key, id as i32, row)?;
        }
        store.commit()?;
        // What was loaded is no part of the run: it is not recovered.
        store.take_log(&mut log);
        log.clear();
    }
    Ok(Database { store, transfers })
}

/// Latencies of one kind, in nanoseconds.
#[derive(Default)]
struct Latencies(Vec<u64>);

impl Latencies {
    fn json(&mut self) -> String {
        self.0.sort_unstable();
        let at = |per_mille: usize| match self.0.len() {
            0 => 0.0,
            n => self.0[(n * per_mille / 1_000).min(n - 1)] as f64 / 1e3,
        };
        format!(
            "{{\"transactions\":{},\"p50\":{:.1},\"p95\":{:.1},\"p99\":{:.1},\"p999\":{:.1},\
             \"max\":{:.1}}}",
            self.0.len(),
            at(500),
            at(950),
            at(990),
            at(999),
            at(1_000)
        )
    }

    fn p99(&self) -> f64 {
        self.0.get(self.0.len() * 99 / 100).copied().unwrap_or(0) as f64
    }
}

/// How long the load sleeps when nothing arrives.
const TICK: Duration = Duration::from_micros(20);

/// The tag of scans; those of transfers are the times at which they were due.
const SCAN: u64 = u64::MAX - 1;

/// The load, and what came of it.
struct Run<'p, P>
where
    P: MemoryProfile,
    MemoryStore<P>: Send,
{
    plan: &'p LoadPlan,
    pipeline: &'p Pipeline<Database<P>>,
    own: Option<StageLoop>,
    caller: Caller<Transfer, i64>,
    clock: SystemClock,
    random: Rng,
    calls: Vec<Call<Transfer>>,
    replies: Vec<Tagged<i64>>,
    /// When the last scan began and ended, if it has.
    scan_ns: (u64, Option<u64>),
    scans_s: Vec<f64>,
    sums: Vec<i64>,
    /// One for each pause.
    without: Vec<Latencies>,
    /// One for each scan, behind one for what came before the first.
    with: Vec<Latencies>,
}

impl<P> Run<'_, P>
where
    P: MemoryProfile,
    MemoryStore<P>: Send,
{
    /// Runs the load, with a scan now and then, until the last is over.
    fn load(&mut self) -> Result<(), String> {
        let (start_ns, pause_ns) = (self.clock.now_ns(), self.plan.pause_ms * 1_000_000);
        let (mut due, mut scans) = (0, 0);
        // The load alone comes first, and is not counted before it runs smoothly.
        self.scan_ns = (0, Some(start_ns + pause_ns));
        loop {
            let now_ns = self.clock.now_ns();
            let rested = self.scan_ns.1.is_some_and(|end_ns| now_ns >= end_ns + pause_ns);
            if rested && scans < self.plan.scans {
                let audit = Audit { rows_wanted: self.plan.accounts, ..Audit::default() };
                let (intake, durability) = (self.pipeline.long(), Durability::Group);
                let taken = intake.submit_by(&mut self.caller, Box::new(audit), SCAN, durability);
                taken.map_err(|_| "a scan was not taken")?;
                self.scan_ns = (now_ns, None);
                self.with.push(Latencies::default());
                self.without.push(Latencies::default());
                scans += 1;
            }
            let is_loading = !(rested && scans == self.plan.scans && self.scan_ns.1.is_some());
            let due_until = u128::from(now_ns - start_ns) * u128::from(self.plan.tps);
            while is_loading && due < (due_until / 1_000_000_000) as u64 {
                let due_ns = start_ns + due * 1_000_000_000 / self.plan.tps;
                let mut account = || self.random.below(self.plan.accounts) as i32;
                let transfer = (account(), account(), (due % 100) as i64);
                self.calls.push(self.caller.prepare(transfer, due_ns, Durability::Group));
                due += 1;
            }
            if !self.calls.is_empty() {
                let put = self.caller.try_submit_many(&mut self.calls);
                put.map_err(|refusal| refusal.to_string())?;
            }
            self.fetch()?;
            if !is_loading && self.calls.is_empty() && self.caller.in_flight() == 0 {
                return Ok(());
            }
        }
    }

    fn fetch(&mut self) -> Result<(), String> {
        if let Some(own) = &mut self.own {
            // The load comes in ticks: calls due within one are sent together.
            own.turn_or_sleep(Some(TICK));
        }
        self.caller.take(&mut self.replies);
        let now_ns = self.clock.now_ns();
        for (tag, reply) in self.replies.drain(..) {
            let answer = match reply {
                Reply::Durable(outcome) | Reply::Volatile(outcome) => outcome,
                other => return Err(format!("{other:?}")),
            };
            let answer = answer.map_err(|failure| failure.to_string())?;
            if tag == SCAN {
                self.scans_s.push((now_ns - self.scan_ns.0) as f64 / 1e9);
                self.scan_ns.1 = Some(now_ns);
                self.sums.push(answer);
            } else if self.scan_ns.1.is_none_or(|end_ns| tag < end_ns) {
                let with = self.with.last_mut().ok_or("there is a first one")?;
                with.0.push(now_ns - tag);
            } else {
                let without = self.without.last_mut().ok_or("there is a first one")?;
                without.0.push(now_ns - tag);
            }
        }
        Ok(())
    }
}

/// The latencies of several stretches as one, the p99 of each in microseconds, and the median of
/// these: where the machine is taken away for some milliseconds, one stretch decides the p99 of all.
fn taken_together(mut stretches: Vec<Latencies>) -> (Latencies, Vec<f64>, f64) {
    stretches.iter_mut().for_each(|stretch| stretch.0.sort_unstable());
    stretches.retain(|stretch| !stretch.0.is_empty());
    let p99_us = |stretch: &Latencies| (stretch.p99() / 100.0).round() / 10.0;
    let each: Vec<f64> = stretches.iter().map(p99_us).collect();
    let mut ordered = each.clone();
    ordered.sort_unstable_by(f64::total_cmp);
    let median = ordered.get(ordered.len() / 2).copied().unwrap_or(0.0);
    (Latencies(stretches.into_iter().flat_map(|stretch| stretch.0).collect()), each, median)
}

fn run<P>(plan: &LoadPlan, log: Option<ValueLogGroups>) -> Result<String, String>
where
    P: MemoryProfile,
    MemoryStore<P>: Send,
{
    let clock = SystemClock::new();
    let database = loaded::<P>(plan).map_err(|error| error.to_string())?;
    let options = Options::new(&plan.settings, threads::available());
    let options = Options { spread: Spread::Callers, ..options };
    let mut builder = Builder::new(database, options);
    if let Some(log) = log {
        builder = builder.log(Box::new(log));
    }
    let pipeline = builder.start(Arc::new(clock)).map_err(|refused| refused.to_string())?;
    let mut run = Run {
        plan,
        pipeline: &pipeline,
        own: pipeline.own_stages(),
        caller: pipeline.caller(1 << 20),
        clock,
        random: Rng::from_seed(1),
        calls: Vec::new(),
        replies: Vec::new(),
        scan_ns: (0, None),
        scans_s: Vec::new(),
        sums: Vec::new(),
        without: vec![Latencies::default()],
        with: vec![Latencies::default()],
    };
    run.load()?;
    let Run { own, scans_s, sums, without: by_pause, with: mut by_scan, .. } = run;
    by_scan.remove(0);
    let (mut without, p99_by_pause, median_without) = taken_together(by_pause);
    let (mut with, p99_by_scan, median_with) = taken_together(by_scan);
    let (statistics, overruns) = (pipeline.statistics(), pipeline.overruns());
    pipeline.shut();
    own.into_iter().for_each(StageLoop::run);
    drop(pipeline);
    let expected = plan.accounts as i64 * EACH;
    let one_state = !sums.is_empty() && sums.iter().all(|&sum| sum == expected);
    let named: Vec<&str> = overruns.iter().map(|overrun| overrun.name).collect();
    let json = format!(
        "{{\"command\":\"scan_under_load\",\"accounts\":{},\"row_bytes\":{},\"load_tps\":{},\
         \"pause_ms\":{},\"durable\":{},\"slice_us_max\":{},\"cores\":{},\
         \"latency_us_without\":{},\"latency_us_with\":{},\"p99_ratio\":{:.2},\
         \"p99_ratio_of_medians\":{:.2},\"p99_us_by_pause\":{p99_by_pause:?},\
         \"p99_us_by_scan\":{p99_by_scan:?},\"scans\":{},\
         \"scan_s\":{:?},\"sum_expected\":{expected},\"one_state\":{one_state},\"slices\":{},\
         \"slices_late\":{},\"slice_us_mean\":{:.1},\"slice_us_longest\":{:.1},\
         \"overruns\":{},\"overrun_us_longest\":{:.1},\"overruns_named\":{named:?}}}",
        plan.accounts,
        TableDef::of::<Account>().row_size(),
        plan.tps,
        plan.pause_ms,
        plan.log != "none",
        options.slice_ns_max / 1_000,
        threads::available(),
        without.json(),
        with.json(),
        with.p99() / without.p99().max(1.0),
        median_with / median_without.max(1e-3),
        sums.len(),
        scans_s.iter().map(|s| (s * 1e3).round() / 1e3).collect::<Vec<_>>(),
        statistics.slices,
        statistics.slices_late,
        statistics.slice_ns as f64 / statistics.slices.max(1) as f64 / 1e3,
        statistics.slice_ns_max as f64 / 1e3,
        statistics.overruns,
        statistics.overrun_ns_max as f64 / 1e3,
    );
    if one_state { Ok(json) } else { Err(format!("a scan saw {sums:?}: {json}")) }
}

fn main() -> Result<(), String> {
    let plan = plan()?;
    let json = match plan.log.as_str() {
        "none" => run::<Memory>(&plan, None)?,
        directory => {
            let disk = OsDisk::create(Path::new(directory)).map_err(|error| error.to_string())?;
            let writer = LogWriter::create(Arc::new(disk), LogSettings::default());
            let groups = ValueLogGroups::new(writer.map_err(|error| error.to_string())?);
            run::<MemoryLogged>(&plan, Some(groups))?
        }
    };
    println!("{json}");
    Ok(())
}
