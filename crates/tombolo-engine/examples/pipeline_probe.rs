//! What the pipeline costs by itself: time of each stage per transaction, and a lone call's way.
//!
//! ```text
//! cargo run -p tombolo-engine --profile quick --example pipeline_probe -- \
//!     [transactions=2000000] [in_flight=4096] [spread=two] [log=none|memory|DIRECTORY] [work_ns=0] \
//!     [lone=20000] [any setting=value]…
//! ```
//!
//! The executor does nothing but wait `work_ns` and note 120 bytes of log; a log in `memory` keeps
//! nothing and is durable at once, so what is left is the pipeline. With a fresh DIRECTORY the value
//! log is written there. Not here: a store.

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{
    Batch, Builder, Call, Cost, Durability, Executor, GroupLog, GroupLogError, Options, Pipeline,
    Records, Room, Statistics, ValueLogGroups,
};
use tombolo_engine::settings::{Settings, Source};
use tombolo_engine::threads;
use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::{LogSettings, LogWriter};

/// A request as wide as a New Order's input.
type Request = [u64; 20];

#[derive(Default)]
struct Log(Vec<u8>);

impl Records for Log {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn transactions(&self) -> u64 {
        self.0.len() as u64 / 120
    }
    fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

struct Probe {
    clock: SystemClock,
    work_ns: u64,
    record: [u8; 120],
    log: Log,
    sum: u64,
}

impl Executor for Probe {
    type Request = Request;
    type Answer = u64;
    type Records = Log;

    fn execute(&mut self, batch: &mut Batch<'_, Request, u64>) {
        batch.each(|request| {
            self.sum += request[0] ^ request[19];
            if self.work_ns > 0 {
                let until = self.clock.now_ns() + self.work_ns;
                while self.clock.now_ns() < until {}
            }
            self.log.0.extend_from_slice(&self.record);
            (Ok(self.sum), self.log.0.len())
        });
    }

    fn log_bytes_max(&self, _: &Request) -> u64 {
        120
    }

    fn take_log(&mut self, into: &mut Log) {
        std::mem::swap(&mut self.log, into);
    }
}

/// Durable at once.
struct Nowhere;

impl GroupLog for Nowhere {
    fn append(&mut self, _: &[&[u8]], _: u64) -> Result<(), GroupLogError> {
        Ok(())
    }
    fn sync(&mut self) -> Result<(), GroupLogError> {
        Ok(())
    }
    fn seal(&mut self) -> Result<(), GroupLogError> {
        Ok(())
    }
    fn room(&mut self) -> Room {
        Room { bytes: 1 << 40, is_all: true, more_is_wanted: false }
    }
    fn group_bytes_max(&self) -> u64 {
        64 << 20
    }
    fn cost(&self) -> Cost {
        Cost { per_batch: 4096, per_byte: 1 }
    }
}

/// The value log in a directory of its own below `directory`.
fn on_disk(directory: &Path, part: &str) -> Result<ValueLogGroups, String> {
    let disk = OsDisk::create(&directory.join(part)).map_err(|error| error.to_string())?;
    let disk = Arc::new(disk);
    let writer = LogWriter::create(disk, LogSettings::default());
    Ok(ValueLogGroups::new(writer.map_err(|error| error.to_string())?))
}

struct Plan {
    transactions: u64,
    in_flight: usize,
    lone: u64,
    work_ns: u64,
    log: String,
    options: Options,
}

fn plan() -> Result<Plan, String> {
    let mut settings = Settings::default();
    let (mut transactions, mut in_flight, mut lone, mut work_ns) = (2_000_000, 4_096, 20_000, 0);
    let mut log = "memory".to_owned();
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or("give name=value")?;
        let number = || value.parse::<u64>().map_err(|error| format!("{argument}: {error}"));
        match name {
            "transactions" => transactions = number()?,
            "in_flight" => in_flight = number()? as usize,
            "lone" => lone = number()?,
            "work_ns" => work_ns = number()?,
            "log" => log = value.to_owned(),
            "spread" => settings
                .set("pipeline_threads", value, Source::Flag)
                .map_err(|error| error.to_string())?,
            name => settings.set(name, value, Source::Flag).map_err(|error| error.to_string())?,
        }
    }
    let options = Options::new(&settings, threads::available());
    Ok(Plan { transactions, in_flight, lone, work_ns, log, options })
}

/// Keeps `in_flight` calls under way from this thread.
fn many(plan: &Plan, pipeline: &Pipeline<Probe>) {
    let mut own = pipeline.own_stages();
    let mut caller = pipeline.caller(plan.in_flight);
    let (mut calls, mut replies): (Vec<Call<Request>>, _) = (Vec::new(), Vec::new());
    let (mut made, mut seen) = (0, 0);
    while seen < plan.transactions {
        let under_way = caller.in_flight() + calls.len();
        let more = (plan.in_flight - under_way).min((plan.transactions - made) as usize);
        for tag in made..made + more as u64 {
            calls.push(caller.prepare([tag; 20], tag, Durability::Group));
        }
        made += more as u64;
        if !calls.is_empty() {
            caller.try_submit_many(&mut calls).expect("the pipeline is open");
        }
        match &mut own {
            Some(stages) => {
                stages.turn_or_sleep(Some(std::time::Duration::from_millis(1)));
                caller.take(&mut replies);
            }
            None => caller.wait(&mut replies).expect("the pipeline is well"),
        }
        seen += replies.len() as u64;
        replies.clear();
    }
    pipeline.shut();
    own.into_iter().for_each(threads::StageLoop::run);
}

fn report(plan: &Plan, statistics: &Statistics, wall_ns: u64, client_ns: u64) {
    let each = |ns: u64| ns as f64 / plan.transactions as f64;
    let busy = statistics.busy;
    println!(
        "{:?}: {:.0} ns of wall time each; execution {:.0} ns, of it pipeline {:.0}; logging {:.0}; \
         output {:.0}; caller's CPU {:.0}; batches of {:.0}, flushes of {:.0}",
        plan.options.spread,
        each(wall_ns),
        each(busy.execution_ns),
        each(busy.execution_ns) - plan.work_ns as f64,
        each(busy.logging_ns),
        each(busy.output_ns),
        each(client_ns),
        plan.transactions as f64 / statistics.batches.max(1) as f64,
        statistics.transactions_per_flush(),
    );
}

fn main() -> Result<(), String> {
    let plan = plan()?;
    let clock = SystemClock::new();
    let start = |part: &str| {
        let (log, record) = (Log::default(), [1; 120]);
        let probe = Probe { clock, work_ns: plan.work_ns, record, log, sum: 0 };
        let builder = Builder::new(probe, plan.options);
        let builder = match plan.log.as_str() {
            "none" => builder,
            "memory" => builder.log(Box::new(Nowhere)),
            directory => builder.log(Box::new(on_disk(Path::new(directory), part)?)),
        };
        builder.start(Arc::new(clock)).map_err(|refused| refused.to_string())
    };
    let pipeline = start("many")?;
    let (from_ns, cpu) = (clock.now_ns(), clock.thread_cpu());
    many(&plan, &pipeline);
    let (wall_ns, cpu) = (clock.now_ns() - from_ns, clock.thread_cpu() - cpu);
    let closed = pipeline.close();
    assert_eq!(closed.statistics.executed, plan.transactions);
    report(&plan, &closed.statistics, wall_ns, cpu.as_nanos() as u64);
    let pipeline = start("lone")?;
    if pipeline.own_stages().is_some() {
        return Ok(()); // a lone caller that sleeps cannot step stages
    }
    let mut caller = pipeline.caller(1);
    let flushed_ns = || pipeline.statistics().flush_ns;
    let mut times: Vec<(u64, u64)> = (0..plan.lone)
        .map(|n| {
            let (from_ns, flushed_before_ns) = (clock.now_ns(), flushed_ns());
            let reply = caller.call([n; 20], Durability::Group);
            let time_ns = clock.now_ns() - from_ns;
            assert!(reply.outcome().is_ok_and(|outcome| outcome.is_ok()));
            (time_ns, time_ns.saturating_sub(flushed_ns() - flushed_before_ns))
        })
        .collect();
    let mut quantiles = |of: fn(&(u64, u64)) -> u64| {
        times.sort_unstable_by_key(of);
        [50, 99].map(|percent| of(&times[times.len() * percent / 100]) as f64 / 1e3)
    };
    if plan.lone > 0 {
        let [p50, p99] = quantiles(|times| times.0);
        println!("a lone call: p50 {p50:.1} us, p99 {p99:.1} us");
        let [p50, p99] = quantiles(|times| times.1);
        println!("without its flush: p50 {p50:.1} us, p99 {p99:.1} us");
    }
    Ok(())
}
