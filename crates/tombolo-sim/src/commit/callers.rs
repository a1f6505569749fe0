//! The callers of a seed: each with its request, how often it ran, and whether it waits for an answer.
//!
//! A caller whose island crashes gets no answer. A caller tries again if its transaction must run again, or could not
//! reach an island. Not here: judging answers (`oracle.rs`).

use tombolo_engine::islands::commit::{Age, Answer, IslandId, Reason, TransactionNumber};

use super::requests::Request;

/// Runs of a request, at most, while it cannot reach an island.
const RUNS_MAX: u32 = 6;

#[derive(Debug)]
struct Caller {
    request: Request,
    runs: u32,
    /// When the last one began.
    began: u64,
    /// Its run under way, as far as there is one.
    number: Option<TransactionNumber>,
    waits: bool,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Callers(Vec<Caller>);

/// A run that is to follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) age: Option<Age>,
    /// The runs before it.
    pub(super) runs: u32,
}

impl Callers {
    pub(super) fn new(requests: Vec<Request>) -> Self {
        let caller = |request| Caller { request, runs: 0, began: 0, number: None, waits: false };
        Self(requests.into_iter().map(caller).collect())
    }

    fn of(&mut self, call: u64) -> &mut Caller {
        &mut self.0[call as usize]
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn request(&self, call: u64) -> &Request {
        &self.0[call as usize].request
    }

    /// When its last run began.
    pub(super) fn began(&self, call: u64) -> u64 {
        self.0[call as usize].began
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.iter().filter(|caller| caller.waits).count()
    }

    /// A run begins.
    pub(super) fn begin(&mut self, call: u64, now: u64) {
        let caller = self.of(call);
        caller.began = now;
        caller.runs += 1;
        caller.waits = true;
    }

    /// The machine gave it a number.
    pub(super) fn number(&mut self, call: u64, number: TransactionNumber) {
        self.of(call).number = Some(number);
    }

    /// It waits no more; says which run has ended.
    pub(super) fn end(&mut self, call: u64) -> Option<TransactionNumber> {
        let caller = self.of(call);
        caller.waits = false;
        caller.number.take()
    }

    /// An island crashed.
    pub(super) fn lose(&mut self, island: IslandId) {
        let of_it = self.0.iter_mut().filter(|caller| caller.request.island == island);
        of_it.for_each(|caller| caller.waits = false);
    }

    /// The run that follows an answer; its caller waits on.
    pub(super) fn again(&mut self, call: u64, answer: &Answer) -> Option<Again> {
        let caller = self.of(call);
        let runs = caller.runs;
        let age = match answer {
            Answer::RunAgain(age) => Some(*age),
            Answer::Aborted(Reason::TimedOut | Reason::Unreachable(_)) if runs < RUNS_MAX => None,
            Answer::Aborted(_) | Answer::Committed { .. } => return None,
        };
        caller.waits = true;
        Some(Again { age, runs })
    }
}
