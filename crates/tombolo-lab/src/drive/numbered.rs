//! Sessions whose calls are numbered (cli.md, `--acks`): the database holds which call of each session was the last to
//! commit, and the file of answers has each committed call before its session runs the next.
//!
//! The transactions run on the store without type, so that they are compiled once for all profiles: this is for
//! harnesses that kill the process, and times nothing. Not here: the pipeline's callers (`product/clients.rs`).

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;

use super::Tally;
use super::acks::Acks;
use super::sequences::{CallNumber, Numbered, Sequences};
use super::session::{NO_HINTS, execute};
use crate::failure::Failure;
use crate::store::{DynamicStore, Erased, Handles};
use crate::workload::Workload;

/// The sessions of a run.
pub(super) struct NumberedCalls {
    shared: Shared,
    callers: Vec<Caller>,
}

/// The table of all sessions' last calls.
pub(super) struct Shared {
    sequences: Sequences,
    handles: Arc<Handles>,
}

/// One session.
pub(super) struct Caller {
    client: u32,
    /// Its last call that committed.
    last: u64,
    acks: Acks,
}

impl NumberedCalls {
    /// Those of `callers` sessions, which continue where the database says that they ended.
    ///
    /// # Errors
    /// When the table cannot be made or read, or the file cannot be written.
    pub(super) fn open(
        store: &mut dyn DynamicStore,
        callers: u32,
        acks: &Path,
    ) -> Result<Self, Failure> {
        let opened = Sequences::open(&mut Erased::new(store), callers);
        let (sequences, last) = opened.map_err(|error| {
            Failure::environment(format!("the calls cannot be numbered: {error}"))
        })?;
        let handles = Arc::new(Handles::of(store.schema()));
        let caller = |(client, last)| Ok(Caller { client, last, acks: Acks::open(acks)? });
        let callers = (0..).zip(last).map(caller).collect::<Result<_, Failure>>()?;
        Ok(Self { shared: Shared { sequences, handles }, callers })
    }

    /// What the sessions share, and each of them.
    pub(super) fn split(&mut self) -> (&Shared, &mut [Caller]) {
        (&self.shared, &mut self.callers)
    }
}

impl Caller {
    /// Executes `input` as the session's next call; one that commits is in the file of answers then.
    ///
    /// # Errors
    /// As [`execute`]; when the file cannot be written.
    pub(super) fn execute<W: Workload>(
        &mut self,
        transactions: &W::Transactions,
        shared: &Shared,
        store: &mut dyn DynamicStore,
        input: &W::Input,
        (retries_max, tally): (u64, &mut Tally),
    ) -> Result<(), Stop> {
        let number = CallNumber { client: self.client, sequence: self.last + 1 };
        let mut has_committed = false;
        execute(input, retries_max, tally, || {
            let mut erased = Erased::with_handles(&mut *store, Arc::clone(&shared.handles));
            let mut numbered = Numbered::new(&mut erased, &shared.sequences, number);
            let answer = W::call(transactions, &mut numbered, input, NO_HINTS);
            has_committed = answer.is_ok();
            answer
        })?;
        if has_committed {
            self.last = number.sequence;
            self.acks.note(number);
            self.acks.write().map_err(|failure| {
                // Once: the run ends.
                let reason = Box::leak(failure.to_string().into_boxed_str());
                Stop::Error(Error::Poisoned { reason })
            })?;
        }
        Ok(())
    }
}
