//! Calls, one at a time: the cost of a call to the program that makes it, next to other engines and the device alone.
//!
//! 100,000 accounts; a transfer looks two of them up and changes both, a read looks one up. A caller
//! is a thread that makes its next call when it has the answer to its last one: the most natural way to
//! use a library. Each engine is called as its users call it (docs/compare.md): if it has connections, each caller
//! has its own, and if it allows only one writer, writers take turns.
//!
//! # Map
//! [`Engine`] is the interface of an engine; `hash_map`, `sqlite`, `redb`, `lmdb` are peers, `raw_device` is the
//! device without an engine. Our own side is in the command, since this crate does not depend on the library.
//! `driver` has the callers, `counting` counts instructions, `report` is the result.
//!
//! # What is measured
//! All engines are open simultaneously; a round calls each of them at each point before the next round begins.
//! At a point there are two passes: wall-clock time and the process's processor time come from one in which no
//! clock is read between two calls, latencies from a second one. Money is neither made nor lost: the sum of all
//! accounts is verified at the end.
//!
//! Not here: arguments, exit codes, standard output.

mod counting;
mod driver;
mod hash_map;
#[cfg(feature = "compare-lmdb")]
mod lmdb;
mod raw_device;
#[cfg(feature = "compare-redb")]
mod redb;
mod report;
#[cfg(feature = "compare-sqlite")]
mod sqlite;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tombolo_engine::clock::SystemClock;

pub use counting::{CHILD_COMMAND, Counted, Counting, child};
pub use report::{CallResult, RatioResult};

use super::peer::{Peer, built, names_of, opener};
use super::{Batch, OURS, Scratch, absolute, place_of};
use crate::failure::Failure;
use crate::files::{Medium, Place};
use crate::histogram::Latencies;
use crate::progress::Progress;
use crate::settings::{self, Settings, Source};
use driver::{Bound, Point};

/// The name of this workload.
pub const NAME: &str = "calls";
/// A function that opens another engine.
type Open = fn(&Opening<'_>) -> Result<Box<dyn Engine>, Failure>;

/// The other engines.
const PEERS: [Peer<Open>; 4] = [
    Peer::new("sqlite", built!("compare-sqlite", |it| Ok(Box::new(sqlite::Sqlite::open(it)?)))),
    Peer::new("redb", built!("compare-redb", |it| Ok(Box::new(redb::open(it)?)))),
    Peer::new("lmdb", built!("compare-lmdb", |it| Ok(Box::new(lmdb::Lmdb::open(it)?)))),
    Peer::new(hash_map::NAME, Some(|_| Ok(Box::new(hash_map::HashMapEngine::new())))),
];
/// The name of our own side.
pub const OWN: &str = "tombolo/memory";
/// How many accounts there are: they are called 0, 1, 2, …
pub const ACCOUNTS: i32 = 100_000;
/// The amount of each account in the beginning.
pub const CENTS_EACH: i64 = 100;
/// How long a pass takes at the most where the number of calls was not given.
const PASS_TIME_MAX: Duration = Duration::from_millis(250);
/// How many calls it makes at the most then. Fewer would be over before threads have begun and rows are
/// in the processor's caches, where a call takes 0.1 us.
const PASS_CALLS_MAX: u64 = 1_000_000;
/// The most threads that call.
const CALLERS_MAX: usize = 256;
/// Calls by which is measured what our log writes for a call.
const SIZED: u64 = 200;

named! {
    /// The kinds of calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum What by name {
        /// Looks two accounts up and changes both.
        Transfer = "transfer",
        /// Looks one account up.
        Read = "read",
    }
}

/// The call with this name.
///
/// # Errors
/// When there is none.
fn what_named(name: &str) -> Result<What, Failure> {
    What::find(name.trim()).ok_or_else(|| {
        Failure::usage(format!("a call cannot {name}: use --what transfer, read or both"))
    })
}

/// An engine that holds the accounts.
pub trait Engine: Sync {
    /// Its version.
    fn version(&self) -> &str;

    /// A note for readers of its figures.
    fn note(&self) -> Option<&str> {
        None
    }

    /// Gives a caller to `work`, to be used by the calling thread only. With `alone` no other thread
    /// calls meanwhile.
    ///
    /// # Errors
    /// When the engine has no caller to give.
    fn with_caller(
        &self,
        alone: bool,
        work: &mut dyn FnMut(&mut dyn Caller),
    ) -> Result<(), Failure>;

    /// The sum of all accounts; none of an engine without accounts.
    ///
    /// # Errors
    /// When it cannot be read.
    fn total_cents(&self) -> Result<Option<i64>, Failure>;

    /// How many bytes it has written to a log so far, and how often it made them durable; none where
    /// there is no log, or nothing is known of it.
    fn log(&self) -> Option<(u64, u64)> {
        None
    }

    /// Closes it.
    ///
    /// # Errors
    /// The engine's error.
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// One thread's way into an engine.
pub trait Caller {
    /// Moves `cents` from one account to another, as one transaction.
    ///
    /// # Errors
    /// The engine's error.
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure>;

    /// The amount of an account.
    ///
    /// # Errors
    /// The engine's error.
    fn read(&mut self, account: i32) -> Result<i64, Failure>;
}

/// The parameters with which an engine is opened; the accounts are loaded when it is.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// A directory that is not there yet, for it alone.
    pub directory: &'a Path,
    /// Whether an answer means that what it reports is on disk.
    pub is_durable: bool,
}

/// The function that opens our own side.
pub type OpenOwn<'o> = &'o dyn Fn(&Opening<'_>) -> Result<Box<dyn Engine>, Failure>;

/// Opens the engine called `name`.
///
/// # Errors
/// When no engine has that name, it is not in this build, or it fails.
pub fn open(
    name: &str,
    opening: &Opening<'_>,
    own: OpenOwn<'_>,
) -> Result<Box<dyn Engine>, Failure> {
    if name == OWN { own(opening) } else { opener(&PEERS, name, NAME)?(opening) }
}

/// The name of a durability.
pub const fn durability_name(is_durable: bool) -> &'static str {
    if is_durable { "group" } else { "none" }
}

/// The extent of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    engines: Vec<String>,
    callers: Vec<usize>,
    whats: Vec<What>,
    /// Whether durable, each that is compared.
    durabilities: Vec<bool>,
    calls: u64,
    time_max: Option<Duration>,
    rounds: usize,
    seed: u64,
    data: Option<PathBuf>,
    /// Calls whose instructions are counted, if they are.
    counted: Option<u64>,
}

impl Plan {
    /// Reads the settings of a comparison with the engines called `peers`, with these numbers of `callers`.
    ///
    /// # Errors
    /// When an engine is not in this build, or settings do not fit each other.
    pub fn new(
        settings: &Settings,
        peers: &[String],
        callers: &[usize],
        whats: &[String],
    ) -> Result<Self, Failure> {
        let engines = super::names(&["memory".to_owned()], peers, &names_of(&PEERS))?;
        for peer in engines.iter().filter(|name| *name != OWN) {
            opener(&PEERS, peer, NAME)?;
        }
        let durabilities = match settings.word(&settings::DURABILITY) {
            "" => vec![false, true],
            "none" => vec![false],
            "group" => vec![true],
            other => {
                return Err(Failure::usage(format!(
                    "calls cannot be compared at durability {other}: use --durability none or \
                     group, or leave it out for both"
                )));
            }
        };
        if let Some(callers) =
            callers.iter().find(|&&callers| !(1..=CALLERS_MAX).contains(&callers))
        {
            return Err(Failure::usage(format!(
                "{callers} threads cannot call: give --callers numbers from 1 to {CALLERS_MAX}"
            )));
        }
        let given = settings.source(&settings::TRANSACTIONS) != Source::Default;
        let data = settings.word(&settings::DATA);
        Ok(Self {
            engines,
            callers: callers.to_vec(),
            whats: whats.iter().map(|what| what_named(what)).collect::<Result<_, _>>()?,
            durabilities,
            calls: if given { settings.count(&settings::TRANSACTIONS) } else { PASS_CALLS_MAX },
            time_max: (!given).then_some(PASS_TIME_MAX),
            rounds: settings.count(&settings::ROUNDS) as usize,
            seed: settings.count(&settings::SEED),
            data: (!data.is_empty()).then(|| data.into()),
            counted: counting::calls_to_count(settings)?,
        })
    }

    /// The names of the engines that take part, ours first and the device last.
    fn engines_at(&self, is_durable: bool) -> Vec<&str> {
        let takes_part = |name: &&str| !is_durable || *name != hash_map::NAME;
        let mut engines: Vec<_> =
            self.engines.iter().map(String::as_str).filter(takes_part).collect();
        if is_durable && self.whats.contains(&What::Transfer) {
            engines.push(raw_device::NAME);
        }
        engines
    }

    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let at = |what| self.callers.iter().map(move |&callers| Point { what, callers });
        self.whats.iter().copied().flat_map(at)
    }

    fn is_durable(&self) -> bool {
        self.durabilities.contains(&true)
    }
}

/// The measurement of one engine at one point.
#[derive(Clone, Debug)]
pub struct Called {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// The kind of call.
    pub what: What,
    /// Whether answers were durable.
    pub is_durable: bool,
    /// How many threads called.
    pub callers: usize,
    /// One batch per round; what is committed are calls.
    pub rounds: Vec<Batch>,
    /// How long calls took their callers.
    pub latencies: Latencies,
    /// The instructions of a call, if they were counted.
    pub counted: Option<Counted>,
    /// Bytes that a call of the raw device writes.
    pub bytes: Option<u64>,
    /// Whether the accounts hold what they did in the beginning; none where there are none.
    pub consistent: Option<bool>,
    /// Notes for readers of the result.
    pub note: Option<String>,
}

/// One engine at one durability, with what was measured so far: one for each point that it takes part in.
struct Contender {
    name: String,
    is_durable: bool,
    engine: Box<dyn Engine>,
    called: Vec<Called>,
}

impl Contender {
    fn new(
        name: &str,
        is_durable: bool,
        engine: Box<dyn Engine>,
        bytes: Option<u64>,
        plan: &Plan,
    ) -> Self {
        let has = |point: &Point| point.what == What::Transfer || name != raw_device::NAME;
        let at = |Point { what, callers }| Called {
            engine: name.to_owned(),
            version: engine.version().to_owned(),
            what,
            is_durable,
            callers,
            rounds: Vec::new(),
            latencies: Latencies::default(),
            counted: None,
            bytes,
            consistent: None,
            note: engine.note().map(str::to_owned),
        };
        let called = plan.points().filter(has).map(at).collect();
        Self { name: name.to_owned(), is_durable, engine, called }
    }

    /// Looks at the money, and closes the engine.
    fn finish(mut self) -> Result<Vec<Called>, Failure> {
        let expected = i64::from(ACCOUNTS) * CENTS_EACH;
        let consistent = self.engine.total_cents()?.map(|cents| cents == expected);
        self.engine.close()?;
        self.called.iter_mut().for_each(|called| called.consistent = consistent);
        Ok(self.called)
    }
}

/// Calls every engine of `plan` at every point of it; `own` opens our own.
///
/// # Errors
/// When an engine cannot be opened or fails. Money that was lost is for [`failure`] to find.
pub fn compare(
    plan: &Plan,
    own: OpenOwn<'_>,
    progress: &mut dyn Progress,
) -> Result<Vec<Called>, Failure> {
    let clock = SystemClock::new();
    let medium = Medium::lasting_if(plan.is_durable());
    let scratch = Scratch(Place::create(plan.data.as_deref(), medium)?);
    let parent = absolute(&scratch.0.path)?;
    let mut contenders = Vec::new();
    for &is_durable in &plan.durabilities {
        contenders.extend(open_all(plan, is_durable, &parent, own, progress)?);
    }
    progress.begin("calling");
    for round in 0..plan.rounds {
        run_round(plan, round, &mut contenders, &clock)?;
        progress.part((round + 1) as f64 / plan.rounds as f64, "");
    }
    progress.end();
    if let Some(calls) = plan.counted {
        progress.begin("counting with callgrind");
        let countable = |it: &&mut Contender| it.name != raw_device::NAME;
        for (number, contender) in contenders.iter_mut().filter(countable).enumerate() {
            let Contender { name, is_durable, called, .. } = contender;
            let directory = parent.join(format!("count{number:02}"));
            let counted = counting::count(name, *is_durable, &plan.whats, calls, &directory)?;
            for called in called.iter_mut().filter(|called| called.callers == 1) {
                called.counted = counted.iter().find(|it| it.what == called.what).copied();
            }
        }
        progress.end();
    }
    let finished = contenders.into_iter().map(Contender::finish);
    let mut called: Vec<Called> = finished.collect::<Result<Vec<_>, _>>()?.concat();
    // Side by side what is compared; the engines of a point stay in their order.
    called.sort_by_key(|called| (called.is_durable, called.what != What::Transfer, called.callers));
    Ok(called)
}

/// Opens and loads all engines of one durability, and the device with what our log writes to it.
fn open_all(
    plan: &Plan,
    is_durable: bool,
    parent: &Path,
    own: OpenOwn<'_>,
    progress: &mut dyn Progress,
) -> Result<Vec<Contender>, Failure> {
    let durability = durability_name(is_durable);
    let mut contenders: Vec<Contender> = Vec::new();
    for name in plan.engines_at(is_durable) {
        progress.begin(&format!("loading {name}"));
        let short = name.strip_prefix(OURS).unwrap_or(name);
        let directory = parent.join(format!("{short}-{durability}"));
        let opening = Opening { directory: &directory, is_durable };
        let (engine, bytes): (Box<dyn Engine>, _) = match name {
            raw_device::NAME => {
                let bytes = log_bytes(&*contenders[0].engine)?;
                let device = raw_device::RawDevice::open(&opening, bytes)?;
                let bytes = device.bytes();
                (Box::new(device), Some(bytes))
            }
            name => (open(name, &opening, own)?, None),
        };
        progress.end();
        contenders.push(Contender::new(name, is_durable, engine, bytes, plan));
    }
    Ok(contenders)
}

/// Bytes that the log of `engine` writes for a call that is alone.
fn log_bytes(engine: &dyn Engine) -> Result<u64, Failure> {
    let before = engine.log().unwrap_or_default();
    let mut outcome = Ok(());
    engine.with_caller(true, &mut |caller| {
        outcome = (0..SIZED as i32).try_for_each(|n| caller.transfer(2 * n, 2 * n + 1, 1));
    })?;
    outcome?;
    let after = engine.log().unwrap_or_default();
    let flushes = after.1.saturating_sub(before.1);
    Ok(after.0.saturating_sub(before.0).checked_div(flushes).unwrap_or(0))
}

/// Calls every contender at every point once; each point begins with another contender.
fn run_round(
    plan: &Plan,
    round: usize,
    contenders: &mut [Contender],
    clock: &SystemClock,
) -> Result<(), Failure> {
    let bound = Bound { calls: plan.calls, time_max: plan.time_max };
    for (number, point) in plan.points().enumerate() {
        for turn in 0..contenders.len() {
            let place = place_of(round + number, turn, contenders.len());
            let Contender { engine, called, .. } = &mut contenders[place];
            let is_at =
                |called: &&mut Called| (called.what, called.callers) == (point.what, point.callers);
            let Some(called) = called.iter_mut().find(is_at) else { continue };
            let seed = [round as u64, number as u64];
            let (batch, latencies) =
                driver::call(&**engine, point, bound, (plan.seed, seed), clock)?;
            called.rounds.push(batch);
            called.latencies.add(&latencies);
        }
    }
    Ok(())
}

/// Why a comparison is invalid, if it is: an engine made or lost money.
pub fn failure(called: &[Called]) -> Option<Failure> {
    let wrong = called.iter().find(|called| called.consistent == Some(false))?;
    Some(Failure::check(format!(
        "{} at durability {}: its accounts do not hold what they held before the transfers",
        wrong.engine,
        durability_name(wrong.is_durable)
    )))
}

#[cfg(test)]
mod tests;
