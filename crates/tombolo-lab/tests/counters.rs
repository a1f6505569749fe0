//! Counting for real: this program runs itself under callgrind.
//!
//! It has its own `main`, because how the test harness allocates before a test would be counted.
//! Without valgrind it fails and says how to install it.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;

use tombolo_lab::counters::callgrind::{Callgrind, Counted, Program};
use tombolo_lab::counters::counts::{Breakdown, Counts};
use tombolo_lab::counters::meter::Meter;
use tombolo_lab::counters::names::CallNames;
use tombolo_lab::counters::{Category, CounterError, Kind};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The calls of a store small enough for a test: they search, copy, allocate and insert.
trait Tiny {
    fn begin(&mut self);
    fn lookup(&mut self, key: u64) -> usize;
    fn pin(&self, row: usize) -> Pinned<'_>;
    fn update(&mut self, row: usize, change: impl FnOnce(&mut [u8; 300]));
    fn create(&mut self, row: &[u8]);
    fn insert(&mut self, key: u64);
    fn commit(&mut self);

    /// Of no category, whatever it calls.
    fn verify(&mut self, steps: u64) -> usize {
        work(steps);
        self.lookup(steps)
    }
}

const NAMES: CallNames = CallNames {
    of: "counters::Tiny",
    methods: &[
        ("begin", Category::Begin),
        ("lookup", Category::Lookup),
        ("pin", Category::Pin),
        ("update", Category::Update),
        ("create", Category::Create),
        ("insert", Category::Insert),
        ("commit", Category::Commit),
    ],
    drops: Some(("counters::Pinned", Category::Pin)),
};

struct TinyStore {
    keys: Vec<u64>,
    rows: Vec<[u8; 300]>,
    created: Vec<Box<[u8]>>,
    index: BTreeMap<u64, u32>,
    changed: Vec<u32>,
    /// Steps of work in a drop.
    unpinning: u64,
}

/// A row in place. Letting it go takes as much work as its store says.
struct Pinned<'a> {
    row: &'a [u8; 300],
    steps: u64,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        work(self.steps);
    }
}

/// A machine function of its own, so that the call graph has to say whose it is.
#[inline(never)]
fn work(steps: u64) {
    let mut x = 1u64;
    for step in 0..black_box(steps) {
        x = black_box(x.wrapping_mul(31) ^ step);
    }
}

impl Tiny for TinyStore {
    #[inline(always)]
    fn begin(&mut self) {
        self.changed.clear();
    }

    #[inline(always)]
    fn lookup(&mut self, key: u64) -> usize {
        self.keys.partition_point(|&k| k < key)
    }

    #[inline(always)]
    fn pin(&self, row: usize) -> Pinned<'_> {
        Pinned { row: &self.rows[row % self.rows.len()], steps: self.unpinning }
    }

    #[inline(always)]
    fn update(&mut self, row: usize, change: impl FnOnce(&mut [u8; 300])) {
        let row = row % self.rows.len();
        change(&mut self.rows[row]);
        self.changed.push(row as u32);
    }

    #[inline(never)]
    fn create(&mut self, row: &[u8]) {
        self.created.push(row.into());
    }

    #[inline(never)]
    fn insert(&mut self, key: u64) {
        let row = self.created.len() as u32;
        self.index.insert(key, row);
    }

    #[inline(always)]
    fn commit(&mut self) {
        black_box(self.changed.iter().sum::<u32>());
    }
}

impl TinyStore {
    fn load(rows: u64) -> Self {
        Self {
            keys: (0..rows).map(|row| row * 3).collect(),
            rows: (0..rows).map(|row| [row as u8; 300]).collect(),
            created: Vec::new(),
            index: (0..rows).map(|row| (row * 7919 % 65_537, row as u32)).collect(),
            changed: Vec::new(),
            unpinning: 0,
        }
    }

    /// About what New Order does, in small; every third (`Kind(1)`) leaves early.
    #[inline(never)]
    fn order(&mut self, number: u64) -> u64 {
        self.begin();
        let mut sum = 0;
        for line in 0..10 {
            let row = self.lookup((number * 7 + line * 131) % 3000);
            sum += self.pin(row).row.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        if number % 3 == 1 {
            return sum;
        }
        let copy = [sum as u8; 300];
        for line in 0..10 {
            let row = self.lookup((number * 5 + line * 17) % 3000);
            let with = &copy[..black_box(40 + line as usize * 20)];
            self.update(row, |row| row[..with.len()].copy_from_slice(with));
            self.create(&copy[..black_box(70 + (number % 7) as usize)]);
            self.insert(number * 1000 + line);
        }
        self.commit();
        sum
    }
}

/// Steps of the same work in four places.
#[derive(Clone, Copy, Default)]
struct Steps {
    procedure: u64,
    update: u64,
    unpin: u64,
    verify: u64,
}

/// The groups of [`Steps`]: the first is what the others differ from, in one place each.
const STEPS: [(&str, Steps); 5] = [
    ("steps", Steps { procedure: 1000, update: 1000, unpin: 1000, verify: 1000 }),
    ("steps-procedure", Steps { procedure: 3000, update: 1000, unpin: 1000, verify: 1000 }),
    ("steps-update", Steps { procedure: 1000, update: 3000, unpin: 1000, verify: 1000 }),
    ("steps-unpin", Steps { procedure: 1000, update: 1000, unpin: 3000, verify: 1000 }),
    ("steps-verify", Steps { procedure: 1000, update: 1000, unpin: 1000, verify: 3000 }),
];
/// Transactions of each.
const TIMES: u64 = 10;

/// What is counted.
struct Driver {
    meter: Meter,
    store: TinyStore,
}

impl Driver {
    /// Transactions as a driver runs them: mixed kinds, one group.
    fn run(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.meter.transaction_begin(Kind((number % 3 == 1).into()));
            black_box(self.store.order(number));
            self.meter.transaction_end();
        }
    }

    #[inline(never)]
    fn steps(&mut self, steps: Steps) {
        for _ in 0..TIMES {
            self.store.unpinning = steps.unpin;
            self.store.changed.clear();
            self.meter.transaction_begin(Kind(0));
            work(steps.procedure);
            self.store.update(7, |_| work(steps.update));
            black_box(self.store.pin(7).row);
            black_box(self.store.verify(steps.verify));
            self.meter.transaction_end();
            self.store.unpinning = 0;
        }
    }

    fn count(&mut self) -> Result<(), CounterError> {
        self.run(0..20);
        self.meter.count()?;
        for (name, steps) in STEPS {
            self.steps(steps);
            self.meter.dump(name);
        }
        self.meter.only(Some(Kind(0)));
        self.run(20..200);
        self.meter.dump("committed");
        self.meter.only(Some(Kind(1)));
        self.run(200..380);
        self.meter.dump("aborted");
        self.meter.stop();
        Ok(())
    }
}

/// The argument that makes this program the one that is counted.
const CHILD: &str = "--counted-child";

fn run_counted_child(names: CallNames) -> Result<Counted, CounterError> {
    let program = std::env::current_exe().map_err(|source| {
        let what = "find the test's own file";
        CounterError::System { what, source }
    })?;
    let program = Program { program, args: vec![CHILD.into()], env: Vec::new() };
    Callgrind::find()?.run(&program, names)
}

fn groups_are_distinguished(counts: &Counts) -> Outcome {
    let names = STEPS.map(|(name, _)| name);
    let mut expect = vec!["aborted", "committed"];
    expect.extend(names);
    expect.sort_unstable();
    assert_eq!(counts.groups(), expect);
    assert_eq!(counts.breakdown("committed")?.transactions, 120);
    assert_eq!(counts.breakdown("aborted")?.transactions, 60);
    Ok(())
}

/// The same work in another place costs the same, and there only.
fn work_belongs_to_where_it_is_called_from(counts: &Counts) -> Outcome {
    let places = [Category::Other, Category::Update, Category::Pin, Category::Other];
    let base = counts.breakdown(STEPS[0].0)?;
    let mut costs = Vec::new();
    for (category, (name, _)) in places.into_iter().zip(&STEPS[1..]) {
        let more = counts.breakdown(name)?;
        for other in Category::ALL {
            let (before, after) =
                (base.categories[other as usize], more.categories[other as usize]);
            if other == category {
                costs.push(after - before);
            } else {
                assert_eq!(after, before, "{name}: {}", other.name());
            }
        }
    }
    // Two thousand steps more, each a whole number of instructions.
    assert!(costs[0] >= TIMES * 2000 * 2 && costs[0].is_multiple_of(TIMES * 2000), "{costs:?}");
    assert_eq!(costs, [costs[0]; 4]);
    assert_eq!(base.categories[Category::Lookup as usize], 0, "verifying is no look-up");
    Ok(())
}

/// From the sequence in meter.rs: `lea, xor, request` of the begin, then `cmp, jb, je` of the end.
fn switching_costs_what_its_instructions_say(counts: &Counts) -> Outcome {
    assert_eq!(counts.switching()?, 6);
    Ok(())
}

fn calls_cost_what_they_do(counts: &Counts) -> Outcome {
    let per = |breakdown: &Breakdown, category: Category| {
        breakdown.categories[category as usize] / breakdown.transactions
    };
    let (committed, aborted) = (counts.breakdown("committed")?, counts.breakdown("aborted")?);
    for (name, breakdown) in [("committed", committed), ("aborted", aborted)] {
        let sum: u64 = breakdown.categories.iter().sum();
        assert_eq!(sum, breakdown.whole, "{name}: {breakdown:?}");
    }
    // A binary search in 1,000 keys has ten steps; a transaction that commits has twice as many.
    let lookups = [committed, aborted].map(|breakdown| per(&breakdown, Category::Lookup));
    assert!(lookups[1] >= 10 * 10 * 3 && lookups[1] <= 10 * 10 * 20, "{lookups:?}");
    assert!(lookups[0].abs_diff(2 * lookups[1]) * 10 < lookups[0], "{lookups:?}");
    // An allocation, a copy, and a search in a tree: libraries' code, called from here only.
    assert!(per(&committed, Category::Create) > 10 * 50, "{committed:?}");
    assert!(per(&committed, Category::Insert) > 10 * 50, "{committed:?}");
    for category in [Category::Update, Category::Create, Category::Insert, Category::Commit] {
        assert!(per(&committed, category) > 0, "{}: {committed:?}", category.name());
        assert_eq!(per(&aborted, category), 0, "{}: {aborted:?}", category.name());
    }
    // Summing up ten rows is the procedure's.
    assert!(per(&aborted, Category::Other) > 10 * 300 / 32, "{aborted:?}");
    Ok(())
}

fn without_calls_in_it_a_program_is_refused() {
    let names = CallNames { of: "counters::Renamed", methods: &[], drops: None };
    let message = run_counted_child(names).map(|_| ()).map_err(|error| error.to_string());
    assert!(matches!(&message, Err(m) if m.contains("no debug information")), "{message:?}");
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child] = &args[..]
        && child == CHILD
    {
        let mut driver = Driver { meter: Meter::new(), store: TinyStore::load(1000) };
        driver.count()?;
        println!("counted");
        return Ok(());
    }
    let Counted { counts, stdout } = run_counted_child(NAMES)?;
    assert_eq!(String::from_utf8(stdout)?, "counted\n");
    groups_are_distinguished(&counts)?;
    work_belongs_to_where_it_is_called_from(&counts)?;
    switching_costs_what_its_instructions_say(&counts)?;
    calls_cost_what_they_do(&counts)?;
    for _ in 0..2 {
        assert_eq!(counts, run_counted_child(NAMES)?.counts, "three counts are identical");
    }
    without_calls_in_it_a_program_is_refused();
    println!("counters: all checks passed");
    Ok(())
}
