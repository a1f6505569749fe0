//! `Fetching`: a part's request for rows, until the log is durable up to the moment at which it was served.
//!
//! ```text
//!   ask ──► asked ──served──► waits until the log is durable ──► back to the part
//!             │ ▲
//!    not taken▼ │ a moment later
//!           put off ──the execution stage has ended──► served here, and the log is durable when it is closed
//! ```
//!
//! Not here: the content of a request, and writing its blocks (`preparing.rs`). Invariant: a copied block reaches the
//! part only when the log is durable up to the last moment at which a part of the block was copied.

use std::sync::Arc;

use tombolo_storage::memory::image::{CheckpointPart, Request};
use tombolo_storage::plant::{self, Plant};

use super::asked::{AskRows, Asked, Fetched};
use crate::pipeline::state::Shared;

/// How soon it is looked again whether the log is durable, or whether the execution stage takes a request.
const LOOK_NS: u64 = 500_000;

/// See the module's head.
pub(crate) struct Fetching {
    rows: Option<Arc<dyn AskRows>>,
    asked: Arc<Asked>,
    state: State,
}

enum State {
    /// Nothing, or something that has not come back.
    Nothing,
    /// It was not taken; it is asked again at this time.
    PutOff(Request, u64),
    /// It waits until the log is durable up to this position.
    Served(Request, u64),
}

impl Fetching {
    /// Of a stage that finds rows there, if it needs any.
    pub(crate) fn new(rows: Option<Arc<dyn AskRows>>, asked: Asked) -> Self {
        Self { rows, asked: Arc::new(asked), state: State::Nothing }
    }

    /// Asks for what a part wants; whether it wants anything.
    ///
    /// # Errors
    /// That there are no rows to be asked, in words.
    pub(crate) fn ask(&self, part: &mut CheckpointPart) -> Result<bool, String> {
        let Some(request) = part.request() else { return Ok(false) };
        let rows = self.rows.as_ref().ok_or_else(no_rows)?;
        rows.ask(request, &self.asked);
        Ok(true)
    }

    /// Gives a part what has come back, once the log is durable; until when to wait for that, if for anything.
    /// `is_closed` says that all of the log is.
    ///
    /// # Errors
    /// That there are no rows, in words.
    pub(crate) fn fetch<A>(
        &mut self,
        part: &mut CheckpointPart,
        shared: &Shared<A>,
        is_closed: bool,
        now_ns: u64,
    ) -> Result<Option<u64>, String> {
        match self.asked.take() {
            Some(Fetched::Served(request, position)) => {
                self.state = State::Served(request, position)
            }
            Some(Fetched::NotTaken(request)) => {
                self.state = State::PutOff(request, now_ns + LOOK_NS)
            }
            Some(Fetched::NoRows) => return Err(no_rows()),
            None => {}
        }
        match std::mem::replace(&mut self.state, State::Nothing) {
            State::Nothing => Ok(None),
            State::PutOff(request, again_ns) if now_ns < again_ns => {
                self.state = State::PutOff(request, again_ns);
                Ok(Some(again_ns))
            }
            State::PutOff(mut request, _) => {
                let rows = self.rows.as_ref().ok_or_else(no_rows)?;
                match rows.ask_retired(&mut request) {
                    None => rows.ask(request, &self.asked),
                    Some(false) => return Err(no_rows()),
                    Some(true) => self.state = State::Served(request, u64::MAX),
                }
                Ok(Some(now_ns))
            }
            State::Served(request, position) => {
                let is_durable = shared.durable() >= position || is_closed;
                if !is_durable && !plant::is(Plant::BlockWrittenEarly) {
                    self.state = State::Served(request, position);
                    return Ok(Some(now_ns + LOOK_NS));
                }
                part.served(request, shared.durable_group());
                Ok(Some(now_ns))
            }
        }
    }
}

fn no_rows() -> String {
    "the store shows no rows to be copied for a checkpoint: it has failed, or this program keeps them \
     to itself (checkpoint_copy = memory needs none)"
        .to_owned()
}
