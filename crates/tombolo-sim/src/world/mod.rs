//! One seed's world: its disk, clock and history, and the lives of engines in it, each from a recovery to a crash.
//!
//! ```text
//!   start ──recover──► live ──crash, failure or end──► restart ──► start …
//!     │  └─crash──► restart, again (nested up to five deep)
//!     └─refusal: allowed if the medium broke a promise and the message names the place
//! ```
//!
//! In addition, experiments that would damage the disk are made on copies of it (`rehearse`, and
//! `mixed_files.rs`), and databases are restored from backups and the log's archive (`restores.rs`).
//! An [`Engine`] is the code under test: it recovers from the disk, runs transactions and acknowledges
//! them. Not here: how it runs them (`log_engine/`, `pipeline_engine/`), the rules (`oracle/`),
//! requests that are sent again (`repeats.rs`).

mod backups;
mod mixed_files;
mod repeats;
mod restores;
mod tables;

use tombolo_engine::rng::Rng;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::GroupNumber;

use crate::clock::SimClock;
use crate::commit::Coverage;
use crate::database::Refused;
use crate::faults::{FaultCounts, FaultKind, FaultyDisk, one_in};
use crate::oracle::{History, Rule, Violation, sound};
use crate::swarm::Swarm;
use crate::trace::{Trace, number_of};
use crate::workload::added_columns::COLUMNS_MAX;
use crate::workload::added_indexes::ADDED_MAX;
use crate::workload::additions::Addition;
use crate::workload::identified;
use crate::workload::model::Outcome;
use crate::workload::request::{Request, Work};
use crate::workload::store::contents;
use backups::Backups;

/// The number of starts after which a life that has not begun counts as stuck.
const STARTS_MAX: u32 = 64;
/// The number of lives after which no fault strikes any more, so that the seed ends.
const HARD_LIVES_MAX: u64 = 6;
/// The number of lives after which a world that has not run its transactions counts as stuck.
const LIVES_MAX: u64 = 40;

/// The code under test.
pub trait Engine: Sized {
    /// The profile of its store.
    type Profile: MemoryProfile;

    /// Starts: recovers the database on the disk, or makes a new one if there is none.
    ///
    /// # Errors
    /// When a call to the disk failed or the files are damaged. With `accept_loss` the log is cut off at damage.
    fn start(disk: &FaultyDisk, swarm: &Swarm, accept_loss: bool) -> Result<Self, Refused>;

    /// The store. The oracle judges its rows, and runs its checks.
    fn store(&mut self) -> &mut MemoryStore<Self::Profile>;

    /// The newest durable group, if the engine's log can be backed up before it runs transactions.
    fn durable_group(&self) -> Option<GroupNumber> {
        None
    }

    /// Runs transactions until enough ran, the machine stopped, or a failure ended all work.
    ///
    /// # Errors
    /// A rule that does not hold.
    fn live(self, world: &mut World) -> Result<(), Violation>;
}

/// The next step after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A call had failed: try once more.
    TryAgain,
    /// Something is damaged: start with `accept_loss`.
    AcceptLoss,
    /// The database is lost: start with a new one.
    GiveUp,
}

/// One seed's world.
#[derive(Clone, Debug)]
pub struct World {
    /// Its settings.
    pub swarm: Swarm,
    /// Its disk.
    pub disk: FaultyDisk,
    /// Its clock.
    pub clock: SimClock,
    /// The trace of events.
    pub trace: Trace,
    /// The transactions that ran and must survive.
    pub history: History,
    /// Random numbers for the interleaving.
    pub rng: Rng,
    requests: Rng,
    /// Random numbers for the database's settings in later lives.
    settings: Rng,
    /// The number of each client's last request.
    numbers: Vec<i64>,
    /// Requests with an id that may be sent again.
    sent: Vec<Request>,
    /// Transactions that ran so far.
    pub transactions: u64,
    lives: u64,
    given_up: u64,
    /// Counts of what the world itself did: crashes, and rehearsals of damage.
    struck: FaultCounts,
    /// Whether the machine was restarted, so that the disk's content is certain.
    is_settled: bool,
    /// The faults that had struck when the machine was started last: their effects are visible since then.
    at_restart: FaultCounts,
    /// The faults that had struck before the last recovery that could see all of their effects: what that recovery
    /// found is intact, no matter what the medium did before.
    verified: FaultCounts,
    backups: Backups,
}

/// The result of one seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// The broken rule, if any.
    pub violation: Option<Violation>,
    /// Transactions that ran.
    pub transactions: u64,
    /// Lives.
    pub lives: u64,
    /// Databases that were damaged beyond repair.
    pub given_up: u64,
    /// Whether the seed tested anything.
    pub is_enough: bool,
    /// How often each fault struck.
    pub faults: FaultCounts,
    /// The events that occurred in each state, in a simulation that counts them.
    pub coverage: Option<Box<Coverage>>,
    /// The trace's hash.
    pub hash: u64,
    /// The trace as text, if the caller asked for it.
    pub lines: Vec<String>,
}

impl World {
    /// The world of `seed`; `with_text` keeps its trace as text.
    pub fn new(seed: u64, with_text: bool) -> Self {
        let swarm = Swarm::draw(&mut Rng::stream(seed, &[number_of("swarm")]));
        let (clock, trace) = (SimClock::new(), Trace::new(with_text));
        trace.event(&[seed], || format!("seed {seed}: {swarm:?}"));
        Self {
            disk: FaultyDisk::new(seed, swarm.faults, clock.clone(), trace.clone()),
            numbers: vec![0; swarm.clients as usize],
            sent: Vec::new(),
            swarm,
            clock,
            trace,
            history: History::new(),
            rng: Rng::stream(seed, &[number_of("world")]),
            requests: Rng::stream(seed, &[number_of("requests")]),
            settings: Rng::stream(seed, &[number_of("settings")]),
            transactions: 0,
            lives: 0,
            given_up: 0,
            struck: FaultCounts::default(),
            is_settled: true,
            at_restart: FaultCounts::default(),
            verified: FaultCounts::default(),
            backups: Backups::new(seed),
        }
    }

    /// Runs lives of `E` until the seed has seen enough.
    pub fn run<E: Engine>(mut self, seed: u64) -> SeedResult {
        let violation = self.run_lives::<E>().err();
        let mut faults = self.disk.counts();
        faults.merge(&self.struck);
        let crashes = faults.of(FaultKind::Crash) + faults.of(FaultKind::CrashInRecovery);
        SeedResult {
            seed,
            violation,
            transactions: self.transactions,
            lives: self.lives,
            given_up: self.given_up,
            is_enough: self.transactions >= 200 && crashes >= 1,
            faults,
            coverage: None,
            hash: self.trace.hash(),
            lines: self.trace.take_lines(),
        }
    }

    fn run_lives<E: Engine>(&mut self) -> Result<(), Violation> {
        while self.transactions < self.swarm.transactions || self.struck.of(FaultKind::Crash) == 0 {
            self.lives += 1;
            if self.lives > LIVES_MAX {
                let what = format!("{} transactions in {LIVES_MAX} lives", self.transactions);
                return Err(Violation::new(Rule::Progress, what));
            }
            if self.lives > 1 {
                self.swarm.change(&mut self.settings);
                let (life, swarm) = (self.lives, &self.swarm);
                self.trace.event(&[number_of("settings"), life], || format!("settings {swarm:?}"));
            }
            let engine = self.start::<E>()?;
            self.plan_life();
            engine.live(self)?;
            self.end_life();
        }
        // The last acknowledged transactions must have survived the last crash.
        self.disk.crash_after(None);
        self.start::<E>().map(drop)
    }

    /// The next request of any client.
    pub fn next_request(&mut self) -> Request {
        let client = self.requests.below(self.numbers.len() as u64) as usize;
        self.request_of(client)
    }

    /// The next request of this client.
    pub fn request_of(&mut self, client: usize) -> Request {
        if let Some(request) = self.repeat(client) {
            return request;
        }
        let number = &mut self.numbers[client];
        *number += 1;
        let opened = !self.history.state().accounts.is_empty();
        let work =
            if opened { Work::draw(&mut self.requests, self.swarm.kinds) } else { Work::Open };
        let number = *number;
        self.identify(Request { client: client as i32, number, work, sent_before: None })
    }

    /// The number of transactions of this life, if nothing ends it earlier.
    pub fn life_transactions(&mut self) -> u64 {
        let left = self.swarm.transactions.saturating_sub(self.transactions);
        let drawn = self.rng.below(self.swarm.life_transactions_max);
        1 + if self.lives <= HARD_LIVES_MAX { drawn } else { left }
    }

    /// The next index or column to be added, if it is time.
    pub(crate) fn next_addition(&mut self) -> Option<Addition> {
        let Swarm { adds_indexes, has_values, kinds, .. } = self.swarm;
        let added = self.history.state().added;
        if adds_indexes && has_values && added.indexes < ADDED_MAX && one_in(&mut self.rng, 8) {
            return Some(Addition::Index);
        }
        if added.indexes > 0 && one_in(&mut self.rng, 24) {
            return Some(Addition::IndexDrop);
        }
        let adds = kinds.columns && added.columns < COLUMNS_MAX && one_in(&mut self.rng, 8);
        adds.then_some(Addition::Column)
    }

    /// Counts a transaction that ran, and notes the `outcome` of `request` in the trace.
    pub fn note_run(&mut self, request: &Request, outcome: &Outcome) {
        self.transactions += 1;
        let number = match outcome {
            Outcome::Committed(answer) => *answer,
            Outcome::Aborted => u64::MAX,
            Outcome::Panicked => u64::MAX - 1,
            Outcome::Repeated(has_committed) => u64::MAX - 2 - u64::from(*has_committed),
        };
        let numbers = [request.client as u64, request.number as u64, number];
        self.trace.event(&numbers, || format!("{request:?}: {outcome:?}"));
    }

    /// Whether the medium broke a promise that no recovery has dealt with.
    pub fn has_broken_promises(&self) -> bool {
        self.disk.counts().broke_promise_since(&self.verified)
    }

    /// Starts the machine again.
    fn restart(&mut self) {
        self.disk.restart();
        self.at_restart = self.disk.counts();
    }

    fn plan_life(&mut self) {
        let Swarm { crash_steps_max, lives_without_crash, full_lives, .. } = self.swarm;
        let is_hard = self.lives <= HARD_LIVES_MAX;
        let crashes = is_hard && !one_in(&mut self.rng, lives_without_crash);
        let steps = crashes.then(|| self.rng.below(crash_steps_max));
        self.disk.crash_after(steps);
        let full = is_hard && one_in(&mut self.rng, full_lives);
        if !is_hard {
            self.disk.set_faults(self.swarm.faults.patient());
        }
        let room = self.rng.below(2 * self.swarm.segment_bytes);
        self.disk.set_capacity_bytes(full.then(|| self.disk.used_bytes() + room));
        let life = self.lives;
        self.trace.event(&[number_of("life"), life], || format!("life {life}, crash in {steps:?}"));
    }

    fn end_life(&mut self) {
        self.disk.set_capacity_bytes(None);
        let process_ends = one_in(&mut self.rng, self.swarm.process_ends);
        self.is_settled = self.disk.has_crashed() || !process_ends;
        if !self.is_settled {
            return self.disk.restart_process();
        }
        self.struck.add(FaultKind::Crash);
        self.restart();
    }

    /// Starts an engine, through crashes, failures and refusals, and judges the recovered rows.
    fn start<E: Engine>(&mut self) -> Result<E, Violation> {
        let rehearsed = self.rehearse::<E>();
        let nested_max =
            if self.lives <= HARD_LIVES_MAX { self.swarm.nested_crashes_max } else { 0 };
        let mut crashes_left = self.rng.below(nested_max + 1);
        let mut accept_loss = false;
        for attempt in 0..STARTS_MAX {
            let steps = (crashes_left > 0).then(|| self.rng.below(10));
            self.disk.crash_after(steps);
            if attempt > 8 {
                self.disk.set_faults(self.swarm.faults.patient());
            }
            let before = self.disk.counts();
            let started = E::start(&self.disk, &self.swarm, accept_loss);
            if self.disk.has_crashed() {
                self.struck.add(FaultKind::CrashInRecovery);
                crashes_left = crashes_left.saturating_sub(1);
                self.restart();
                continue;
            }
            self.disk.crash_after(None);
            match started {
                Ok(mut engine) => {
                    let hash = self.judge(&mut engine, rehearsed)?;
                    if !self.disk.counts().broke_promise_since(&self.at_restart) {
                        self.verified = self.at_restart;
                        self.rehearse_rot::<E>(hash)?;
                        self.rehearse_mixed_files::<E>()?;
                        self.rehearse_restores(&engine)?;
                    }
                    self.disk.set_faults(self.swarm.faults);
                    return Ok(engine);
                }
                Err(refused) => {
                    match self.judge_refusal(&refused, &before, accept_loss)? {
                        Next::TryAgain => {}
                        Next::AcceptLoss => accept_loss = true,
                        Next::GiveUp => self.give_up(),
                    }
                    self.disk.restart_process();
                }
            }
        }
        Err(Violation::new(Rule::Progress, format!("no start succeeded in {STARTS_MAX} attempts")))
    }

    fn give_up(&mut self) {
        self.trace.event(&[number_of("give up")], || "gave the database up".to_string());
        self.disk.wipe();
        self.backups.forget();
        self.history = History::new();
        self.given_up += 1;
    }

    /// The hash after a recovery without crashes, on a copy of the disk.
    fn rehearse<E: Engine>(&mut self) -> Option<u64> {
        if !one_in(&mut self.rng, self.swarm.rehearsals) || !self.is_settled {
            return None;
        }
        let copy = self.disk.copy();
        copy.crash_after(None);
        copy.set_faults(self.swarm.faults.patient());
        let mut engine = E::start(&copy, &self.swarm, false).ok()?;
        contents(engine.store()).ok().map(|state| state.hash())
    }

    /// Flips one bit in a copy of what was just recovered, all of which is known to be durable. The result must be the
    /// same rows, or a refusal that names a place.
    fn rehearse_rot<E: Engine>(&mut self, hash: u64) -> Result<(), Violation> {
        if !one_in(&mut self.rng, self.swarm.rot_rehearsals) {
            return Ok(());
        }
        let copy = self.disk.copy();
        copy.set_faults(self.swarm.faults.patient());
        let Some((file, offset)) = copy.rot_now() else { return Ok(()) };
        self.struck.add(FaultKind::RotRehearsed);
        let violation = |what: String| {
            let what = format!("with a bit of {file} flipped at {offset}, {what}");
            Err(Violation::new(Rule::RotIsNoticed, what))
        };
        match E::start(&copy, &self.swarm, false) {
            Ok(mut engine) => match contents(engine.store()) {
                Ok(state) if state.hash() == hash => Ok(()),
                Ok(_) => violation("other rows came back without a refusal".to_string()),
                Err(what) => violation(what),
            },
            Err(Refused { place: Some((named, _)), .. }) if copy.holds(&named) => Ok(()),
            Err(refused) => violation(format!("no place was named: {}", refused.message)),
        }
    }

    /// Judges the recovered rows; returns their hash.
    fn judge<E: Engine>(
        &mut self,
        engine: &mut E,
        rehearsed: Option<u64>,
    ) -> Result<u64, Violation> {
        let state =
            contents(engine.store()).map_err(|what| Violation::new(Rule::SoundStore, what))?;
        let broken = self.has_broken_promises();
        let place = self.history.recovered(&state, broken)?;
        self.trace.event(&[number_of("recovered"), place as u64, state.hash()], || {
            format!("recovered to step {place}")
        });
        sound(&engine.store().check())?;
        let ids = self.ids();
        let outcomes = identified::outcomes(engine.store(), &ids)
            .map_err(|what| Violation::new(Rule::SoundStore, what))?;
        self.judge_outcomes(&ids, &outcomes)?;
        match rehearsed {
            Some(hash) if hash != state.hash() && !broken => {
                let what = format!("recovery of a copy of the disk did not stop at step {place}");
                Err(Violation::new(Rule::RecoveryRepeats, what))
            }
            _ => Ok(state.hash()),
        }
    }

    /// Judges a refusal; returns the next step if it is allowed.
    fn judge_refusal(
        &self,
        refused: &Refused,
        before: &FaultCounts,
        accepted_loss: bool,
    ) -> Result<Next, Violation> {
        let Refused { message, is_failed_call, place } = refused;
        self.trace
            .event(&[number_of("refused"), number_of(message)], || format!("refused: {message}"));
        // A failed call excuses only a message that reports it.
        if *is_failed_call && self.disk.counts().has_failed_since(before) {
            return Ok(Next::TryAgain);
        }
        if !self.has_broken_promises() {
            return Err(Violation::new(Rule::JustRefusal, format!("without cause: {message}")));
        }
        if place.is_none() {
            return Err(Violation::new(Rule::JustRefusal, format!("names no place: {message}")));
        }
        // A database that accepting loss cannot repair is given up.
        Ok(if accepted_loss { Next::GiveUp } else { Next::AcceptLoss })
    }
}

impl std::fmt::Display for SeedResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.violation {
            Some(violation) => write!(f, "seed {}: {violation}", self.seed),
            None => write!(f, "seed {}: ok, trace {:016x}", self.seed, self.hash),
        }
    }
}
