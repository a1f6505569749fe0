//! What must hold of ordered execution: each island comes back as a prefix of what ran there, with all that was
//! answered, and a transaction over several is in the prefixes of all its islands or of none.
//!
//! A transaction that only read on an island counts as one of it, too: what it has read there is part of what it wrote
//! elsewhere. Not here: how transactions are run and answered (`calls.rs`).

use super::requests::{LAST, Request, Rows, model, writes};
use crate::oracle::{Rule, Violation};

/// What ran on an island since the last recovery.
#[derive(Clone, Debug, Default)]
struct History {
    /// The rows after each transaction that wrote, with its number, from those that came back on.
    states: Vec<(u64, Rows)>,
    /// The place of the newest that was answered, or read for an answer.
    answered: usize,
}

/// On each of a transaction's islands the place behind it.
pub(super) type Places = Vec<(usize, usize)>;

/// A transaction over several islands that committed.
#[derive(Clone, Debug)]
struct Over {
    number: u64,
    /// Where it wrote.
    wrote: Vec<usize>,
    places: Places,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    histories: Vec<History>,
    over: Vec<Over>,
}

impl Oracle {
    pub(super) fn new(islands: usize) -> Self {
        let history = History { states: vec![(0, Rows::new())], answered: 0 };
        Self { histories: vec![history; islands], over: Vec::new() }
    }

    /// A transaction ran behind all others on its islands. Returns its answer, and the places behind it; none of it
    /// if it aborted.
    pub(super) fn ran(&mut self, request: &Request) -> (u64, Places) {
        let (mut so_far, mut wrote, mut places) = (0, Vec::new(), Places::new());
        for (island, operations) in &request.parts {
            let history = &mut self.histories[*island];
            let Some((_, rows)) = history.states.last() else { unreachable!("it began with one") };
            let mut rows = rows.clone();
            so_far = model(&mut rows, request.number, operations, so_far);
            if writes(operations) && !request.aborts {
                history.states.push((request.number, rows));
                wrote.push(*island);
            }
            places.push((*island, history.states.len() - 1));
        }
        if request.parts.len() > 1 && !wrote.is_empty() {
            self.over.push(Over { number: request.number, wrote, places: places.clone() });
        }
        (so_far, places)
    }

    /// A transaction was answered as durable.
    pub(super) fn answered(&mut self, places: &Places) {
        for (island, place) in places {
            let history = &mut self.histories[*island];
            history.answered = history.answered.max(*place);
        }
    }

    /// The rows of an island as they are now.
    pub(super) fn now(&self, island: usize) -> &Rows {
        self.histories[island]
            .states
            .last()
            .map_or_else(|| unreachable!("it began"), |(_, rows)| rows)
    }

    /// Islands came back with these rows, each at the place that is returned.
    pub(super) fn judge(&self, found: &[Rows]) -> Result<Vec<usize>, Violation> {
        let places = self.places(found)?;
        for over in &self.over {
            let has = |&(island, place): &(usize, usize)| places[island] >= place;
            let wrote = |at: &&(usize, usize)| over.wrote.contains(&at.0);
            let is_kept = over.places.iter().filter(wrote).any(has);
            let lacks = over.places.iter().find(|at| !has(at));
            if let Some((island, _)) = lacks.filter(|_| is_kept) {
                let what = format!(
                    "transaction {} came back, and island {island} has not what it did there",
                    over.number
                );
                return Err(Violation::new(Rule::Atomic, what));
            }
        }
        Ok(places)
    }

    /// What came back at these places stays, and goes on.
    pub(super) fn settle(&mut self, places: &[usize]) {
        self.over.clear();
        for (history, place) in self.histories.iter_mut().zip(places) {
            *history = History { states: vec![history.states[*place].clone()], answered: 0 };
        }
    }

    fn places(&self, found: &[Rows]) -> Result<Vec<usize>, Violation> {
        let numbered = self.histories.iter().zip(found).enumerate();
        let place = |(island, (history, rows)): (usize, (&History, &Rows))| {
            let last = rows.get(&LAST).map_or(0, |(_, by, _)| *by);
            let place = history.states.iter().position(|(number, _)| *number == last);
            let place =
                place.filter(|place| history.states[*place].1 == *rows).ok_or_else(|| {
                    let what = format!("island {island}: no state that it had is like {rows:?}");
                    Violation::new(Rule::Prefix, what)
                })?;
            if place < history.answered {
                let what = format!(
                    "island {island} came back with transaction {last}, and {} was answered",
                    history.states[history.answered].0
                );
                return Err(Violation::new(Rule::AcknowledgedIsDurable, what));
            }
            Ok(place)
        };
        numbered.map(place).collect()
    }
}
