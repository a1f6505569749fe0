//! `Client`: the checkpoint stage of a database whose image another process writes. It exchanges messages with that
//! process, and restarts it when it has ended.
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
//! Before *talking* the stage keeps no records, only the log's end: the process reads earlier records from the log. An
//! arriving message does not wake this stage. So it looks every few milliseconds while it expects a message, else a few
//! times a second. Not here: what the process does (`server.rs`).
//!
//! Invariants: records are sent in the order of the log; a demand is sent after all records that were durable when
//! it was made; a process that is given up has ended before another one is started.

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::value_log::LogPosition;

use crate::link::{Link, LinkEnd, MESSAGE_BYTES_MAX};
use crate::pipeline::checkpoint::CheckpointState;
use crate::pipeline::checkpoint::arrivals::Arrivals;
use crate::pipeline::log::Records;
use crate::pipeline::remote_checkpoint::heartbeat::Heartbeat;
use crate::pipeline::remote_checkpoint::processes::{Companion, Process, StartCompanion};
use crate::pipeline::remote_checkpoint::protocol::{
    FromProcess, NO_MESSAGE, Report, ToProcess, VERSION, Welcome, records_head,
};
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::state::{Shared, add};

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
pub(crate) struct Parts<A, B> {
    pub(crate) start: Box<dyn StartCompanion>,
    /// But for connection and position.
    pub(crate) welcome: Welcome,
    /// Where the log ends.
    pub(crate) position: Option<LogPosition>,
    /// What was taken and is not sent.
    pub(crate) arrivals: Arrivals<B>,
    pub(crate) state: Arc<CheckpointState>,
    pub(crate) shared: Arc<Shared<A>>,
}

/// See the module's head.
pub(crate) struct Client<A, B> {
    parts: Parts<A, B>,
    session: Option<Session>,
    /// Processes started, and times checkpoints were held off, so far.
    connections: u64,
    holds: u64,
    not_before_ns: u64,
    delay_ns: u64,
    starts_at_close: u32,
}

/// A process, and what was said.
struct Session {
    link: Box<dyn Link>,
    process: Box<dyn Process>,
    has_greeted: bool,
    /// It was sent the log's end, and everything since.
    is_welcome: bool,
    sent: Sent,
    reported: Report,
    heartbeat: Heartbeat,
    /// It has ended by itself by then.
    ends_until_ns: Option<u64>,
}

/// What was last sent to a process.
#[derive(Default)]
struct Sent {
    asked: u64,
    is_short: bool,
    /// Which hold, 0 for none.
    hold: u64,
    /// Which look.
    look: u64,
    is_closed: bool,
}

impl Session {
    fn send(&mut self, message: &ToProcess<'_>) -> Result<bool, LinkEnd> {
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

impl<A, B: Records> Client<A, B> {
    pub(crate) fn new(parts: Parts<A, B>) -> Self {
        Self {
            parts,
            session: None,
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
        if self.parts.state.is_held() {
            return Ok(Step::IdleUntil(None)); // letting go wakes
        }
        let Companion { link, process } = self.parts.start.start()?;
        add(&self.parts.state.counts.processes, 1);
        self.connections += 1;
        self.session = Some(Session {
            link,
            process,
            has_greeted: false,
            is_welcome: false,
            sent: Sent::default(),
            reported: Report { connection: self.connections, ..Report::default() },
            heartbeat: Heartbeat::new(now_ns),
            ends_until_ns: None,
        });
        Ok(Step::Progress)
    }

    /// Receives what the process says; returns whether it said anything.
    fn receive_all(&mut self, session: &mut Session, now_ns: u64) -> Result<bool, String> {
        let mut has_received = false;
        loop {
            let said = match session.link.receive() {
                Ok(None) => return Ok(has_received),
                Ok(Some(bytes)) => FromProcess::decode(bytes).ok_or(NO_MESSAGE)?,
                // It said that it ends, and did.
                Err(LinkEnd::Gone) if session.reported.is_over => return Ok(has_received),
                Err(end) => return Err(session.ended(&end)),
            };
            has_received = true;
            match said {
                FromProcess::Hello { version: VERSION } => {
                    session.has_greeted = true;
                    session.heartbeat.greeted();
                }
                FromProcess::Hello { .. } => {
                    return Err("the program was replaced by another version while this process \
                                runs: restart it"
                        .to_owned());
                }
                FromProcess::Refused(why) => return Err(why),
                FromProcess::Opening => session.heartbeat.opens(now_ns),
                FromProcess::Report(report) => {
                    session.heartbeat.reported(report.seen, now_ns);
                    self.take_report(session, report)?;
                }
            }
        }
    }

    fn take_report(&mut self, session: &mut Session, report: Report) -> Result<(), String> {
        if report.connection != session.reported.connection || !session.is_welcome {
            return Err("a process spoke that was not asked".to_owned());
        }
        let busy_ns = report.counted.busy_ns.saturating_sub(session.reported.counted.busy_ns);
        add(&self.parts.shared.counters.busy_ns[4], busy_ns);
        if report.counted.count > session.reported.counted.count {
            self.delay_ns = DELAY_NS;
        }
        let mut report = report;
        if plant::is(Plant::ApartReleasedEarly) && report.is_writing {
            report.needed_from = self.parts.position.map_or(0, |position| position.group);
        }
        self.parts.state.clear_interruption();
        let is_held = session.sent.hold != 0 && report.held == session.sent.hold;
        self.parts.state.mirror(&session.reported, &report, is_held);
        session.reported = report;
        Ok(())
    }

    /// Says what is to be said; whether the link took all of it.
    fn send_news(&mut self, session: &mut Session, now_ns: u64) -> Result<bool, LinkEnd> {
        if !session.is_welcome {
            self.discard();
            let Some(position) = self.parts.position.filter(|_| session.has_greeted) else {
                return session.link.flush();
            };
            // It loads the image, and may write to it from then on.
            if !self.parts.state.try_begin() {
                return Ok(true);
            }
            let connection = session.reported.connection;
            let welcome = Welcome { connection, position, ..self.parts.welcome };
            session.is_welcome = session.send(&ToProcess::Welcome(welcome))?;
            if session.is_welcome {
                session.heartbeat.opens(now_ns);
            }
            return Ok(session.is_welcome);
        }
        let look = session.heartbeat.look(now_ns);
        if look != session.sent.look {
            if !session.send(&ToProcess::Look(look))? {
                return Ok(false);
            }
            session.sent.look = look;
        }
        let (is_short, is_held) = (self.parts.state.log_is_short(), self.parts.state.is_held());
        if is_short != session.sent.is_short {
            if !session.send(&ToProcess::IsShort(is_short))? {
                return Ok(false);
            }
            session.sent.is_short = is_short;
        }
        let was_held = session.sent.hold != 0;
        if is_held != was_held && (is_held || self.parts.state.try_begin()) {
            let hold = if is_held { self.holds + 1 } else { 0 };
            if !session.send(&ToProcess::Hold(hold))? {
                return Ok(false);
            }
            self.holds = self.holds.max(hold);
            session.sent.hold = hold;
        }
        if !self.send_records(session)? {
            return Ok(false);
        }
        let is_asked =
            self.parts.arrivals.asked > session.sent.asked.max(self.parts.state.answered());
        if is_asked && !session.send(&ToProcess::Demand(self.parts.arrivals.asked))? {
            return Ok(false);
        }
        session.sent.asked = self.parts.arrivals.asked;
        if self.parts.arrivals.is_closed && !session.sent.is_closed {
            session.sent.is_closed = session.send(&ToProcess::Close)?;
        }
        session.link.flush()
    }

    /// Sends what was taken; whether the link took all of it.
    fn send_records(&mut self, session: &mut Session) -> Result<bool, LinkEnd> {
        while let Some(installment) = self.parts.arrivals.front() {
            let head = records_head(installment.position);
            let message: Vec<&[u8]> =
                std::iter::once(&head[..]).chain(installment.parts()).collect();
            let bytes: usize = message.iter().map(|part| part.len()).sum();
            let is_sent = match bytes <= MESSAGE_BYTES_MAX {
                true => session.link.send(&message)?,
                false => session.send(&ToProcess::Position(installment.position))?,
            };
            if !is_sent {
                return Ok(false);
            }
            self.passed();
        }
        if let Some(position) = self.parts.arrivals.behind {
            if !session.send(&ToProcess::Position(position))? {
                return Ok(false);
            }
            (self.parts.arrivals.behind, self.parts.position) = (None, Some(position));
        }
        Ok(true)
    }

    /// Receives and sends.
    fn exchange(&mut self, mut session: Session, now_ns: u64) -> Result<Step, String> {
        let has_received = self.receive_all(&mut session, now_ns)?;
        if let Some(silent_s) = session.heartbeat.silent_s(now_ns) {
            session.process.kill();
            return Err(format!("it has not answered for {silent_s} s, so it was ended"));
        }
        if session.reported.is_over && session.sent.is_closed {
            return Ok(self.await_end(session, now_ns));
        }
        let had_news = !self.parts.arrivals.is_caught_up();
        let is_through = match self.send_news(&mut session, now_ns) {
            Ok(is_through) => is_through,
            // It may have said why before it ended.
            Err(end) => match self.receive_all(&mut session, now_ns) {
                Ok(_) if session.reported.is_over && session.sent.is_closed => true,
                Ok(_) => return Err(session.ended(&end)),
                Err(why) => return Err(why),
            },
        };
        let waits = !session.is_welcome
            || session.reported.is_writing
            || session.sent.is_closed
            || session.sent.hold != session.reported.held
            || session.sent.asked > self.parts.state.answered();
        let is_late = session.heartbeat.is_late(now_ns);
        self.session = Some(session);
        Ok(match (is_through, waits) {
            _ if has_received || had_news && self.parts.arrivals.is_caught_up() => Step::Progress,
            _ if is_late => Step::IdleUntil(Some(now_ns + REST_NS)),
            (false, _) => Step::IdleUntil(Some(now_ns + STUCK_NS)),
            (true, true) => Step::IdleUntil(Some(now_ns + BUSY_NS)),
            (true, false) => Step::IdleUntil(Some(now_ns + REST_NS)),
        })
    }

    /// It has said that it ends: waits until it has.
    fn await_end(&mut self, mut session: Session, now_ns: u64) -> Step {
        let until_ns = *session.ends_until_ns.get_or_insert(now_ns + END_NS);
        if session.process.ended().is_none() && now_ns < until_ns {
            self.session = Some(session);
            return Step::IdleUntil(Some(now_ns + BUSY_NS));
        }
        session.process.kill();
        self.end()
    }

    fn end(&self) -> Step {
        self.parts.state.end_mirror();
        Step::Ended
    }

    /// The process is gone, or there is none: another one is started after a while.
    fn lost(&mut self, why: &str, now_ns: u64) -> Step {
        let why = format!(
            "the process that writes checkpoints is not there: {why}; the log grows until another \
             one is started"
        );
        self.parts.state.interrupt(&why);
        if self.parts.arrivals.is_closed {
            if self.starts_at_close == 0 {
                self.parts.state.fail(&why);
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
        if let Some(mut session) = self.session.take() {
            session.process.kill();
            self.parts.state.rest();
        }
        self.parts.arrivals.leave()
    }
}

impl<A: Send + 'static, B: Records> Stage for Client<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, now_ns: u64) -> Step {
        if let Some(reason) = self.parts.shared.poison() {
            self.parts.state.fail(reason);
        }
        if self.parts.state.failure().is_some() {
            return self.leave();
        }
        self.take(now_ns);
        let step = match self.session.take() {
            Some(session) => self.exchange(session, now_ns),
            None => self.start(now_ns),
        };
        step.unwrap_or_else(|why| self.lost(&why, now_ns))
    }

    fn worked(&self, ns: u64) {
        add(&self.parts.shared.counters.busy_ns[4], ns);
    }
}
