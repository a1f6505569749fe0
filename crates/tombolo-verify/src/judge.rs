//! From a history to a verdict: combines the results of the searches for all levels.

use crate::explain;
use crate::facts::{Facts, number};
use crate::graph::Edge;
use crate::history::{History, TxnId};
use crate::order::Orders;
use crate::search::{Found, search};
use crate::verdict::{Anomaly, Beyond, Holds, Kind, Level, Levels, Open, Verdict};

/// The default limit of edges that are examined before giving up: some seconds.
pub const EFFORT: u64 = 100_000_000;

/// The most sets of unknown transactions that are tried.
const SETS_MAX: usize = 64;

impl History {
    /// Determines whether it has this level, which levels it has, and its anomalies.
    #[must_use]
    pub fn judge(&self, level: Level) -> Verdict {
        self.judge_within(level, EFFORT)
    }

    /// The same, examining at most about `effort` edges of graphs: beyond that the result is undecided.
    #[must_use]
    pub fn judge_within(&self, level: Level, mut effort: u64) -> Verdict {
        // A removal by a transaction of unknown outcome may explain an absence.
        let optional = Facts::new(self, &[]).optional;
        let sets = 1_usize.checked_shl(number(optional.len())).unwrap_or(usize::MAX);
        let chosen = |set: usize| -> Vec<TxnId> {
            let of_set = optional.iter().enumerate().filter(|&(i, _)| set >> i.min(63) & 1 == 1);
            of_set.map(|(_, &txn)| txn).collect()
        };
        // The common case first: one of them explains everything.
        for set in 0..sets.min(SETS_MAX) {
            let strict = &[Level::StrictSerializable];
            let verdict = attempt(self, &chosen(set), level, strict, &mut effort);
            if verdict.levels.of(Level::StrictSerializable) == Holds::Yes {
                return verdict;
            }
            if optional.is_empty() {
                break;
            }
        }
        let mut verdict = attempt(self, &[], level, &Level::ALL, &mut effort);
        let mut all = verdict.levels;
        for set in 1..sets.min(SETS_MAX) {
            let other = attempt(self, &chosen(set), level, &Level::ALL, &mut effort);
            let tried = verdict.open.tried + other.open.tried;
            all = either(all, other.levels);
            if held(&other.levels) > held(&verdict.levels) {
                verdict = other;
            }
            verdict.open.tried = tried;
        }
        verdict.levels = all;
        verdict.open.outcomes = optional.len() as u64;
        if sets > SETS_MAX {
            verdict.levels.0.iter_mut().filter(|holds| **holds == Holds::No).for_each(|holds| {
                *holds = Holds::Undecided;
            });
        }
        verdict.holds = verdict.levels.of(level);
        if verdict.holds != Holds::No {
            verdict.anomalies.clear();
        }
        verdict
    }
}

/// The number of levels that hold.
fn held(levels: &Levels) -> usize {
    levels.0.iter().filter(|&&holds| holds == Holds::Yes).count()
}

/// The levels that hold if either of two attempts explains the history.
fn either(one: Levels, other: Levels) -> Levels {
    let mut both = one.0;
    for (one, other) in both.iter_mut().zip(other.0) {
        *one = match (*one, other) {
            (Holds::Yes, _) | (_, Holds::Yes) => Holds::Yes,
            (Holds::No, Holds::No) => Holds::No,
            _ => Holds::Undecided,
        };
    }
    Levels(both)
}

/// Judges the history with these unknown transactions counted, too.
fn attempt(
    history: &History,
    included: &[TxnId],
    level: Level,
    tested: &[Level],
    effort: &mut u64,
) -> Verdict {
    let facts = Facts::new(history, included);
    let counted = facts.counted.iter().filter(|&&counts| counts).count() as u64;
    let mut verdict = Verdict {
        level,
        holds: Holds::No,
        levels: Levels([Holds::No; 5]),
        counted,
        open: Open::default(),
        anomalies: facts.direct.iter().map(|found| explain::direct(&facts, found)).collect(),
    };
    if !verdict.anomalies.is_empty() {
        verdict.anomalies.sort_by_key(|anomaly| anomaly.kind);
        return verdict;
    }
    let orders = Orders::new(&facts);
    let mut found: [Option<Found>; 5] = [const { None }; 5];
    let mut levels = [None; 5];
    // The strongest first: if it holds, so do the others.
    for &tested in tested.iter().rev() {
        if levels[tested as usize].is_some() {
            continue;
        }
        let share = &mut (*effort / 2);
        let before = *share;
        let (result, open) = search(&orders, tested, share);
        *effort -= before - *share;
        verdict.open.tried += open.tried;
        if tested == level || tested == Level::StrictSerializable {
            verdict.open = Open { tried: verdict.open.tried, ..open };
        }
        levels[tested as usize] = Some(match result {
            Found::Order(_) => Holds::Yes,
            Found::NoOrder { .. } => Holds::No,
            Found::Nothing => Holds::Undecided,
        });
        if matches!(result, Found::Order(_)) {
            for weaker in Level::ALL.into_iter().filter(|&weaker| tested.implies(weaker)) {
                levels[weaker as usize] = Some(Holds::Yes);
            }
        }
        found[tested as usize] = Some(result);
    }
    verdict.levels = Levels(levels.map(|holds| holds.unwrap_or(Holds::Undecided)));
    // An anomaly of a level is one of each stronger level.
    let found_broken = verdict.levels;
    for stronger in Level::ALL {
        let breaks =
            |weaker: &Level| stronger.implies(*weaker) && found_broken.of(*weaker) == Holds::No;
        if Level::ALL.iter().any(breaks) {
            verdict.levels.0[stronger as usize] = Holds::No;
        }
    }
    verdict.holds = verdict.levels.of(level);
    verdict.anomalies.extend(worst(&orders, level, &found));
    verdict
}

/// The anomaly that breaks the weakest level.
fn worst(orders: &Orders<'_, '_>, level: Level, found: &[Option<Found>; 5]) -> Option<Anomaly> {
    let broken = |broken: &Level| {
        let edges = match &found[*broken as usize] {
            Some(Found::NoOrder { edges, by_exclusion, is_proved }) => {
                Some((edges, *by_exclusion, *is_proved))
            }
            _ => None,
        };
        edges.filter(|_| level.implies(*broken)).map(|found| (*broken, found))
    };
    let (broken, (edges, by_exclusion, is_proved)) = Level::ALL.iter().find_map(broken)?;
    let tell = |edges: &[Edge]| {
        explain::anomaly(orders.facts, orders.nodes(), broken, edges, by_exclusion)
    };
    let proved = tell(edges);
    // What follows from contradictory assumptions may look worse than it is: a circle that read committed forbids,
    // where read committed holds.
    let looks_worse = broken != Level::ReadCommitted
        && proved.beyond == Beyond::Nothing
        && matches!(proved.kind, Kind::WriteCycle | Kind::CircularInformation);
    if is_proved && !looks_worse {
        return Some(proved);
    }
    // An order that a weaker level allows shows the anomaly of the stronger one.
    let weaker = Level::ALL.into_iter().rev().filter(|&weaker| broken.implies(weaker));
    let mut allowed = weaker.filter_map(|weaker| match &found[weaker as usize] {
        Some(Found::Order(decisions)) => Some(orders.edges(broken, decisions).0),
        _ => None,
    });
    Some(allowed.next().map_or(proved, |edges| tell(&edges)))
}
