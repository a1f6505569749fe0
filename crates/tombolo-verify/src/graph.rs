//! A direct serialization graph: an edge means that one transaction must precede another. Finds its cycles.
//!
//! Nodes are transactions, followed by barriers: points of the clock, with which real time needs two edges per
//! transaction instead of one per pair. Not here: the edges of a history (`order.rs`), the meaning of cycles
//! (`explain.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::facts::{NONE, VersionId};

/// The reason that one transaction must precede another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The second replaced a write of the first.
    WriteWrite,
    /// The second read a write of the first.
    WriteRead,
    /// The second replaced a row that the first read.
    ItemReadWrite,
    /// The second wrote a row that the first found absent.
    PredicateReadWrite,
    /// They follow each other in a session.
    Session,
    /// One had ended when the other began: from a transaction to the barrier of its end.
    RealTime,
    /// The same, from a barrier on.
    Barrier,
}

impl Why {
    /// Whether it is an antidependency.
    pub(crate) fn is_read_write(self) -> bool {
        matches!(self, Self::ItemReadWrite | Self::PredicateReadWrite)
    }
}

/// An edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) why: Why,
    /// The read from which it follows, or [`NONE`].
    pub(crate) read: u32,
    /// The versions from which it follows: the one written or read, and the one that replaced it.
    pub(crate) before: VersionId,
    pub(crate) after: VersionId,
    /// Whether nothing proves the order of the versions.
    pub(crate) order_open: bool,
    /// Whether nothing proves which version the read saw.
    pub(crate) read_open: bool,
}

impl Edge {
    /// An edge that does not follow from a version.
    pub(crate) fn plain(from: u32, to: u32, why: Why) -> Self {
        let (before, after) = (NONE, NONE);
        Self { from, to, why, read: NONE, before, after, order_open: false, read_open: false }
    }

    /// The number of assumptions that it depends on.
    pub(crate) fn assumptions(&self) -> u64 {
        u64::from(self.order_open) + u64::from(self.read_open)
    }

    /// Whether it is proved.
    pub(crate) fn is_sure(&self) -> bool {
        self.assumptions() == 0
    }
}

/// Nodes and edges; edges are sorted by their source.
#[derive(Debug)]
pub(crate) struct Graph {
    first: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

/// A strongly connected component.
pub(crate) type Component = Vec<u32>;

impl Graph {
    /// The graph of these edges.
    pub(crate) fn new(nodes: u32, given: &[Edge]) -> Self {
        let mut first = vec![0_u32; nodes as usize + 1];
        for edge in given {
            first[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut places = vec![0_u32; given.len()];
        for (i, edge) in given.iter().enumerate() {
            let place = &mut next[edge.from as usize];
            places[*place as usize] = crate::facts::number(i);
            *place += 1;
        }
        let edges = places.iter().map(|&i| given[i as usize]).collect();
        Self { first, edges }
    }

    /// The number of its nodes.
    pub(crate) fn nodes(&self) -> u32 {
        crate::facts::number(self.first.len() - 1)
    }

    fn out(&self, node: u32) -> std::ops::Range<usize> {
        self.first[node as usize] as usize..self.first[node as usize + 1] as usize
    }

    /// The outgoing edges of a node.
    pub(crate) fn leaving(&self, node: u32) -> &[Edge] {
        &self.edges[self.out(node)]
    }

    /// The graph in which no path has two consecutive antidependencies: it contains each node twice, the
    /// second time as reached by an antidependency.
    pub(crate) fn doubled(nodes: u32, edges: &[Edge]) -> Self {
        let mut all = Vec::with_capacity(edges.len() * 2);
        for edge in edges {
            let (from, to) = (edge.from * 2, edge.to * 2);
            if edge.why.is_read_write() {
                all.push(Edge { from, to: to + 1, ..*edge });
            } else {
                all.push(Edge { from, to, ..*edge });
                all.push(Edge { from: from + 1, to, ..*edge });
            }
        }
        Self::new(nodes * 2, &all)
    }

    /// The strongly connected components of at least two nodes, by edges accepted by `takes` (Tarjan, without
    /// recursion).
    pub(crate) fn components(&self, takes: impl Fn(&Edge) -> bool) -> Vec<Component> {
        let nodes = self.nodes() as usize;
        let (mut index, mut low) = (vec![NONE; nodes], vec![0_u32; nodes]);
        let mut on_stack = vec![false; nodes];
        let (mut stack, mut found) = (Vec::new(), Vec::new());
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut visited = 0;
        for root in 0..self.nodes() {
            if index[root as usize] != NONE {
                continue;
            }
            calls.push((root, self.out(root).start));
            while let Some(&mut (node, ref mut next)) = calls.last_mut() {
                let at = node as usize;
                if index[at] == NONE {
                    (index[at], low[at]) = (visited, visited);
                    visited += 1;
                    stack.push(node);
                    on_stack[at] = true;
                }
                let end = self.out(node).end;
                while *next < end && !takes(&self.edges[*next]) {
                    *next += 1;
                }
                if *next < end {
                    let to = self.edges[*next].to;
                    *next += 1;
                    if index[to as usize] == NONE {
                        calls.push((to, self.out(to).start));
                    } else if on_stack[to as usize] {
                        low[at] = low[at].min(index[to as usize]);
                    }
                    continue;
                }
                calls.pop();
                if let Some(&(caller, _)) = calls.last() {
                    low[caller as usize] = low[caller as usize].min(low[at]);
                }
                if low[at] == index[at] {
                    let begin = stack.iter().rposition(|&n| n == node).expect("it was pushed");
                    let component = stack.split_off(begin);
                    component.iter().for_each(|&node| on_stack[node as usize] = false);
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }
}

/// Cheapest paths in a graph, within one component; its tables are reused.
#[derive(Debug)]
pub(crate) struct Paths<'g> {
    graph: &'g Graph,
    /// The component of each node.
    within: Vec<u32>,
    /// For each node, the cost so far, the edge by which it was reached, and the search.
    reached: Vec<(u32, u64, usize)>,
    search: u32,
    /// Edges examined so far.
    pub(crate) work: u64,
}

impl<'g> Paths<'g> {
    pub(crate) fn new(graph: &'g Graph, components: &[Component]) -> Self {
        let mut within = vec![NONE; graph.nodes() as usize];
        for (i, component) in components.iter().enumerate() {
            component.iter().for_each(|&node| within[node as usize] = crate::facts::number(i));
        }
        let reached = vec![(0, 0, 0); graph.nodes() as usize];
        Self { graph, within, reached, search: 0, work: 0 }
    }

    /// Whether an edge stays in its component.
    pub(crate) fn is_inside(&self, edge: &Edge) -> bool {
        let component = self.within[edge.from as usize];
        component != NONE && component == self.within[edge.to as usize]
    }

    /// The component of an edge inside one.
    pub(crate) fn component_of(&self, edge: &Edge) -> usize {
        self.within[edge.from as usize] as usize
    }

    /// The cheapest cycle that begins with this edge and continues with edges accepted by `takes`, if it costs less
    /// than `limit`.
    pub(crate) fn circle(
        &mut self,
        begin: usize,
        takes: impl Fn(&Edge) -> bool,
        cost: impl Fn(&Edge) -> u64,
        limit: u64,
    ) -> Option<(u64, Vec<Edge>)> {
        let first = self.graph.edges[begin];
        let (start, goal) = (first.to, first.from);
        self.search += 1;
        let mut heap = BinaryHeap::from([Reverse((cost(&first), start))]);
        self.reached[start as usize] = (self.search, cost(&first), begin);
        while let Some(Reverse((so_far, node))) = heap.pop() {
            if so_far >= limit {
                return None;
            }
            if node == goal {
                return Some((so_far, self.way_back(start, goal, begin)));
            }
            if self.reached[node as usize].1 < so_far {
                continue;
            }
            for place in self.graph.out(node) {
                let edge = &self.graph.edges[place];
                self.work += 1;
                if !takes(edge) || !self.is_inside(edge) {
                    continue;
                }
                let total = so_far + cost(edge);
                let known = &mut self.reached[edge.to as usize];
                if known.0 != self.search || total < known.1 {
                    *known = (self.search, total, place);
                    heap.push(Reverse((total, edge.to)));
                }
            }
        }
        None
    }

    fn way_back(&self, start: u32, goal: u32, begin: usize) -> Vec<Edge> {
        let mut way = Vec::new();
        let mut node = goal;
        while node != start {
            let edge = self.graph.edges[self.reached[node as usize].2];
            way.push(edge);
            node = edge.from;
        }
        way.push(self.graph.edges[begin]);
        way.reverse();
        way
    }
}
