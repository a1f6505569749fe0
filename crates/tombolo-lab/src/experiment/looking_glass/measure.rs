//! Measuring the profiles of a dissection: times, the rows that are left, instructions, cycles.
//!
//! Times come first, one profile after the other and then the next round, while nothing else runs; then the
//! counts, as many in parallel as there are cores. What was saved is opened, never loaded again.
//!
//! Invariant: a profile whose rows differ from those before it, or are not consistent, ends the dissection
//! immediately.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads;

use super::plan::DissectPlan;
use super::result::{Call, Cost, Speed, StageCost, Transaction};
use crate::counters::{Category, miss};
use crate::drive::{Batch, Driver, Instance, Tally, Throughput};
use crate::failure::{Blamed, Failure};
use crate::files::{Medium, WorkDirectory};
use crate::host;
use crate::numbers::separated;
use crate::plan::{Bound, Counter, Plan, WARM_UP, durability_name};
use crate::progress::Progress;
use crate::rows::Verification;
use crate::run::counting::GroupCost;
use crate::run::saved::SavedDatabases;
use crate::run::{counting, saved};
use crate::settings;
use crate::work::WorkDone;
use crate::workload::{WorkloadInput, tpcc};

/// Transactions between two looks at that clock.
const DURABLE_SLICE: u64 = 500;
/// A counted process takes at least this much memory besides its database.
const COUNTED_FIXED_BYTES: u64 = 512 << 20;
/// The end of a group's name whose transactions abort.
const ABORTED: &str = "_aborted";

/// The measurement of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Profile {
    pub(super) state_hash: String,
    pub(super) durability: &'static str,
    /// One per round.
    pub(super) speeds: Vec<Speed>,
    /// The same where the log was also on a disk.
    pub(super) durable: Vec<Speed>,
    pub(super) costs: BTreeMap<Transaction, Cost>,
    /// One per repeat.
    pub(super) counts: Vec<BTreeMap<Transaction, f64>>,
    pub(super) sum_error_percent: Option<f64>,
}

/// Everything that was measured.
pub(super) struct Found {
    pub(super) profiles: BTreeMap<&'static str, Profile>,
    pub(super) notes: Vec<String>,
    pub(super) miss_ns: Option<f64>,
}

/// A profile and how it runs.
struct Subject {
    name: &'static str,
    plan: Plan,
}

/// Where profiles are measured.
pub(super) struct Workbench<'p> {
    plan: &'p DissectPlan,
    saved: SavedDatabases,
    subjects: Vec<Subject>,
    clock: SystemClock,
    found: Found,
}

impl<'p> Workbench<'p> {
    /// Loads and saves what the profiles of `plan` open.
    pub(super) fn new(plan: &'p DissectPlan, progress: &mut dyn Progress) -> Result<Self, Failure> {
        let medium = Medium::lasting_if(!plan.durable().is_empty() && !plan.volatile_ok);
        let directory = WorkDirectory::create(&plan.parent, medium)?;
        let mut saved = SavedDatabases::new(directory);
        let mut subjects = Vec::new();
        for name in plan.profiles() {
            let mut own = plan.of(name)?;
            own.saved = saved.make(&own, progress)?;
            if let Some((_, logs)) = &mut own.part {
                *logs = saved.directory().path().to_owned();
            }
            subjects.push(Subject { name, plan: own });
        }
        let clock = SystemClock::new();
        let found = Found { profiles: BTreeMap::new(), notes: Vec::new(), miss_ns: None };
        Ok(Self { plan, saved, subjects, clock, found })
    }

    /// Times every profile, and compares the rows they leave.
    pub(super) fn time(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let rounds = self.plan.settings.count(&settings::ROUNDS);
        let all = self.subjects.len() as f64 * rounds as f64;
        let mut done = 0.0;
        progress.begin("running every profile");
        self.found.miss_ns = miss::miss_ns(&mut || self.clock.now_ns(), miss::PROBE_BYTES).ok();
        for round in 0..rounds {
            for subject in &self.subjects {
                progress.part(done / all, subject.name);
                let (mut instance, throughput) = run_in_memory(&subject.plan, &self.clock)?;
                let profile = self.found.profiles.entry(subject.name).or_default();
                profile.speeds.push(speed(&throughput));
                if round == 0 {
                    profile.durability = "none";
                    progress.part((done + 0.3) / all, &format!("{}: verifying", subject.name));
                    profile.state_hash = verified(self.plan, subject.name, &mut *instance)?;
                    drop(instance);
                    profile.costs = work(&subject.plan)?;
                    self.compare(subject.name)?;
                }
                done += 1.0;
            }
        }
        progress.end();
        Ok(())
    }

    /// Compares the rows a profile left with those of the first one.
    fn compare(&self, name: &str) -> Result<(), Failure> {
        let left = |name: &str| {
            let profile = self.found.profiles.get(name);
            (self.plan.name_of(name), profile.map_or("", |profile| &profile.state_hash))
        };
        let ((first, expected), (other, hash)) = (left(self.subjects[0].name), left(name));
        verify_same(&other, hash, &first, expected)
    }

    /// Times the rungs whose log goes to a disk once more, with commits that wait for it.
    pub(super) fn time_durable(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let rounds = self.plan.settings.count(&settings::ROUNDS);
        let names = self.plan.durable();
        let all = names.len() as f64 * rounds as f64;
        let mut done = 0.0;
        let mut transactions: BTreeMap<&str, u64> = BTreeMap::new();
        progress.begin("running with the log on disk");
        for round in 0..rounds {
            for name in &names {
                progress.part(done / all, name);
                *transactions.entry(name).or_default() += self.time_on_disk(name, round)?;
                done += 1.0;
            }
        }
        progress.end();
        for (name, transactions) in transactions.into_iter().filter(|(_, count)| *count > 0) {
            self.found.notes.push(format!(
                "{name}: timed with its log on {} and commits that wait for it ({}), over {} \
                 transactions{}; counted with its log kept in memory",
                self.saved.directory().file_system(),
                durability_name(self.plan.durability),
                separated(transactions),
                if rounds > 1 { format!(" in {rounds} rounds") } else { String::new() }
            ));
        }
        Ok(())
    }

    /// Times one of them in one round, and compares the rows it leaves in the first; returns the number
    /// of its transactions.
    fn time_on_disk(&mut self, name: &str, round: u64) -> Result<u64, Failure> {
        let Some(subject) = self.subjects.iter().find(|subject| subject.name == name) else {
            return Ok(0);
        };
        let plan = Plan { durability: self.plan.durability, ..subject.plan.clone() };
        let Some(saved) = &plan.saved else { return Ok(0) };
        let directory = self.saved.directory().path().join(format!("log-{name}"));
        let mut instance = saved::with_log_on_disk(&plan, saved, &directory)?;
        let (throughput, is_whole) =
            run_durably(&plan, self.plan.durable_max, &mut *instance, &self.clock)?;
        if round == 0
            && is_whole
            && let Some(profile) = self.found.profiles.get(name)
        {
            let hash = instance.rest()?.state_hash().or_check()?.to_string();
            let durable = format!("{} with its log on disk", self.plan.name_of(name));
            verify_same(&durable, &hash, "without", &profile.state_hash)?;
        }
        drop(instance);
        // The log is of no use any more; the directory goes with all others.
        let _ = std::fs::remove_dir_all(&directory);
        let profile = self.found.profiles.entry(subject.name).or_default();
        profile.durable.push(speed(&throughput));
        profile.durability = durability_name(plan.durability);
        Ok(throughput.tally.done())
    }

    /// Measures the cycles of the profiles that are counted, in interleaved rounds.
    fn time_in_cycles(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let rounds = self.plan.settings.count(&settings::ROUNDS);
        let is_counted = |subject: &&Subject| self.plan.is_counted(subject.name);
        let subjects: Vec<&Subject> = self.subjects.iter().filter(is_counted).collect();
        let all = subjects.len() as f64 * rounds as f64;
        let mut done = 0.0;
        let mut found: BTreeMap<&'static str, BTreeMap<Transaction, Vec<f64>>> = BTreeMap::new();
        progress.begin("measuring cycles");
        for _ in 0..rounds {
            for subject in &subjects {
                progress.part(done / all, subject.name);
                done += 1.0;
                let groups = counting::cycles(&subject.plan, &subject.plan.scale())?;
                let of_profile = found.entry(subject.name).or_default();
                for group in groups.into_iter().filter(|group| !group.name.ends_with(ABORTED)) {
                    of_profile.entry(group.name).or_default().push(group.instructions);
                }
            }
        }
        for (name, by_transaction) in found {
            let profile = self.found.profiles.entry(name).or_default();
            for (transaction, cycles) in by_transaction {
                profile.costs.entry(transaction).or_default().set_cycles(cycles);
            }
        }
        progress.end();
        Ok(())
    }

    /// Counts every profile whose costs are part of the result.
    pub(super) fn count(
        &mut self,
        counter: Option<Counter>,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let Some(counter) = counter else { return Ok(()) };
        self.time_in_cycles(progress)?;
        let is_counted = |subject: &&Subject| self.plan.is_counted(subject.name);
        let subjects: Vec<&Subject> = self.subjects.iter().filter(is_counted).collect();
        let repeat = self.plan.settings.count(&settings::REPEAT);
        progress.begin(&format!("counting by {}", counter.name()));
        let at_once = counts_at_once(counter, &subjects);
        let all = (subjects.len() as u64 * repeat) as f64;
        let mut counted = Vec::new();
        for _ in 0..repeat {
            let mut counts = Vec::new();
            threads::ordered_parallel(
                &subjects,
                at_once,
                |subject| {
                    let plan = &subject.plan;
                    (subject.name, counting::count(counter, plan, &plan.scale()))
                },
                |(name, count)| {
                    counted.push(());
                    progress.part(counted.len() as f64 / all, name);
                    counts.push((name, count));
                },
            );
            for (name, count) in counts {
                self.found.profiles.entry(name).or_default().add_count(&count?);
            }
        }
        progress.end();
        Ok(())
    }

    /// The measurements; the saved databases are removed.
    pub(super) fn end(self) -> Found {
        self.found
    }
}

impl Profile {
    /// Notes one count; the first one's figures are those of the result.
    fn add_count(&mut self, groups: &[GroupCost]) {
        let is_first = self.counts.is_empty();
        let mut counts = BTreeMap::new();
        for group in groups {
            let error = self.sum_error_percent.unwrap_or(0.0);
            self.sum_error_percent = Some(error.max(group.sum_error_percent()));
            if let Some((name, stage)) = group.name.split_once('.') {
                if !name.ends_with(ABORTED) {
                    let cost = self.costs.entry(name.to_owned()).or_default();
                    let of_stage = StageCost { instructions: group.instructions };
                    cost.by_stage.entry(stage.to_owned()).or_insert(of_stage);
                }
                continue;
            }
            if let Some(name) = group.name.strip_suffix(ABORTED) {
                let cost = self.costs.entry(name.to_owned()).or_default();
                cost.aborted_instructions.get_or_insert(group.instructions);
                continue;
            }
            counts.insert(group.name.clone(), group.instructions);
            if is_first {
                let cost = self.costs.entry(group.name.clone()).or_default();
                cost.instructions = Some(group.instructions);
                cost.calls = calls(group);
            }
        }
        self.counts.push(counts);
    }
}

fn calls(group: &GroupCost) -> BTreeMap<Call, f64> {
    let names = Category::ALL.iter().map(|category| category.name().to_owned());
    names.zip(group.categories).collect()
}

/// How many counts run at the same time. One by valgrind is two processes; one by the processor is
/// this process, and disturbed by any other.
fn counts_at_once(counter: Counter, subjects: &[&Subject]) -> usize {
    match counter {
        Counter::Perf => 1,
        Counter::Callgrind => {
            let pool = |subject: &&Subject| subject.plan.options().paged.pool_bytes as u64;
            let most = subjects.iter().map(pool).max().unwrap_or(0);
            let by_memory = host::available_bytes() / (2 * (most + COUNTED_FIXED_BYTES));
            (threads::available() / 2).min(by_memory as usize).max(1)
        }
    }
}

fn speed(throughput: &Throughput) -> Speed {
    let committed = throughput.tally.total().committed.max(1) as f64;
    Speed {
        tps: throughput.per_second(),
        ns_per_transaction: throughput.engine_cpu.as_nanos() as f64 / committed,
        ..Speed::default()
    }
}

/// Runs the transactions of `plan`, after those of the warm-up.
fn run_in_memory(
    plan: &Plan,
    clock: &SystemClock,
) -> Result<(Box<dyn Instance>, Throughput), Failure> {
    let mut instance =
        saved::database(plan, &plan.scale(), plan.options(), plan.load_threads, &mut ())?;
    let mut inputs = plan.inputs();
    let mut driver = Driver::new(clock, &mut inputs, plan);
    driver.warm_up(&mut *instance, WARM_UP)?;
    let throughput = driver.run(&mut *instance, plan.bound, &mut |_, _| {})?;
    Ok((instance, throughput))
}

/// The same until time is over; whether all transactions ran.
fn run_durably(
    plan: &Plan,
    time: Duration,
    instance: &mut dyn Instance,
    clock: &SystemClock,
) -> Result<(Throughput, bool), Failure> {
    let Bound::Transactions(wanted) = plan.bound else {
        return Ok((Throughput::default(), false));
    };
    let mut inputs = plan.inputs();
    let mut driver = Driver::new(clock, &mut inputs, plan);
    let start = clock.now_ns();
    let mut run = |transactions: u64| -> Result<(Throughput, bool), Failure> {
        let mut sum = Throughput::default();
        let mut rest = transactions;
        while rest > 0 && u128::from(clock.now_ns() - start) < time.as_nanos() {
            let now = rest.min(DURABLE_SLICE);
            let part = driver.run(instance, Bound::Transactions(now), &mut |_, _| {})?;
            rest -= now;
            sum.tally.add(&part.tally);
            sum.wall += part.wall;
            sum.engine_cpu += part.engine_cpu;
        }
        Ok((sum, rest == 0))
    };
    match run(WARM_UP as u64)? {
        (warm_up, false) => Ok((warm_up, false)), // a disk so slow has no other figure
        (_, true) => run(wanted),
    }
}

/// Refuses rows that differ.
fn verify_same(other: &str, hash: &str, first: &str, expected: &str) -> Result<(), Failure> {
    if hash == expected {
        return Ok(());
    }
    Err(Failure::check(format!(
        "{other} left other rows than {first} ({hash} and {expected}): this is a defect, please \
         report the command"
    )))
}

/// The hash of the rows that were left, all checks of which held.
fn verified(
    plan: &DissectPlan,
    name: &str,
    instance: &mut dyn Instance,
) -> Result<String, Failure> {
    let Verification { damage, .. } = instance.rest()?.verify().or_check()?;
    if let Some(finding) = damage.first() {
        return Err(Failure::check(format!(
            "{}: check {} failed: {}: this is a defect, please report the command",
            plan.name_of(name),
            finding.check,
            finding.what
        )));
    }
    Ok(instance.rest()?.state_hash().or_check()?.to_string())
}

/// What components were asked to do, by type of transaction, in a build that counts it: empty in
/// any other.
fn work(plan: &Plan) -> Result<BTreeMap<Transaction, Cost>, Failure> {
    let mut costs = BTreeMap::new();
    if WorkDone::default().per_transaction(1).is_none() {
        return Ok(costs);
    }
    let mut instance =
        saved::database(plan, &plan.scale(), plan.options(), plan.load_threads, &mut ())?;
    let (clock, mut report) = (SystemClock::new(), |_| ());
    let mut sums: BTreeMap<&str, (u64, WorkDone)> = BTreeMap::new();
    for input in plan.inputs().take(plan.counted) {
        let mut tally = Tally::default();
        let name = tpcc::kinds::NAMES[input.kind().place()];
        let batch = Batch::whole(std::slice::from_ref(&input), &clock, &mut report);
        let executed = instance.run_on_all(batch, &mut tally)?;
        if tally.total().committed == 1 {
            let (count, sum) = sums.entry(name).or_default();
            *count += 1;
            sum.add(&executed.work);
        }
    }
    for (name, (count, sum)) in sums {
        let work = sum.per_transaction(count).unwrap_or_default();
        let work = work.into_iter().map(|(name, per)| (name.to_owned(), per)).collect();
        costs.insert(name.to_owned(), Cost { work, ..Cost::default() });
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Blame;

    #[test]
    fn other_rows_are_refused_with_the_rung() {
        verify_same("rung S5 (no-locking)", "0a", "the first rung (conventional)", "0a").unwrap();
        let first = "the first rung (conventional)";
        let refused = verify_same("rung S5 (no-locking)", "0b", first, "0a").unwrap_err();
        assert_eq!(refused.blame(), Blame::Check);
        let text = refused.to_string();
        assert!(text.starts_with("rung S5 (no-locking) left other rows than the first"), "{text}");
        assert!(text.contains("(0b and 0a)"), "{text}");
    }

    #[test]
    fn the_first_count_is_the_result_and_all_are_kept() {
        let group = |name: &str, instructions: f64| GroupCost {
            name: name.to_owned(),
            transactions: 10,
            instructions,
            categories: [instructions / 8.0; Category::CALLS + 1],
        };
        let mut profile = Profile::default();
        profile.add_count(&[group("payment", 80.0), group("new_order_aborted", 8.0)]);
        profile.add_count(&[group("payment", 88.0), group("new_order_aborted", 9.0)]);
        let payment = &profile.costs["payment"];
        assert_eq!((payment.instructions, payment.calls["begin"]), (Some(80.0), 10.0));
        assert_eq!(payment.calls.len(), Category::ALL.len());
        assert_eq!(profile.costs["new_order"].aborted_instructions, Some(8.0));
        assert_eq!(
            profile.counts.iter().map(|count| count["payment"]).collect::<Vec<_>>(),
            [80.0, 88.0]
        );
        assert_eq!(profile.counts[0].len(), 1, "aborts are no type of their own");
        assert_eq!(profile.sum_error_percent, Some(0.0));
    }

    /// The uses of each component by a New Order of ten lines, on `profile`.
    #[cfg(feature = "probe")]
    fn of_new_order(profile: &str) -> BTreeMap<String, f64> {
        use crate::experiment::looking_glass::ladder::Ladder;
        use crate::experiment::looking_glass::plan::Scope;
        use crate::settings::Source;

        let mut settings = settings::defaults();
        for (name, value) in [("warehouses", "1"), ("counted", "200")] {
            settings.set(name, value, Source::Flag).unwrap();
        }
        let scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };
        let plan = DissectPlan::new(&settings, scope).unwrap();
        work(&plan.of(profile).unwrap()).unwrap().remove("new_order").unwrap().work
    }

    /// The calls of a New Order are LG-34's: 23 rows are read, 11 changed and 12 made, with 13
    /// index entries. A part that is off does nothing.
    #[cfg(feature = "probe")]
    #[test]
    fn components_do_their_work_or_none() {
        let all = of_new_order("conventional");
        let least =
            [("pins", 23.0), ("row_locks", 35.0), ("log_records", 36.0), ("lsn_writes", 36.0)];
        for (name, least) in least {
            assert!(all[name] >= least, "{name}: {} is less than {least}", all[name]);
        }
        // Store and page above a row, unless they are held already.
        assert!(all["intention_locks"] >= 9.0 && all["latches"] > all["pins"], "{all:?}");
        // A change's two images: at least those of the eleven updates.
        assert!(all["log_bytes"] > 36.0 * 24.0 && all["page_copies"] > 35.0, "{all:?}");

        let off: [(&str, &[&str]); 3] = [
            ("no-lsn", &["log_records", "log_bytes", "lsn_writes"]),
            ("no-locking", &["locks", "row_locks", "intention_locks", "log_records"]),
            ("no-sessions", &["locks", "latches", "log_records", "lsn_writes", "page_copies"]),
        ];
        for (profile, names) in off {
            let work = of_new_order(profile);
            for name in names {
                assert_eq!(work[*name], 0.0, "{profile} counts {name}");
            }
        }
    }
}
