//! One seed: islands on one machine, which live, crash at any step, come back and go on.
//!
//! ```text
//!   start: recover each ─► cut off ─► judge ─► count openings ─► live ──crash, failure or end──► restart ─► start …
//!            └──── crash or failed call ──► restart, again ◄──┘
//! ```
//!
//! Not here: how islands are opened (`opening.rs`), how they live (`life.rs`), what must hold (`oracle.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::rng::Rng;

use super::life::{Lent, Life, Shared};
use super::opening::{Open, Place, contents, open_all};
use super::oracle::Oracle;
use super::settings::Settings;
use crate::clock::SimClock;
use crate::database::Refused;
use crate::faults::{FaultCounts, FaultKind, FaultyDisk, one_in};
use crate::oracle::{Rule, Violation};
use crate::trace::{Trace, number_of};
use crate::world::SeedResult;

/// Starts of one life after which a world that always fails is called stuck.
const STARTS_MAX: u32 = 64;
/// Lives after which nothing strikes any more.
const HARD_LIVES_MAX: u64 = 8;
/// Lives after which a world that gets nothing done is called stuck.
const LIVES_MAX: u64 = 40;
/// I/O steps of one recovery after which it may crash; one island needs some ten.
const RECOVERY_STEPS: u64 = 20;

/// See the file's head.
pub(super) struct World {
    disk: FaultyDisk,
    /// What a life needs; absent while one lives.
    lent: Option<Lent>,
    rng: Rng,
    changes: Rng,
    lives: u64,
    struck: FaultCounts,
}

impl World {
    pub(super) fn new(seed: u64, with_text: bool) -> Self {
        let stream = |name: &str| Rng::stream(seed, &[number_of("ordered"), number_of(name)]);
        let settings = Settings::draw(&mut stream("settings"));
        let (clock, trace) = (SimClock::new(), Trace::new(with_text));
        trace.event(&[seed], || format!("seed {seed}: {settings:?}"));
        let disk = FaultyDisk::new(seed, settings.database.faults, clock.clone(), trace.clone());
        let (oracle, rng, requests) =
            (Oracle::new(settings.islands), stream("life"), stream("requests"));
        let lent = Lent { settings, oracle, clock, trace, rng, requests, number: 0 };
        Self {
            disk,
            lent: Some(lent),
            rng: stream("world"),
            changes: stream("changes"),
            lives: 0,
            struck: FaultCounts::default(),
        }
    }

    pub(super) fn run(mut self, seed: u64) -> SeedResult {
        let trace = self.lent().trace.clone();
        let mut transactions = 0;
        let violation = self.run_lives(&mut transactions).err();
        let mut faults = self.disk.counts();
        faults.merge(&self.struck);
        SeedResult {
            seed,
            violation,
            transactions,
            lives: self.lives,
            given_up: 0,
            is_enough: transactions > 0 && faults.of(FaultKind::Crash) > 0,
            faults,
            coverage: None,
            hash: trace.hash(),
            lines: trace.take_lines(),
        }
    }

    fn lent(&mut self) -> &mut Lent {
        self.lent.as_mut().unwrap_or_else(|| unreachable!("nothing lives"))
    }

    fn run_lives(&mut self, transactions: &mut u64) -> Result<(), Violation> {
        let until = self.lent().settings.database.transactions;
        while *transactions < until || self.struck.of(FaultKind::Crash) == 0 {
            self.lives += 1;
            if self.lives > LIVES_MAX {
                let what = format!("{transactions} transactions in {LIVES_MAX} lives");
                return Err(Violation::new(Rule::Progress, what));
            }
            if self.lives > 1 {
                let mut changes = self.changes.clone();
                self.lent().settings.change(&mut changes);
                self.changes = changes;
            }
            let opened = self.start()?;
            *transactions += self.live(opened)?;
            self.end_life();
        }
        self.disk.crash_after(None);
        self.start().map(drop)
    }

    /// Lets islands live; returns how many transactions were called.
    fn live(&mut self, opened: Vec<Open>) -> Result<u64, Violation> {
        let Some(lent) = self.lent.take() else { unreachable!("nothing lives") };
        let database = &lent.settings.database;
        let is_hard = self.lives <= HARD_LIVES_MAX;
        let crashes = is_hard && !one_in(&mut self.rng, database.lives_without_crash);
        let steps = crashes.then(|| self.rng.below(database.crash_steps_max));
        if !is_hard {
            self.disk.set_faults(database.faults.patient());
        }
        let (life, calls) = (self.lives, 1 + self.rng.below(database.life_transactions_max));
        lent.trace.event(&[number_of("life"), life], || format!("life {life}, crash in {steps:?}"));
        self.disk.crash_after(steps);
        let life = Life::begin(opened, lent, calls);
        let life = life.map_err(|why| Violation::new(Rule::JustRefusal, why.message))?;
        let life = Shared::new(life);
        let ran = life.run(&self.disk);
        (0..*ran.as_ref().unwrap_or(&0)).for_each(|_| self.struck.add(FaultKind::Restored));
        let closes = ran.is_ok() && !self.disk.has_crashed() && !life.is_poisoned();
        let closes = closes && one_in(&mut self.rng, 2);
        let lent = match closes {
            true => life.close(&self.disk)?,
            false => life.into_life().into_lent(),
        };
        self.lent = Some(lent);
        ran.map(|_| calls)
    }

    fn end_life(&mut self) {
        let ends = self.lent().settings.database.process_ends;
        let process_ends = one_in(&mut self.rng, ends);
        if process_ends && !self.disk.has_crashed() {
            return self.disk.restart_process();
        }
        self.struck.add(FaultKind::Crash);
        self.disk.restart();
    }

    /// Starts all islands, through crashes and failures, and judges what came back.
    fn start(&mut self) -> Result<Vec<Open>, Violation> {
        let faults = self.lent().settings.database.faults;
        let nested_max = self.lent().settings.database.nested_crashes_max;
        let nested_max = if self.lives <= HARD_LIVES_MAX { nested_max } else { 0 };
        let mut crashes_left = self.rng.below(nested_max + 1);
        for attempt in 0..STARTS_MAX {
            let steps = RECOVERY_STEPS * self.lent().settings.islands as u64;
            let steps = (crashes_left > 0).then(|| self.rng.below(steps));
            self.disk.crash_after(steps);
            if attempt > 8 {
                self.disk.set_faults(faults.patient());
            }
            let started = self.open();
            if self.disk.has_crashed() {
                self.struck.add(FaultKind::CrashInRecovery);
                crashes_left = crashes_left.saturating_sub(1);
                drop(started);
                self.disk.restart();
                continue;
            }
            self.disk.crash_after(None);
            match started? {
                Ok(opened) => {
                    self.disk.set_faults(faults);
                    return Ok(opened);
                }
                Err(refused) if refused.is_failed_call => self.disk.restart_process(),
                Err(refused) => return Err(Violation::new(Rule::JustRefusal, refused.message)),
            }
        }
        Err(Violation::new(Rule::Progress, format!("no start succeeded in {STARTS_MAX} attempts")))
    }

    /// Opens all islands, judges them, and makes them ready: from then on what came back stays.
    fn open(&mut self) -> Result<Result<Vec<Open>, Refused>, Violation> {
        let Some(lent) = &mut self.lent else { unreachable!("nothing lives") };
        let settings = &lent.settings;
        let place = |island: usize| Place::on(&self.disk, settings, island);
        let places: Vec<Place> = (0..settings.islands).map(place).collect();
        let mut cuts = 0;
        let opened = open_all(&places, settings, &mut cuts);
        (0..cuts).for_each(|_| self.struck.add(FaultKind::LogCutOff));
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(refused) => return Ok(Err(refused)),
        };
        let found = match contents(&mut opened) {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        };
        let found = lent.oracle.judge(&found)?;
        lent.trace.event(&[number_of("recovered"), cuts], || {
            format!("recovered at {found:?}, {cuts} groups cut off")
        });
        for (island, opened) in opened.iter_mut().enumerate() {
            let me = (island, settings.islands);
            if let Err(refused) = opened.make_ready(&places[island], me, lent.clock.unix_us()) {
                return Ok(Err(refused));
            }
        }
        lent.oracle.settle(&found);
        Ok(Ok(opened))
    }
}
