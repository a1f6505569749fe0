//! `Answers`: the steps of a transaction over several islands, in the order in which a thread waits for their islands,
//! and what they answered.
//!
//! Not here: how a caller puts them together (`across.rs`), what a step is (`calls/registered.rs`).

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;

use tombolo_engine::islands::commit::IslandId;

use crate::calls::Step;

thread_local! {
    /// The number of this thread's next transaction: no other one has it, for all practical purposes.
    static NUMBER: Cell<u64> = Cell::new(RandomState::new().hash_one("transaction"));
}

/// The answer of a part, once it has run; see [`Answers`].
pub struct Part<A> {
    /// Of its transaction.
    number: u64,
    at: usize,
    answer: PhantomData<fn() -> A>,
}

impl<A> fmt::Debug for Part<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").finish_non_exhaustive()
    }
}

/// A step on an island.
pub(super) struct PlacedStep<'d> {
    pub(super) island: IslandId,
    /// Its number in the order in which the steps were given.
    at: usize,
    pub(super) step: Box<dyn Step + 'd>,
}

/// The answers of a transaction whose parts have all run.
pub struct Answers<'d> {
    number: u64,
    /// By island; those of one in the order in which they were given.
    pub(super) steps: Vec<PlacedStep<'d>>,
}

impl fmt::Debug for Answers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let islands: Vec<_> = self.steps.iter().map(|placed| placed.island).collect();
        f.debug_struct("Answers").field("islands", &islands).finish_non_exhaustive()
    }
}

impl<'d> Answers<'d> {
    /// Of a transaction without steps.
    pub(super) fn none() -> Self {
        let number = NUMBER.get();
        NUMBER.set(number.wrapping_add(1));
        Self { number, steps: Vec::new() }
    }

    /// Adds a step on an island, which answers with `A`.
    pub(super) fn add<A>(&mut self, island: IslandId, step: Box<dyn Step + 'd>) -> Part<A> {
        let at = self.steps.len();
        let behind = self.steps.partition_point(|placed| placed.island <= island);
        self.steps.insert(behind, PlacedStep { island, at, step });
        Part { number: self.number, at, answer: PhantomData }
    }

    /// The same without what its steps borrow.
    pub(super) fn owned(self) -> Answers<'static> {
        let owned = |PlacedStep { island, at, step }| PlacedStep { island, at, step: step.owned() };
        Answers { number: self.number, steps: self.steps.into_iter().map(owned).collect() }
    }

    /// The same, with these steps.
    pub(super) const fn with(number: u64, steps: Vec<PlacedStep<'d>>) -> Self {
        Self { number, steps }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    fn place<A>(&self, part: &Part<A>) -> Option<usize> {
        let place = || self.steps.iter().position(|placed| placed.at == part.at);
        (part.number == self.number).then(place).flatten()
    }

    /// The answer of a part.
    ///
    /// # Panics
    /// When it is a part of another transaction.
    pub fn take<A: 'static>(&mut self, part: Part<A>) -> A {
        let place = self.place(&part).expect("a part of the transaction that committed");
        let answer = self.steps[place].step.answer_mut().downcast_mut::<Option<A>>();
        answer.and_then(Option::take).expect("each part that has run has answered")
    }

    /// A copy of the answer of a part.
    ///
    /// # Panics
    /// When it is a part of another transaction.
    pub fn get<A: Clone + 'static>(&self, part: &Part<A>) -> A {
        let place = self.place(part).expect("a part of the transaction whose parts have run");
        let answer = self.steps[place].step.answer().downcast_ref::<Option<A>>();
        answer.and_then(Clone::clone).expect("each part that has run has answered")
    }
}
