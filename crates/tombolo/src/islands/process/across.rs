//! `AcrossProcesses`: a transaction of parts that run in several processes, and commit together or not at all.
//!
//! The parts are sent to the island of the first one, which coordinates. Not here: how islands agree (the engine's
//! `islands/commit/`), what passes between them (`supervisor.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use tombolo_engine::command_log::Arguments;
use tombolo_engine::link::all_counted;

use super::super::key::IslandKey;
use super::IslandProcedure;
use super::code::{answers, put_step};
use super::database::IslandProcesses;
use crate::calls::wait_a_moment;
use crate::error::Error;
use crate::processes::own::{refuse_long, unlike};
use crate::processes::wire::{self, Item};
use crate::processes::{decoded, errors};

/// How long a transaction waits until islands that are up reach each other.
const REACHED_MAX: Duration = Duration::from_secs(5);
const REACHED_WAIT: Duration = Duration::from_millis(1);

/// The answer of a part, once its transaction has committed.
pub struct SentPart<A> {
    /// The place of its island's part, and of its step in that.
    place: (usize, usize),
    answer: PhantomData<fn() -> A>,
}

impl<A> fmt::Debug for SentPart<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentPart").finish_non_exhaustive()
    }
}

/// What an island does.
struct PartOfIsland {
    island: usize,
    steps: usize,
    bytes: Vec<u8>,
}

/// A transaction over several processes that is put together; see [`IslandProcesses::across`].
#[must_use = "nothing runs before `commit` is called"]
pub struct AcrossProcesses<'d> {
    database: &'d IslandProcesses,
    parts: Vec<PartOfIsland>,
}

/// The answers of a transaction that has committed.
#[derive(Debug)]
pub struct SentAnswers {
    /// Of each island's part, with the island.
    parts: Vec<(usize, Vec<Vec<u8>>)>,
}

impl SentAnswers {
    /// The answer of a part.
    ///
    /// # Errors
    /// [`Error::InIsland`] when the answer's type does not decode what it encodes.
    ///
    /// # Panics
    /// When it is a part of another transaction.
    pub fn take<A: Arguments>(&self, part: SentPart<A>) -> Result<A, Error> {
        let (at, step) = part.place;
        let (island, answers) = &self.parts[at];
        decoded(&answers[step]).ok_or_else(|| unlike(*island))
    }
}

impl<'d> AcrossProcesses<'d> {
    pub(super) const fn new(database: &'d IslandProcesses) -> Self {
        Self { database, parts: Vec::new() }
    }

    /// Adds a call of a procedure at a key. It may run more than once before the transaction commits: if it meets what
    /// another transaction holds, it is undone and runs again.
    ///
    /// # Errors
    /// As [`Islands::island_of`](crate::Islands::island_of); [`Error::InIsland`] for an input that is too long to be
    /// sent.
    pub fn part<I, A>(
        &mut self,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
    ) -> Result<SentPart<A>, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let island = self.database.island_of(key)?;
        self.part_on(island, procedure, input)
    }

    /// Adds a call on every island, with the same input: the answers are in the order of islands.
    ///
    /// # Errors
    /// As [`AcrossProcesses::part`].
    pub fn everywhere<I, A>(
        &mut self,
        procedure: &IslandProcedure<I, A>,
        input: &I,
    ) -> Result<Vec<SentPart<A>>, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let islands = 0..self.database.islands();
        islands.map(|island| self.part_on(island, procedure, input)).collect()
    }

    fn part_on<I, A>(
        &mut self,
        island: usize,
        procedure: &IslandProcedure<I, A>,
        input: &I,
    ) -> Result<SentPart<A>, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let (number, input) = self.database.processes.ready(procedure, island, input)?;
        let at = self.parts.iter().position(|part| part.island == island).unwrap_or_else(|| {
            self.parts.push(PartOfIsland { island, steps: 0, bytes: Vec::new() });
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        put_step(&mut part.bytes, number, &input);
        part.steps += 1;
        Ok(SentPart { place: (at, part.steps - 1), answer: PhantomData })
    }

    /// Runs the parts and commits them, all or none, and blocks until that is durable.
    ///
    /// # Errors
    /// The error of a part, as if it were a call: nothing was changed on any island. [`Error::IslandRestarts`] when an
    /// island is not there: nothing was changed. [`Error::AnswerLost`] when the process of the first part's island
    /// ended meanwhile: it may have committed, on all islands or on none.
    pub fn commit(self) -> Result<SentAnswers, Error> {
        let Self { database, parts } = self;
        let Some(first) = parts.first().map(|part| part.island) else {
            return Ok(SentAnswers { parts: Vec::new() });
        };
        refuse_long(first, parts.iter().map(|part| part.bytes.len() + 8).sum())?;
        let seats = &database.supervised().seats;
        let item = |call| {
            let begin = Item::new(wire::BEGIN).u64(call);
            let add = |begin: Item, part: &PartOfIsland| {
                begin.u16(part.island as u16).counted(&part.bytes)
            };
            parts.iter().fold(begin, add).end()
        };
        let mut waited = Duration::ZERO;
        let answer = loop {
            if let Some(down) = parts.iter().find(|part| !seats[part.island].is_up()) {
                return Err(seats[down.island].refusal());
            }
            match database.supervised().call(first, item) {
                // All are up, and have not greeted each other yet.
                Err(error) if errors::is_unreached(&error) && waited < REACHED_MAX => {
                    wait_a_moment(REACHED_WAIT);
                    waited += REACHED_WAIT;
                }
                answer => break answer?,
            }
        };
        let results = all_counted(&answer).filter(|results| results.len() == parts.len());
        let results = results.ok_or_else(|| unlike(first))?;
        let all = parts.iter().zip(results).map(|(part, result)| {
            let answers = answers(result).filter(|answers| answers.len() == part.steps);
            Ok((part.island, answers.ok_or_else(|| unlike(part.island))?))
        });
        Ok(SentAnswers { parts: all.collect::<Result<_, Error>>()? })
    }
}

impl fmt::Debug for AcrossProcesses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let islands: Vec<_> = self.parts.iter().map(|part| part.island).collect();
        f.debug_struct("AcrossProcesses").field("islands", &islands).finish_non_exhaustive()
    }
}
