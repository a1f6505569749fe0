//! Deadlocks: each waiting transaction searches for a circle that it belongs to, before it falls asleep and after each
//! interval.
//!
//! The waits-for graph is not stored; a search reads its edges from the queues
//! (`Table::blockers`). A circle consists only of waiting transactions, and edges between waiting
//! transactions do not change while they wait; so the circle is complete when the last of them has queued its request.
//! Each transaction searches after it has queued its request, so the last one finds the circle. Only when a gap
//! vanishes does an edge appear, to the transaction that the gap's lock is handed on to: the next search finds that
//! circle. Searches run concurrently: two that find the same circle choose the same victim, and only one ends its
//! wait.
//!
//! The victim is the youngest of the circle (the greatest `age_rank`; of equals the higher
//! session): it has done the least work, and the oldest transaction always finishes. The victim's
//! wait ends with an error; it must abort, and keeps its locks until then.
//!
//! A search latches one bucket after another, so edges may be outdated when it ends.
//! It recognises an edge to a transaction that has ended by its session's count of
//! transactions, and believes a circle only if all transactions in it still wait for the same locks. A mistake costs
//! an unnecessary abort, nothing else.

use super::hierarchical::Hierarchical;
use super::name::LockName;
use super::session::{Session, Verdict};
use crate::latch::Latching;

/// A session in the transaction in which it was seen.
#[derive(Clone, Copy, Debug)]
struct Node {
    session: u32,
    transaction: u64,
}

/// One step of the path that is being searched.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: Node,
    /// The lock it waits for.
    name: LockName,
    /// Its edges not looked at yet: `edges[next..end]`.
    next: usize,
    end: usize,
}

/// The memory of a search.
#[derive(Debug, Default)]
struct Search {
    path: Vec<Step>,
    edges: Vec<Node>,
    /// Per session, the round that has been there.
    visited: Vec<u64>,
    round: u64,
}

impl<L: Latching> Hierarchical<L> {
    /// Breaks every circle that the wait of `session` closes. The victims, `session` perhaps among them, are
    /// handed their verdicts.
    pub(super) fn break_circles(&self, session: u32) {
        let mut search = Search::default();
        // Ends: each round ends a wait of a circle through `session`, or finds one ended.
        while self.find_circle(&mut search, session) {
            let victim = self.youngest(&search.path);
            self.table.cancel(victim.node.session, victim.name, Some(Verdict::Deadlock));
        }
    }

    /// Whether `session` waits for itself; the circle is then the path.
    fn find_circle(&self, search: &mut Search, session: u32) -> bool {
        search.path.clear();
        search.edges.clear();
        search.visited.resize(self.table.sessions.count(), 0);
        search.round += 1;
        let node = Node { session, transaction: self.session(session).transaction.get() };
        self.step(search, node);
        while let Some(step) = search.path.last_mut() {
            if step.next == step.end {
                search.path.pop();
                continue;
            }
            let edge = search.edges[step.next];
            step.next += 1;
            if edge.session == session {
                if search.path.iter().all(|step| self.still_waits(step)) {
                    return true;
                }
                continue;
            }
            let visited = &mut search.visited[edge.session as usize];
            if *visited != search.round {
                *visited = search.round;
                self.step(search, edge);
            }
        }
        false
    }

    /// Continues to `node` if it waits.
    fn step(&self, search: &mut Search, node: Node) {
        let Some(name) = self.session(node.session).waits_for() else { return };
        // Edges of steps that were taken back lie behind the path's last; they are written over.
        let next = search.path.last().map_or(0, |step| step.end);
        search.edges.truncate(next);
        self.table.blockers(node.session, |session| {
            let transaction = self.session(session).transaction.get();
            search.edges.push(Node { session, transaction });
        });
        if self.session(node.session).transaction.get() == node.transaction {
            search.path.push(Step { node, name, next, end: search.edges.len() });
        }
    }

    fn still_waits(&self, step: &Step) -> bool {
        let session = self.session(step.node.session);
        session.waits_for() == Some(step.name) && session.transaction.get() == step.node.transaction
    }

    fn youngest(&self, circle: &[Step]) -> Step {
        let rank = |step: &&Step| {
            let session = step.node.session;
            (self.session(session).age_rank.get(), session)
        };
        match circle.iter().max_by_key(rank) {
            Some(step) => *step,
            None => panic!("a circle has members"),
        }
    }

    fn session(&self, id: u32) -> &Session {
        self.table.sessions.get(id)
    }
}
