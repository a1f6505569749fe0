//! From a cyclic graph to an anomaly: the worst kind of cycle in it, and the shortest cycle of that kind, explained in
//! words.

use std::cmp::Reverse;

use crate::facts::{By, Direct, Facts, NONE};
use crate::graph::{Component, Edge, Graph, Paths, Why};
use crate::history::TxnId;
use crate::verdict::{Anomaly, Beyond, Kind, Level, Step};

/// The most edges examined in search of a shorter cycle.
const WORK_MAX: u64 = 20_000_000;

/// The edges that a kind of cycle may have.
#[derive(Clone, Copy, Debug)]
struct Mask {
    reads: bool,
    items: bool,
    predicates: bool,
    sessions: bool,
    clock: bool,
}

impl Mask {
    fn takes(self, edge: &Edge) -> bool {
        match edge.why {
            Why::WriteWrite => true,
            Why::WriteRead => self.reads,
            Why::ItemReadWrite => self.items,
            Why::PredicateReadWrite => self.predicates,
            Why::Session => self.sessions,
            Why::RealTime | Why::Barrier => self.clock,
        }
    }

    /// The kinds of cycles that `level` forbids, from the worst to the mildest.
    fn of(level: Level) -> Vec<Self> {
        let orders = match level {
            Level::StrictSerializable => &[(true, false), (true, true)][..],
            _ => &[(false, false)],
        };
        let mut masks = Vec::new();
        for &(sessions, clock) in orders {
            let (reads, items, predicates) = (false, false, false);
            let writes = Self { reads, items, predicates, sessions, clock };
            let reads = Self { reads: true, ..writes };
            let items = Self { items: true, ..reads };
            let all = [writes, reads, items, Self { predicates: true, ..items }];
            let kinds = match level {
                Level::ReadCommitted => 2,
                Level::RepeatableRead => 3,
                _ => 4,
            };
            masks.extend(&all[..kinds]);
        }
        masks
    }
}

/// The anomaly that a cyclic graph shows at `level`.
pub(crate) fn anomaly(
    facts: &Facts<'_>,
    nodes: u32,
    level: Level,
    edges: &[Edge],
    by_exclusion: bool,
) -> Anomaly {
    let plain = Graph::new(nodes, edges);
    // How far an edge leads back in time, in a graph that contains each transaction this many times.
    let begin = |node: u32| facts.history.heads.get(node as usize).map_or(0, |head| head.begin);
    let back = |times: u32| {
        move |edge: &Edge| i128::from(begin(edge.from / times)) - i128::from(begin(edge.to / times))
    };
    let circle = if level == Level::Snapshot {
        Mask::of(Level::ReadCommitted)
            .into_iter()
            .find_map(|mask| worst(&plain, |edge| mask.takes(edge), back(1)))
            .or_else(|| worst(&Graph::doubled(nodes, edges), |_| true, back(2)))
    } else {
        Mask::of(level).into_iter().find_map(|mask| worst(&plain, |edge| mask.takes(edge), back(1)))
    };
    let mut circle = circle.expect("a graph without an order has a cycle that the level forbids");
    if level == Level::Snapshot {
        let halve = |node: &mut u32| *node /= 2;
        if circle.iter().any(|edge| edge.why.is_read_write()) {
            circle.iter_mut().for_each(|edge| {
                halve(&mut edge.from);
                halve(&mut edge.to);
            });
        }
    }
    let steps = Narrator { facts }.circle(&circle);
    let has = |why| circle.iter().any(|edge| edge.why == why);
    let beyond = if has(Why::RealTime) {
        Beyond::RealTime
    } else if has(Why::Session) {
        Beyond::Session
    } else if level == Level::StrictSerializable {
        // The data alone allows an order: the clock refuted the assumptions on the way to this cycle.
        Beyond::RealTime
    } else {
        Beyond::Nothing
    };
    Anomaly { kind: kind(facts, &circle), beyond, steps, by_exclusion }
}

/// The shortest cycle of edges accepted by `takes`; cycles with a single antidependency are preferred.
fn worst(
    graph: &Graph,
    takes: impl Fn(&Edge) -> bool,
    back: impl Fn(&Edge) -> i128,
) -> Option<Vec<Edge>> {
    let components = graph.components(&takes);
    if components.is_empty() {
        return None;
    }
    let forwards = |edge: &Edge| takes(edge) && !edge.why.is_read_write();
    let begins = |edge: &Edge| takes(edge) && edge.why.is_read_write();
    let single = shortest(graph, &components, begins, forwards, &back);
    single.or_else(|| shortest(graph, &components, &takes, &takes, &back))
}

/// The shortest cycle whose first edge is accepted by `begins` and whose other edges by `takes`.
fn shortest(
    graph: &Graph,
    components: &[Component],
    begins: impl Fn(&Edge) -> bool,
    takes: impl Fn(&Edge) -> bool,
    back: impl Fn(&Edge) -> i128,
) -> Option<Vec<Edge>> {
    // A path along the clock is one step, regardless of the number of barriers.
    let cost = |edge: &Edge| u64::from(edge.why != Why::Barrier);
    let mut paths = Paths::new(graph, components);
    let mut best: Option<(u64, Vec<Edge>)> = None;
    // Each cycle has an edge that leads back in time: try those that lead back furthest first.
    let candidates = (0..graph.edges.len()).filter(|&i| begins(&graph.edges[i]));
    let mut candidates: Vec<usize> =
        candidates.filter(|&i| paths.is_inside(&graph.edges[i])).collect();
    candidates.sort_by_key(|&i| Reverse(back(&graph.edges[i])));
    for i in candidates {
        let limit = best.as_ref().map_or(u64::MAX, |best| best.0);
        best = paths.circle(i, &takes, cost, limit).or(best);
        if best.as_ref().is_some_and(|best| best.0 <= 2) || paths.work > WORK_MAX {
            break;
        }
    }
    best.map(|(_, circle)| circle)
}

/// The kind of a cycle.
fn kind(facts: &Facts<'_>, circle: &[Edge]) -> Kind {
    let count = |wanted: &dyn Fn(&Edge) -> bool| circle.iter().filter(|edge| wanted(edge)).count();
    let antidependencies = count(&|edge| edge.why.is_read_write());
    let key = |edge: &Edge| facts.versions.get(edge.after as usize).map(|version| version.key);
    match antidependencies {
        0 if count(&|edge| edge.why == Why::WriteRead) == 0 => Kind::WriteCycle,
        0 => Kind::CircularInformation,
        1 => {
            let first = circle.iter().find(|edge| edge.why.is_read_write()).and_then(key);
            let others = count(&|edge| edge.why == Why::WriteWrite && key(edge) == first);
            if others + 1 == circle.len() { Kind::LostUpdate } else { Kind::Single }
        }
        _ if count(&|edge| edge.why == Why::PredicateReadWrite) == 0 => Kind::ItemAntidependency,
        _ => Kind::Antidependency,
    }
}

/// An anomaly of one read.
pub(crate) fn direct(facts: &Facts<'_>, found: &Direct) -> Anomaly {
    let tell = Narrator { facts };
    let me = tell.name(found.txn);
    let key = facts.history.key_text(found.key);
    let value = |value| facts.history.value_text(value);
    let saw = format!("{me} read {key} = {}", value(found.seen));
    let other = tell.name(found.other);
    let why = match found.kind {
        Kind::AbortedRead => format!("{saw}, which {other} wrote and did not commit"),
        Kind::IntermediateRead => {
            format!("{saw}, which {other} wrote and replaced before it committed")
        }
        Kind::Internal => {
            match (facts.history.writers.get(&(found.key, found.seen.unwrap_or(NONE))), found.own) {
                (Some(&writer), None) if writer == found.txn => {
                    format!("{saw} where it had not written that, or had removed it")
                }
                (_, own) => format!("{saw} after its own operations had left {}", value(own)),
            }
        }
        _ => format!("{saw}, which no transaction of the history wrote"),
    };
    let line = |txn| facts.history.head(txn).line;
    let steps = vec![Step { line: line(found.txn), before: line(found.other), why }];
    Anomaly { kind: found.kind, beyond: Beyond::Nothing, steps, by_exclusion: false }
}

/// Explains edges in words.
struct Narrator<'f, 'h> {
    facts: &'f Facts<'h>,
}

impl Narrator<'_, '_> {
    /// The cycle, from its first line on; a path along the clock is one step.
    fn circle(&self, circle: &[Edge]) -> Vec<Step> {
        let transactions = self.facts.history.len();
        let mut steps: Vec<(TxnId, TxnId, Edge)> = Vec::new();
        let is_transaction = |node: u32| (node as usize) < transactions;
        let begin = circle.iter().position(|edge| is_transaction(edge.from)).unwrap_or_default();
        let mut from = NONE;
        for edge in circle[begin..].iter().chain(&circle[..begin]) {
            if is_transaction(edge.from) {
                from = edge.from;
            }
            if is_transaction(edge.to) {
                steps.push((from, edge.to, *edge));
            }
        }
        let first = steps.iter().enumerate().min_by_key(|(_, step)| step.0).map_or(0, |(i, _)| i);
        steps.rotate_left(first);
        let line = |txn| self.facts.history.head(txn).line;
        let shown = steps.iter();
        shown
            .map(|(from, to, edge)| Step {
                line: line(*from),
                before: line(*to),
                why: self.edge(*from, *to, edge),
            })
            .collect()
    }

    /// A transaction's name in reports.
    fn name(&self, txn: TxnId) -> String {
        let head = self.facts.history.head(txn);
        let name = head.name.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
        format!("line {}{name}", head.line)
    }

    fn edge(&self, from: TxnId, to: TxnId, edge: &Edge) -> String {
        let (history, facts) = (self.facts.history, self.facts);
        let (me, other) = (self.name(from), self.name(to));
        let (mine, others) = (history.head(from), history.head(to));
        let key = match (edge.read, facts.versions.get(edge.before as usize)) {
            (NONE, Some(version)) => history.key_text(version.key),
            (NONE, None) => String::new(),
            (read, _) => history.key_text(facts.reads[read as usize].key),
        };
        let made = |version| match facts.value(version) {
            Some(_) => format!("wrote {key} = {}", history.value_text(facts.value(version))),
            None => format!("removed {key}"),
        };
        let replaced = || match facts.value(edge.after) {
            Some(value) => format!("replaced by {}", history.value_text(Some(value))),
            None => "removed".to_owned(),
        };
        match edge.why {
            Why::WriteWrite => {
                format!("{me} {}, which {other} then {}", made(edge.before), replaced())
            }
            Why::WriteRead if facts.value(edge.before).is_some() => {
                format!("{me} {}, which {other} read", made(edge.before))
            }
            Why::WriteRead => format!("{me} {}, and {other} found none", made(edge.before)),
            Why::ItemReadWrite | Why::PredicateReadWrite => {
                let saw = match (facts.reads[edge.read as usize].by, facts.value(edge.before)) {
                    (_, Some(value)) => {
                        let value = history.value_text(Some(value));
                        return format!(
                            "{me} read {key} = {value}, which {other} then {}",
                            replaced()
                        );
                    }
                    (By::Scan, None) => "scanned its range and did not meet",
                    (By::LookUp, None) => "found no",
                    (By::Item, None) => "wrote where there was no",
                };
                format!("{me} {saw} {key}; then {other} {}", made(edge.after))
            }
            Why::Session => format!(
                "{me} had ended before {other} began, in the same session {}",
                history.sessions.name(mine.session)
            ),
            Why::RealTime | Why::Barrier => {
                format!(
                    "{me} had ended (at {}) before {other} began (at {})",
                    mine.end, others.begin
                )
            }
        }
    }
}
