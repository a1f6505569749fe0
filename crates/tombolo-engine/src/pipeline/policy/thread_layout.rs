//! `ThreadLayout`: assigns stages to threads, with the threads' signals.
//!
//! Not here: starting threads (`assembly/`), stepping (`threads.rs`).

use std::sync::Arc;

use crate::pipeline::policy::options::Spread;
use crate::pipeline::stage::StageKind;
use crate::pipeline::transport::Signal;

/// The index of the execution stage's thread.
pub(crate) const BEFORE_LOG: usize = 0;
/// The index of the logging stage's thread, if it has its own.
pub(crate) const LOG: usize = 1;
/// The index of the callers' own thread, if there is one.
pub(crate) const CALLERS_OWN: usize = 2;

/// The assignment of stages to threads.
pub(crate) struct ThreadLayout {
    spread: Spread,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Parts of DB′, each with two checkpoint stages: those that prepare come first.
    pub(crate) parts: usize,
    /// Archive stages: one or none.
    archives: usize,
    pub(crate) signals: Vec<Arc<Signal>>,
}

impl ThreadLayout {
    pub(crate) fn new(
        spread: Spread,
        inputs: usize,
        outputs: usize,
        parts: usize,
        archives: usize,
    ) -> Self {
        // The room, archive and checkpoint stages get further threads, because they wait for the disk.
        let threads = 1
            + archives
            + 2 * parts
            + match spread {
                Spread::One => 1,
                Spread::Coalesced => 1 + inputs,
                Spread::Two | Spread::Carried => 2,
                Spread::Callers => 3,
                Spread::Each => 2 + inputs + outputs,
            };
        let signals = (0..threads).map(|_| Arc::default()).collect();
        Self { spread, inputs, outputs, parts, archives, signals }
    }

    /// The thread of the `n`-th stage of a kind.
    pub(crate) fn of(&self, kind: StageKind, n: usize) -> usize {
        use StageKind::{Archive, Checkpoint, Execution, Input, Logging, Output, Room};
        match (self.spread, kind) {
            (_, Checkpoint) => self.signals.len() - 2 * self.parts + n,
            (_, Archive) => self.signals.len() - 2 * self.parts - 1,
            (_, Room) => self.signals.len() - 2 * self.parts - self.archives - 1,
            (Spread::Coalesced, Input) => 1 + n,
            (Spread::One | Spread::Coalesced, _) => BEFORE_LOG,
            (Spread::Two | Spread::Carried, Input | Execution) => BEFORE_LOG,
            (Spread::Two | Spread::Carried, Logging | Output) => LOG,
            (Spread::Callers | Spread::Each, Execution) => BEFORE_LOG,
            (Spread::Callers | Spread::Each, Logging) => LOG,
            (Spread::Callers, Input | Output) => CALLERS_OWN,
            (Spread::Each, Input) => 2 + n,
            (Spread::Each, Output) => 2 + self.inputs + n,
        }
    }

    pub(crate) fn signal(&self, kind: StageKind, n: usize) -> Arc<Signal> {
        self.signals[self.of(kind, n)].clone()
    }

    pub(crate) fn signals(&self, kinds: &[StageKind]) -> Vec<Arc<Signal>> {
        let mut places: Vec<usize> = Vec::new();
        for &kind in kinds {
            let stages = if kind == StageKind::Input { self.inputs } else { 1 };
            places.extend((0..stages).map(|n| self.of(kind, n)));
        }
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| self.signals[place].clone()).collect()
    }
}
