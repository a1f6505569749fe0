//! One seed's islands: their machines, stores and links, and the events of simulated time.
//!
//! Every event is an entry of one calendar. An island carries out its actions one by one, so that a crash can occur
//! between any two. Faults strike until a certain time; then all transactions must end. Not here: the frequencies of
//! faults (`swarm.rs`), the rules (`oracle.rs`).

use std::collections::BTreeMap;

use tombolo_engine::islands::commit::{
    Action, Age, Answer, Deadline, Event, IslandId, Machine, Message, Reason, Work, peek,
};
use tombolo_engine::rng::Rng;

use super::callers::{Again, Callers};
use super::coverage::{Coverage, Kind, about};
use super::links::{Links, Received};
use super::node::{Arrival, Node};
use super::oracle::Oracle;
use super::requests::{Request, draw, encode};
use super::store::{Cell, Promise, Ran, Rows, Store};
use super::swarm::Swarm;
use crate::faults::{FaultCounts, FaultKind, one_in};
use crate::oracle::{Rule, Violation};
use crate::trace::Trace;

/// Steps after which a world that does not come to its end is called stuck.
const STEPS_MAX: u64 = 200_000;
/// What an account holds at first.
const AMOUNT: i64 = 100;
/// A crash at a step that was chosen beforehand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    pub(super) step: u64,
    pub(super) island: IslandId,
    /// How long the island is down.
    pub(super) down: u64,
}

/// An entry of the calendar. A life that has ended gets none of its entries any more.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Open(IslandId),
    Crash(IslandId),
    Begin { call: u64, age: Option<Age> },
    Work { island: IslandId, life: u32 },
    Flush { island: IslandId, life: u32 },
    Passed { island: IslandId, life: u32, deadline: Deadline },
    Make((IslandId, IslandId)),
    Made { at: IslandId, peer: IslandId, life: u32, made: u32 },
    Broken { at: IslandId, peer: IslandId, life: u32 },
    Deliver { from: IslandId, to: IslandId },
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct World {
    pub(super) swarm: Swarm,
    rng: Rng,
    now: u64,
    pub(super) steps: u64,
    entries: u64,
    calendar: BTreeMap<(u64, u64), Entry>,
    faults_until: u64,
    planned: Vec<Crash>,
    nodes: Vec<Node>,
    links: Links,
    versions: u64,
    callers: Callers,
    first: Vec<Rows>,
    oracle: Oracle,
    pub(super) coverage: Coverage,
    pub(super) faults: FaultCounts,
    pub(super) trace: Trace,
    pub(super) transactions: u64,
    pub(super) lives: u64,
}

impl World {
    /// The world of these choices, with `requests`; `planned` crashes come besides those that are drawn.
    pub(super) fn new(
        swarm: Swarm,
        requests: Vec<Request>,
        planned: Vec<Crash>,
        mut rng: Rng,
        trace: Trace,
    ) -> Self {
        let mut versions = 0;
        let mut cell = || {
            versions += 1;
            Cell { amount: AMOUNT, version: versions }
        };
        let mut node = || Node::new((0..swarm.accounts).map(|_| cell()).collect());
        let nodes: Vec<Node> = (0..swarm.islands).map(|_| node()).collect();
        let total = AMOUNT * i64::from(swarm.islands) * i64::from(swarm.accounts);
        Self {
            links: Links::new(swarm.islands, swarm.slow_links, &mut rng),
            rng,
            now: 0,
            steps: 0,
            entries: 0,
            calendar: BTreeMap::new(),
            faults_until: 0,
            planned,
            first: nodes.iter().map(|node| node.store.durable.clone()).collect(),
            nodes,
            versions,
            callers: Callers::new(requests),
            oracle: Oracle::new(total),
            coverage: Coverage::default(),
            faults: FaultCounts::default(),
            trace,
            transactions: 0,
            lives: 0,
            swarm,
        }
    }

    /// The world of a seed.
    pub(super) fn drawn(mut rng: Rng, trace: Trace) -> Self {
        let swarm = Swarm::draw(&mut rng);
        let requests =
            (0..swarm.requests).map(|_| draw(&mut rng, swarm.islands, swarm.accounts)).collect();
        trace.event(&[], || format!("{swarm:?}"));
        Self::new(swarm, requests, Vec::new(), rng, trace)
    }

    /// Runs to the end of everything.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        for island in (0..self.swarm.islands).map(IslandId) {
            let after = self.up_to(self.swarm.message_max);
            self.enter(after, Entry::Open(island));
        }
        let mut at = 2 * self.swarm.message_max + 2;
        for call in 0..self.callers.count() {
            at += self.up_to(self.swarm.pause_max);
            self.enter(at, Entry::Begin { call, age: None });
        }
        self.faults_until = at + self.swarm.patience;
        while let Some(((at, _), entry)) = self.calendar.pop_first() {
            self.now = at;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(Violation::new(Rule::Progress, self.under_way()));
            }
            self.strike();
            self.happen(entry)?;
        }
        self.ended()?;
        let stores: Vec<&Store> = self.nodes.iter().map(|node| &node.store).collect();
        // What only clients carry from island to island is in no message: a crash may let it be overtaken.
        let lost = [FaultKind::Crash, FaultKind::LocksGivenUp];
        let is_strict = lost.iter().all(|kind| self.faults.of(*kind) == 0);
        self.oracle.judge(&stores, &self.first, is_strict)
    }

    /// A number up to and with `max`.
    fn up_to(&mut self, max: u64) -> u64 {
        self.rng.below(max + 1)
    }

    fn enter(&mut self, after: u64, entry: Entry) {
        self.entries += 1;
        self.calendar.insert((self.now + after, self.entries), entry);
    }

    fn node(&mut self, island: IslandId) -> &mut Node {
        &mut self.nodes[island.index()]
    }

    fn under_way(&self) -> String {
        let busy = |node: &&Node| node.machine.as_ref().is_none_or(|machine| !machine.is_idle());
        let busy = self.nodes.iter().filter(busy).count();
        let waiting = self.callers.waiting();
        format!("after {} steps {busy} islands and {waiting} callers are busy", self.steps)
    }

    /// Nothing is left of anything.
    fn ended(&self) -> Result<(), Violation> {
        let idle = |node: &Node| node.machine.as_ref().is_some_and(Machine::is_idle);
        if !self.nodes.iter().all(idle) || self.callers.waiting() > 0 {
            return Err(Violation::new(Rule::Progress, self.under_way()));
        }
        let left = self.nodes.iter().find_map(|node| node.store.left());
        left.map_or(Ok(()), |left| Err(Violation::new(Rule::NothingLeft, left)))
    }

    /// Crashes and cuts that come before a step.
    fn strike(&mut self) {
        let steps = self.steps;
        let due = self.planned.extract_if(.., |crash| crash.step == steps).collect::<Vec<_>>();
        for crash in due {
            self.crash(crash.island, crash.down);
        }
        if self.now >= self.faults_until {
            return;
        }
        if one_in(&mut self.rng, self.swarm.crashes) {
            let island = IslandId(self.rng.below(u64::from(self.swarm.islands)) as u16);
            let long = if one_in(&mut self.rng, 8) { 10 } else { 1 };
            let down = self.up_to(self.swarm.down_max) * long;
            self.crash(island, down);
        }
        if one_in(&mut self.rng, self.swarm.cuts) {
            let pairs: Vec<_> = self.links.pairs().collect();
            let pair = pairs[self.rng.below(pairs.len() as u64) as usize];
            self.cut(pair);
        }
    }

    fn crash(&mut self, island: IslandId, down: u64) {
        if self.node(island).machine.is_none() {
            return;
        }
        let unflushed = self.node(island).store.unflushed() as u64;
        let kept = if one_in(&mut self.rng, 2) { 0 } else { self.up_to(unflushed) };
        let lost = self.node(island).crash(kept as usize);
        self.count(FaultKind::Crash, 1);
        self.count(FaultKind::TailLost, u64::from(lost > 0));
        self.trace.event(&[self.now, 1, u64::from(island.0)], || {
            format!("{} {island} crashes, {lost} records are lost", self.now)
        });
        self.callers.lose(island);
        for pair in self.links.pairs().collect::<Vec<_>>() {
            if pair.0 == island || pair.1 == island {
                self.cut(pair);
                self.links.forget(island, if pair.0 == island { pair.1 } else { pair.0 });
            }
        }
        self.enter(down + 1, Entry::Open(island));
    }

    fn count(&mut self, kind: FaultKind, times: u64) {
        (0..times).for_each(|_| self.faults.add(kind));
    }

    fn cut(&mut self, pair: (IslandId, IslandId)) {
        let Some(broke) = self.links.cut(pair, &mut self.rng) else { return };
        self.count(FaultKind::LinkBroken, 1);
        self.count(FaultKind::MessageLost, broke.lost);
        self.count(FaultKind::MessageRepeated, broke.repeated);
        self.trace.event(&[self.now, 2, u64::from(pair.0.0), u64::from(pair.1.0)], || {
            format!("{} the link {}-{} breaks", self.now, pair.0.0, pair.1.0)
        });
        let ends = [(pair.0, pair.1), (pair.1, pair.0)];
        for ((at, peer), _) in ends.into_iter().zip(broke.known).filter(|(_, known)| *known) {
            if self.node(at).machine.is_none() {
                continue;
            }
            let (after, life) = (self.up_to(self.swarm.message_max), self.node(at).life);
            self.enter(after, Entry::Broken { at, peer, life });
        }
        let after = self.up_to(self.swarm.cut_max) + 1;
        self.enter(after, Entry::Make(pair));
    }

    fn happen(&mut self, entry: Entry) -> Result<(), Violation> {
        match entry {
            Entry::Open(island) => self.open(island),
            Entry::Crash(island) => {
                let down = self.up_to(self.swarm.message_max);
                self.crash(island, down);
            }
            Entry::Begin { call, age } => self.begin(call, age),
            Entry::Work { island, life } if self.node(island).life == life => {
                self.node(island).works = false;
                let node = self.node(island);
                if let Some(action) = node.todo.pop_front() {
                    self.act(island, action)?;
                } else if let Some(arrival) = node.arrived.pop_front() {
                    self.take(island, arrival);
                }
                self.plan_work(island);
            }
            Entry::Flush { island, life } if self.node(island).life == life => self.flush(island),
            Entry::Passed { island, life, deadline } if self.node(island).life == life => {
                self.arrive(island, Arrival::Event(Event::Passed(deadline)));
            }
            Entry::Make(pair) => self.make(pair),
            Entry::Made { at, peer, life, made }
                if self.node(at).life == life && self.links.know(at, peer, made) =>
            {
                self.arrive(at, Arrival::Event(Event::LinkMade(peer)));
            }
            Entry::Broken { at, peer, life } if self.node(at).life == life => {
                self.links.forget(at, peer);
                self.arrive(at, Arrival::Event(Event::LinkBroken(peer)));
            }
            Entry::Deliver { from, to } => match self.links.receive(from, to) {
                Received::Message(message) => self.arrive(to, Arrival::Message(from, message)),
                Received::NotYet => self.enter(1, entry),
                Received::Nothing => (),
            },
            // Of a life that has ended.
            _ => (),
        }
        Ok(())
    }

    fn open(&mut self, island: IslandId) {
        self.lives += 1;
        let islands = self.swarm.islands;
        let node = self.node(island);
        let (opening, found) = node.store.open();
        let mut out = Vec::new();
        node.machine = Some(Machine::open(island, islands, opening, found, &mut out));
        node.todo.extend(out);
        self.trace
            .event(&[self.now, 3, u64::from(island.0)], || format!("{} {island} opens", self.now));
        self.plan_work(island);
        for pair in self.links.pairs().collect::<Vec<_>>() {
            if pair.0 == island || pair.1 == island {
                let after = self.up_to(self.swarm.message_max);
                self.enter(after, Entry::Make(pair));
            }
        }
    }

    fn make(&mut self, pair: (IslandId, IslandId)) {
        let is_down = |world: &mut Self, island| world.node(island).machine.is_none();
        // What opens makes its links.
        if is_down(self, pair.0) || is_down(self, pair.1) || self.links.is_up(pair.0, pair.1) {
            return;
        }
        let Some(repeated) = self.links.make(pair) else {
            self.enter(1, Entry::Make(pair));
            return;
        };
        let ends = [(pair.0, pair.1), (pair.1, pair.0)];
        for ((at, peer), repeated) in ends.into_iter().zip(repeated) {
            let (after, life) = (self.up_to(self.swarm.message_max), self.node(at).life);
            let made = self.links.made(at, peer);
            self.enter(after, Entry::Made { at, peer, life, made });
            for _ in 0..repeated {
                let after = self.up_to(self.swarm.message_max);
                self.enter(after, Entry::Deliver { from: peer, to: at });
            }
        }
    }

    fn begin(&mut self, call: u64, age: Option<Age>) {
        let request = self.callers.request(call).clone();
        if self.node(request.island).machine.is_none() {
            self.enter(100, Entry::Begin { call, age });
            return;
        }
        self.transactions += 1;
        self.callers.begin(call, self.now);
        let parts = request.parts.iter().map(|(island, steps)| (*island, encode(steps)));
        let mut parts: Vec<(IslandId, Vec<u8>)> = parts.collect();
        if request.is_local {
            let run = Action::Run(Work::Local { call, payload: parts.remove(0).1 });
            self.arrive(request.island, Arrival::Local(run));
            return;
        }
        // Clocks differ.
        let at = self.now + 20 * u64::from(request.island.0);
        let begin = Event::Begin { call, at, age, parts };
        self.arrive(request.island, Arrival::Event(begin));
    }

    /// Something arrives at an island.
    fn arrive(&mut self, island: IslandId, arrival: Arrival) {
        if self.node(island).machine.is_none() {
            return;
        }
        if self.swarm.is_serial {
            self.node(island).arrived.push_back(arrival);
            self.plan_work(island);
        } else {
            self.take(island, arrival);
        }
    }

    /// The island sees it.
    fn take(&mut self, island: IslandId, arrival: Arrival) {
        match arrival {
            Arrival::Event(event) => self.feed(island, event),
            Arrival::Message(from, message) => {
                self.feed(island, Event::Received { from, message: &message });
            }
            Arrival::Local(run) => {
                self.node(island).todo.push_back(run);
                self.plan_work(island);
            }
        }
    }

    /// Gives an event to a machine, if it is there.
    fn feed(&mut self, island: IslandId, event: Event<'_>) {
        let Some(machine) = self.nodes[island.index()].machine.as_mut() else { return };
        self.trace.event(&[self.now, 4, u64::from(island.0)], || match &event {
            Event::Received { from, message } => {
                format!("{} {island} hears from {from}: {:?}", self.now, peek(message))
            }
            _ => format!("{} {island}: {event:?}", self.now),
        });
        let about = about(&event);
        if let Some((kind, number)) = about {
            self.coverage.add(machine.state(number), kind);
        }
        let shared = match &event {
            Event::LinkBroken(peer) => Some((*peer, Kind::Broken)),
            Event::Received { from, message } if peek(message) == Some(Message::Hello) => {
                Some((*from, Kind::Hello))
            }
            _ => None,
        };
        if let Some((peer, kind)) = shared {
            for number in machine.shared_with(peer) {
                self.coverage.add(machine.state(number), kind);
            }
        }
        let begun = match &event {
            Event::Begin { call, .. } => Some(*call),
            _ => None,
        };
        let mut out = Vec::new();
        let terms = machine.terms();
        machine.on(event, &mut out);
        if machine.terms() > terms {
            self.faults.add(FaultKind::LocksGivenUp);
        }
        if let (Some(call), Some(Action::Await(Deadline::Patience(number)))) = (begun, out.first())
        {
            self.callers.number(call, *number);
        }
        self.node(island).todo.extend(out);
        self.plan_work(island);
        let votes = matches!(about, Some((Kind::Settled | Kind::Prepared, _)));
        if votes && self.now < self.faults_until && one_in(&mut self.rng, self.swarm.vote_crashes) {
            let after = 2 * self.swarm.message_max + self.up_to(self.swarm.message_max);
            self.enter(after, Entry::Crash(island));
        }
    }

    fn plan_work(&mut self, island: IslandId) {
        let node = &self.nodes[island.index()];
        let life = node.life;
        let has_work = !node.todo.is_empty() || !node.arrived.is_empty();
        if has_work && !node.works {
            let after = self.up_to(self.swarm.work_max);
            self.node(island).works = true;
            self.enter(after, Entry::Work { island, life });
        }
        let node = &self.nodes[island.index()];
        if node.store.wants_flush() && !node.flushes {
            let after = self.up_to(self.swarm.flush_max);
            self.node(island).flushes = true;
            self.enter(after, Entry::Flush { island, life });
        }
    }

    fn flush(&mut self, island: IslandId) {
        let unflushed = self.node(island).store.unflushed() as u64;
        let records = if one_in(&mut self.rng, 4) { self.up_to(unflushed) } else { unflushed };
        let node = self.node(island);
        node.flushes = false;
        for promise in node.store.flush(records as usize) {
            match promise {
                Promise::Event(event) => self.arrive(island, Arrival::Event(event)),
                Promise::Answer(call) => {
                    let began = self.callers.began(call);
                    self.callers.end(call);
                    self.oracle.call_answered(call, (began, self.now));
                }
            }
        }
        self.plan_work(island);
    }

    fn act(&mut self, island: IslandId, action: Action) -> Result<(), Violation> {
        self.trace.event(&[self.now, 5, u64::from(island.0)], || match &action {
            Action::Send { to, message } => {
                format!("{} {island} says to {to}: {:?}", self.now, peek(message))
            }
            _ => format!("{} {island} does {action:?}", self.now),
        });
        match action {
            Action::Send { to, message } => {
                let slow = self.links.slowness(island, to);
                let at = self.now + self.up_to(self.swarm.message_max * slow);
                if let Some(at) = self.links.send(island, to, message, at) {
                    self.enter(at - self.now, Entry::Deliver { from: island, to });
                }
            }
            Action::RefusePeer { peer, why } => {
                return Err(Violation::new(Rule::NoPanic, format!("{peer}: {why}")));
            }
            Action::Run(work) => self.work(island, work),
            Action::Answer { call, answer } => return self.answered(island, call, answer),
            Action::GiveUp { call } => {
                self.callers.end(call);
                return self.patient("a local transaction");
            }
            Action::Await(deadline) => {
                let after = match deadline {
                    Deadline::Patience(_) | Deadline::Local(_) => self.swarm.patience,
                    Deadline::Ask(_) => self.swarm.patience / 3,
                    Deadline::Retry(_) => self.swarm.flush_max,
                };
                let life = self.node(island).life;
                self.enter(after, Entry::Passed { island, life, deadline });
            }
            Action::Prepare { number, .. } | Action::Commit { number, .. }
                if self.has_no_room() =>
            {
                self.feed(island, Event::Refused { number, why: b"no room".to_vec() });
            }
            Action::Prepare { number, age } => self.node(island).store.prepare(number, age),
            Action::Settle(number) => self.node(island).store.settle(number),
            Action::Forget(number) => self.node(island).store.forget(number),
            Action::Commit { number, participants, .. } => {
                let ended = self.node(island).store.commit(number, participants);
                self.feed(island, ended);
            }
            Action::Release(number) => {
                let ended = self.node(island).store.release(number);
                self.feed(island, ended);
            }
        }
        Ok(())
    }

    /// Whether a preparation or a commit finds no room in the log.
    fn has_no_room(&mut self) -> bool {
        let has_none = self.now < self.faults_until && one_in(&mut self.rng, self.swarm.refusals);
        self.count(FaultKind::CommitRefused, u64::from(has_none));
        has_none
    }

    /// Nothing gives up where nothing goes wrong.
    fn patient(&self, what: &str) -> Result<(), Violation> {
        if !self.swarm.is_calm() {
            return Ok(());
        }
        Err(Violation::new(Rule::Progress, format!("{what} gave up though nothing went wrong")))
    }

    fn work(&mut self, island: IslandId, work: Work) {
        let (local, number) = match &work {
            Work::Local { call, .. } => (Some(*call), None),
            Work::Part { number, .. } => (None, Some(*number)),
        };
        let (ran, seen) = self.nodes[island.index()].store.run(work, &mut self.versions);
        match ran {
            Ran::Refused(call) => _ = self.callers.end(call),
            Ran::Done => self.oracle.call(island, local.expect("it is of a call"), seen),
            Ran::Event(event) => {
                if let (Event::Executed { .. }, Some(number)) = (&event, number) {
                    self.oracle.part(island, number, seen);
                }
                self.feed(island, event);
            }
        }
    }

    fn answered(&mut self, island: IslandId, call: u64, answer: Answer) -> Result<(), Violation> {
        let span = (self.callers.began(call), self.now);
        if let Some(number) = self.callers.end(call) {
            let rows = &self.nodes[island.index()].store.durable;
            self.oracle.answered(number, self.callers.request(call), &answer, (span, rows))?;
        }
        if answer == Answer::Aborted(Reason::TimedOut) {
            self.patient("a transaction")?;
        }
        if let Some(Again { age, runs }) = self.callers.again(call, &answer) {
            // The more often the longer: what runs again is work, too, and keeps others from ending.
            let Swarm { pause_max, work_max, message_max, flush_max, .. } = self.swarm;
            let pause = pause_max + 4 * (work_max + message_max + flush_max);
            let after = self.up_to(pause * u64::from(runs)) + 1;
            self.enter(after, Entry::Begin { call, age });
        }
        Ok(())
    }
}
