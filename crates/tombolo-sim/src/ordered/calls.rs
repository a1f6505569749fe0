//! What callers do: calls of one island, through its queue or on their own threads, and transactions over several
//! islands, which their threads run as the library's do (`islands/reach.rs`); and whether the answers are right.
//!
//! Not here: the order of everything (`life.rs`), what must come back after a crash (`oracle.rs`).

use std::sync::Arc;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::{
    Batch, Carried, Durability, Executor, NotSubmitted, Outcome, Refusal, Reply, Stands, Taken,
    Terms, WhileTaken,
};
use tombolo_engine::transaction::{Stop, begin, finish};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::RowsInPlace;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::LogBuffer;

use super::life::Life;
use super::oracle::Places;
use super::requests::{Cells, Request};
use crate::database::log::TRANSACTION_BYTES_MAX;
use crate::faults::one_in;
use crate::oracle::{Rule, Violation};
use crate::trace::number_of;

/// Why transactions abort that are meant to.
const PLANNED: &str = "as planned";

/// Calls that may be refused for want of room while new segments are made.
const REFUSED_MAX: u64 = 200;

/// A transaction ran, with this answer.
#[derive(Debug)]
pub(super) struct Happened {
    request: Request,
    answer: Result<u64, Stop>,
}

/// What ran on any island, in order, and was not judged yet.
pub(super) type Journal = Arc<Mutex<Vec<Happened>>>;

/// A transaction of one island.
pub(super) type Asked = Request;

/// A call of one island that was taken in: how it ended, once it ran.
#[derive(Debug)]
pub(super) struct Called {
    durability: Durability,
    ran: Option<(Option<u64>, Places)>,
}

/// A transaction that its thread ran, and whose answer waits until logs are durable up to these positions.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) positions: Vec<(usize, u64)>,
    places: Places,
}

/// Runs transactions on an island.
pub(super) struct Runner {
    pub(super) store: MemoryStore<MemoryLogged>,
    pub(super) cells: Cells,
    pub(super) journal: Journal,
}

impl Runner {
    /// Runs a transaction of this island.
    fn run(&mut self, request: &Request) -> Result<u64, Stop> {
        let Self { store, cells, journal } = self;
        let [(_, operations)] = &request.parts[..] else { unreachable!("it is of one island") };
        begin(store)?;
        let ran = cells.run(store, request.number, operations, 0);
        let aborts = if request.aborts { Err(Stop::Abort(PLANNED)) } else { Ok(()) };
        let ended = finish(store, ran.and(aborts));
        let answer = ended.and(ran);
        journal.lock().push(Happened { request: request.clone(), answer });
        answer
    }
}

impl Executor for Runner {
    type Request = Asked;
    type Answer = u64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Asked, u64>) {
        while let Some(asked) = batch.request() {
            let asked = asked.clone();
            let answer = self.run(&asked);
            batch.answer(answer, self.store.log_bytes());
        }
    }

    fn log_bytes_max(&self, _: &Asked) -> u64 {
        TRANSACTION_BYTES_MAX
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.store.rows_in_place()
    }
}

impl Life {
    /// A caller calls, or runs a transaction.
    pub(super) fn call(&mut self) {
        if self.waiting.len() >= self.settings.open_max {
            return;
        }
        self.number += 1;
        let request = Request::draw(&mut self.requests, &self.settings, self.number);
        let is_well = |island: &usize| !self.islands[*island].is_poisoned;
        if !request.parts.iter().all(|(island, _)| is_well(island)) {
            self.left -= 1;
            return;
        }
        if request.parts.len() > 1 {
            return self.run_over(&request);
        }
        let durability = match self.rng.below(8) {
            0 => Durability::Async,
            1 => Durability::Sync,
            _ => Durability::Group,
        };
        match one_in(&mut self.rng, 2) {
            true => self.carry(request, durability),
            false => self.submit(request, durability),
        }
    }

    fn note(&self, what: &str, number: u64) {
        self.trace.event(&[number_of(what), number], || format!("{what} {number}"));
    }

    /// A call goes through the island's queue.
    fn submit(&mut self, request: Request, durability: Durability) {
        let ((island, _), number) = (&request.parts[0], request.number);
        let island = *island;
        match self.islands[island].caller.try_submit(request, number, durability) {
            Ok(()) => {
                self.note("call", number);
                self.left -= 1;
                self.called.insert(number, Called { durability, ran: None });
                self.news();
            }
            Err(NotSubmitted::Full(_)) => self.note("full", number),
            Err(NotSubmitted::Refused(_, refusal)) => self.refused(island, &refusal),
        }
    }

    /// A caller's thread runs its transaction of one island, if it may.
    fn carry(&mut self, request: Request, durability: Durability) {
        let (island, number) = (request.parts[0].0, request.number);
        let terms = Terms { durability, log_bytes_max: TRANSACTION_BYTES_MAX };
        let run = |runner: &mut Runner| (runner.run(&request), runner.store.log_bytes());
        let stands = match self.islands[island].carrier.run(terms, run) {
            None => return self.note("taken", number),
            Some(Carried::Refused(refusal)) => return self.refused(island, &refusal),
            Some(Carried::Ran { stands, .. }) => stands,
        };
        self.note("carry", number);
        self.left -= 1;
        self.called.insert(number, Called { durability, ran: None });
        self.judge_journal();
        let Some(Called { ran: Some((_, places)), .. }) = self.called.remove(&number) else {
            return self.wrong("it was carried, and did not run", number);
        };
        match stands {
            Stands::From(position) => self.wait(number, vec![(island, position)], places),
            Stands::Durable => self.oracle.answered(&places),
            Stands::PreCommitted if durability == Durability::Async => {}
            Stands::PreCommitted | Stands::Volatile => self.wrong("it was to wait", number),
        }
        self.news();
    }

    /// A thread takes all islands of a transaction, runs it, commits on each and puts its records together. If it does
    /// not get one, nothing ran.
    fn run_over(&mut self, request: &Request) {
        let carriers: Vec<_> = self.islands.iter().map(|island| island.carrier.clone()).collect();
        let terms = Terms { durability: Durability::Group, log_bytes_max: TRANSACTION_BYTES_MAX };
        let mut taken: Vec<(usize, Taken<'_, Runner>)> = Vec::new();
        for (island, _) in &request.parts {
            match carriers[*island].take(terms, WhileTaken::Leave) {
                Some(Ok(own)) => taken.push((*island, own)),
                None => {
                    self.note("taken", request.number);
                    return drop(taken);
                }
                Some(Err(refusal)) => {
                    drop(taken);
                    return self.refused(*island, &refusal);
                }
            }
        }
        self.left -= 1;
        self.note("over", request.number);
        let answer = self.execute_over(request, &mut taken);
        let is_put = match answer {
            Ok(true) => {
                let mut all: Vec<_> =
                    taken.iter_mut().map(|(island, own)| (*island, own)).collect();
                let log_bytes = |runner: &mut Runner| runner.store.log_bytes();
                Taken::put_together(&self.order, &mut all, log_bytes)
            }
            Ok(false) => Ok(()),
            Err(stop) => return self.wrong(&format!("it failed: {stop:?}"), request.number),
        };
        let mut positions = Vec::new();
        let mut failed = is_put.err().map(|refusal| (request.parts[0].0, refusal));
        while let Some((island, mut own)) = taken.pop() {
            let log_bytes = own.log_bytes(|runner| runner.store.log_bytes());
            match own.end(log_bytes) {
                Ok(Stands::From(position)) => positions.push((island, position)),
                Ok(_) => {}
                Err(refusal) => failed = Some((island, refusal)),
            }
        }
        self.judge_journal();
        let Some(Called { ran: Some((_, places)), .. }) = self.called.remove(&request.number)
        else {
            return self.wrong("it ran, and is not in the journal", request.number);
        };
        match failed {
            Some((island, refusal)) => self.refused(island, &refusal),
            None => self.wait(request.number, positions, places),
        }
        self.news();
    }

    /// Runs a transaction on islands that are taken, and ends it on each. Returns whether it is an ordered one that has
    /// written.
    fn execute_over(
        &mut self,
        request: &Request,
        taken: &mut [(usize, Taken<'_, Runner>)],
    ) -> Result<bool, Stop> {
        let mut so_far = 0;
        for ((_, operations), (_, own)) in request.parts.iter().zip(&mut *taken) {
            let Runner { store, cells, .. } = own.executor();
            begin(store)?;
            so_far = cells.run(store, request.number, operations, so_far)?;
        }
        let has_written = taken.iter_mut().any(|(_, own)| own.executor().store.has_logged());
        let is_ordered = has_written && !request.aborts;
        if is_ordered {
            self.last_ordered += 1;
            let islands: Vec<_> =
                request.parts.iter().map(|(island, _)| IslandId(*island as u16)).collect();
            for (island, own) in &mut *taken {
                let rows = &self.islands[*island].rows;
                let store = &mut own.executor().store;
                rows.note(store, islands.iter().copied(), self.last_ordered)?;
            }
        }
        for (_, own) in taken.iter_mut().rev() {
            let aborts = if request.aborts { Err(Stop::Abort(PLANNED)) } else { Ok(()) };
            let ended = finish(&mut own.executor().store, aborts);
            if ended.is_ok() == request.aborts {
                return Err(Stop::Abort("it did not end as it should"));
            }
        }
        let answer = if request.aborts { Err(Stop::Abort(PLANNED)) } else { Ok(so_far) };
        self.called.insert(request.number, Called { durability: Durability::Group, ran: None });
        self.journal.lock().push(Happened { request: request.clone(), answer });
        Ok(is_ordered)
    }

    /// A thread waits for logs: it works at the first, and has others work at the rest.
    fn wait(&mut self, number: u64, positions: Vec<(usize, u64)>, places: Places) {
        for (island, position) in positions.iter().skip(1) {
            let carrier = &self.islands[*island].carrier;
            if carrier.look(*position).is_none() {
                carrier.ask_for_flush();
            }
        }
        // It works at each in turn: at the next one when the first is durable.
        self.to_work.extend(positions.iter().rev().map(|(island, _)| *island));
        self.waiting.push(Waiting { number, positions, places });
    }

    /// Judges what ran.
    pub(super) fn judge_journal(&mut self) {
        let happened = std::mem::take(&mut *self.journal.lock());
        for Happened { request, answer } in happened {
            let (expected, places) = self.oracle.ran(&request);
            let expected = (!request.aborts).then_some(expected);
            let found = match answer {
                Ok(answer) => Some(answer),
                Err(Stop::Abort(PLANNED)) => None,
                Err(stop) => {
                    self.wrong(&format!("it failed: {stop:?}"), request.number);
                    None
                }
            };
            if found != expected {
                let what = format!("it answered {found:?}, not {expected:?}");
                self.wrong(&what, request.number);
            }
            match self.called.get_mut(&request.number) {
                Some(called) => called.ran = Some((expected, places)),
                None => self.wrong("it ran, and was not called", request.number),
            }
        }
    }

    /// Judges what was answered.
    pub(super) fn take_replies(&mut self) {
        let mut replies = Vec::new();
        for island in 0..self.islands.len() {
            let mut own = Vec::new();
            self.islands[island].caller.take(&mut own);
            replies.extend(own.into_iter().map(|(number, reply)| (island, number, reply)));
        }
        for (island, number, reply) in replies {
            self.judge_reply(island, number, reply);
            self.news();
        }
        for Waiting { number, positions, places } in std::mem::take(&mut self.waiting) {
            let look = |(island, position): &(usize, u64)| {
                self.islands[*island].carrier.look(*position).map(|looked| (*island, looked))
            };
            let looked: Vec<_> = positions.iter().map(look).collect();
            if let Some((island, Err(refusal))) =
                looked.iter().flatten().find(|(_, looked)| looked.is_err())
            {
                self.refused(*island, refusal);
            } else if looked.iter().all(Option::is_some) {
                self.note("answered", number);
                self.oracle.answered(&places);
            } else {
                self.waiting.push(Waiting { number, positions, places });
                continue;
            }
            self.news();
        }
    }

    fn judge_reply(&mut self, island: usize, number: u64, reply: Reply<u64>) {
        let text = format!("{reply:?}");
        self.trace.event(&[number_of(&text), number], || format!("reply {number}: {text}"));
        let Some(Called { durability, ran }) = self.called.remove(&number) else {
            return self.wrong("it was answered twice", number);
        };
        let (outcome, is_durable) = match reply {
            Reply::Durable(outcome) => (outcome, true),
            Reply::PreCommitted(outcome) if durability == Durability::Async => (outcome, false),
            Reply::PreCommitted(_) | Reply::Volatile(_) => {
                return self.wrong("it was to wait", number);
            }
            Reply::Refused(refusal) => return self.refused(island, &refusal),
        };
        let Some((expected, places)) = ran else {
            return self.wrong("it was answered, and did not run", number);
        };
        if answer_of(&outcome) != expected {
            return self.wrong(&format!("it was answered {text}"), number);
        }
        if is_durable {
            self.oracle.answered(&places);
        }
    }

    /// Something was refused because an island's log has failed, or has no room yet.
    fn refused(&mut self, island: usize, refusal: &Refusal) {
        match refusal {
            Refusal::Unknown(_) | Refusal::Poisoned(_) => self.islands[island].is_poisoned = true,
            Refusal::LogFull if self.refused < REFUSED_MAX => self.refused += 1,
            refusal => self.wrong(&format!("island {island} refused it: {refusal}"), self.number),
        }
    }

    /// Notes the first thing that is wrong.
    fn wrong(&mut self, what: &str, number: u64) {
        let what = format!("transaction {number}: {what}");
        self.wrong.get_or_insert(Violation::new(Rule::RightAnswer, what));
    }
}

fn answer_of(outcome: &Outcome<u64>) -> Option<u64> {
    outcome.as_ref().ok().copied()
}
