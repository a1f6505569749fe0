//! One life of islands: callers call, stages of all islands are stepped in any order, time passes, until the machine
//! stops or all are closed.
//!
//! While a stage of one island waits for the disk those of others work, and callers call: a log may close a group,
//! flush it or wait for others at any moment of another's flush. Not here: what callers do (`calls.rs`), what is
//! judged (`oracle.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::ordered::OrderedRows;
use tombolo_engine::pipeline::{
    Archiving, Builder, Caller, Carrier, CommonOrder, InCommon, Pipeline, Stage, StageKind, Step,
    ValueLogGroups,
};
use tombolo_engine::rng::Rng;
use tombolo_storage::store::Store;

use super::calls::{Asked, Called, Journal, Runner, Waiting};
use super::opening::Open;
use super::oracle::Oracle;
use super::requests::Cells;
use super::settings::Settings;
use crate::clock::{self, Meanwhile, SimClock};
use crate::database::{OpenLog, Refused, archive};
use crate::faults::{FaultyDisk, one_in};
use crate::oracle::{Rule, Violation, sound};
use crate::pipeline_engine::options::options;
use crate::pipeline_engine::stages::{Stages, never_waits};
use crate::trace::Trace;

/// How often all stages are stepped again before they are called idle.
const LOOKS: u32 = 2;
/// How much time passes where no stage has a time at which it looks again.
const IDLE_NS: u64 = 1_000_000;
/// The longest time in which nothing is answered though something is under way.
const SILENCE_NS_MAX: u64 = 4_000_000_000;
/// Steps in which nothing is answered though something is under way, where time hardly passes: an archive that looks
/// every nanosecond lets little time pass.
const SILENT_STEPS_MAX: u64 = 20_000;
/// Steps in which islands end that were shut.
const END_STEPS_MAX: usize = 400_000;
/// Steps after an island's log has failed.
const STEPS_BEYOND: u32 = 60;

/// An island while it runs.
pub(super) struct Island {
    pub(super) pipeline: Pipeline<Runner>,
    pub(super) carrier: Carrier<Runner>,
    pub(super) caller: Caller<Asked, u64>,
    pub(super) rows: OrderedRows,
    /// Whether its log has failed.
    pub(super) is_poisoned: bool,
}

/// What a life is made of. It is borrowed between steps of stages, never during one.
pub(super) struct Life {
    pub(super) islands: Vec<Island>,
    pub(super) order: Arc<CommonOrder>,
    /// The number of the last ordered transaction.
    pub(super) last_ordered: u64,
    stages: Stages,
    /// Of each stage, its island.
    island_of: Vec<usize>,
    pub(super) journal: Journal,
    pub(super) oracle: Oracle,
    pub(super) settings: Settings,
    pub(super) clock: SimClock,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    pub(super) requests: Rng,
    /// The number of the last transaction.
    pub(super) number: u64,
    /// Transactions that are still to be called.
    pub(super) left: u64,
    /// Calls of one island that were not answered, by number.
    pub(super) called: BTreeMap<u64, Called>,
    /// Transactions that their threads ran and that wait for logs.
    pub(super) waiting: Vec<Waiting>,
    /// Logs that threads have to work at before they sleep.
    pub(super) to_work: Vec<usize>,
    /// What was found to be wrong while a stage was stepped.
    pub(super) wrong: Option<Violation>,
    /// Calls that were refused for want of room.
    pub(super) refused: u64,
    pub(super) news_ns: u64,
    silent_steps: u64,
    looks: u32,
}

/// What the world lends a life, and gets back.
pub(super) struct Lent {
    pub(super) settings: Settings,
    pub(super) oracle: Oracle,
    pub(super) clock: SimClock,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    pub(super) requests: Rng,
    pub(super) number: u64,
}

impl Life {
    pub(super) fn begin(opened: Vec<Open>, lent: Lent, left: u64) -> Result<Self, Refused> {
        let Lent { settings, oracle, clock, trace, mut rng, requests, number } = lent;
        let order = Arc::new(CommonOrder::new(settings.islands));
        let journal: Journal = Arc::default();
        let (mut islands, mut stages, mut island_of) = (Vec::new(), Vec::new(), Vec::new());
        let mut last_ordered = 0;
        for (me, Open { log, mut store, .. }) in opened.into_iter().enumerate() {
            let unsound = |error: String| Refused::unsound(error);
            let cells = Cells::of(store.schema()).map_err(|error| unsound(error.to_string()))?;
            let own = (IslandId(me as u16), settings.islands as u16);
            let rows =
                OrderedRows::open(&mut store, own).map_err(|error| unsound(error.to_string()))?;
            let newest = tombolo_engine::islands::ordered::last_ordered(&mut store);
            let newest = newest.map_err(|error| unsound(error.to_string()))?;
            last_ordered = newest.iter().map(|(_, number)| *number).fold(last_ordered, u64::max);
            let OpenLog { writer, checkpointing, archiver, behind_bytes } = log;
            let runner = Runner { store, cells, journal: journal.clone() };
            let mut builder = Builder::new(runner, options(&settings.database))
                .log(Box::new(ValueLogGroups::new(writer)))
                .in_common(InCommon::new(order.clone(), me));
            if let Some(checkpointing) = checkpointing {
                builder = builder.checkpoints(checkpointing, behind_bytes);
            }
            if let Some(archiver) = archiver {
                let time_ns_max = settings.database.archive_time_ns;
                builder = builder.archive(Archiving { archiver, time_ns_max });
            }
            let (pipeline, own) = builder.assemble_signalled(Arc::new(clock.clone()));
            island_of.extend(own.iter().map(|_| me));
            stages.extend(own.into_iter().map(|(stage, signal)| (stage, Some(signal))));
            let carrier = pipeline.carrier();
            let carrier = carrier.ok_or_else(|| unsound("callers do not carry".into()))?;
            let caller = pipeline.caller(settings.open_max);
            islands.push(Island { pipeline, carrier, caller, rows, is_poisoned: false });
        }
        let own = Rng::from_seed(rng.next_u64());
        let stages = Stages::new(stages.into_iter(), (&clock, &trace), own, Box::new(|| ()));
        Ok(Self {
            islands,
            order,
            last_ordered,
            stages,
            island_of,
            journal,
            oracle,
            news_ns: clock.now_ns(),
            settings,
            clock,
            trace,
            rng,
            requests,
            number,
            left,
            called: BTreeMap::new(),
            waiting: Vec::new(),
            to_work: Vec::new(),
            wrong: None,
            refused: 0,
            silent_steps: 0,
            looks: 0,
        })
    }

    /// Something changed.
    pub(super) fn news(&mut self) {
        self.news_ns = self.clock.now_ns();
        self.silent_steps = 0;
        self.look();
    }

    /// Stages that nothing wakes may have work.
    fn look(&mut self) {
        self.looks = 0;
        self.stages.wake();
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.islands.iter().any(|island| island.is_poisoned)
    }

    fn is_under_way(&self) -> bool {
        !self.called.is_empty() || !self.waiting.is_empty()
    }

    /// All stages are idle: time jumps to the next moment at which one is not.
    fn pass_time(&mut self) -> Result<(), Violation> {
        if self.looks < LOOKS {
            self.looks += 1;
            self.stages.wake();
            return Ok(());
        }
        if let Some(next_ns) = self.stages.next_ns() {
            self.clock.advance_to(next_ns);
            return Ok(());
        }
        if self.is_under_way() && self.left == 0 && !self.is_poisoned() {
            return Err(Violation::new(
                Rule::Progress,
                format!("{}, and no stage has work", self.under_way()),
            ));
        }
        if !self.is_poisoned() {
            self.stages.wake();
        }
        self.clock.advance(IDLE_NS);
        Ok(())
    }

    fn under_way(&self) -> String {
        let called: Vec<u64> = self.called.keys().copied().collect();
        let waiting: Vec<_> =
            self.waiting.iter().map(|waiting| (waiting.number, &waiting.positions)).collect();
        format!("the calls {called:?} and the transactions {waiting:?} wait")
    }

    /// What is wrong by now.
    fn judge(&mut self) -> Result<(), Violation> {
        self.judge_journal();
        self.take_replies();
        self.silent_steps += 1;
        let is_silent = self.is_under_way() && self.clock.now_ns() > self.news_ns + SILENCE_NS_MAX
            || self.silent_steps > SILENT_STEPS_MAX;
        if is_silent {
            let what = format!(
                "{}, {} are to be called, and nothing happens",
                self.under_way(),
                self.left
            );
            return Err(Violation::new(Rule::Progress, what));
        }
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// An island is asked, sometimes, to write a checkpoint or to archive its log.
    fn ask(&mut self) {
        let Settings { islands, database, .. } = &self.settings;
        let (checkpoints, archives) = (database.has_checkpoints, archive::is_on(database));
        let island = self.rng.below(*islands as u64) as usize;
        if checkpoints && one_in(&mut self.rng, 100) {
            drop(self.islands[island].pipeline.checkpoint());
            self.look();
        }
        if archives && one_in(&mut self.rng, 50) {
            drop(self.islands[island].pipeline.archive());
            self.look();
        }
    }

    /// Whether a backup may be made: no island writes a checkpoint, which would be waited for.
    fn may_back_up(&self) -> bool {
        let is_quiet = |island: &Island| {
            island.pipeline.poison().is_none() && !island.pipeline.is_writing_checkpoint()
        };
        self.islands.iter().all(is_quiet)
    }

    fn back_up(&mut self, disk: &FaultyDisk) -> Result<(), Violation> {
        self.judge()?;
        let flushed = self.islands.iter().map(|island| island.pipeline.flushed_group());
        let flushed: Vec<_> = flushed.collect();
        super::backups::rehearse(disk, &self.settings, &flushed, &self.oracle)
    }
}

/// A life that stages and callers share on one thread.
#[derive(Clone)]
pub(super) struct Shared(Rc<RefCell<Life>>);

impl Shared {
    pub(super) fn new(life: Life) -> Self {
        Self(Rc::new(RefCell::new(life)))
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.0.borrow().is_poisoned()
    }

    /// Ends it.
    pub(super) fn into_life(self) -> Life {
        let life = Rc::try_unwrap(self.0).unwrap_or_else(|_| unreachable!("no stage is stepped"));
        life.into_inner()
    }

    /// Runs until enough was called and answered, the machine stopped, or a log failed. Returns how many backups were
    /// made.
    pub(super) fn run(&self, disk: &FaultyDisk) -> Result<u64, Violation> {
        let (mut beyond, mut backups) = (STEPS_BEYOND, 0);
        loop {
            let mut life = self.0.borrow_mut();
            let is_done = life.left == 0 && !life.is_under_way();
            if disk.has_crashed() || is_done {
                life.judge()?;
                return Ok(backups);
            }
            if life.is_poisoned() {
                beyond -= 1;
                if beyond == 0 {
                    return Ok(backups);
                }
            }
            let rate = life.settings.backups;
            if one_in(&mut life.rng, rate) && life.may_back_up() {
                life.back_up(disk)?;
                backups += 1;
            }
            life.ask();
            let calls = life.left > 0 && one_in(&mut life.rng, 3);
            if calls {
                life.call();
            }
            let works = one_in(&mut life.rng, 4);
            drop(life);
            let has_done = calls || (works && self.work()) || self.step() || self.work();
            if !has_done {
                self.0.borrow_mut().pass_time()?;
            }
            self.0.borrow_mut().judge()?;
        }
    }

    /// Shuts all islands, in any order, and looks at what they leave.
    pub(super) fn close(self, disk: &FaultyDisk) -> Result<Lent, Violation> {
        {
            let mut life = self.0.borrow_mut();
            let mut order: Vec<usize> = (0..life.islands.len()).collect();
            life.rng.shuffle(&mut order);
            order.iter().for_each(|island| life.islands[*island].pipeline.shut());
            life.news();
        }
        for _ in 0..END_STEPS_MAX {
            if disk.has_crashed() || self.0.borrow().stages.has_ended() {
                break;
            }
            if !self.work() && !self.step() {
                self.0.borrow_mut().pass_time()?;
            }
            self.0.borrow_mut().judge()?;
        }
        let mut life = self.into_life();
        life.judge()?;
        if disk.has_crashed() {
            return Ok(life.into_lent());
        }
        if !life.stages.has_ended() || (life.is_under_way() && !life.is_poisoned()) {
            let what = format!("islands that were shut do not end: {}", life.under_way());
            return Err(Violation::new(Rule::Progress, what));
        }
        let has_failed = life.islands.iter().any(|island| island.pipeline.poison().is_some());
        for (island, Island { pipeline, carrier, caller, .. }) in life.islands.drain(..).enumerate()
        {
            drop((carrier, caller));
            let Some(mut runner) = pipeline.close().executor else {
                return Err(Violation::new(Rule::Progress, "a closed pipeline kept its executor"));
            };
            sound(&runner.store.check())?;
            let found = runner.cells.contents(&mut runner.store);
            if !has_failed && found.as_ref() != Ok(life.oracle.now(island)) {
                let what = format!("island {island} has {found:?} in the end");
                return Err(Violation::new(Rule::RightAnswer, what));
            }
        }
        Ok(life.into_lent())
    }

    /// Steps one stage that may have work, and others while it waits for the disk; says whether there was one.
    fn step(&self) -> bool {
        let (n, mut stage, now_ns, others) = {
            let mut life = self.0.borrow_mut();
            let life = &mut *life;
            let Some((n, stage)) = life.stages.take_ready(&mut life.rng, |_, _| true) else {
                return false;
            };
            (n, stage, life.clock.now_ns(), self.others(life.island_of[n], false))
        };
        let lent = clock::lend(Box::new(others));
        let step = stage.step(now_ns);
        drop(lent);
        let mut life = self.0.borrow_mut();
        life.stages.put_back(n, stage, step);
        if step != Step::IdleUntil(None) {
            life.looks = 0;
        }
        true
    }

    /// A thread that waits for logs works at one of them, as it does before it sleeps.
    fn work(&self) -> bool {
        let (carrier, others) = {
            let mut life = self.0.borrow_mut();
            let Some(island) = life.to_work.pop() else { return false };
            (life.islands[island].carrier.clone(), self.others(island, true))
        };
        let lent = clock::lend(Box::new(others));
        let has_worked = carrier.work();
        drop(lent);
        if has_worked {
            self.0.borrow_mut().news();
        }
        true
    }

    /// While a stage of an island waits, until then: a caller may call, and a stage is stepped next. What another
    /// stage of this island waits for may be what that one holds.
    fn next_while(
        &self,
        until_ns: u64,
        (island, is_carried): (usize, bool),
    ) -> Option<(usize, Box<dyn Stage>, u64)> {
        let mut life = self.0.borrow_mut();
        if life.clock.now_ns() >= until_ns {
            return None;
        }
        if life.left > 0 && one_in(&mut life.rng, 4) {
            life.call();
        }
        let Life { stages, rng, island_of, clock, .. } = &mut *life;
        let may = |n: usize, kind| {
            never_waits(kind)
                || island_of[n] != island
                || (is_carried && kind == StageKind::Logging)
        };
        let (n, stage) = stages.take_ready(rng, may)?;
        Some((n, stage, clock.now_ns()))
    }

    fn others(&self, island: usize, is_carried: bool) -> Others {
        Others { life: self.clone(), island, is_carried }
    }
}

impl Life {
    pub(super) fn into_lent(self) -> Lent {
        let Self { settings, oracle, clock, trace, rng, requests, number, .. } = self;
        Lent { settings, oracle, clock, trace, rng, requests, number }
    }
}

/// What happens while a stage of an island waits for the disk.
struct Others {
    life: Shared,
    island: usize,
    /// Whether it is a caller's thread that waits.
    is_carried: bool,
}

impl Meanwhile for Others {
    fn run_until(&mut self, until_ns: u64) {
        let Self { life: shared, island, is_carried } = self;
        while let Some((n, mut stage, now_ns)) = shared.next_while(until_ns, (*island, *is_carried))
        {
            let step = stage.step(now_ns);
            shared.0.borrow_mut().stages.put_back(n, stage, step);
        }
    }
}
