//! Islands with real stores: transfers over random links, with crashes at random points of the log.
//!
//! The protocol itself is examined by `cargo xtask sim --commit`; here it is its way to the store and back.

use std::collections::BTreeMap;

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::held::Guard;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::store::Store as _;
use tombolo_storage::value_log::LogBuffer;

use super::*;
use crate::islands::commit::{Age, Reason};
use crate::islands::prepared::tests::{Booking, accounts, book, empty};
use crate::rng::Rng;

type Store = MemoryStore<MemoryLogged>;

const ISLANDS: u16 = 3;
const ACCOUNTS: i32 = 5;
/// Why a last step refuses a transaction.
const LAST_STEP: &[u8] = b"by its last step";

/// What an island's actions lead to, until the world takes it.
#[derive(Default)]
struct Surroundings {
    sent: Vec<(IslandId, Vec<u8>)>,
    answers: Vec<(u64, Answer)>,
    deadlines: Vec<Deadline>,
    /// With the length of the log at which each is due.
    promised: VecDeque<(usize, Event<'static>)>,
    calls: BTreeMap<u64, Vec<Booking>>,
    given_up: u64,
    /// Bytes for which the log has room.
    room: usize,
}

fn encode(bookings: &[Booking]) -> Vec<u8> {
    let bytes = |&(account, amount): &Booking| {
        account.to_le_bytes().into_iter().chain(amount.to_le_bytes()).collect::<Vec<u8>>()
    };
    bookings.iter().flat_map(bytes).collect()
}

fn decode(bytes: &[u8]) -> Vec<Booking> {
    let booking = |bytes: &[u8]| {
        let (account, amount) = bytes.split_at(4);
        let account = i32::from_le_bytes(account.try_into().unwrap());
        (account, i64::from_le_bytes(amount.try_into().unwrap()))
    };
    bytes.chunks(12).map(booking).collect()
}

impl Host<MemoryLogged> for Surroundings {
    fn send(&mut self, to: IslandId, message: Vec<u8>) {
        self.sent.push((to, message));
    }

    fn refuse_peer(&mut self, peer: IslandId, why: Refusal) {
        panic!("{peer}: {why}");
    }

    fn run_part(&mut self, store: &mut Store, locks: &Locks, payload: &[u8]) -> Executed {
        let guard = Guard::part(locks);
        match book(&mut guard.over(store), &decode(payload)) {
            Ok(()) => Executed::Done(guard.into_part().unwrap(), Vec::new()),
            Err(Error::Held { owner }) => Executed::Held(holder(owner)),
            Err(error) => panic!("{error}"),
        }
    }

    fn run_call(
        &mut self,
        store: &mut Store,
        locks: &Locks,
        call: u64,
    ) -> Option<TransactionNumber> {
        let bookings = self.calls[&call].clone();
        match book(&mut Guard::local(locks).over(store), &bookings) {
            Ok(()) => {
                self.calls.remove(&call);
                None
            }
            Err(Error::Held { owner }) => Some(holder(owner)),
            Err(error) => panic!("{error}"),
        }
    }

    fn log_bytes_of_call(&self, _: u64) -> usize {
        500
    }

    fn last_step(&mut self, call: u64) -> std::result::Result<(), Vec<u8>> {
        if call.is_multiple_of(7) { Err(LAST_STEP.to_vec()) } else { Ok(()) }
    }

    fn answer(&mut self, call: u64, answer: Answer) {
        self.answers.push((call, answer));
    }

    fn give_up(&mut self, call: u64) {
        self.calls.remove(&call);
        self.given_up += 1;
    }

    fn wait_for(&mut self, deadline: Deadline) {
        self.deadlines.push(deadline);
    }

    fn when_durable(&mut self, event: Event<'static>) {
        // What is in the store's buffer counts when the world has taken it.
        self.promised.push_back((usize::MAX, event));
    }

    fn reserve(&mut self, _: &mut Store, bytes: usize) -> bool {
        let has_room = bytes <= self.room;
        self.room = self.room.saturating_sub(bytes);
        has_room
    }

    fn is_full(&self) -> bool {
        self.room < 100
    }

    fn log_bytes_max(&self) -> usize {
        1 << 20
    }
}

struct Node {
    store: Store,
    island: Island,
    host: Surroundings,
    /// All of its log, and how much of it is durable.
    log: Vec<u8>,
    durable: usize,
    opening: u32,
}

impl Node {
    fn open(log: Vec<u8>, me: u16, opening: u32) -> Self {
        let store = if log.is_empty() {
            empty()
        } else {
            let mut part = ReplayPart::new(0, 1, Limits::default());
            part.apply(&log).unwrap();
            Store::from_replay(Limits::default(), vec![part.finish().unwrap()]).unwrap()
        };
        let mut store = store;
        let island = Island::open(&mut store, (IslandId(me), ISLANDS), opening).unwrap();
        let mut node =
            Self { store, island, host: Surroundings::default(), durable: log.len(), log, opening };
        node.collect();
        node.durable = node.log.len();
        node
    }

    /// Takes the log of what ran.
    fn collect(&mut self) {
        let mut log = LogBuffer::new();
        self.store.take_log(&mut log);
        self.log.extend_from_slice(log.as_slice());
        let end = self.log.len();
        let new = self.host.promised.iter_mut().filter(|(at, _)| *at == usize::MAX);
        new.for_each(|(at, _)| *at = end);
    }

    fn on(&mut self, event: Event<'_>, room: usize) {
        self.host.room = room;
        self.island.on(event, &mut self.store, &mut self.host);
        self.collect();
    }

    fn go_on(&mut self, room: usize) {
        self.host.room = room;
        self.island.go_on(&mut self.store, &mut self.host);
        self.collect();
    }

    /// Ends of whole transactions in the log that is not durable.
    fn ends(&self) -> Vec<usize> {
        let (mut end, mut ends) = (0, Vec::new());
        while let Some(length) = self.log[end..].first_chunk::<4>() {
            end += 4 + u32::from_le_bytes(*length) as usize;
            ends.push(end);
        }
        ends.retain(|end| *end >= self.durable);
        ends.push(self.durable);
        ends
    }
}

type Parts = Vec<(IslandId, Vec<u8>)>;

struct World {
    nodes: Vec<Node>,
    /// By sender and receiver.
    links: BTreeMap<(u16, u16), VecDeque<Vec<u8>>>,
    /// Of each call: its island, and the parts.
    begun: BTreeMap<u64, (u16, Parts)>,
    again: Vec<(u64, Age)>,
    committed: u64,
    aborted: u64,
    refused: u64,
    calls: u64,
    random: Rng,
    has_faults: bool,
    /// All logs are full.
    is_full: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            nodes: (0..ISLANDS).map(|me| Node::open(Vec::new(), me, 1)).collect(),
            links: BTreeMap::new(),
            begun: BTreeMap::new(),
            again: Vec::new(),
            committed: 0,
            aborted: 0,
            refused: 0,
            calls: 0,
            random: Rng::from_seed(seed),
            has_faults: true,
            is_full: false,
        };
        for node in &mut world.nodes {
            let all: Vec<_> = (0..ACCOUNTS).map(|account| (account, 1_000)).collect();
            book(&mut node.store, &all).unwrap();
            node.collect();
            node.durable = node.log.len();
        }
        for a in 0..ISLANDS {
            for b in 0..a {
                world.link(a, b);
            }
        }
        world
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn link(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.insert((from, to), VecDeque::new());
        }
        for (at, peer) in [(a, b), (b, a)] {
            self.feed(at, Event::LinkMade(IslandId(peer)));
        }
    }

    fn cut(&mut self, a: u16, b: u16) {
        for (at, peer) in [(a, b), (b, a)] {
            self.links.insert((at, peer), VecDeque::new());
            self.feed(at, Event::LinkBroken(IslandId(peer)));
        }
    }

    fn feed(&mut self, at: u16, event: Event<'_>) {
        let room = self.room();
        self.nodes[usize::from(at)].on(event, room);
        self.collect(at);
    }

    fn room(&mut self) -> usize {
        match (self.is_full, self.has_faults) {
            (true, _) => 0,
            (false, true) => self.below(10_000),
            (false, false) => usize::MAX,
        }
    }

    fn collect(&mut self, at: u16) {
        let host = &mut self.nodes[usize::from(at)].host;
        let (sent, answers) = (std::mem::take(&mut host.sent), std::mem::take(&mut host.answers));
        for (to, message) in sent {
            self.links.entry((at, to.0)).or_default().push_back(message);
        }
        for (call, answer) in answers {
            match answer {
                Answer::Committed { .. } => self.committed += 1,
                Answer::Aborted(Reason::Refused { why, .. }) if why == LAST_STEP => {
                    self.refused += 1;
                }
                Answer::Aborted(Reason::Refused { why, .. }) if why != LOG_FULL => {
                    panic!("{}", String::from_utf8(why).unwrap())
                }
                Answer::Aborted(_) => self.aborted += 1,
                Answer::RunAgain(age) => {
                    self.again.push((call, age));
                    continue;
                }
            }
            self.begun.remove(&call);
        }
    }

    /// A transfer between accounts of one to three islands.
    fn transfer(&mut self) {
        let mut parts: BTreeMap<u16, Vec<Booking>> = BTreeMap::new();
        let (mut sum, count) = (0, 1 + self.below(4));
        for n in 0..count {
            let amount = if n + 1 == count { -sum } else { self.below(50) as i64 - 25 };
            sum += amount;
            let (island, account) = (self.below(ISLANDS.into()) as u16, self.below(5) as i32);
            parts.entry(island).or_default().push((account, amount));
        }
        self.calls += 1;
        let (call, at) = (self.calls, self.below(ISLANDS.into()) as u16);
        let parts = parts.into_iter();
        let parts: Parts =
            parts.map(|(island, bookings)| (IslandId(island), encode(&bookings))).collect();
        self.begun.insert(call, (at, parts.clone()));
        self.feed(at, Event::Begin { call, at: call, age: None, parts });
    }

    /// A call of one island: between two of its accounts.
    fn call(&mut self) {
        self.calls += 1;
        let (call, at) = (self.calls, self.below(ISLANDS.into()) as u16);
        let (from, to) = (self.below(5) as i32, self.below(5) as i32);
        let node = &mut self.nodes[usize::from(at)];
        node.host.calls.insert(call, vec![(from, -3), (to, 3)]);
        if let Some(by) = node.host.run_call(&mut node.store, node.island.locks(), call) {
            let work = Work::Local { call, payload: Vec::new() };
            self.feed(at, Event::Held { by, work });
        } else {
            node.collect();
        }
    }

    fn crash(&mut self, at: u16) {
        let ends = self.nodes[usize::from(at)].ends();
        let end = ends[self.below(ends.len())];
        let node = &mut self.nodes[usize::from(at)];
        node.log.truncate(end);
        *node = Node::open(std::mem::take(&mut node.log), at, node.opening + 1);
        self.begun.retain(|_, (island, _)| *island != at);
        let begun = &self.begun;
        self.again.retain(|(call, _)| begun.contains_key(call));
        for peer in (0..ISLANDS).filter(|peer| *peer != at) {
            self.links.insert((at, peer), VecDeque::new());
            self.links.insert((peer, at), VecDeque::new());
            self.feed(peer, Event::LinkBroken(IslandId(at)));
            self.link(at, peer);
        }
    }

    fn flush(&mut self, at: u16) {
        let node = &mut self.nodes[usize::from(at)];
        node.durable = node.log.len();
        while let Some((_, event)) = self.nodes[usize::from(at)].host.promised.pop_front() {
            self.feed(at, event);
        }
    }

    fn step(&mut self) {
        let at = self.below(ISLANDS.into()) as u16;
        let room = self.room();
        self.nodes[usize::from(at)].go_on(room);
        self.collect(at);
        match self.below(if self.has_faults { 400 } else { 300 }) {
            0..200 => {
                let peer = self.below(ISLANDS.into()) as u16;
                if self.nodes[usize::from(at)].island.has_more() {
                    return;
                }
                let link = self.links.get_mut(&(peer, at));
                if let Some(message) = link.and_then(VecDeque::pop_front) {
                    let from = IslandId(peer);
                    self.feed(at, Event::Received { from, message: &message });
                }
            }
            200..250 => self.flush(at),
            250..280 => {
                let deadlines = &mut self.nodes[usize::from(at)].host.deadlines;
                if deadlines.is_empty() {
                    return;
                }
                // Mostly in order: patience is longer than a step.
                let passed = deadlines.remove(0);
                self.feed(at, Event::Passed(passed));
            }
            280..300 => {
                let Some((call, age)) = self.again.pop() else { return };
                let (at, parts) = self.begun[&call].clone();
                self.feed(at, Event::Begin { call, at: call, age: Some(age), parts });
            }
            300..350 => self.transfer(),
            350..390 => self.call(),
            390..396 => {
                let peer = (at + 1) % ISLANDS;
                self.cut(at, peer);
                self.link(at, peer);
            }
            _ => self.crash(at),
        }
    }

    /// Steps until `is_reached`.
    fn go_on_until(&mut self, what: &str, is_reached: impl Fn(&Self) -> bool) {
        let mut steps = 0;
        while !is_reached(self) {
            self.step();
            steps += 1;
            assert!(steps < 200_000, "{what}");
        }
    }

    /// Whether no caller waits.
    fn is_answered(&self) -> bool {
        self.begun.is_empty() && self.nodes.iter().all(|node| node.host.calls.is_empty())
    }

    fn is_quiet(&self) -> bool {
        let is_quiet = |node: &Node| node.island.is_idle() && node.host.promised.is_empty();
        self.nodes.iter().all(is_quiet) && self.is_answered()
    }
}

#[test]
fn money_moves_between_islands_and_stays() {
    let (mut committed, mut aborted, mut refused) = (0, 0, 0);
    for seed in 0..20 {
        let mut world = World::new(seed);
        for _ in 0..4_000 {
            world.step();
        }
        world.has_faults = false;
        // Full logs keep parts from ending, and no caller waiting.
        world.is_full = true;
        world.go_on_until(&format!("seed {seed}: a caller waits for room"), World::is_answered);
        world.is_full = false;
        world.go_on_until(&format!("seed {seed}: something never ends"), World::is_quiet);
        let mut sum = 0;
        for node in &mut world.nodes {
            sum += accounts(&mut node.store).values().sum::<i64>();
            assert!(node.island.locks().is_empty() && node.island.locks().check().is_ok());
            assert_eq!(node.store.check(), []);
            let found = node.island.rows.open(&mut node.store, &mut Locks::new().unwrap());
            assert_eq!(found, Ok(Default::default()), "seed {seed}: rows are left");
        }
        assert_eq!(sum, i64::from(ISLANDS) * i64::from(ACCOUNTS) * 1_000, "seed {seed}");
        committed += world.committed;
        aborted += world.aborted;
        refused += world.refused;
    }
    assert!(committed > 500 && aborted > 100, "{committed} committed, {aborted} aborted");
    assert!(refused > 100, "{refused} refused by their last step");
}
