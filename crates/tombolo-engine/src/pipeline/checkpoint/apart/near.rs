//! `Near`: the checkpoint stage of a database whose image another process writes. It speaks to that
//! process, and starts it again when it has ended.
//!
//! ```text
//!            started                Hello               Welcome sent
//!   absent ──────────► [greeting] ─────────► [greeted] ─────────────► talking ──► over
//!     ▲                     │                    │                       │   Close sent,
//!     │   after a while     │                    │ held: waits           │   it says so
//!     └─────────────────────┴────────────────────┴───────────────────────┘
//!       it has ended, the link has, it does not answer, or it cannot
//! ```
//!
//! Before *talking* nothing is kept but where the log ends: the process reads what it is not sent. An arriving
//! message does not wake this stage. So it looks every few milliseconds while something is to come, else a few
//! times a second. Not here: what the process does (`far.rs`).
//!
//! Invariants: what is sent is in the order of the log; a demand is sent behind what was durable when
//! it was made; a process that is given up is gone before another one is started.

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::value_log::LogPosition;

use super::super::super::log::Records;
use super::super::super::shared::Shared;
use super::super::super::statistics::add;
use super::super::super::{Stage, StageKind, Step};
use super::super::arrivals::Arrivals;
use super::super::course::Course;
use super::protocol::{FromProcess, NO_MESSAGE, Report, ToProcess, VERSION, Welcome, records_head};
use super::signs::Signs;
use crate::link::{Link, LinkEnd, MESSAGE_BYTES_MAX};
use crate::processes::{Companion, Process, StartCompanion};

/// How soon it looks again when the link has no room.
const STUCK_NS: u64 = 300_000;
/// When something is to come.
const BUSY_NS: u64 = 2_000_000;
/// When nothing is, but perhaps the process's end.
const REST_NS: u64 = 50_000_000;
/// How long it waits before it starts another process, at first and at most: twice as long each time,
/// until a checkpoint is complete.
const DELAY_NS: u64 = 100_000_000;
const DELAY_NS_MAX: u64 = 5_000_000_000;
/// Processes that are started when the first one of a close has ended, before it is given up.
const STARTS_AT_CLOSE: u32 = 3;
/// How long a process may take to end that has said that it does.
const END_NS: u64 = 5_000_000_000;

/// What the stage is made of.
pub(super) struct Parts<A, B> {
    pub(super) start: Box<dyn StartCompanion>,
    /// But for connection and position.
    pub(super) welcome: Welcome,
    /// Where the log ends.
    pub(super) position: Option<LogPosition>,
    /// What was taken and is not sent.
    pub(super) arrivals: Arrivals<B>,
    pub(super) course: Arc<Course>,
    pub(super) shared: Arc<Shared<A>>,
}

/// See the module's head.
pub(super) struct Near<A, B> {
    parts: Parts<A, B>,
    talk: Option<Talk>,
    /// Processes started, and times checkpoints were held off, so far.
    connections: u64,
    holds: u64,
    not_before_ns: u64,
    delay_ns: u64,
    starts_at_close: u32,
}

/// A process, and what was said.
struct Talk {
    link: Box<dyn Link>,
    process: Box<dyn Process>,
    is_greeted: bool,
    /// It was sent the log's end, and everything since.
    is_welcome: bool,
    told: Told,
    heard: Report,
    signs: Signs,
    /// It has ended by itself by then.
    ends_until_ns: Option<u64>,
}

/// What was last sent to a process.
#[derive(Default)]
struct Told {
    asked: u64,
    is_short: bool,
    /// Which hold, 0 for none.
    hold: u64,
    /// Which look.
    look: u64,
    is_closed: bool,
}

impl Talk {
    fn say(&mut self, message: &ToProcess<'_>) -> Result<bool, LinkEnd> {
        self.link.send(&[&message.encode()])
    }

    /// Why it is gone, when the link has ended.
    fn ended(&mut self, end: &LinkEnd) -> String {
        self.process.kill();
        match (self.process.ended(), end) {
            (Some(how), LinkEnd::Gone) => how,
            _ => end.to_string(),
        }
    }
}

impl<A, B: Records> Near<A, B> {
    pub(super) fn new(parts: Parts<A, B>) -> Self {
        Self {
            parts,
            talk: None,
            connections: 0,
            holds: 0,
            not_before_ns: 0,
            delay_ns: DELAY_NS,
            starts_at_close: STARTS_AT_CLOSE,
        }
    }

    /// Takes what was handed over, when all before was sent.
    fn take(&mut self, now_ns: u64) {
        let was_closed = self.parts.arrivals.is_closed;
        self.parts.arrivals.take();
        if self.parts.arrivals.is_closed && !was_closed {
            // The closing thread waits.
            self.not_before_ns = self.not_before_ns.min(now_ns + DELAY_NS);
        }
    }

    /// The first of what was taken is dealt with, if there is any.
    fn passed(&mut self) -> bool {
        let passed = self.parts.arrivals.passed();
        self.parts.position = passed.or(self.parts.position);
        passed.is_some()
    }

    /// Keeps of what was taken only where the log ends.
    fn discard(&mut self) {
        while self.passed() {}
        self.parts.position = self.parts.arrivals.behind.take().or(self.parts.position);
    }

    /// Starts a process, unless it is too early or nothing is left to do.
    fn start(&mut self, now_ns: u64) -> Result<Step, String> {
        self.discard();
        if self.parts.arrivals.is_closed && !self.parts.welcome.policy.at_close {
            return Ok(self.end());
        }
        if now_ns < self.not_before_ns {
            return Ok(Step::IdleUntil(Some(self.not_before_ns)));
        }
        if self.parts.course.is_held() {
            return Ok(Step::IdleUntil(None)); // letting go wakes
        }
        let Companion { link, process } = self.parts.start.start()?;
        self.parts.course.has_process();
        self.connections += 1;
        self.talk = Some(Talk {
            link,
            process,
            is_greeted: false,
            is_welcome: false,
            told: Told::default(),
            heard: Report { connection: self.connections, ..Report::default() },
            signs: Signs::new(now_ns),
            ends_until_ns: None,
        });
        Ok(Step::Progress)
    }

    /// Receives what the process says; returns whether it said anything.
    fn listen(&mut self, talk: &mut Talk, now_ns: u64) -> Result<bool, String> {
        let mut has_heard = false;
        loop {
            let said = match talk.link.receive() {
                Ok(None) => return Ok(has_heard),
                Ok(Some(bytes)) => FromProcess::decode(bytes).ok_or(NO_MESSAGE)?,
                // It said that it ends, and did.
                Err(LinkEnd::Gone) if talk.heard.is_over => return Ok(has_heard),
                Err(end) => return Err(talk.ended(&end)),
            };
            has_heard = true;
            match said {
                FromProcess::Hello { version: VERSION } => {
                    talk.is_greeted = true;
                    talk.signs.greeted();
                }
                FromProcess::Hello { .. } => {
                    return Err("the program was replaced by another version while this process \
                                runs: restart it"
                        .to_owned());
                }
                FromProcess::Refused(why) => return Err(why),
                FromProcess::Opening => talk.signs.opens(now_ns),
                FromProcess::Report(report) => {
                    talk.signs.reported(report.seen, now_ns);
                    self.hear(talk, report)?;
                }
            }
        }
    }

    fn hear(&mut self, talk: &mut Talk, report: Report) -> Result<(), String> {
        if report.connection != talk.heard.connection || !talk.is_welcome {
            return Err("a process spoke that was not asked".to_owned());
        }
        let busy_ns = report.counted.busy_ns.saturating_sub(talk.heard.counted.busy_ns);
        add(&self.parts.shared.counters.busy_ns[4], busy_ns);
        if report.counted.count > talk.heard.counted.count {
            self.delay_ns = DELAY_NS;
        }
        let mut report = report;
        if plant::is(Plant::ApartReleasedEarly) && report.is_writing {
            report.needed_from = self.parts.position.map_or(0, |position| position.group);
        }
        self.parts.course.is_back();
        let is_held = talk.told.hold != 0 && report.held == talk.told.hold;
        self.parts.course.take(&talk.heard, &report, is_held);
        talk.heard = report;
        Ok(())
    }

    /// Says what is to be said; whether the link took all of it.
    fn tell(&mut self, talk: &mut Talk, now_ns: u64) -> Result<bool, LinkEnd> {
        if !talk.is_welcome {
            self.discard();
            let Some(position) = self.parts.position.filter(|_| talk.is_greeted) else {
                return talk.link.flush();
            };
            // It loads the image, and may write to it from then on.
            if !self.parts.course.lets_process_write() {
                return Ok(true);
            }
            let connection = talk.heard.connection;
            let welcome = Welcome { connection, position, ..self.parts.welcome };
            talk.is_welcome = talk.say(&ToProcess::Welcome(welcome))?;
            if talk.is_welcome {
                talk.signs.opens(now_ns);
            }
            return Ok(talk.is_welcome);
        }
        let look = talk.signs.look(now_ns);
        if look != talk.told.look {
            if !talk.say(&ToProcess::Look(look))? {
                return Ok(false);
            }
            talk.told.look = look;
        }
        let (is_short, is_held) = (self.parts.course.log_is_short(), self.parts.course.is_held());
        if is_short != talk.told.is_short {
            if !talk.say(&ToProcess::IsShort(is_short))? {
                return Ok(false);
            }
            talk.told.is_short = is_short;
        }
        let was_held = talk.told.hold != 0;
        if is_held != was_held && (is_held || self.parts.course.lets_process_write()) {
            let hold = if is_held { self.holds + 1 } else { 0 };
            if !talk.say(&ToProcess::Hold(hold))? {
                return Ok(false);
            }
            self.holds = self.holds.max(hold);
            talk.told.hold = hold;
        }
        if !self.send_records(talk)? {
            return Ok(false);
        }
        let is_asked =
            self.parts.arrivals.asked > talk.told.asked.max(self.parts.course.answered());
        if is_asked && !talk.say(&ToProcess::Demand(self.parts.arrivals.asked))? {
            return Ok(false);
        }
        talk.told.asked = self.parts.arrivals.asked;
        if self.parts.arrivals.is_closed && !talk.told.is_closed {
            talk.told.is_closed = talk.say(&ToProcess::Close)?;
        }
        talk.link.flush()
    }

    /// Sends what was taken; whether the link took all of it.
    fn send_records(&mut self, talk: &mut Talk) -> Result<bool, LinkEnd> {
        while let Some(installment) = self.parts.arrivals.front() {
            let head = records_head(installment.position);
            let message: Vec<&[u8]> =
                std::iter::once(&head[..]).chain(installment.parts()).collect();
            let bytes: usize = message.iter().map(|part| part.len()).sum();
            let is_sent = match bytes <= MESSAGE_BYTES_MAX {
                true => talk.link.send(&message)?,
                false => talk.say(&ToProcess::Position(installment.position))?,
            };
            if !is_sent {
                return Ok(false);
            }
            self.passed();
        }
        if let Some(position) = self.parts.arrivals.behind {
            if !talk.say(&ToProcess::Position(position))? {
                return Ok(false);
            }
            (self.parts.arrivals.behind, self.parts.position) = (None, Some(position));
        }
        Ok(true)
    }

    /// Receives and sends.
    fn converse(&mut self, mut talk: Talk, now_ns: u64) -> Result<Step, String> {
        let has_heard = self.listen(&mut talk, now_ns)?;
        if let Some(silent_s) = talk.signs.silent_s(now_ns) {
            talk.process.kill();
            return Err(format!("it has not answered for {silent_s} s, so it was ended"));
        }
        if talk.heard.is_over && talk.told.is_closed {
            return Ok(self.see_off(talk, now_ns));
        }
        let had_news = !self.parts.arrivals.is_caught_up();
        let is_through = match self.tell(&mut talk, now_ns) {
            Ok(is_through) => is_through,
            // It may have said why before it ended.
            Err(end) => match self.listen(&mut talk, now_ns) {
                Ok(_) if talk.heard.is_over && talk.told.is_closed => true,
                Ok(_) => return Err(talk.ended(&end)),
                Err(why) => return Err(why),
            },
        };
        let waits = !talk.is_welcome
            || talk.heard.is_writing
            || talk.told.is_closed
            || talk.told.hold != talk.heard.held
            || talk.told.asked > self.parts.course.answered();
        let is_late = talk.signs.is_late(now_ns);
        self.talk = Some(talk);
        Ok(match (is_through, waits) {
            _ if has_heard || had_news && self.parts.arrivals.is_caught_up() => Step::Progress,
            _ if is_late => Step::IdleUntil(Some(now_ns + REST_NS)),
            (false, _) => Step::IdleUntil(Some(now_ns + STUCK_NS)),
            (true, true) => Step::IdleUntil(Some(now_ns + BUSY_NS)),
            (true, false) => Step::IdleUntil(Some(now_ns + REST_NS)),
        })
    }

    /// It has said that it ends: waits until it has.
    fn see_off(&mut self, mut talk: Talk, now_ns: u64) -> Step {
        let until_ns = *talk.ends_until_ns.get_or_insert(now_ns + END_NS);
        if talk.process.ended().is_none() && now_ns < until_ns {
            self.talk = Some(talk);
            return Step::IdleUntil(Some(now_ns + BUSY_NS));
        }
        talk.process.kill();
        self.end()
    }

    fn end(&self) -> Step {
        self.parts.course.ends();
        Step::Ended
    }

    /// The process is gone, or there is none: another one is started after a while.
    fn lost(&mut self, why: &str, now_ns: u64) -> Step {
        let why = format!(
            "the process that writes checkpoints is not there: {why}; the log grows until another \
             one is started"
        );
        self.parts.course.is_away(&why);
        if self.parts.arrivals.is_closed {
            if self.starts_at_close == 0 {
                self.parts.course.fail(&why);
                return Step::Progress;
            }
            self.starts_at_close -= 1;
            self.delay_ns = DELAY_NS;
        }
        self.not_before_ns = now_ns + self.delay_ns;
        self.delay_ns = (2 * self.delay_ns).min(DELAY_NS_MAX);
        Step::IdleUntil(Some(self.not_before_ns))
    }

    /// Nothing is sent any more; only the end is waited for.
    fn leave(&mut self) -> Step {
        if let Some(mut talk) = self.talk.take() {
            talk.process.kill();
            self.parts.course.no_process_writes();
        }
        self.parts.arrivals.leave()
    }
}

impl<A: Send + 'static, B: Records> Stage for Near<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, now_ns: u64) -> Step {
        if let Some(reason) = self.parts.shared.poison() {
            self.parts.course.fail(reason);
        }
        if self.parts.course.failure().is_some() {
            return self.leave();
        }
        self.take(now_ns);
        let step = match self.talk.take() {
            Some(talk) => self.converse(talk, now_ns),
            None => self.start(now_ns),
        };
        step.unwrap_or_else(|why| self.lost(&why, now_ns))
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, ns: u64) {
        add(&self.parts.shared.counters.busy_ns[4], ns);
    }
}
