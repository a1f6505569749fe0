//! An order of the versions of each key, and the resulting edges.
//!
//! Every order respects the evidence: replaced values, positions of commits, decisions of the search
//! (`search.rs`). If this allows several orders, the first guess follows the reads (a transaction that
//! read a version and wrote the key comes directly after it), and otherwise the clock. Edges that depend on a guess
//! are marked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::facts::{By, Facts, NONE, VersionId, number};
use crate::graph::{Edge, Why};
use crate::history::{KeyId, TxnId};
use crate::transaction::Outcome;
use crate::verdict::{Level, Open};

/// A fact that the evidence leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assumption {
    /// The first version was replaced before the second.
    Order(VersionId, VersionId),
    /// This read saw this version.
    Saw(u32, VersionId),
}

/// An assumption made by the search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub(crate) of: Assumption,
    /// Whether all alternatives were refuted.
    pub(crate) is_proved: bool,
}

/// The common part of all orders of a history, and the first guess.
#[derive(Debug)]
pub(crate) struct Orders<'f, 'h> {
    pub(crate) facts: &'f Facts<'h>,
    /// The place of each transaction in a likely order of all.
    place: Vec<u32>,
    /// Each key's versions in the first guess.
    guess: Vec<Vec<VersionId>>,
    /// Pairs whose order is proved, by key.
    proved: Vec<(VersionId, VersionId)>,
    is_proved: HashSet<(VersionId, VersionId), FixedState>,
    sessions: Vec<Edge>,
    clock: Vec<Edge>,
    nodes: u32,
}

impl<'f, 'h> Orders<'f, 'h> {
    pub(crate) fn new(facts: &'f Facts<'h>) -> Self {
        let (clock, nodes) = clock(facts);
        let mut is_proved = HashSet::with_hasher(FixedState::with_seed(0));
        let mut proved = facts.replaced.clone();
        add_commits(facts, &mut proved);
        proved.retain(|pair| pair.0 != pair.1 && is_proved.insert(*pair));
        let (sessions, guess, place) = (sessions(facts), Vec::new(), Vec::new());
        let mut orders = Self { facts, place, guess, proved, is_proved, sessions, clock, nodes };
        orders.place = orders.likely_places();
        orders.guess = orders.first_guess();
        orders
    }

    /// The number of nodes of its graphs.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// A likely order: by facts that need no guess, by positions of commits, and by the middle of each
    /// transaction's time.
    fn likely_places(&self) -> Vec<u32> {
        let facts = self.facts;
        let mut edges: Vec<Edge> = self.sessions.iter().chain(&self.clock).copied().collect();
        let ordered = self.proved.iter().map(|&(a, b)| (facts.writer(a), facts.writer(b)));
        let known = facts.reads.iter().filter(|read| read.version != NONE);
        let read = known.map(|read| (facts.writer(read.version), read.txn));
        let both = ordered.chain(read).filter(|&(from, to)| from != NONE && from != to);
        edges.extend(both.map(|(from, to)| Edge::plain(from, to, Why::WriteRead)));
        let times = likely_times(facts);
        let key = |node: u32| (times.get(node as usize).copied().unwrap_or_default(), node);
        let sequence = by_priority(self.nodes, &edges, key);
        let mut place = vec![0; self.nodes as usize];
        for (i, &node) in sequence.iter().enumerate() {
            place[node as usize] = number(i);
        }
        place
    }

    fn first_guess(&self) -> Vec<Vec<VersionId>> {
        let facts = self.facts;
        let count = facts.versions.len() + facts.history.keys.len();
        // The transactions that read a version and then wrote the key: the nearest in time first.
        let mut read_and_wrote: Vec<(u32, VersionId, VersionId)> = Vec::new();
        for read in facts.reads.iter().filter(|read| read.version != NONE) {
            if let Some(own) = facts.version_by(read.txn, read.key).filter(|&v| v != read.version) {
                read_and_wrote.push((self.place[read.txn as usize], read.version, own));
            }
        }
        read_and_wrote.sort_unstable_by_key(|&link| Reverse(link));
        read_and_wrote.dedup();
        let (mut child, mut sibling) = (vec![NONE; count], vec![NONE; facts.versions.len()]);
        let mut has_parent = vec![false; facts.versions.len()];
        for (_, parent, own) in read_and_wrote {
            if !std::mem::replace(&mut has_parent[own as usize], true) {
                sibling[own as usize] = child[parent as usize];
                child[parent as usize] = own;
            }
        }
        let mut placed = vec![false; facts.versions.len()];
        let proved = self.proved_by_key();
        let keys = 0..number(facts.history.keys.len());
        keys.map(|key| {
            let mut versions = facts.versions_of(key).to_vec();
            versions.sort_by_key(|&version| self.place[facts.writer(version) as usize]);
            let mut order = Vec::with_capacity(versions.len());
            let mut open = Vec::new();
            for root in std::iter::once(facts.first_of(key)).chain(versions) {
                open.push(root);
                while let Some(version) = open.pop() {
                    let is_first = version == facts.first_of(key);
                    if !is_first && std::mem::replace(&mut placed[version as usize], true) {
                        continue;
                    }
                    if !is_first {
                        order.push(version);
                        open.extend(Some(sibling[version as usize]).filter(|&next| next != NONE));
                    }
                    open.extend(Some(child[version as usize]).filter(|&next| next != NONE));
                }
            }
            let pairs = proved.get(&key).map_or(&[][..], Vec::as_slice);
            self.obeying(order, pairs)
        })
        .collect()
    }

    fn proved_by_key(&self) -> BTreeMap<KeyId, Vec<(VersionId, VersionId)>> {
        let mut by_key: BTreeMap<KeyId, Vec<_>> = BTreeMap::new();
        for &(before, after) in &self.proved {
            let key = self.facts.versions[before as usize].key;
            by_key.entry(key).or_default().push((before, after));
        }
        by_key
    }

    /// The order, changed as little as these pairs require. If they contradict each other, so does the graph.
    fn obeying(&self, order: Vec<VersionId>, pairs: &[(VersionId, VersionId)]) -> Vec<VersionId> {
        let mut sorted: Vec<(VersionId, u32)> =
            order.iter().enumerate().map(|(i, &version)| (version, number(i))).collect();
        sorted.sort_unstable();
        let rank = |version| {
            let place = sorted.binary_search_by_key(&version, |entry| entry.0);
            sorted[place.expect("a pair is of one key")].1
        };
        let edges: Vec<Edge> =
            pairs.iter().map(|&(a, b)| Edge::plain(rank(a), rank(b), Why::WriteWrite)).collect();
        if edges.iter().all(|edge| edge.from < edge.to) {
            return order;
        }
        let sequence = by_priority(number(order.len()), &edges, |rank| (u64::from(rank), rank));
        sequence.iter().map(|&rank| order[rank as usize]).collect()
    }

    /// The edges that `level` requires of the order given by these decisions; and the facts that remain open.
    pub(crate) fn edges(&self, level: Level, decisions: &[Decision]) -> (Vec<Edge>, Open) {
        let decided = Decided::new(self.facts, decisions);
        let mut making = Making::new(self, &decided, level == Level::StrictSerializable);
        making.versions();
        making.reads(level);
        if level == Level::StrictSerializable {
            making.edges.extend(&self.sessions);
            making.edges.extend(&self.clock);
        }
        (making.edges, making.open)
    }
}

/// Decisions, by the fact that they decide; each with whether it is proved.
#[derive(Default)]
struct Decided {
    pairs: BTreeMap<KeyId, Vec<(VersionId, VersionId)>>,
    orders: BTreeMap<(VersionId, VersionId), bool>,
    saw: BTreeMap<u32, (VersionId, bool)>,
}

impl Decided {
    fn new(facts: &Facts<'_>, decisions: &[Decision]) -> Self {
        let mut decided = Self::default();
        for decision in decisions {
            match decision.of {
                Assumption::Order(before, after) => {
                    let key = facts.versions[before as usize].key;
                    decided.pairs.entry(key).or_default().push((before, after));
                    decided.orders.insert((before, after), decision.is_proved);
                }
                Assumption::Saw(read, version) => {
                    decided.saw.insert(read, (version, decision.is_proved));
                }
            }
        }
        decided
    }
}

/// The edges of one order under construction.
struct Making<'o, 'f, 'h> {
    orders: &'o Orders<'f, 'h>,
    decided: &'o Decided,
    /// Whether the clock proves orders, too.
    by_clock: bool,
    /// The replacement of each version, and whether it is proved.
    next: Vec<(VersionId, bool)>,
    /// Orders of keys that differ from the first guess.
    changed: BTreeMap<KeyId, Vec<VersionId>>,
    edges: Vec<Edge>,
    open: Open,
}

impl<'o, 'f, 'h> Making<'o, 'f, 'h> {
    fn new(orders: &'o Orders<'f, 'h>, decided: &'o Decided, by_clock: bool) -> Self {
        let facts = orders.facts;
        let mut changed = BTreeMap::new();
        if !decided.pairs.is_empty() {
            let proved = orders.proved_by_key();
            for (&key, pairs) in &decided.pairs {
                let mut all = proved.get(&key).cloned().unwrap_or_default();
                all.extend(pairs);
                let order = orders.obeying(orders.guess[key as usize].clone(), &all);
                changed.insert(key, order);
            }
        }
        let next = vec![(NONE, true); facts.versions.len() + facts.history.keys.len()];
        let edges = Vec::with_capacity(facts.versions.len() + 2 * facts.reads.len());
        Self { orders, decided, by_clock, next, changed, edges, open: Open::default() }
    }

    fn order_of(&self, key: KeyId) -> &[VersionId] {
        self.changed.get(&key).unwrap_or(&self.orders.guess[key as usize])
    }

    fn is_sure(&self, pair: (VersionId, VersionId)) -> bool {
        let facts = self.orders.facts;
        let by_clock = || {
            let before = facts.history.head(facts.writer(pair.0));
            let ended = before.outcome == Outcome::Committed;
            ended && before.end < facts.history.head(facts.writer(pair.1)).begin
        };
        self.by_clock && by_clock()
            || self.orders.is_proved.contains(&pair)
            || self.decided.orders.get(&pair) == Some(&true)
    }

    /// Adds the edges between a version and its replacement.
    fn versions(&mut self) {
        let facts = self.orders.facts;
        for key in 0..number(facts.history.keys.len()) {
            let order = self.order_of(key).to_vec();
            if let Some(&first) = order.first() {
                self.next[facts.first_of(key) as usize] = (first, true);
            }
            for pair in order.windows(2) {
                let sure = self.is_sure((pair[0], pair[1]));
                self.open.orders += u64::from(!sure);
                self.next[pair[0] as usize] = (pair[1], sure);
                self.replaced(pair[0], pair[1], !sure);
            }
        }
        // Each proved or decided pair is an edge: a contradiction closes a cycle.
        let all: Vec<_> =
            self.orders.proved.iter().chain(self.decided.orders.keys()).copied().collect();
        for (before, after) in all {
            if self.next[before as usize].0 != after {
                self.replaced(before, after, !self.is_sure((before, after)));
            }
        }
    }

    fn replaced(&mut self, before: VersionId, after: VersionId, order_open: bool) {
        let facts = self.orders.facts;
        let (from, to) = (facts.writer(before), facts.writer(after));
        let edge = Edge::plain(from, to, Why::WriteWrite);
        self.edges.push(Edge { before, after, order_open, ..edge });
    }

    /// Adds the edges from writers to readers, and from readers to the writers of replacements.
    fn reads(&mut self, level: Level) {
        let facts = self.orders.facts;
        for (number, read) in (0_u32..).zip(&facts.reads) {
            let (version, read_open) = match read.version {
                NONE => self.choose(number),
                known => (known, false),
            };
            self.open.absences += u64::from(read_open);
            let from = facts.writer(version);
            if from != NONE && from != read.txn {
                let edge = Edge::plain(from, read.txn, Why::WriteRead);
                self.edges.push(Edge { read: number, before: version, read_open, ..edge });
            }
            let why =
                if read.by == By::Item { Why::ItemReadWrite } else { Why::PredicateReadWrite };
            let wanted = match level {
                Level::ReadCommitted => false,
                Level::RepeatableRead => why == Why::ItemReadWrite,
                _ => true,
            };
            let (after, sure) = self.next[version as usize];
            if wanted && after != NONE && facts.writer(after) != read.txn {
                let edge = Edge::plain(read.txn, facts.writer(after), why);
                let (before, order_open) = (version, !sure);
                self.edges.push(Edge {
                    read: number,
                    before,
                    after,
                    order_open,
                    read_open,
                    ..edge
                });
            }
        }
    }

    /// The version that a read of none saw: the last likely one before it; and whether that is a guess.
    fn choose(&self, number: u32) -> (VersionId, bool) {
        let facts = self.orders.facts;
        let read = &facts.reads[number as usize];
        if let Some(&(version, is_proved)) = self.decided.saw.get(&number) {
            return (version, !is_proved);
        }
        let first = facts.first_of(read.key);
        let replaced_since = self.replaced_since(read.key, read.txn);
        let removed = self.order_of(read.key).iter().copied();
        let removed =
            removed.filter(|&id| facts.value(id).is_none() && facts.writer(id) != read.txn);
        let possible: Vec<VersionId> = std::iter::once(first)
            .chain(removed)
            .filter(|&version| !self.is_too_old(version, replaced_since))
            .collect();
        let place = |txn: TxnId| self.orders.place[txn as usize];
        let is_before = |version: &VersionId| {
            let writer = facts.writer(*version);
            writer == NONE || place(writer) < place(read.txn)
        };
        let likely = possible.iter().copied().rfind(is_before);
        let version = likely.or(possible.first().copied()).unwrap_or(first);
        (version, possible.len() > 1)
    }

    /// The beginning of the last version that existed before the reader began, if the clock counts.
    fn replaced_since(&self, key: KeyId, reader: TxnId) -> Option<u64> {
        let facts = self.orders.facts;
        let begin = facts.history.head(reader).begin;
        let heads = facts.versions_of(key).iter().map(|&id| facts.history.head(facts.writer(id)));
        let before = heads.filter(|head| head.outcome == Outcome::Committed && head.end < begin);
        before.map(|head| head.begin).max().filter(|_| self.by_clock)
    }

    /// Whether the version had been replaced by one with this beginning.
    fn is_too_old(&self, version: VersionId, replaced_since: Option<u64>) -> bool {
        let facts = self.orders.facts;
        let writer = facts.writer(version);
        replaced_since.is_some_and(|begin| {
            writer == NONE || {
                let head = facts.history.head(writer);
                head.outcome == Outcome::Committed && head.end < begin
            }
        })
    }
}

/// A topological order of the nodes that prefers small keys; cycles are cut at the smallest key.
fn by_priority<K: Ord>(nodes: u32, edges: &[Edge], key: impl Fn(u32) -> K) -> Vec<u32> {
    let graph = crate::graph::Graph::new(nodes, edges);
    let mut waits_for = vec![0_u32; nodes as usize];
    edges.iter().for_each(|edge| waits_for[edge.to as usize] += 1);
    let free = (0..nodes).filter(|&node| waits_for[node as usize] == 0);
    let mut heap: BinaryHeap<Reverse<(K, u32)>> =
        free.map(|node| Reverse((key(node), node))).collect();
    let mut by_key: Vec<u32> = (0..nodes).collect();
    by_key.sort_by_key(|&node| Reverse(key(node)));
    let (mut done, mut sequence) = (vec![false; nodes as usize], Vec::new());
    loop {
        let next = match heap.pop() {
            Some(Reverse((_, node))) => node,
            None => match by_key.pop() {
                Some(node) => node,
                None => return sequence,
            },
        };
        if std::mem::replace(&mut done[next as usize], true) {
            continue;
        }
        sequence.push(next);
        for edge in graph.leaving(next) {
            let left = &mut waits_for[edge.to as usize];
            *left -= 1;
            if *left == 0 && !done[edge.to as usize] {
                heap.push(Reverse((key(edge.to), edge.to)));
            }
        }
    }
}

/// The approximate time of each transaction, and its position among those of the same time: not before its beginning
/// and those of transactions with earlier commits; the middle of its time if its position is unknown.
fn likely_times(facts: &Facts<'_>) -> Vec<(u64, u64)> {
    let heads = &facts.history.heads;
    let mut times: Vec<_> = heads.iter().map(|head| (head.begin / 2 + head.end / 2, 0)).collect();
    let positions = heads.iter().enumerate().filter_map(|(at, head)| Some((head.commit?, at)));
    let mut latest = 0;
    for (position, at) in positions.collect::<BTreeMap<_, _>>() {
        latest = heads[at].begin.max(latest);
        times[at] = (latest, position);
    }
    times
}

/// Adds the pairs of versions that positions of commits prove.
fn add_commits(facts: &Facts<'_>, proved: &mut Vec<(VersionId, VersionId)>) {
    let history = facts.history;
    if history.heads.iter().all(|head| head.commit.is_none()) {
        return;
    }
    for key in 0..number(history.keys.len()) {
        let commit = |version: &VersionId| history.head(facts.writer(*version)).commit;
        let mut known: Vec<_> = facts.versions_of(key).to_vec();
        known.retain(|version| commit(version).is_some());
        known.sort_by_key(commit);
        proved.extend(known.windows(2).map(|pair| (pair[0], pair[1])));
    }
}

/// Edges between successive transactions of a session, if one had ended when the next began.
fn sessions(facts: &Facts<'_>) -> Vec<Edge> {
    let history = facts.history;
    let mut counted: Vec<TxnId> =
        history.txns().filter(|&txn| facts.counted[txn as usize]).collect();
    counted.sort_by_key(|&txn| {
        let head = history.head(txn);
        (head.session, head.begin, head.end, txn)
    });
    let mut edges = Vec::new();
    let mut last: Option<TxnId> = None;
    for txn in counted {
        let head = history.head(txn);
        if let Some(before) = last {
            let other = history.head(before);
            if other.session == head.session && other.end <= head.begin {
                edges.push(Edge::plain(before, txn, Why::Session));
            }
        }
        // The place of a transaction of unknown outcome proves nothing: it may take effect later.
        if head.outcome == Outcome::Committed {
            last = Some(txn);
        }
    }
    edges
}

/// Edges of real time: each end of a transaction is a barrier, which leads to the next barrier and to the
/// transactions that began after it.
fn clock(facts: &Facts<'_>) -> (Vec<Edge>, u32) {
    let history = facts.history;
    let counts = |txn: &TxnId| facts.counted[*txn as usize];
    let ended = |txn: &TxnId| counts(txn) && history.head(*txn).outcome == Outcome::Committed;
    let mut ends: Vec<(u64, TxnId)> =
        history.txns().filter(ended).map(|txn| (history.head(txn).end, txn)).collect();
    ends.sort_unstable();
    let barrier = |i: usize| number(history.len() + i);
    let mut edges = Vec::with_capacity(3 * ends.len());
    for (i, &(_, txn)) in ends.iter().enumerate() {
        edges.push(Edge::plain(txn, barrier(i), Why::RealTime));
        if i > 0 {
            edges.push(Edge::plain(barrier(i - 1), barrier(i), Why::Barrier));
        }
    }
    for txn in history.txns().filter(counts) {
        let begin = history.head(txn).begin;
        let before = ends.partition_point(|&(end, _)| end < begin);
        if before > 0 {
            edges.push(Edge::plain(barrier(before - 1), txn, Why::Barrier));
        }
    }
    (edges, barrier(ends.len()))
}
