//! Transactions in groups of [`GROUP`] on one thread: how the rungs below the pipeline run, and what is counted
//! on each.
//!
//! What a group costs, its records handed on and made durable, is shared by its transactions. Only the
//! transactions of one kind are in a group that is counted. Not here: how the stages of a pipeline are
//! separated (`stepped.rs`).

use std::hint::black_box;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::pipeline::{GroupLog, StageKind, ValueLogGroups};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;
use tombolo_storage::profile::MemoryProfile;

use super::stepped::{STAGES, Stepped};
use super::{NOT_LOADED, Product, State};
use crate::counters::CounterError;
use crate::counters::meter::Meter;
use crate::drive::{Answered, CountInputs, Group, Tally, kind_of};
use crate::plan::Part;
use crate::workload::{Workload, WorkloadInput};

/// Transactions that are made durable together: as many as a pipeline's batch.
pub const GROUP: usize = 256;

const LOG_FAILED: Stop = Stop::Error(Error::Poisoned {
    reason: "its log failed: is the disk full, or gone? give --data another directory",
});

impl<P: MemoryProfile, W: Workload> Product<P, W> {
    /// Has groups go to the log, where it is not with them yet.
    pub(super) fn take_files(&mut self) {
        if let Some(files) = self.files.take() {
            let mut log: Box<dyn GroupLog> = Box::new(ValueLogGroups::new(files.into_writer()));
            self.room = log.room_maker();
            self.log = Some(log);
        }
    }

    /// Runs a group of transactions, whatever becomes of each.
    #[inline(never)]
    fn run_group(
        &mut self,
        inputs: &[W::Input],
        mut ended: impl FnMut(&W::Input, Result<Answered<W>, Stop>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let State::Ready(database) = &mut self.state else { return Err(NOT_LOADED) };
        for input in inputs {
            ended(input, database.call(input))?;
        }
        database.store.take_log(&mut self.records);
        if let Some(log) = &mut self.log {
            let (records, transactions) = (&self.records, self.records.transactions());
            log.append(&[records.as_slice()], transactions).map_err(|_| LOG_FAILED)?;
            log.sync().map_err(|_| LOG_FAILED)?;
            self.usage.flushes += 1;
            self.usage.commits += transactions;
            self.usage.bytes += records.len() as u64;
            self.usage.flushed_bytes += records.len() as u64;
        }
        self.records.clear();
        Ok(())
    }

    /// Makes room in the log for the groups that come.
    fn make_room(&mut self) -> Result<(), Stop> {
        let Some(room) = &mut self.room else { return Ok(()) };
        while room.make().map_err(|_| LOG_FAILED)? {}
        Ok(())
    }

    /// Runs all of `inputs` in groups.
    pub(super) fn run_groups(
        &mut self,
        inputs: &[W::Input],
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        self.take_files();
        for group in inputs.chunks(GROUP) {
            self.run_group(group, |input, outcome| match outcome {
                Ok(answer) => {
                    black_box(&answer);
                    tally.committed(input.kind());
                    Ok(())
                }
                Err(stop) => tally.stopped(input.kind(), stop),
            })?;
            self.make_room()?;
        }
        Ok(())
    }
}

/// Groups of the transactions of one kind.
fn groups_of<I: WorkloadInput>(group: &Group<I>) -> Vec<Vec<I>> {
    let of_kind = group.inputs.iter().filter(|input| kind_of(*input) == group.kind);
    let inputs: Vec<I> = of_kind.copied().collect();
    inputs.chunks_exact(GROUP).map(<[I]>::to_vec).collect()
}

/// Counting.
impl<P: MemoryProfile, W: Workload> Product<P, W> {
    /// Runs what is counted of `group`.
    fn count_groups(&mut self, group: &Group<W::Input>) -> Result<(), CounterError> {
        let damaged =
            |what: &dyn std::fmt::Display| CounterError::Damaged(format!("{}: {what}", group.name));
        self.meter.only(Some(group.kind));
        for inputs in groups_of(group) {
            self.meter.transaction_begin(group.kind);
            let ran = self.run_group(&inputs, |_, outcome| black_box(outcome).map(|_| ()));
            self.meter.transaction_end();
            ran.and_then(|()| self.make_room()).map_err(|stop| damaged(&stop))?;
        }
        Ok(())
    }

    /// Counts; calls `report` after each group of what is counted: of all transactions of a kind, and
    /// in a pipeline of each stage besides.
    pub(super) fn count_with(
        &mut self,
        inputs: &CountInputs<W::Input>,
        by_stage: bool,
        mut report: impl FnMut(&Meter, &str) -> Result<(), CounterError>,
    ) -> Result<(), CounterError> {
        let damaged = |what: &dyn std::fmt::Display| CounterError::Damaged(what.to_string());
        if self.part != Part::Pipeline {
            for group in &inputs.groups {
                self.count_groups(group)?;
                report(&self.meter, &group.name)?;
            }
            return Ok(());
        }
        let database = self.take().map_err(|stop| damaged(&stop))?;
        let log = self.log.take().ok_or_else(|| damaged(&LOG_FAILED))?;
        let clock = Arc::new(SystemClock::new());
        let mut stepped = Stepped::start(database, log, self.plan.locate_ahead, clock);
        stepped.step(StageKind::Room);
        for group in &inputs.groups {
            self.meter.only(Some(group.kind));
            let stages = STAGES.into_iter().map(Some).filter(|_| by_stage);
            for only in std::iter::once(None).chain(stages) {
                for inputs in groups_of(group) {
                    stepped.run(&inputs, &self.meter, only).map_err(|what| damaged(&what))?;
                }
                let stage = only.map_or_else(String::new, |stage| format!(".{stage}"));
                report(&self.meter, &format!("{}{stage}", group.name))?;
            }
        }
        let closed = stepped.end().close();
        let database = closed.executor.filter(|_| closed.poison.is_none());
        let database = database.ok_or_else(|| damaged(&LOG_FAILED))?;
        (self.state, self.log) = (State::Closed(Box::new(database)), closed.log);
        Ok(())
    }

    pub(super) fn run_uncounted(
        &mut self,
        inputs: &CountInputs<W::Input>,
    ) -> Result<(), CounterError> {
        let ran = self.run_groups(&inputs.uncounted, &mut Tally::default());
        ran.map_err(|stop| CounterError::Damaged(stop.to_string()))
    }
}
