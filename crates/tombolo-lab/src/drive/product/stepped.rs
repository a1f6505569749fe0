//! A pipeline whose stages one thread steps, one after the other, so that the cost of each can be separated.
//!
//! Making room in the log, which has a thread of its own otherwise, is not counted. Not here: what is counted
//! of which transactions (`groups.rs`).

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    self, Builder, Caller, Durability, GroupLog, Pipeline, Spread, Stage, StageKind, Step, Tagged,
};
use tombolo_storage::profile::MemoryProfile;

use super::GROUP;
use crate::counters::meter::Meter;
use crate::drive::{Answered, Database, Request, kind_of};
use crate::workload::Workload;

/// The stages that calls pass, in their order.
pub(super) const STAGES: [StageKind; 3] =
    [StageKind::Execution, StageKind::Logging, StageKind::Output];

/// A pipeline whose stages are stepped one after the other.
pub(super) struct Stepped<P: MemoryProfile, W: Workload> {
    pub(super) pipeline: Pipeline<Database<P, W>>,
    stages: Vec<Box<dyn Stage>>,
    caller: Caller<Request<W>, Answered<W>>,
    /// Kept from group to group, as callers do: the output stage would allocate otherwise.
    replies: Vec<Tagged<Answered<W>>>,
}

impl<P: MemoryProfile, W: Workload> Stepped<P, W> {
    pub(super) fn start(
        database: Database<P, W>,
        log: Box<dyn GroupLog>,
        locate_ahead: Option<usize>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut options = pipeline::Options::new(&crate::settings::defaults(), 1);
        options.locate_ahead = Some(locate_ahead.unwrap_or(0)); // what is counted is not timed
        // Every stage is counted by itself, so no caller carries one.
        options.spread = Spread::One;
        // What happens must not depend on the time: no group is closed by it, and no transaction is
        // watched because one before took long, as all do under valgrind.
        options.group.seal_ns_max = u64::MAX;
        options.slice_ns_max = u64::MAX;
        let builder = Builder::new(database, options).log(log);
        let (pipeline, stages) = builder.assemble(clock);
        let caller = pipeline.caller(GROUP);
        Self { pipeline, stages, caller, replies: Vec::new() }
    }

    /// Steps a stage until it has nothing to do.
    pub(super) fn step(&mut self, kind: StageKind) {
        for stage in self.stages.iter_mut().filter(|stage| stage.kind() == kind) {
            while stage.step(0) == Step::Progress {}
        }
    }

    /// Runs a group; `only` this stage is counted, or all of them.
    pub(super) fn run(
        &mut self,
        inputs: &[W::Input],
        meter: &Meter,
        only: Option<StageKind>,
    ) -> Result<(), String> {
        let request = |&input: &W::Input| Request::Run { input, number: None };
        let calls = inputs.iter().zip(0..);
        let mut calls: Vec<_> = calls
            .map(|(input, tag)| self.caller.prepare(request(input), tag, Durability::Group))
            .collect();
        self.caller.try_submit_many(&mut calls).map_err(|refusal| refusal.to_string())?;
        let kind = kind_of(&inputs[0]);
        if only.is_none() {
            meter.transaction_begin(kind);
        }
        for stage in STAGES {
            if only == Some(stage) {
                meter.transaction_begin(kind);
            }
            self.step(stage);
            if only == Some(stage) {
                meter.transaction_end();
            }
        }
        if only.is_none() {
            meter.transaction_end();
        }
        self.replies.clear();
        self.caller.take(&mut self.replies);
        self.step(StageKind::Room);
        let answered = self.replies.len();
        if answered != inputs.len() {
            return Err(format!("{answered} of {} calls were answered", inputs.len()));
        }
        Ok(())
    }

    /// Ends all stages.
    pub(super) fn end(self) -> Pipeline<Database<P, W>> {
        let Self { pipeline, mut stages, .. } = self;
        pipeline.shut();
        while !stages.is_empty() {
            let step = |mut stage: Box<dyn Stage>| match stage.step(0) {
                Step::Ended => {
                    stage.retire();
                    None
                }
                Step::Progress | Step::IdleUntil(_) => Some(stage),
            };
            stages = stages.into_iter().filter_map(step).collect();
        }
        pipeline
    }
}
