//! Counting for real: this program runs itself under callgrind.
//!
//! It has its own `main`, because a counted process is forked and must have one thread, which the
//! test harness does not offer. Without valgrind it fails and says how to install it.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;

use tombolo_lab::counters::callgrind::{Callgrind, Counted, Program};
use tombolo_lab::counters::counts::Counts;
use tombolo_lab::counters::fork::fork_each;
use tombolo_lab::counters::meter::{Meter, call};
use tombolo_lab::counters::{Category, CounterError, Kind, Part};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A store small enough for a test, with calls that search, copy, allocate and insert. With
/// `PROBED`, its calls report to its meter; without, they contain no probe.
#[repr(C)]
struct TinyStore<const PROBED: bool> {
    meter: Meter,
    keys: Vec<u64>,
    rows: Vec<[u8; 300]>,
    created: Vec<Box<[u8]>>,
    index: BTreeMap<u64, u32>,
    changed: Vec<u32>,
}

impl<const PROBED: bool> TinyStore<PROBED> {
    fn load(rows: u64) -> Self {
        Self {
            meter: Meter::new(),
            keys: (0..rows).map(|row| row * 3).collect(),
            rows: (0..rows).map(|row| [row as u8; 300]).collect(),
            created: Vec::new(),
            index: (0..rows).map(|row| (row * 7919 % 65_537, row as u32)).collect(),
            changed: Vec::new(),
        }
    }

    #[inline(always)]
    fn probed<C: call::Call + Copy, R>(&mut self, call: C, run: impl FnOnce(&mut Self) -> R) -> R {
        if PROBED {
            self.meter.enter(call);
        }
        let result = run(self);
        if PROBED {
            self.meter.exit(call);
        }
        result
    }

    fn begin(&mut self) {
        self.probed(call::Begin, |store| store.changed.clear());
    }

    fn lookup(&mut self, key: u64) -> usize {
        self.probed(call::Lookup, |store| store.keys.partition_point(|&k| k < key))
    }

    fn read(&mut self, row: usize) -> u64 {
        let of = |row: &[u8; 300]| row.iter().map(|&byte| u64::from(byte)).sum();
        self.probed(call::Pin, |store| of(&store.rows[row % store.rows.len()]))
    }

    fn update(&mut self, row: usize, with: &[u8]) {
        self.probed(call::Update, |store| {
            let row = row % store.rows.len();
            store.rows[row][..with.len()].copy_from_slice(with);
            store.changed.push(row as u32);
        });
    }

    fn create(&mut self, row: &[u8]) {
        self.probed(call::Create, |store| store.created.push(row.into()));
    }

    fn insert(&mut self, key: u64) {
        self.probed(call::Insert, |store| {
            let row = store.created.len() as u32;
            store.index.insert(key, row);
        });
    }

    fn commit(&mut self) {
        self.probed(call::Commit, |store| black_box(store.changed.iter().sum::<u32>()));
    }

    /// About what New Order does, in small; every third (`Kind(1)`) leaves early.
    #[inline(never)]
    fn order(&mut self, number: u64) -> u64 {
        self.begin();
        let mut sum = 0;
        for line in 0..10 {
            let row = self.lookup((number * 7 + line * 131) % 3000);
            sum += self.read(row);
        }
        if number % 3 == 1 {
            return sum;
        }
        let copy = [sum as u8; 300];
        for line in 0..10 {
            let row = self.lookup((number * 5 + line * 17) % 3000);
            self.update(row, &copy[..black_box(40 + line as usize * 20)]);
            self.create(&copy[..black_box(70 + (number % 7) as usize)]);
            self.insert(number * 1000 + line);
        }
        self.commit();
        sum
    }

    /// Transactions as a driver runs them: mixed kinds, one group.
    fn run(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.meter.transaction_begin(Kind((number % 3 == 1).into()));
            black_box(self.order(number));
            self.meter.transaction_end();
        }
    }

    /// Transactions of one call that takes `steps` steps.
    fn steps(&mut self, steps: u64) {
        for _ in 0..10 {
            self.meter.transaction_begin(Kind(0));
            self.probed(call::Update, |_| {
                let mut x = 1u64;
                for step in 0..black_box(steps) {
                    x = black_box(x.wrapping_mul(31) ^ step);
                }
            });
            self.meter.transaction_end();
        }
    }

    /// Everything that is counted of one part.
    fn count(&mut self, part: Part) -> Result<(), CounterError> {
        self.run(0..20);
        self.meter.count(part)?;
        for steps in [1000, 2000, 4000] {
            self.steps(steps);
            self.meter.dump(&format!("steps-{steps}"));
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

/// The program that is counted: `at_once` parts at a time. Arguments are as long in every run: they
/// are on the heap, and the allocator's steps are counted.
fn counted_child(at_once: usize) -> Outcome {
    let mut probed = TinyStore::<true>::load(1000);
    let mut bare = TinyStore::<false>::load(1000);
    let reports = fork_each(&Part::ALL, at_once, |&part| {
        let counted = match part {
            Part::Whole => bare.count(part),
            _ => probed.count(part),
        };
        counted.map_or_else(|error| error.to_string(), |()| part.name().to_owned()).into_bytes()
    })?;
    assert_eq!(reports, Part::ALL.map(|part| part.name().as_bytes().to_vec()));
    println!("counted");
    Ok(())
}

fn run_counted_child(at_once: &str) -> Outcome<Counts> {
    let program = Program {
        program: std::env::current_exe()?,
        args: vec![CHILD.into(), at_once.into()],
        env: Vec::new(),
    };
    let Counted { counts, stdout } = Callgrind::find()?.run(&program)?;
    assert_eq!(String::from_utf8(stdout)?, "counted\n");
    Ok(counts)
}

/// Part, group, instructions, and what a probe costs per transaction and per call.
type Cost<'a> = (Part, &'a str, u64, (u64, u64));

fn costs(counts: &Counts) -> Outcome<Vec<Cost<'_>>> {
    let mut costs = Vec::new();
    for part in Part::ALL {
        for group in counts.groups() {
            let count = counts.count(part, group)?;
            costs.push((part, group, count.instructions, counts.probe(part)?));
        }
    }
    Ok(costs)
}

fn counts_scale_exactly(counts: &Counts) -> Outcome {
    for part in [Part::Whole, Part::Probed, Part::Category(Category::Update)] {
        let mut of = [0; 3];
        for (of, group) in of.iter_mut().zip(["steps-1000", "steps-2000", "steps-4000"]) {
            *of = counts.count(part, group)?.instructions;
        }
        let [a, b, c] = of;
        assert!(a >= 10 * 1000 * 2, "{part}: {a} for 10,000 steps");
        assert_eq!(c - b, 2 * (b - a), "{part}: {a} {b} {c}");
        assert_eq!((b - a) % 10_000, 0, "{part}: a step is a whole number of instructions");
    }
    Ok(())
}

fn parts_are_told_apart(counts: &Counts) -> Outcome {
    let groups = ["aborted", "committed", "steps-1000", "steps-2000", "steps-4000"];
    assert_eq!(counts.groups(), groups);
    let lookup = counts.count(Part::Category(Category::Lookup), "steps-4000")?;
    assert_eq!(lookup.instructions, 0, "there is no lookup in the steps");
    let committed = counts.breakdown("committed")?.tally;
    assert_eq!(committed.transactions, 120);
    assert_eq!(committed.calls.map(|calls| calls / 120), [1, 20, 10, 10, 10, 10, 1]);
    let aborted = counts.breakdown("aborted")?.tally;
    assert_eq!(aborted.transactions, 60);
    assert_eq!(aborted.calls.map(|calls| calls / 60), [1, 10, 10, 0, 0, 0, 0]);
    Ok(())
}

/// From the sequence in meter.rs. A transaction: `lea, xor, request` of the begin, then
/// `cmp, jb, je` of the end. A call that is not looked at: `inc, cmp, jb` and `cmp, jb`. One that
/// interrupts: `inc, cmp, jb, je` before it and `lea, xor, request` after it.
fn probes_cost_what_their_instructions_say(counts: &Counts) -> Outcome {
    assert_eq!(counts.probe(Part::Whole)?, (6, 5));
    assert_eq!(counts.probe(Part::Probed)?, (6, 5));
    assert_eq!(counts.probe(Part::Category(Category::Other))?, (6, 7));
    for category in Category::ALL.into_iter().take(Category::CALLS) {
        assert_eq!(counts.probe(Part::Category(category))?, (0, 6), "{category:?}");
    }
    Ok(())
}

fn parts_add_up(counts: &Counts) -> Outcome {
    for group in ["committed", "aborted"] {
        let breakdown = counts.breakdown(group)?;
        let (error, effect) = (breakdown.sum_error_percent(), breakdown.probe_effect_percent());
        println!("{group}: the parts' sum is {error} % off, the probes' effect is {effect:.2} %");
        assert_eq!(error, 0.0, "{group}: {breakdown:?}");
        assert!(effect < 5.0, "{group}: {breakdown:?}");
    }
    Ok(())
}

/// Forking without callgrind: what comes back, and what a child that fails leaves behind.
fn forks_report_in_order_and_fail_by_name() -> Outcome {
    let mut seen = 0;
    for at_once in [1, 2, 9] {
        let reports = fork_each(&["one", "two", "three"], at_once, |target| {
            seen += 1;
            format!("{target} {seen}").into_bytes()
        })?;
        assert_eq!(reports, ["one 1", "two 1", "three 1"].map(|report| report.as_bytes().to_vec()));
        assert_eq!(seen, 0, "what children change stays with them");
    }
    let large = fork_each(&["large"], 1, |_| vec![7; 1 << 20])?;
    assert_eq!(large, [vec![7; 1 << 20]], "more than a pipe holds");
    std::panic::set_hook(Box::new(|_| {})); // Inherited: the child's panic is meant.
    let failed = fork_each(&["good", "bad", "never"], 1, |&target| {
        assert_ne!(target, "bad");
        Vec::new()
    });
    drop(std::panic::take_hook());
    let message = failed.map_err(|error| error.to_string());
    assert_eq!(message, Err("the counted process of bad failed with status 1".to_owned()));
    Ok(())
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child, at_once] = &args[..]
        && child == CHILD
    {
        return counted_child(at_once.parse()?);
    }
    forks_report_in_order_and_fail_by_name()?;
    let counts = run_counted_child("1")?;
    counts_scale_exactly(&counts)?;
    parts_are_told_apart(&counts)?;
    probes_cost_what_their_instructions_say(&counts)?;
    parts_add_up(&counts)?;
    for at_once in ["1", "1", "2"] {
        assert_eq!(costs(&counts)?, costs(&run_counted_child(at_once)?)?, "{at_once} at once");
    }
    println!("counters: all checks passed");
    Ok(())
}
