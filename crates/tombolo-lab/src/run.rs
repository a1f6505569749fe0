//! `run`: one workload on one profile, from an empty store to a verified result.
//!
//! Load, warm up, measure throughput, time single transactions, verify every condition, hash the
//! state, count instructions — in this order; only the third is in the throughput figures. Here
//! settings become a [`Plan`]: rules that concern several settings at once are checked before
//! anything starts.
//!
//! Not here: the loop (`drive.rs`), what a result looks like (`report/`), arguments and exit codes
//! (the command).

use std::path::PathBuf;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::settings::{self, Settings, Source};
use tombolo_engine::threads;
use tombolo_storage::profile::PROFILES;
use tombolo_storage::store::Usage;

use crate::counters::miss;
use crate::counting::{self, Counter, GroupCost};
use crate::drive::{Bound, Driver, Throughput};
use crate::dump_files::DumpDirectory;
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::host;
use crate::instance::{self, Instance, Verification};
use crate::progress::Progress;
use crate::workload::tpcc::input::{Generator, Input, Mix};
use crate::workload::tpcc::loader::Scale;
use crate::workload::tpcc::nurand::Constants;
use crate::{estimate, report};

/// Transactions before anything is measured.
pub const WARM_UP: usize = 2_000;
/// The most calls under way: their completion times are kept.
const CALLERS_MAX: u64 = 1_000_000;

/// What a run does, its settings read and found to fit each other.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The profile's name.
    pub profile: String,
    /// The scale.
    pub warehouses: i32,
    /// The mix.
    pub mix: Mix,
    /// When the throughput pass ends.
    pub bound: Bound,
    /// Calls under way.
    pub callers: usize,
    /// Transactions of the latency pass.
    pub latency_transactions: usize,
    /// Inputs made at a time.
    pub batch: usize,
    /// Whether memory for a batch's rows is taken beforehand.
    pub reserve: bool,
    /// Threads that make the initial data.
    pub load_threads: usize,
    /// Memory the process may take.
    pub memory_limit: Option<u64>,
    /// The seed.
    pub seed: u64,
    /// What counts instructions.
    pub counter: String,
    /// Transactions in which each kind is counted.
    pub counted: usize,
    /// How often instructions are counted.
    pub repeat: u64,
}

impl Plan {
    /// Reads the settings of a run.
    ///
    /// # Errors
    /// When settings do not fit each other or ask for what does not exist yet, with the reason.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let profile = settings.word(&settings::PROFILE);
        verify_profile(profile, settings)?;
        let clients = settings.count(&settings::CLIENTS);
        let in_flight = settings.count(&settings::IN_FLIGHT);
        let callers = clients.saturating_mul(in_flight);
        if callers > CALLERS_MAX {
            return Err(Failure::usage(format!(
                "{clients} clients with {in_flight} calls each are more than {CALLERS_MAX} calls \
                 under way: lower --clients or --in-flight"
            )));
        }
        let bound = match settings.number(&settings::TRANSACTIONS) {
            Some(transactions) => Bound::Transactions(transactions),
            None => Bound::Time(settings.duration(&settings::SECONDS)),
        };
        let count = |setting| settings.count(setting) as usize;
        Ok(Self {
            profile: profile.to_owned(),
            warehouses: settings.count(&settings::WAREHOUSES) as i32,
            mix: mix_named(settings.word(&settings::MIX)),
            bound,
            callers: callers as usize,
            latency_transactions: count(&settings::LATENCY_TRANSACTIONS),
            batch: count(&settings::BATCH),
            reserve: settings.word(&settings::RESERVE) == "yes",
            load_threads: load_threads(settings),
            memory_limit: settings.number(&settings::MEMORY_LIMIT),
            seed: settings.count(&settings::SEED),
            counter: settings.word(&settings::COUNTER).to_owned(),
            counted: count(&settings::COUNTED),
            repeat: settings.count(&settings::REPEAT),
        })
    }

    /// What is loaded.
    pub fn scale(&self) -> Scale {
        Scale { seed: self.seed, warehouses: self.warehouses, mix: self.mix }
    }

    /// The run's inputs, from the first.
    pub fn inputs(&self) -> impl Iterator<Item = Input> + use<> {
        let constants = Constants::from_seed(self.seed);
        Generator::new(self.seed, self.mix, self.warehouses, constants)
    }

    /// The flags that make a counted process count the same.
    pub fn count_arguments(&self) -> Vec<String> {
        let flags = [
            ("profile", self.profile.clone()),
            ("warehouses", self.warehouses.to_string()),
            ("mix", mix_name(self.mix).to_owned()),
            ("seed", self.seed.to_string()),
            ("counted", self.counted.to_string()),
        ];
        flags.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }

    /// Refuses a run that needs a counter the machine does not have, or more memory.
    ///
    /// # Errors
    /// With what to install, or the size it would need.
    pub fn verify_machine(&self) -> Result<(), Failure> {
        Counter::choose(&self.counter)?;
        let transactions = match self.bound {
            Bound::Transactions(transactions) => transactions,
            Bound::Time(_) => 0,
        };
        let transactions = transactions + (self.latency_transactions + self.callers) as u64;
        let batch = self.batch.max(self.latency_transactions + self.callers) as u64;
        let warehouses = u64::from(self.warehouses.unsigned_abs());
        let needed = estimate::bytes(warehouses, self.mix, transactions, batch);
        verify_memory(needed, self.memory_limit)
    }
}

/// Refuses what needs more memory than there is, or than `limit` allows.
///
/// # Errors
/// With the size it would need.
pub fn verify_memory(needed: u64, limit: Option<u64>) -> Result<(), Failure> {
    let available = limit.unwrap_or(u64::MAX).min(host::available_bytes());
    if needed <= available {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "this would need about {} of memory, and {} are available: give fewer --warehouses or \
         --transactions",
        report::size(needed),
        report::size(available)
    )))
}

/// Refuses what the profile cannot do, with the reason.
fn verify_profile(profile: &str, settings: &Settings) -> Result<(), Failure> {
    let Some(info) = PROFILES.iter().find(|info| info.name == profile) else {
        return Err(Failure::usage(format!("profile {profile} is not known")));
    };
    let durability = settings.word(&settings::DURABILITY);
    if !info.durability.contains(&durability) {
        return Err(Failure::usage(format!(
            "profile {profile} has no log, so durability {durability} cannot be had: use \
             --durability {}",
            info.durability.join(" or ")
        )));
    }
    let threads = settings.count(&settings::THREADS);
    if threads > info.threads_max as u64 {
        return Err(Failure::usage(format!(
            "profile {profile} has no locks and no latches, so it runs on one thread: use \
             --threads 1 instead of {threads}"
        )));
    }
    let islands = settings.count(&settings::ISLANDS);
    if islands > 1 {
        return Err(Failure::usage(format!(
            "{islands} islands cannot be deployed, this version has one: use --islands 1"
        )));
    }
    Ok(())
}

fn load_threads(settings: &Settings) -> usize {
    let threads = settings.number(&settings::LOAD_THREADS);
    threads.map_or_else(threads::available, |threads| threads as usize)
}

/// Fills in what depends on the machine, so that a result says what was in effect.
pub fn make_effective(settings: &mut Settings) {
    if settings.number(&settings::LOAD_THREADS).is_none() {
        let threads = threads::available().to_string();
        let set = settings.set(settings::LOAD_THREADS.name, &threads, Source::Default);
        debug_assert!(set.is_ok(), "{set:?}");
    }
}

/// The name of a mix.
pub const fn mix_name(mix: Mix) -> &'static str {
    match mix {
        Mix::Paper => "paper",
        Mix::Standard => "standard",
    }
}

fn mix_named(name: &str) -> Mix {
    if name == mix_name(Mix::Paper) { Mix::Paper } else { Mix::Standard }
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run.
    pub plan: Plan,
    /// Loading: wall-clock and processor time in seconds.
    pub load_s: (f64, f64),
    /// Memory after loading.
    pub usage: Usage,
    /// What a dependent load that misses costs here, in nanoseconds.
    pub miss_ns: Option<f64>,
    /// The throughput pass.
    pub throughput: Throughput,
    /// The latency pass, by kind.
    pub latencies: [Latencies; 5],
    /// Bytes written to disks from before loading until after the passes; `None` where the kernel
    /// does not say.
    pub disk_bytes: Option<u64>,
    /// The checks.
    pub verification: Verification,
    /// The hash of all rows.
    pub state_hash: String,
    /// What counted instructions.
    pub counter: Option<Counter>,
    /// Every count, all equal if the counter is exact.
    pub counts: Vec<Vec<GroupCost>>,
    /// Ticks of the time-stamp counter, where instructions were counted.
    pub cycles: Vec<GroupCost>,
    /// What the user should know besides.
    pub notes: Vec<String>,
}

impl Outcome {
    /// What makes this run a failure, if anything does.
    pub fn failure(&self) -> Option<Failure> {
        if let Some(finding) = self.verification.damage.first() {
            let (check, what) = (&finding.check, &finding.what);
            return Some(Failure::check(format!(
                "check {check} failed: {what}: this is a defect of {}, please report the command",
                self.plan.profile
            )));
        }
        match self.disk_bytes {
            Some(bytes) if bytes > 0 => Some(Failure::check(format!(
                "a run in memory wrote {bytes} bytes to disks: is the machine swapping, or \
                 standard error a file?"
            ))),
            _ => None,
        }
    }
}

/// Runs `plan`.
///
/// # Errors
/// When it cannot start or cannot finish; failed checks are part of the outcome.
pub fn run(
    plan: &Plan,
    dump: Option<PathBuf>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let (counter, note) = Counter::choose(&plan.counter)?;
    plan.verify_machine()?;
    let dump = dump.map(|path| DumpDirectory::create(path, "--dump")).transpose()?;
    let clock = SystemClock::new();
    let disk_before = host::disk_bytes();
    let (mut instance, load_s) = load(plan, &clock, progress)?;
    let usage = instance.usage();
    let miss_ns = miss::miss_ns(&mut || clock.now_ns(), miss::PROBE_BYTES).ok();
    let (throughput, latencies) = measure(plan, &clock, &mut *instance, progress)?;
    let disk_bytes = host::disk_bytes().zip(disk_before).map(|(after, before)| after - before);
    progress.begin("verifying");
    let cannot_read = |error: &dyn std::fmt::Display| Failure::check(error.to_string());
    let verification = instance.verify().map_err(|error| cannot_read(&error))?;
    progress.part(0.5, "hashing");
    let hash = match dump {
        Some(directory) => directory.write(&mut *instance)?,
        None => instance.state_hash().map_err(|error| cannot_read(&error))?,
    };
    progress.end();
    drop(instance); // the counted databases need the memory
    let mut counts = Vec::new();
    let mut cycles = Vec::new();
    if let Some(counter) = counter {
        progress.begin(&format!("counting with {}", counter.name()));
        for repetition in 0..plan.repeat {
            progress.part(repetition as f64 / plan.repeat as f64, "");
            counts.push(counting::count(counter, plan)?);
        }
        cycles = counting::cycles(plan)?;
        progress.end();
    }
    Ok(Outcome {
        plan: plan.clone(),
        load_s,
        usage,
        miss_ns,
        throughput,
        latencies,
        disk_bytes,
        verification,
        state_hash: hash.to_string(),
        counter,
        counts,
        cycles,
        notes: note.into_iter().collect(),
    })
}

type Loaded = (Box<dyn Instance>, (f64, f64));

fn load(plan: &Plan, clock: &dyn Clock, progress: &mut dyn Progress) -> Result<Loaded, Failure> {
    let Some(mut instance) = instance::open(&plan.profile) else {
        return Err(Failure::usage(format!("profile {} is not known", plan.profile)));
    };
    progress.begin(&format!("loading {} warehouses", plan.warehouses));
    let (wall, cpu) = (clock.now_ns(), clock.process_cpu());
    let loaded = instance.load(plan.scale(), plan.load_threads, &mut |done, of| {
        progress.part(done as f64 / of as f64, "");
    });
    let cpu_s = clock.process_cpu().saturating_sub(cpu).as_secs_f64();
    let wall_s = (clock.now_ns() - wall) as f64 / 1e9;
    progress.end();
    loaded.map_err(|error| Failure::environment(error.to_string()))?;
    Ok((instance, (wall_s, cpu_s)))
}

type Measured = (Throughput, [Latencies; 5]);

fn measure(
    plan: &Plan,
    clock: &dyn Clock,
    instance: &mut dyn Instance,
    progress: &mut dyn Progress,
) -> Result<Measured, Failure> {
    let mut inputs = plan.inputs();
    let mut driver = Driver {
        clock,
        inputs: &mut inputs,
        batch: plan.batch,
        reserve: plan.reserve,
        memory_limit: plan.memory_limit,
    };
    driver.warm_up(instance, WARM_UP)?;
    progress.begin(&format!("running {} on {}", mix_name(plan.mix), plan.profile));
    let throughput = driver.run(instance, plan.bound, &mut |part, so_far| {
        let rate = report::quantity(so_far.per_cpu_second());
        progress.part(part, &format!("{rate} transactions per CPU-second"));
    })?;
    progress.end();
    let latencies = driver.time(instance, plan.latency_transactions, plan.callers)?;
    Ok((throughput, latencies))
}

#[cfg(test)]
mod tests;
