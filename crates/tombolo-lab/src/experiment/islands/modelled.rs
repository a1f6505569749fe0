//! Figures 3, 5 and 7 to 14 (ISL-5, ISL-10, ISL-20 … ISL-28): out of the model for the paper's machines; where the
//! library's islands can show the same, measured here as rows of their own.
//!
//! The paper draws these without numbers: a row has one only where its text prints it. Not here: the model's constants
//! (`model/costs.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_engine::threads;

use super::Figure;
use super::deployments::{Callers, Effort, How};
use super::points::{self, Open};
use super::rows::Access;
use super::tpcc::{self, Mix};
use crate::experiment::Wanted;
use crate::experiment::looking_glass::result::{Row, Source};
use crate::failure::Failure;
use crate::model::{Disks, Islands, Load, Machine, Outcome, Scenario};
use crate::numbers::rounded;
use crate::progress::Progress;
use crate::settings;
use crate::workload::tpcc::loader::Scale;

/// Transactions of a modelled point.
const TRANSACTIONS: u64 = 3_000;
/// Rows of a transaction in Figure 10 (ISL-23).
const TOUCHED: [usize; 11] = [2, 4, 8, 12, 18, 24, 30, 40, 60, 80, 100];
/// Shares of multisite transactions, in percent.
const SHARES: [u64; 6] = [0, 20, 40, 60, 80, 100];
/// Islands of the quad-socket machine, from fine to shared (ISL-23).
const ALL_ISLANDS: [usize; 6] = [24, 12, 8, 4, 2, 1];
/// Fine, a socket each, shared everything.
const THREE: [usize; 3] = [24, 4, 1];
/// Bytes of a row, and of the pool: 33 GB for 120 million, 12 GB (ISL-28).
const ROW_BYTES: f64 = 33e9 / 120e6;
const POOL_BYTES: f64 = 12e9;
/// Half a turn at 10,000 a minute, in microseconds: what a read waits at least (ISL-28).
const HALF_TURN_US: f64 = 3_000.0;
/// Warehouses of Payment: the paper prints no number; the finest islands need one each.
const WAREHOUSES: u64 = 24;

/// Warehouses of Payment as measured here: 100 MB each.
const WAREHOUSES_HERE: i32 = 2;
/// What a reader has to know of each figure.
const NOTES: &str = include_str!("notes.json");

/// Makes points of one figure and shows how far it is.
struct Maker<'p> {
    seed: u64,
    open: (Open, tpcc::Open),
    /// The library's islands of paged stores.
    open_paged: (Open, tpcc::Open),
    progress: &'p mut dyn Progress,
    points: f64,
    done: f64,
}

impl Maker<'_> {
    fn modelled(&mut self, machine: &Machine, islands: usize, load: Load) -> Outcome {
        let islands = Islands::grouped(islands);
        self.run(&Scenario::new(machine, islands, load, TRANSACTIONS, self.seed))
    }

    fn on_quad(&mut self, islands: usize, load: Load) -> Outcome {
        self.modelled(&Machine::quad_socket(), islands, load)
    }

    fn run(&mut self, scenario: &Scenario) -> Outcome {
        self.show("modelled");
        scenario.run()
    }

    /// Shows that another point is begun.
    fn show(&mut self, how: &str) {
        self.done += 1.0;
        self.progress.part((self.done / self.points).min(1.0), how);
    }

    /// The library's islands at these shares, of either store; each point with the name of its store.
    fn measured(
        &mut self,
        access: Access,
        multisite: &[u64],
        time: Duration,
    ) -> Result<Vec<(&'static str, points::Measured)>, Failure> {
        let mut found = Vec::new();
        for (stores, open, callers) in
            [(PAGED, self.open_paged.0, of_each_core()), (MEMORY, self.open.0, Callers::Each(1))]
        {
            self.show("measured");
            let effort = effort(callers, time);
            let of = points::measure(open, (&[1, 2], multisite), (&access, &effort))?;
            found.extend(of.into_iter().map(|of| (stores, of)));
        }
        Ok(found)
    }

    /// The library's islands of each store under local Payments.
    fn measured_payments(&mut self) -> Result<Vec<(&'static str, Vec<points::Measured>)>, Failure> {
        let scale =
            Scale { seed: self.seed, warehouses: WAREHOUSES_HERE, mix: Mix::Payment.whole() };
        let mut found = Vec::new();
        for (stores, open, callers) in
            [(PAGED, self.open_paged.1, of_each_core()), (MEMORY, self.open.1, Callers::Each(1))]
        {
            self.show("measured");
            let effort = effort(callers, Duration::from_millis(500));
            found.push((stores, points::measure_payments(open, &[1, 2], scale, &effort)?));
        }
        Ok(found)
    }
}

/// What transactions on the library's islands do.
const fn access(touched: usize, is_update: bool) -> Access {
    Access { rows: 240_000, touched, is_update, skew: 0 }
}

/// Islands as rows name them.
const PAGED: &str = "paged stores";
const MEMORY: &str = "memory stores";

/// A caller for each core: as many on few islands, which run several at the same time, as on many.
fn of_each_core() -> Callers {
    Callers::All(threads::available())
}

fn effort(callers: Callers, time: Duration) -> Effort {
    Effort { callers, is_durable: false, how: How::default(), per_call: 1, time, rounds: 3 }
}

/// The rows of a figure, and what a reader has to know.
pub(super) fn figure(
    figure: Figure,
    wanted: &Wanted,
    progress: &mut dyn Progress,
) -> Result<(Vec<Row>, Vec<String>), Failure> {
    let seed = wanted.settings.count(&settings::SEED);
    progress.begin(figure.item().id);
    let points = match figure {
        Figure::Fig9 => 40.0,
        Figure::Fig10 => 330.0,
        Figure::Fig12 => 48.0,
        Figure::Fig13 => 110.0,
        Figure::Fig14 => 60.0,
        _ => 9.0,
    };
    let mut maker = Maker {
        seed,
        open: wanted.open_islands,
        open_paged: wanted.open_paged_islands,
        progress,
        points,
        done: 0.0,
    };
    let rows = match figure {
        Figure::Fig3 => placements(&mut maker),
        Figure::Fig5 => expected(&mut maker),
        Figure::Fig7 => payments(&mut maker)?,
        Figure::Fig8 => stalls(),
        Figure::Fig9 => by_multisite(&mut maker)?,
        Figure::Fig10 => by_rows(&mut maker)?,
        Figure::Fig11 => breakdown(&mut maker),
        Figure::Fig12 => by_cores(&mut maker),
        Figure::Fig13 => by_skew(&mut maker)?,
        Figure::Fig14 => by_size(&mut maker),
        Figure::Fig2 | Figure::Table1 | Figure::Fig6 => Vec::new(), // hardware.rs
    };
    progress.end();
    let mut notes = notes(figure);
    if figure != Figure::Fig8 {
        notes.push(constants());
    }
    Ok((rows, notes))
}

/// What of a figure comes out and what does not, in sentences.
fn notes(figure: Figure) -> Vec<String> {
    let notes: Result<BTreeMap<&str, Vec<String>>, _> = serde_json::from_str(NOTES);
    let mut notes = notes.expect("sentences by figure");
    notes.remove(figure.item().id).unwrap_or_default()
}

/// All constants of the model with their sources.
fn constants() -> String {
    let machine = Machine::quad_socket();
    let listed = machine.costs.listed();
    let one = |of: &crate::model::Constant| format!("{} {:.3} ({})", of.name, of.value, of.source);
    let listed: Vec<String> = listed.iter().map(one).collect();
    format!("constants of the model, {}: {}", machine.name, listed.join(" · "))
}

fn modelled(name: impl Into<String>, unit: &str, ours: f64, reference: &str) -> Row {
    printed(name, unit, None, ours, reference)
}

fn printed(
    name: impl Into<String>,
    unit: &str,
    paper: Option<f64>,
    ours: f64,
    reference: &str,
) -> Row {
    let mut row = Row::measured(name, unit, paper, Some(rounded(ours, 3))).with("", reference);
    row.ratio = row.ratio.map(|ratio| rounded(ratio, 4));
    row.source = Source::Modelled;
    row
}

fn tps(name: impl Into<String>, ours: f64, reference: &str) -> Row {
    modelled(name, "tps", ours.round(), reference)
}

const fn verb(is_update: bool) -> &'static str {
    if is_update { "update" } else { "read" }
}

fn placements(maker: &mut Maker<'_>) -> Vec<Row> {
    let quad = Machine::quad_socket();
    let on = |sockets, cores_per_socket| Machine { sockets, cores_per_socket, ..quad.clone() };
    let mut of = |machine: Machine| maker.modelled(&machine, 1, Load::payment(WAREHOUSES)).tps;
    let (spread, grouped, mixed) = (of(on(4, 1)), of(on(1, 4)), of(on(2, 2)));
    vec![
        tps("four threads, spread over four sockets", spread, "ISL-10"),
        tps("grouped on one", grouped, "ISL-10"),
        tps("two on each of two", mixed, "ISL-10"),
        modelled("grouped ÷ spread", "×", grouped / spread, "ISL-10"),
    ]
}

/// Figure 5: simulated, and as ISL-4's formula has it from both ends.
fn expected(maker: &mut Maker<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for islands in THREE {
        let [local, half, all] = [0, 50, 100]
            .map(|multisite| maker.on_quad(islands, Load::rows(10, false, multisite)).tps);
        let name = |share: &str| format!("{islands}ISL · {share} multisite");
        let (mean, by_cost) = (f64::midpoint(local, all), 2.0 / (1.0 / local + 1.0 / all));
        rows.extend([
            tps(name("0 %"), local, "ISL-5"),
            tps(name("50 %"), half, "ISL-5"),
            tps(name("50 %, from both ends by throughput,"), mean, "ISL-4"),
            tps(name("50 %, from both ends by cost,"), by_cost, "ISL-4"),
            tps(name("100 %"), all, "ISL-5"),
        ]);
    }
    rows
}

fn payments(maker: &mut Maker<'_>) -> Result<Vec<Row>, Failure> {
    let [fine, shared] = [24, 1].map(|islands| maker.on_quad(islands, Load::payment(WAREHOUSES)));
    let mut rows = vec![
        tps("24ISL · Payment", fine.tps, "ISL-20"),
        tps("1ISL · Payment", shared.tps, "ISL-20"),
        printed("24ISL ÷ 1ISL", "×", Some(4.5), fine.tps / shared.tps, "ISL-20"),
        modelled("1ISL · cores that work", "%", 100.0 * shared.busy, "ISL-20"),
    ];
    for (stores, found) in maker.measured_payments()? {
        for of in &found {
            let name = format!("here, {stores}: {}ISL · Payment", of.islands);
            rows.push(measured(name, "tps", of.tps.round(), of.deviation_percent, "ISL-20"));
        }
        if let [one, two] = &found[..] {
            let lead = rounded(two.tps / one.tps, 3);
            let name = format!("here, {stores}: 2ISL ÷ 1ISL");
            let row = Row::measured(&name, "×", None, Some(lead));
            rows.push(row.with("this machine, a caller for each core or island", "ISL-20"));
        }
    }
    Ok(rows)
}

/// Figure 8 and the counters of Section 7.2.
fn stalls() -> Vec<Row> {
    let what = ["instructions per cycle", "stalled cycles", "sharing through the last-level cache"];
    let none = "not measurable here: the machine lets no program read hardware counters";
    what.map(|what| Row::measured(what, "", None, None).with(none, "ISL-21")).to_vec()
}

fn by_multisite(maker: &mut Maker<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for is_update in [false, true] {
        let verb = verb(is_update);
        let mut at_100 = [0.0; 3];
        for (place, islands) in THREE.into_iter().enumerate() {
            for share in SHARES {
                let found = maker.on_quad(islands, Load::rows(10, is_update, share));
                at_100[place] = found.tps;
                let name = format!("{verb} 10 · {islands}ISL · {share} % multisite");
                rows.push(tps(name, found.tps, "ISL-22"));
            }
        }
        let name = format!("{verb} 10 · 1ISL ÷ 24ISL, 100 % multisite");
        let mut leads = printed(name, "×", Some(2.0), at_100[2] / at_100[0], "ISL-29");
        leads.caveat = "the paper: twice, where work is not partitionable or skewed".to_owned();
        rows.push(leads);
        let access = access(10, is_update);
        for (stores, of) in maker.measured(access, &SHARES, Duration::from_millis(200))? {
            let name = format!(
                "here, {stores}: {verb} 10 · {}ISL · {} % multisite",
                of.islands, of.multisite
            );
            rows.push(measured(name, "tps", of.tps.round(), of.deviation_percent, "ISL-22"));
        }
    }
    Ok(rows)
}

fn measured(name: String, unit: &str, ours: f64, deviation_percent: f64, reference: &str) -> Row {
    Row::measured(name, unit, None, Some(ours))
        .with(format!("this machine, ± {deviation_percent:.1} %"), reference)
}

fn by_rows(maker: &mut Maker<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (multisite, share) in [("local", 0), ("multisite", 100)] {
        for is_update in [false, true] {
            let verb = verb(is_update);
            let mut ten = Vec::new();
            for islands in ALL_ISLANDS {
                for touched in TOUCHED {
                    let found = maker.on_quad(islands, Load::rows(touched, is_update, share));
                    let name = format!("{multisite} · {verb} {touched} · {islands}ISL");
                    rows.push(modelled(name, "µs", 1e6 / found.tps, "ISL-23"));
                    if touched == 12 {
                        ten.push(1e6 / found.tps);
                    }
                }
            }
            if share == 0 {
                let next = ten[1..].iter().copied().fold(f64::INFINITY, f64::min);
                let name = format!("local · {verb} 12 · 24ISL cheaper than the next best by");
                let mut row =
                    printed(name, "%", Some(40.0), 100.0 * (1.0 - ten[0] / next), "ISL-23");
                row.caveat = "the paper: roughly".to_owned();
                rows.push(row);
            }
            for touched in TOUCHED {
                let time = Duration::from_millis(50);
                for (stores, of) in maker.measured(access(touched, is_update), &[share], time)? {
                    let name = format!(
                        "here, {stores}: {multisite} · {verb} {touched} · {}ISL",
                        of.islands
                    );
                    let cost = rounded(1e6 / of.tps, 4);
                    rows.push(measured(name, "µs", cost, of.deviation_percent, "ISL-23"));
                }
            }
        }
    }
    Ok(rows)
}

fn breakdown(maker: &mut Maker<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for is_update in [false, true] {
        for share in [0, 50, 100] {
            let of = maker.on_quad(4, Load::rows(4, is_update, share)).parts;
            for (part, us) in [
                ("xct execution", of.execution),
                ("xct management", of.management),
                ("communication", of.communication),
                ("locking", of.locking),
                ("logging", of.logging),
            ] {
                let name = format!("{} 4 · {share} % multisite · {part}", verb(is_update));
                rows.push(modelled(name, "µs", us, "ISL-24"));
            }
        }
    }
    rows
}

fn by_cores(maker: &mut Maker<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (machine, sizes) in
        [(Machine::quad_socket(), [1, 2, 3, 4]), (Machine::octo_socket(), [2, 4, 6, 8])]
    {
        for is_update in [false, true] {
            for sockets in sizes {
                let machine = Machine { sockets, ..machine.clone() };
                let cores = machine.cores();
                for (name, islands) in [("fine", cores), ("coarse", sockets), ("shared", 1)] {
                    let load = Load::rows(10, is_update, 20);
                    let found = maker.modelled(&machine, islands, load);
                    let verb = verb(is_update);
                    let name = format!("{} · {verb} 10 · {cores} cores · {name}", machine.name);
                    rows.push(tps(name, found.tps, "ISL-25"));
                }
            }
        }
    }
    let none = "not measurable here: one socket, no hardware counters";
    for (name, unit, paper) in [
        ("QPI ÷ IMC traffic · shared", "×", 1.73),
        ("QPI ÷ IMC traffic · coarse", "×", 1.54),
        ("QPI ÷ IMC traffic · fine", "×", 1.52),
        ("traffic between sockets, local only · fine and coarse", "Mb/s", 100.0),
        ("traffic between sockets, local only · shared, more than", "Mb/s", 2_000.0),
    ] {
        rows.push(Row::measured(name, unit, Some(paper), None).with(none, "ISL-26"));
    }
    rows
}

/// Throughputs of transactions of two rows, read or updated, by their share of multisite ones, by islands, and by what
/// else differs: `vary` says what that is in the row's name, and in the scenario.
fn of_two_rows(
    maker: &mut Maker<'_>,
    shares: &[u64],
    reference: &str,
    values: [f64; 5],
    vary: impl Fn(&mut Scenario, f64) -> String,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for is_update in [false, true] {
        for &share in shares {
            for islands in THREE {
                for value in values {
                    let (quad, of) = (Machine::quad_socket(), Islands::grouped(islands));
                    let load = Load::rows(2, is_update, share);
                    let mut scenario = Scenario::new(&quad, of, load, TRANSACTIONS, maker.seed);
                    let varied = vary(&mut scenario, value);
                    let found = maker.run(&scenario);
                    let verb = verb(is_update);
                    let name = format!("{verb} 2 · {share} % multisite · {islands}ISL · {varied}");
                    rows.push(tps(name, found.tps, reference));
                }
            }
        }
    }
    rows
}

fn by_skew(maker: &mut Maker<'_>) -> Result<Vec<Row>, Failure> {
    const SHARES: [u64; 3] = [0, 20, 50];
    let skews = [0, 25, 50, 75, 100];
    let exponents = skews.map(|skew| f64::from(skew) / 100.0);
    let mut rows = of_two_rows(maker, &SHARES, "ISL-27", exponents, |scenario, skew| {
        (scenario.load.skew, scenario.load.callers_per_core) = (Some(skew), 4);
        format!("skew {skew}")
    });
    for is_update in [false, true] {
        let verb = verb(is_update);
        for (skew, exponent) in skews.into_iter().zip(exponents) {
            let access = Access { skew, ..access(2, is_update) };
            for (stores, of) in maker.measured(access, &SHARES, Duration::from_millis(100))? {
                let (share, islands) = (of.multisite, of.islands);
                let name = format!(
                    "here, {stores}: {verb} 2 · {share} % multisite · {islands}ISL · skew {exponent}"
                );
                rows.push(measured(name, "tps", of.tps.round(), of.deviation_percent, "ISL-27"));
            }
        }
    }
    Ok(rows)
}

fn by_size(maker: &mut Maker<'_>) -> Vec<Row> {
    let sizes = [0.24, 2.4, 24.0, 72.0, 120.0];
    of_two_rows(maker, &[0, 20], "ISL-28", sizes, |scenario, millions| {
        let missed = 1.0 - POOL_BYTES / (millions * 1e6 * ROW_BYTES);
        let misses_per_mille = (1_000.0 * missed.max(0.0)).round() as u64;
        scenario.load.rows = (millions * 1e6) as u64;
        scenario.disks = Some(Disks { count: 2, read_us: HALF_TURN_US, misses_per_mille });
        format!("{millions} M rows")
    })
}
