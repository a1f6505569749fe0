//! The search for an order that explains a history at a level.
//!
//! An order is guessed and its graph built. If the graph has no cycle, the order explains everything: the level
//! holds. If it has a cycle of proved edges, the level does not hold. Any other cycle depends on assumptions, which
//! cannot all be true: it is kept, and the next order must break every cycle found so far (`choice.rs`). If no
//! order does, the level does not hold. So both answers are proofs; the effort is bounded, and beyond the bound
//! there is no answer.

use crate::choice::{Choices, Solved};
use crate::graph::{Edge, Graph, Paths};
use crate::order::{Assumption, Decision, Orders};
use crate::verdict::{Level, Open};

/// The result of a search.
#[derive(Debug)]
pub(crate) enum Found {
    /// An order, given by the decisions that lead to it.
    Order(Vec<Decision>),
    /// There is none: the edges of a graph that shows why.
    NoOrder {
        edges: Vec<Edge>,
        /// Whether assumptions were refuted before it.
        by_exclusion: bool,
        /// Whether the edges are proved; otherwise other orders lead to other cycles.
        is_proved: bool,
    },
    /// Undecided within the effort.
    Nothing,
}

/// The most cycles kept per component, each the one with the fewest assumptions from its start.
const CIRCLES_MAX: usize = 64;

/// Searches for an order; `effort` is the number of edges that may still be examined.
pub(crate) fn search(orders: &Orders<'_, '_>, level: Level, effort: &mut u64) -> (Found, Open) {
    let mut choices = Choices::default();
    let mut decisions: Vec<Decision> = Vec::new();
    let mut at_first: Option<(Vec<Edge>, Open)> = None;
    let mut tried = 0;
    loop {
        let (edges, open) = orders.edges(level, &decisions);
        tried += 1;
        let (_, open) = at_first.get_or_insert_with(|| (edges.clone(), open));
        open.tried = tried;
        let open = *open;
        *effort = effort.saturating_sub(edges.len() as u64 + u64::from(orders.nodes()));
        match circles(orders.nodes(), level, &edges) {
            Circles::None => return (Found::Order(decisions), open),
            Circles::Proved => {
                return (Found::no_order(edges, at_first, level, orders.nodes()), open);
            }
            Circles::Open { circles, work } => {
                *effort = effort.saturating_sub(work);
                circles.iter().for_each(|circle| choices.forbid(orders.facts, circle));
            }
        }
        match choices.solve(effort) {
            Solved::With(next) => decisions = next,
            Solved::Never(forced) => {
                let (closed, _) = orders.edges(level, &forced);
                let sure: Vec<Edge> = closed.into_iter().filter(Edge::is_sure).collect();
                let is_proved = matches!(circles(orders.nodes(), level, &sure), Circles::Proved);
                let edges = if is_proved { sure } else { edges };
                return (Found::NoOrder { edges, by_exclusion: true, is_proved }, open);
            }
            Solved::GaveUp => return (Found::Nothing, open),
        }
        if *effort == 0 {
            return (Found::Nothing, open);
        }
    }
}

impl Found {
    /// The result that there is no order, by proved edges: preferably by those of the first graph, where nothing was
    /// refuted yet.
    fn no_order(
        last: Vec<Edge>,
        at_first: Option<(Vec<Edge>, Open)>,
        level: Level,
        nodes: u32,
    ) -> Self {
        let sure = |edges: Vec<Edge>| edges.into_iter().filter(Edge::is_sure).collect::<Vec<_>>();
        let first = sure(at_first.map_or_else(Vec::new, |(edges, _)| edges));
        if matches!(circles(nodes, level, &first), Circles::Proved) {
            return Self::NoOrder { edges: first, by_exclusion: false, is_proved: true };
        }
        Self::NoOrder { edges: sure(last), by_exclusion: true, is_proved: true }
    }
}

/// The cycles of a graph.
enum Circles {
    None,
    /// A cycle of proved edges.
    Proved,
    /// Some cycles of each component, as their assumptions; and the number of edges examined.
    Open {
        circles: Vec<Vec<Assumption>>,
        work: u64,
    },
}

fn circles(nodes: u32, level: Level, edges: &[Edge]) -> Circles {
    let graph = match level {
        Level::Snapshot => Graph::doubled(nodes, edges),
        _ => Graph::new(nodes, edges),
    };
    let components = graph.components(|_| true);
    if components.is_empty() {
        return Circles::None;
    }
    if !graph.components(Edge::is_sure).is_empty() {
        return Circles::Proved;
    }
    let mut paths = Paths::new(&graph, &components);
    let mut begins: Vec<Vec<usize>> = vec![Vec::new(); components.len()];
    for (i, edge) in graph.edges.iter().enumerate() {
        if !edge.is_sure() && paths.is_inside(edge) {
            begins[paths.component_of(edge)].push(i);
        }
    }
    let cost = |edge: &Edge| (edge.assumptions() << 32) + 1;
    let mut found = Vec::new();
    for begins in begins {
        let step = begins.len().div_ceil(CIRCLES_MAX).max(1);
        let starts = begins.iter().step_by(step);
        let each = starts.filter_map(|&begin| paths.circle(begin, |_| true, cost, u64::MAX));
        found.extend(each.map(|(_, circle)| assumptions(&circle)));
    }
    found.sort_unstable();
    found.dedup();
    Circles::Open { circles: found, work: paths.work }
}

/// The assumptions of a cycle's edges.
fn assumptions(circle: &[Edge]) -> Vec<Assumption> {
    let mut all = Vec::new();
    for edge in circle {
        if edge.order_open {
            all.push(Assumption::Order(edge.before, edge.after));
        }
        if edge.read_open {
            all.push(Assumption::Saw(edge.read, edge.before));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}
