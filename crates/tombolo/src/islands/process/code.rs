//! Procedures by number: in the process of an island, what calls and parts of transactions run.
//!
//! Inputs come as bytes and answers leave as bytes ([`Arguments`]); in between a procedure is what it is in a database
//! of one process. Not here: how they are declared (`mod.rs`), links (`child.rs`).

use tombolo_engine::command_log::Arguments;
use tombolo_engine::hints::Hints;
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::island::{Executed, holder};
use tombolo_engine::link::{all_counted, put_counted};
use tombolo_storage::memory::held::Locks;

use super::super::answers::Answers;
use super::super::parts::{Transaction, Why};
use crate::calls::{Body, Registered};
use crate::error::Stop;
use crate::processes::wire::In;
use crate::processes::{decoded, encoded, errors};
use crate::product::Product;
use crate::tx::{Guards, Tables};

/// A procedure whose input and answer are bytes.
pub(super) type Coded = Registered<Vec<u8>, Vec<u8>>;

/// The code of a procedure, with bytes around it.
pub(super) struct CodedBody<B>(pub(super) B);

fn input<T: Arguments>(bytes: &[u8]) -> Result<T, Stop> {
    decoded(bytes).ok_or(Stop::Abort("its input is not encoded as it is decoded"))
}

impl<B> Body for CodedBody<B>
where
    B: Body<Input: Arguments, Answer: Arguments>,
{
    type Input = Vec<u8>;
    type Answer = Vec<u8>;

    fn run(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        bytes: &Vec<u8>,
    ) -> Result<Vec<u8>, Stop> {
        let answer = self.0.run(store, guard, tables, &input(bytes)?)?;
        Ok(encoded(&answer))
    }

    fn step(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        bytes: &Vec<u8>,
        hints: &Hints,
    ) -> Result<Vec<u8>, Stop> {
        let answer = self.0.step(store, guard, tables, &input(bytes)?, hints)?;
        Ok(encoded(&answer))
    }
}

/// A step of a transaction, appended to its island's part.
pub(super) fn put_step(part: &mut Vec<u8>, procedure: u32, input: &[u8]) {
    part.extend_from_slice(&procedure.to_le_bytes());
    put_counted(part, input);
}

/// The procedures of a process, by number.
pub(in super::super) struct Code(Vec<Coded>);

/// What was sent names no procedure, or is cut off. All processes are one program, so it was damaged in memory.
const NO_PROCEDURE: Stop = Stop::Abort("what was sent names no procedure");

/// The most that the steps of a part may answer: it travels with the island's vote.
const PART_ANSWERS_BYTES_MAX: usize = 1 << 20;

const TOO_MUCH: Stop = Stop::Abort("its parts answer more than a megabyte on an island");

impl Code {
    pub(super) const fn new(procedures: Vec<Coded>) -> Self {
        Self(procedures)
    }

    pub(super) fn procedure(&self, number: u32) -> Option<&Coded> {
        self.0.get(number as usize)
    }

    /// The steps of a part.
    fn steps(&self, me: IslandId, part: &[u8]) -> Option<Answers<'_>> {
        let (mut from, mut steps) = (In(part), Answers::none());
        while !from.is_over() {
            let procedure = self.procedure(from.u32()?)?;
            steps.add::<Vec<u8>>(me, procedure.step(from.counted()?.to_vec()));
        }
        Some(steps)
    }

    /// Executes a part, which is set aside with the answers of its steps.
    pub(in super::super) fn run_part(
        &self,
        me: IslandId,
        (store, tables): (&mut Product, &Tables),
        locks: &Locks,
        part: &[u8],
    ) -> Executed {
        let refused =
            |why: Why| Executed::Refused(errors::encode(&why.into_error(&tables.known().get())));
        let Some(steps) = self.steps(me, part) else { return refused(Why::Stopped(NO_PROCEDURE)) };
        let transaction = Transaction::of_steps(steps.owned(), None);
        match transaction.run_part(me, store, locks, tables) {
            Ok(part) => {
                let mut answers = Vec::new();
                for placed in &transaction.answers().steps {
                    let answer = placed.step.answer().downcast_ref::<Option<Vec<u8>>>();
                    let answer = answer.and_then(Option::as_ref);
                    put_counted(&mut answers, answer.expect("each step that has run has answered"));
                }
                match answers.len() {
                    ..=PART_ANSWERS_BYTES_MAX => Executed::Done(part, answers),
                    _ => refused(Why::Stopped(TOO_MUCH)),
                }
            }
            Err(Why::Held(owner)) => Executed::Held(holder(owner)),
            Err(why) => refused(why),
        }
    }
}

/// The answers of the steps of a part.
pub(super) fn answers(part: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(all_counted(part)?.into_iter().map(<[u8]>::to_vec).collect())
}
