//! The history: what ran, in which order, what was acknowledged, and whether what came back after a
//! crash is a prefix of it.
//!
//! A *prefix* is the state after some number of steps, in the order in which they were executed:
//! atomic (no step is half there) and ordered (none is there without all before it). It must
//! contain every step whose answer left, everything an answer that left had read, and all that an
//! earlier recovery had shown. Where the medium broke a promise any prefix will do, but nothing
//! else will. There it may also be a prefix of an earlier *timeline*, which a recovery had cut off: if what the
//! cut wrote is lost without a trace, no log can tell that it was ever made. And indexes and columns may be
//! there whose making was cut off the log: an image that a checkpoint had begun names them. That is allowed:
//! indexes are derived from rows, and a column that was never written to is empty.
//!
//! Not here: crashes and recovery themselves (`world/`).

use super::violation::{Rule, Violation};
use crate::workload::additions::Addition;
use crate::workload::model::{Additions, Outcome, State};
use crate::workload::request::Request;
use crate::workload::step::Step;

#[derive(Clone, Debug)]
struct Entry {
    step: Step,
    /// The state's hash after it.
    hash: u64,
    /// What was added up to and with it.
    added: Additions,
    /// How many steps up to and with it changed something.
    writes: u64,
}

/// Everything that ran and was not lost, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
    state: State,
    /// How many changing steps must survive.
    floor: u64,
    /// What ran before a recovery that found less, oldest first.
    timelines: Vec<Vec<Entry>>,
}

impl History {
    /// Nothing ran yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state after everything.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing ran.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn writes(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.writes)
    }

    fn push(&mut self, step: Step, wrote: bool) -> usize {
        let before = self.entries.last().map_or_else(|| self.state.hash(), |entry| entry.hash);
        let hash = if wrote { self.state.hash() } else { before };
        let (added, writes) = (self.state.added, self.writes() + u64::from(wrote));
        self.entries.push(Entry { step, hash, added, writes });
        self.entries.len()
    }

    /// The next table was made; the step's place in the order.
    pub fn made_table(&mut self) -> usize {
        self.state.create_table();
        self.push(Step::Table, true)
    }

    /// The next index or column was added, or the last index dropped; the step's place in the order.
    pub(crate) fn added(&mut self, addition: Addition) -> usize {
        match addition {
            Addition::Index => self.state.added.indexes += 1,
            Addition::Column => self.state.added.columns += 1,
            Addition::IndexDrop => self.state.added.indexes -= 1,
        }
        self.push(Step::Added(self.state.added), true)
    }

    /// A transaction ran with the outcome `found`; returns its place in the order.
    ///
    /// # Errors
    /// When the model has another outcome.
    pub fn ran(&mut self, request: &Request, found: Outcome) -> Result<usize, Violation> {
        let (expected, wrote) = self.state.apply(request);
        let place = self.push(Step::Request(request.clone()), wrote);
        if found == expected {
            return Ok(place);
        }
        let what =
            format!("step {place}, {request:?}, had the outcome {found:?}, not {expected:?}");
        Err(Violation::new(Rule::RightAnswer, what))
    }

    /// The answer of the step at `place` left: it and all before it must survive.
    ///
    /// # Panics
    /// When there is no such step.
    pub fn acknowledge(&mut self, place: usize) {
        self.floor = self.floor.max(self.entries[place - 1].writes);
    }

    /// A recovery found `found`: judges it, and continues from there. With `broken_promises` any
    /// prefix is good enough. Says how many steps survived.
    ///
    /// # Errors
    /// What does not hold.
    pub fn recovered(&mut self, found: &State, broken_promises: bool) -> Result<usize, Violation> {
        let mut place = self.longest_prefix(found, broken_promises);
        if place.is_none() && broken_promises {
            place = self.go_back(found);
        }
        let Some(place) = place else {
            return Err(Violation::new(Rule::Prefix, self.describe(found)));
        };
        let mut state = self.state_after(place);
        let has_others = broken_promises && state.added != found.added;
        if has_others {
            state.added = found.added;
        }
        if let Some(difference) = found.difference(&state) {
            return Err(Violation::new(Rule::Prefix, format!("after step {place}: {difference}")));
        }
        let writes = place.checked_sub(1).map_or(0, |last| self.entries[last].writes);
        if writes < self.floor && !broken_promises {
            let what = format!(
                "{} changes were acknowledged, {writes} came back (step {place} of {})",
                self.floor,
                self.entries.len()
            );
            return Err(Violation::new(Rule::AcknowledgedIsDurable, what));
        }
        if place < self.entries.len() {
            self.timelines.push(self.entries.clone());
            self.entries.truncate(place);
        }
        self.state = state;
        if has_others {
            self.push(Step::Added(found.added), true);
        }
        self.floor = self.writes();
        Ok(place)
    }

    /// The place at which so many changes had been made, if the state there was `found`.
    pub fn as_of(&self, found: &State, writes: u64) -> Option<usize> {
        let hash = found.hash();
        let is_it =
            |entry: &Entry| (entry.hash, entry.added, entry.writes) == (hash, found.added, writes);
        let place = self.entries.iter().position(is_it).map(|position| position + 1);
        place.or((writes == 0 && hash == State::default().hash()).then_some(0))
    }

    fn longest_prefix(&self, found: &State, broken_promises: bool) -> Option<usize> {
        let hash = found.hash();
        let place = self.entries.iter().rposition(|entry| {
            entry.hash == hash && (broken_promises || entry.added == found.added)
        });
        let empty = (hash == State::default().hash()).then_some(0);
        place.map(|position| position + 1).or(empty)
    }

    /// Continues the newest timeline of which this state is a prefix.
    fn go_back(&mut self, found: &State) -> Option<usize> {
        let hash = found.hash();
        let is_part = |timeline: &Vec<Entry>| timeline.iter().any(|entry| entry.hash == hash);
        let position = self.timelines.iter().rposition(is_part)?;
        let current = std::mem::replace(&mut self.entries, self.timelines[position].clone());
        self.timelines.push(current);
        self.longest_prefix(found, true)
    }

    fn state_after(&self, place: usize) -> State {
        let mut state = State::default();
        for entry in &self.entries[..place] {
            match &entry.step {
                Step::Table => state.create_table(),
                Step::Added(added) => state.added = *added,
                Step::Request(request) => drop(state.apply(request)),
            }
        }
        state
    }

    /// What is wrong with a state that is no prefix, compared with the one its newest step stands
    /// for.
    fn describe(&self, found: &State) -> String {
        let is_there = |entry: &Entry| match &entry.step {
            Step::Table | Step::Added(_) => false,
            Step::Request(request) => found.clients.get(&request.client) == Some(&request.number),
        };
        let place = self.entries.iter().rposition(is_there).map_or(0, |position| position + 1);
        let difference = found.difference(&self.state_after(place)).unwrap_or_default();
        format!(
            "the newest change that came back is step {place} of {}, but {difference}",
            self.entries.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::request::Work;

    fn transfer(number: i64) -> Request {
        Request {
            client: 1,
            number,
            work: Work::Transfer { from: 0, to: 1, amount: 1 },
            sent_before: None,
        }
    }

    /// Three tables, accounts, and ten transfers; the states after each step.
    fn history() -> (History, Vec<State>) {
        let mut history = History::new();
        let mut states = vec![State::default()];
        for _ in 0..3 {
            history.made_table();
            states.push(history.state().clone());
        }
        let open = Request { client: 0, number: 1, work: Work::Open, sent_before: None };
        history.ran(&open, Outcome::Committed(0)).unwrap();
        states.push(history.state().clone());
        for number in 1..=10 {
            history.ran(&transfer(number), Outcome::Committed(1_000 - number as u64)).unwrap();
            states.push(history.state().clone());
        }
        (history, states)
    }

    #[test]
    fn every_prefix_is_one_and_later_steps_are_forgotten() {
        let (history, states) = history();
        for (place, state) in states.iter().enumerate() {
            let mut history = history.clone();
            assert_eq!(history.recovered(state, false), Ok(place));
            assert_eq!((history.len(), history.state()), (place, state));
            if place > 0 {
                let shorter = history.recovered(&states[place - 1], false).unwrap_err();
                assert_eq!(shorter.rule, Rule::AcknowledgedIsDurable, "it was shown already");
            }
        }
    }

    #[test]
    fn what_is_acknowledged_must_come_back() {
        let (mut history, states) = history();
        let place = history.len();
        let read = Request { client: 2, number: 1, work: Work::Audit, sent_before: None };
        history.ran(&read, Outcome::Committed(24_000)).unwrap();
        history.acknowledge(place + 1); // a read-only answer: what it read must survive
        let mut broken = history.clone();
        let lost = history.recovered(&states[place - 1], false).unwrap_err();
        assert_eq!(lost.rule, Rule::AcknowledgedIsDurable);
        assert_eq!(history.recovered(&states[place], false), Ok(place + 1));
        assert_eq!(broken.recovered(&states[place - 1], true), Ok(place - 1));
    }

    #[test]
    fn a_lying_medium_may_bring_an_earlier_timeline_back() {
        let (mut history, states) = history();
        assert_eq!(history.recovered(&states[8], false), Ok(8));
        let other = Request { client: 3, number: 1, ..transfer(1) };
        history.ran(&other, Outcome::Committed(1_000 - 5)).unwrap();
        let mut honest = history.clone();
        assert_eq!(honest.recovered(&states[11], false).unwrap_err().rule, Rule::Prefix);
        assert_eq!(history.recovered(&states[11], true), Ok(11));
        assert_eq!((history.len(), history.state()), (11, &states[11]));
    }

    #[test]
    fn a_step_left_out_or_halved_is_no_prefix() {
        let (mut history, states) = history();
        let mut state = states[8].clone();
        state.apply(&transfer(6)); // without the fifth
        let violation = history.recovered(&state, true).unwrap_err();
        assert_eq!(violation.rule, Rule::Prefix);
        assert!(violation.what.contains("step 10 of 14") && violation.what.contains("account 0"));
        let mut state = states[9].clone();
        state.accounts.get_mut(&0).unwrap().balance += 1;
        assert_eq!(history.recovered(&state, true).unwrap_err().rule, Rule::Prefix);
    }

    #[test]
    fn indexes_are_those_of_the_prefix_unless_a_promise_was_broken() {
        let (mut history, states) = history();
        assert_eq!(history.added(Addition::Index), 15);
        let end = history.state().clone();
        assert_eq!(history.clone().recovered(&end, false), Ok(15));
        let mut early = states[10].clone();
        early.added.indexes = 1;
        assert_eq!(history.clone().recovered(&early, false).unwrap_err().rule, Rule::Prefix);
        assert_eq!(history.recovered(&early, true), Ok(10));
        assert_eq!((history.len(), history.state()), (11, &early));
        let gone = history.clone().recovered(&states[10], false).unwrap_err();
        assert_eq!(gone.rule, Rule::AcknowledgedIsDurable, "it was shown already");
        assert_eq!(history.recovered(&early, false), Ok(11));
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let (mut history, _) = history();
        let wrong = history.ran(&transfer(11), Outcome::Committed(3)).unwrap_err();
        assert_eq!(wrong.rule, Rule::RightAnswer);
    }
}
