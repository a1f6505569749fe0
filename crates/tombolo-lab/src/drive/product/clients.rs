//! The callers of a pipeline: `clients` callers, each with `in_flight` calls under way, in a closed
//! loop; or calls that begin at their times, answered or not, in an open one.
//!
//! In a closed loop a call that is answered is followed immediately by the caller's next. No caller is a
//! thread: the calling thread makes all calls and takes all answers, many at a time. Each call takes the next
//! input, so inputs are executed in their order, whichever caller has a call free, and the same
//! inputs leave the same rows. Every answer is timed, from handing the call to the pipeline, or in an
//! open loop from when the call should have begun, until its answer is taken; the clock is read once
//! per round of calls and once per round of answers. In an open loop the calling thread does not
//! sleep while nothing is due, so that no call begins late because of it.
//!
//! Not here: where inputs come from, what is measured of the process.

use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{
    Call, Caller, Durability, Failure as CallFailure, Pipeline, Reply, StageLoop,
};
use tombolo_engine::threads::give_way;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;
use tombolo_storage::profile::MemoryProfile;

use super::arrivals::Arrivals;
use super::executor::{Answered, Database, Request};
use crate::drive::Behind;
use crate::drive::acks::Acks;
use crate::drive::sequences::CallNumber;
use crate::drive::{ByKind, Tally, stopped};
use crate::failure::{Blamed, Failure};
use crate::histogram::Latencies;
use crate::workload::{Kind, Workload, WorkloadInput};

/// Calls under way where only the rows matter.
const BULK: usize = 4_096;
/// Time between two looks at how far a long batch is.
const LOOK_NS: u64 = 200_000_000;
/// How long an open loop looks for answers before it waits for one, to notice a pipeline that is broken.
const LOOKING_NS_MAX: u64 = 100_000_000;
/// How long a thread that steps stages itself sleeps at most.
const NAP: Duration = Duration::from_millis(1);

/// Measurements of answers.
pub(crate) struct Answers<'a> {
    /// How transactions ended.
    pub(crate) tally: &'a mut Tally,
    /// How long answers took, by kind.
    pub(crate) latencies: &'a mut ByKind,
    /// How long those took, of any kind, that came while a checkpoint was written.
    pub(crate) in_checkpoint: &'a mut Latencies,
}

/// A call under way.
#[derive(Clone, Copy)]
struct Slot {
    kind: Kind,
    number: Option<CallNumber>,
    made_ns: u64,
}

/// Callers that share one thread.
struct Group<W: Workload> {
    caller: Caller<Request<W>, Answered<W>>,
    durability: Durability,
    outlives_no_space: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    calls: Vec<Call<Request<W>>>,
    replies: Vec<(u64, Reply<Answered<W>>)>,
}

/// The parameters of a batch.
struct Batch<'b, 'a, 'w, I> {
    inputs: &'b [I],
    /// When no more calls are made.
    until_ns: u64,
    answers: &'b mut Answers<'a>,
    watch: Watch<'w>,
}

/// Reports of a running batch.
pub(crate) struct Watch<'b> {
    /// Says whether a checkpoint is being written.
    pub(crate) is_writing_checkpoint: &'b dyn Fn() -> bool,
    /// Called with how many were answered.
    pub(crate) progress: &'b mut dyn FnMut(usize),
}

/// The callers of one pipeline.
pub(crate) struct Clients<W: Workload> {
    clock: SystemClock,
    measured: Group<W>,
    bulk: Group<W>,
    /// The stages that run on this thread, where the settings say so.
    own: Option<StageLoop>,
    /// The last call of each client, where it is kept.
    sequences: Vec<u64>,
    acks: Option<Acks>,
    in_flight: usize,
    /// When measured calls begin, in an open loop.
    arrivals: Option<Arrivals>,
}

/// How callers call.
#[derive(Debug)]
pub(crate) struct Calling {
    /// How many callers.
    pub(crate) clients: usize,
    /// Calls each has under way.
    pub(crate) in_flight: usize,
    /// When their answers leave.
    pub(crate) durability: Durability,
    /// The last call of each that is in the database, where calls are numbered.
    pub(crate) sequences: Vec<u64>,
    /// Where answers are recorded.
    pub(crate) acks: Option<Acks>,
}

impl<W: Workload> Group<W> {
    fn new(caller: Caller<Request<W>, Answered<W>>, calls: usize, durability: Durability) -> Self {
        let none = Slot { kind: Kind::at(0), number: None, made_ns: 0 };
        let free = (0..calls as u32).rev().collect();
        let (calls_made, replies) = (Vec::with_capacity(calls), Vec::new());
        let slots = vec![none; calls];
        let outlives_no_space = false;
        Self { caller, durability, outlives_no_space, slots, free, calls: calls_made, replies }
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Makes a call for each of `inputs` for which one is free, and in an open loop due; how many.
    fn make(
        &mut self,
        inputs: &[W::Input],
        now_ns: u64,
        arrivals: &mut Option<&mut Arrivals>,
        mut number_of: impl FnMut(u32) -> Option<CallNumber>,
    ) -> usize {
        let count = inputs.len().min(self.free.len());
        for (made, input) in inputs[..count].iter().enumerate() {
            let made_ns = match arrivals {
                None => now_ns,
                Some(arrivals) => match arrivals.next(now_ns) {
                    Some(due_ns) => due_ns,
                    None => return made,
                },
            };
            let Some(at) = self.free.pop() else { unreachable!("there are enough") };
            let number = number_of(at);
            self.slots[at as usize] = Slot { kind: input.kind(), number, made_ns };
            let request = Request::Run { input: *input, number };
            self.calls.push(self.caller.prepare(request, at.into(), self.durability));
        }
        count
    }

    /// Hands calls to the pipeline and takes answers; it waits for one if `waits`.
    fn exchange(&mut self, own: &mut Option<StageLoop>, waits: bool) -> Result<(), Failure> {
        let refused = |refusal: tombolo_engine::pipeline::Refusal| {
            Failure::environment(format!("the run ended: {refusal}"))
        };
        if !self.calls.is_empty() {
            self.caller.try_submit_many(&mut self.calls).map_err(refused)?;
        }
        match own {
            Some(stages) => {
                match waits {
                    true => stages.turn_or_sleep(Some(NAP)),
                    false => stages.turn(),
                };
                self.caller.take(&mut self.replies);
                Ok(())
            }
            None if !waits => {
                self.caller.take(&mut self.replies);
                if self.replies.is_empty() {
                    give_way();
                }
                Ok(())
            }
            None => self.caller.wait(&mut self.replies).map_err(refused),
        }
    }
}

fn is_no_space(failure: &CallFailure) -> bool {
    matches!(failure, CallFailure::Stopped(Stop::Error(Error::NoSpace { .. })))
}

/// Why a call has no outcome that a run survives.
fn no_outcome(failure: CallFailure, done: u64) -> Failure {
    match failure {
        CallFailure::Stopped(stop) => stopped(stop, done),
        failure => Failure::check(format!("the run ended after {done} transactions: {failure}")),
    }
}

impl<W: Workload> Clients<W> {
    /// The callers of `pipeline`.
    pub(crate) fn new<P: MemoryProfile>(
        pipeline: &Pipeline<Database<P, W>>,
        calling: Calling,
        clock: SystemClock,
    ) -> Self {
        let Calling { clients, in_flight, durability, sequences, acks } = calling;
        let calls = clients * in_flight;
        let bulk = Group::new(pipeline.caller(BULK), BULK, Durability::Group);
        let measured = Group::new(pipeline.caller(calls), calls, durability);
        let own = pipeline.own_stages();
        Self { clock, measured, bulk, own, sequences, acks, in_flight, arrivals: None }
    }

    /// Has measured calls begin at these times from now on.
    pub(crate) fn begin_at(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// How far they were behind, in an open loop.
    pub(crate) fn behind(&self) -> Option<Behind> {
        self.arrivals.as_ref().map(Arrivals::behind)
    }

    /// Whether they do the stages' work on their own thread.
    pub(crate) fn carry(&self) -> bool {
        self.measured.caller.carries()
    }

    /// Whether a transaction that is refused for want of memory is counted as one that aborted, or,
    /// as without this, ends the run.
    pub(crate) fn outlive_no_space(&mut self, is_outlived: bool) {
        self.bulk.outlives_no_space = is_outlived;
        self.measured.outlives_no_space = is_outlived;
    }

    /// Runs a transaction for each of `inputs`, and makes no more calls after `until_ns`; all calls
    /// are answered when it returns.
    ///
    /// # Errors
    /// The error of the pipeline, of the store or of the file of answers.
    pub(crate) fn run(
        &mut self,
        inputs: &[W::Input],
        until_ns: u64,
        answers: &mut Answers<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Failure> {
        let Self { clock, measured, own, sequences, acks, in_flight, arrivals, .. } = self;
        let number_of = |at: u32| {
            let client = at / *in_flight as u32;
            let last = sequences.get_mut(client as usize)?;
            *last += 1;
            Some(CallNumber { client, sequence: *last })
        };
        let batch = Batch { inputs, until_ns, answers, watch };
        run(*clock, (measured, arrivals.as_mut()), own, acks.as_mut(), number_of, batch)
    }

    /// Runs a transaction for each of `inputs` of which only the rows matter.
    ///
    /// # Errors
    /// As [`Clients::run`].
    pub(crate) fn run_unmeasured(
        &mut self,
        inputs: &[W::Input],
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let (mut latencies, mut in_checkpoint) = Default::default();
        let answers =
            &mut Answers { tally, latencies: &mut latencies, in_checkpoint: &mut in_checkpoint };
        let watch = Watch { is_writing_checkpoint: &|| false, progress: &mut |_| () };
        let batch = Batch { inputs, until_ns: u64::MAX, answers, watch };
        run(self.clock, (&mut self.bulk, None), &mut self.own, None, |_| None, batch)
    }

    /// Takes memory for the rows that `inputs` will add, as far as a budget allows.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Failure> {
        let Self { bulk, own, .. } = self;
        let request = Request::Reserve(W::new_rows(inputs));
        bulk.calls.push(bulk.caller.prepare(request, 0, bulk.durability));
        loop {
            bulk.exchange(own, true)?;
            if let Some((_, reply)) = bulk.replies.pop() {
                let outcome = reply.outcome().or_environment()?;
                return match outcome {
                    Ok(_) => Ok(()),
                    Err(failure) if bulk.outlives_no_space && is_no_space(&failure) => Ok(()),
                    Err(failure) => Err(no_outcome(failure, 0)),
                };
            }
        }
    }

    /// Steps the stages on this thread until they have ended, after the pipeline was shut.
    pub(crate) fn finish(self) {
        self.own.into_iter().for_each(StageLoop::run);
    }
}

/// Runs a batch with the callers of `group`, whose calls begin at `arrivals` in an open loop.
fn run<W: Workload>(
    clock: SystemClock,
    (group, mut arrivals): (&mut Group<W>, Option<&mut Arrivals>),
    own: &mut Option<StageLoop>,
    mut acks: Option<&mut Acks>,
    mut number_of: impl FnMut(u32) -> Option<CallNumber>,
    batch: Batch<'_, '_, '_, W::Input>,
) -> Result<(), Failure> {
    let Batch { mut inputs, until_ns, answers, watch } = batch;
    let (count, mut now_ns, mut looked_ns) = (inputs.len(), clock.now_ns(), 0);
    if let Some(arrivals) = &mut arrivals {
        arrivals.begin(now_ns);
    }
    let mut answered_ns = now_ns;
    loop {
        if now_ns < until_ns {
            inputs = &inputs[group.make(inputs, now_ns, &mut arrivals, &mut number_of)..];
        } else {
            if let Some(arrivals) = &mut arrivals {
                arrivals.give_up(until_ns);
            }
            inputs = &[];
        }
        // In an open loop, no call is under way while no call is due.
        if group.is_idle() && inputs.is_empty() {
            if let Some(arrivals) = &mut arrivals {
                arrivals.end(now_ns);
            }
            return Ok(());
        }
        let waits = arrivals.is_none()
            || (!group.is_idle() && now_ns.saturating_sub(answered_ns) > LOOKING_NS_MAX);
        group.exchange(own, waits)?;
        now_ns = clock.now_ns();
        if group.is_idle() || !group.replies.is_empty() {
            answered_ns = now_ns;
        }
        let in_checkpoint = (watch.is_writing_checkpoint)();
        take(group, (now_ns, in_checkpoint), answers, acks.as_deref_mut())?;
        if now_ns - looked_ns > LOOK_NS {
            looked_ns = now_ns;
            (watch.progress)(count - inputs.len());
        }
    }
}

/// Takes the answers that have come.
fn take<W: Workload>(
    group: &mut Group<W>,
    (now_ns, is_in_checkpoint): (u64, bool),
    answers: &mut Answers<'_>,
    mut acks: Option<&mut Acks>,
) -> Result<(), Failure> {
    let Answers { tally, latencies, in_checkpoint } = answers;
    for (at, reply) in group.replies.drain(..) {
        let Slot { kind, number, made_ns } = group.slots[at as usize];
        let done = || format!("the run ended after {} transactions", tally.done());
        let outcome =
            reply.outcome().map_err(|why| Failure::environment(format!("{}: {why}", done())))?;
        match outcome {
            Ok(_) => {
                tally.committed(kind);
                if let (Some(acks), Some(number)) = (&mut acks, number) {
                    acks.note(number);
                }
            }
            Err(CallFailure::Stopped(stop @ Stop::Abort(_))) => {
                let done = tally.done();
                tally.stopped(kind, stop).map_err(|stop| stopped(stop, done))?;
            }
            Err(failure) if group.outlives_no_space && is_no_space(&failure) => {
                tally.aborted(kind, "no_space");
            }
            Err(failure) => return Err(no_outcome(failure, tally.done())),
        }
        latencies[kind.place()].record(now_ns - made_ns);
        if is_in_checkpoint {
            in_checkpoint.record(now_ns - made_ns);
        }
        group.free.push(at as u32);
    }
    // Before any of the answers is seen: a caller's next call is proof that it saw them.
    acks.map_or(Ok(()), Acks::write)
}
