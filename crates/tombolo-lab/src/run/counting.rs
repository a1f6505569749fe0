//! Counts the instructions of a mix's transactions, by kind and call (LG-37 … LG-45), with whatever
//! this machine has.
//!
//! Inputs are grouped by kind; transactions that abort are a group of their own. Each group is a
//! stretch of the mix in which only that kind is counted. By callgrind, the command starts itself
//! again under valgrind with a hidden command ([`child`] is what that does), once for wholes and
//! once for categories. The processor's counters count in this process, on a database loaded for
//! it.
//!
//! Not here: probes and requests (`counters`), times of a run (`drive/driver.rs`). Invariants: every count
//! is of the same transactions on the same database; a transaction that ends otherwise than its
//! input says spoils the count loudly.

use std::ffi::OsString;

use tombolo_engine::threads;
use tombolo_storage::log::Durability;
use tombolo_storage::memory::Limits;

use super::saved;
use crate::counters::Category;
use crate::counters::callgrind::{Callgrind, Program};
use crate::counters::counts::Breakdown;
use crate::counters::hardware::Instructions;
use crate::counters::meter::{Native, NativeCount};
use crate::counters::names::CallNames;
use crate::drive::{CountInputs, Deployed, GROUP, Group, Instance, UNCOUNTED};
use crate::failure::Failure;
use crate::plan::{Counter, Plan, estimate, own_file, profiles};
use crate::workload::{KINDS_MAX, Workload, matched_workload, with_workload};

/// The calls of every store. What is dropped outside of them are pins.
const CALLS: CallNames = CallNames {
    of: "tombolo_storage::store::Store",
    methods: &[
        ("begin", Category::Begin),
        ("lookup", Category::Lookup),
        ("lookup_many", Category::Lookup),
        ("lookup_for_update", Category::Lookup),
        ("lookup_many_for_update", Category::Lookup),
        ("prefetch", Category::Lookup),
        ("prefetch_lookup", Category::Lookup),
        ("find_ahead", Category::Lookup),
        ("removals", Category::Lookup),
        ("pin", Category::Pin),
        ("update", Category::Update),
        ("set_variable", Category::Update),
        ("create", Category::Create),
        ("insert", Category::Insert),
        ("insert_run", Category::Insert),
        ("prefetch_insert", Category::Insert),
        ("commit", Category::Commit),
    ],
    drops: Some(("tombolo_storage::", Category::Pin)),
};

/// The cost of one group per transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupCost {
    /// The group.
    pub name: String,
    /// Transactions that were counted.
    pub transactions: u64,
    /// Instructions of a whole transaction, without probes inside where the counter allows.
    pub instructions: f64,
    /// Instructions by category.
    pub categories: ByCategory,
}

/// A figure for each category, in the order of [`Category::ALL`].
type ByCategory = [f64; Category::CALLS + 1];

impl GroupCost {
    /// How far the categories' sum is from the whole, in percent.
    pub fn sum_error_percent(&self) -> f64 {
        if self.instructions == 0.0 {
            return 0.0;
        }
        (self.categories.iter().sum::<f64>() - self.instructions).abs() / self.instructions * 100.0
    }

    /// From the sums of what was counted: of so many transactions, or groups of them.
    fn of(name: &str, counted: u64, whole: f64, categories: ByCategory, plan: &Plan) -> Self {
        let transactions = if plan.part.is_some() { counted * GROUP as u64 } else { counted };
        let per = |sum: f64| sum / transactions as f64;
        let (instructions, categories) = (per(whole), categories.map(per));
        Self { name: name.to_owned(), transactions, instructions, categories }
    }
}

/// Counts once.
///
/// # Errors
/// When the counter fails, or a counted database cannot be loaded.
pub fn count<W: Deployed>(
    counter: Counter,
    plan: &Plan,
    workload: &W,
) -> Result<Vec<GroupCost>, Failure> {
    match counter {
        Counter::Callgrind => count_by_callgrind(plan),
        Counter::Perf => {
            count_natively(Native::Instructions(Instructions::open()?), plan, workload)
        }
    }
}

/// Ticks of the time-stamp counter per transaction of each group, measured natively on a database
/// of its own, without probes inside of transactions.
///
/// # Errors
/// As [`count`].
pub fn cycles<W: Deployed>(plan: &Plan, workload: &W) -> Result<Vec<GroupCost>, Failure> {
    count_natively(Native::Tsc, plan, workload)
}

fn count_natively<W: Deployed>(
    native: Native,
    plan: &Plan,
    workload: &W,
) -> Result<Vec<GroupCost>, Failure> {
    let (mut instance, inputs) = load(plan, workload, threads::available())?;
    let counts = instance.count_natively(native, &inputs)?;
    let cost = |(group, count): (&Group<W::Input>, NativeCount)| {
        let counted = count.tally.transactions;
        GroupCost::of(&group.name, counted, count.whole, count.categories, plan)
    };
    let groups = inputs.groups.iter().zip(counts).map(cost);
    Ok(groups.filter(|group| group.transactions > 0).collect())
}

/// A database, and what is counted on it.
type Loaded<W> = (Box<dyn Instance<W>>, CountInputs<<W as Workload>::Input>);

/// The database and the inputs of a count.
fn load<W: Deployed>(plan: &Plan, workload: &W, threads: usize) -> Result<Loaded<W>, Failure> {
    // No more address space than can be needed: under valgrind there is far less of it.
    let transactions = (plan.counted * (KINDS_MAX + 1)) as u64;
    let bytes = estimate::bytes(workload, transactions, transactions);
    // Each table and index reserves address space, of which valgrind has little: no more than half
    // of everything, or than the largest needs.
    let structure_bytes_max = estimate::largest_table(workload, transactions).max(bytes / 2);
    // Two counts are of the same chains.
    let hash_seed = Some(1);
    let structure_bytes_max = structure_bytes_max as usize;
    let limits = Limits { structure_bytes_max, hash_seed, ..Limits::default() };
    let mut options = plan.options().within(limits);
    (options.paged.log.durability, options.threads) = (Durability::None, 1);
    let transactions = transactions + UNCOUNTED as u64;
    options.paged.pool_bytes = estimate::page_bytes(workload, transactions) as usize;
    if profiles::can_be_saved(&plan.profile) {
        options.paged.structure_bytes_max = options.paged.pool_bytes; // its pages are one structure
    }
    let instance = saved::database(plan, workload, options, threads, &mut ())?;
    Ok((instance, CountInputs::new(workload, plan.counted)))
}

fn count_by_callgrind(plan: &Plan) -> Result<Vec<GroupCost>, Failure> {
    let mut args = vec![OsString::from(CHILD_COMMAND)];
    args.extend(plan.count_arguments().into_iter().map(OsString::from));
    let program = Program { program: own_file()?, args, env: Vec::new() };
    let counts = Callgrind::find()?.run(&program, CALLS)?.counts;
    let mut groups = Vec::new();
    for name in counts.groups() {
        let Breakdown { whole, categories, transactions } = counts.breakdown(name)?;
        if transactions > 0 {
            let categories = categories.map(|sum| sum as f64);
            groups.push(GroupCost::of(name, transactions, whole as f64, categories, plan));
        }
    }
    Ok(groups)
}

/// The hidden command that the counted process is started with.
pub const CHILD_COMMAND: &str = "count-under-callgrind";

/// The work of the counted process: it loads, then counts each group.
///
/// # Errors
/// When it does not run under callgrind, or something cannot be counted.
pub fn child(plan: &Plan) -> Result<(), Failure> {
    with_workload!(&plan.workload, scale => count_in_child(plan, scale))
}

fn count_in_child<W: Deployed>(plan: &Plan, workload: &W) -> Result<(), Failure> {
    // One thread: how the allocator got where it is must be the same every time.
    let (mut instance, inputs) = load(plan, workload, 1)?;
    Ok(instance.count(&inputs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that is added to the trait must not become `other` by being forgotten.
    #[test]
    fn every_method_of_a_store_has_its_category() {
        let source = include_str!("../../../tombolo-storage/src/store/mod.rs");
        let (_, body) = source.split_once("\npub trait Store: Sized {\n").unwrap();
        let (body, _) = body.split_once("\n}\n").unwrap();
        let name = |line: &'static str| line.strip_prefix("    fn ")?.split(['<', '(']).next();
        let methods: Vec<_> = body.lines().filter_map(name).collect();
        for (method, _) in CALLS.methods {
            assert!(methods.contains(method), "{method} is no method of the trait");
        }
        let others: Vec<_> = methods
            .into_iter()
            .filter(|method| !CALLS.methods.iter().any(|(known, _)| known == method))
            .collect();
        let in_transactions =
            ["phase", "begin_writes", "abort", "scan", "rows", "delete", "remove"];
        let outside = ["schema", "create_table", "poison", "check", "shared", "usage", "fail"];
        let decided = |method: &&str| in_transactions.contains(method) || outside.contains(method);
        assert!(others.iter().all(decided), "decide what these count as: {others:?}");
    }
}
