//! Callers in a closed loop: each a thread that calls, waits for the answer, and calls again.
//!
//! Two passes with the same callers. In the first no clock is read between two calls, but after every [`LOOK`] of
//! them: it gives wall-clock time and processor time, of the process with all its threads, from the moment when all
//! callers are ready until the last is done. In the second the clock is read once per call, which gives latencies;
//! the cost of a reading is subtracted.
//!
//! Not here: engines, what is done with the figures.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;

use super::{ACCOUNTS, Caller, Engine, What};
use crate::compare::{Batch, Watch};
use crate::drive::reading_ns;
use crate::failure::Failure;
use crate::histogram::Latencies;

/// Calls before a caller's first that is measured.
const WARM_UP: u64 = 200;
/// How often callers wait for each other.
const MEETINGS: usize = 3;
/// Calls between two looks at the clock.
const LOOK: u64 = 32;

/// Where engines are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) what: What,
    pub(super) callers: usize,
}

/// When a pass ends: after a number of calls of all callers, or after a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) calls: u64,
    pub(super) time_max: Option<Duration>,
}

/// The parameters of a pass.
pub(super) struct Inputs {
    rng: Rng,
    what: What,
}

impl Inputs {
    pub(super) fn new(seed: u64, path: &[u64], what: What) -> Self {
        Self { rng: Rng::stream(seed, path), what }
    }

    fn account(&mut self) -> i32 {
        self.rng.below(ACCOUNTS as u64) as i32
    }

    /// One call.
    #[inline]
    pub(super) fn call(&mut self, caller: &mut dyn Caller) -> Result<(), Failure> {
        let account = self.account();
        match self.what {
            What::Transfer => caller.transfer(account, self.account(), 1),
            What::Read => {
                black_box(caller.read(account)?);
                Ok(())
            }
        }
    }
}

/// The measurements of one caller.
#[derive(Default)]
struct Part {
    calls: u64,
    latencies: Latencies,
    /// The cost of the pass; the first caller measures it for all.
    batch: Batch,
}

/// The state that the callers of one point share.
struct Callers<'a> {
    engine: &'a dyn Engine,
    point: Point,
    bound: Bound,
    clock: &'a SystemClock,
    together: Barrier,
    probe_ns: u64,
}

/// Calls `engine` at `point`: what the first pass took, and the latencies of the second.
///
/// # Errors
/// The engine's error.
pub(super) fn call(
    engine: &dyn Engine,
    point: Point,
    bound: Bound,
    (seed, path): (u64, [u64; 2]),
    clock: &SystemClock,
) -> Result<(Batch, Latencies), Failure> {
    let together = Barrier::new(point.callers);
    let probe_ns = reading_ns(clock);
    let callers = Callers { engine, point, bound, clock, together, probe_ns };
    let parts = on_each(0..point.callers as u64, |number| {
        let path = [path[0], path[1], number];
        callers.run(number == 0, Inputs::new(seed, &path, point.what))
    });
    let (mut batch, mut latencies) = (Batch::default(), Latencies::default());
    for part in parts {
        let part = part?;
        batch.add(&Batch { committed: part.calls, ..part.batch });
        latencies.add(&part.latencies);
    }
    Ok((batch, latencies))
}

impl Callers<'_> {
    fn run(&self, is_first: bool, mut inputs: Inputs) -> Result<Part, Failure> {
        let mut outcome = None;
        let opened = self.engine.with_caller(self.point.callers == 1, &mut |caller| {
            outcome = Some(self.passes(is_first, caller, &mut inputs));
        });
        if outcome.is_none() {
            // Without a caller there is nothing to do but to let the others begin and end.
            for _ in 0..MEETINGS {
                self.together.wait();
            }
        }
        opened.and(outcome.unwrap_or_else(|| Ok(Part::default())))
    }

    fn passes(
        &self,
        is_first: bool,
        caller: &mut dyn Caller,
        inputs: &mut Inputs,
    ) -> Result<Part, Failure> {
        let warm = (0..WARM_UP).try_for_each(|_| inputs.call(caller));
        self.together.wait();
        let watch = is_first.then(|| Watch::start(self.clock));
        self.together.wait();
        let calls = warm.and_then(|()| self.unread(caller, inputs));
        self.together.wait();
        let batch = watch.map(|watch| watch.stop(0, 0)).unwrap_or_default();
        let calls = calls?;
        Ok(Part { calls, latencies: self.read(caller, inputs)?, batch })
    }

    /// How many calls of a pass are this caller's.
    fn share(&self) -> u64 {
        self.bound.calls.div_ceil(self.point.callers as u64)
    }

    fn is_over(&self, start_ns: u64, now_ns: u64) -> bool {
        let so_far = u128::from(now_ns - start_ns);
        self.bound.time_max.is_some_and(|time| so_far >= time.as_nanos())
    }

    /// The pass in which no clock is read between calls; how many there were.
    fn unread(&self, caller: &mut dyn Caller, inputs: &mut Inputs) -> Result<u64, Failure> {
        let (start_ns, share, mut calls) = (self.clock.now_ns(), self.share(), 0);
        while calls < share && !self.is_over(start_ns, self.clock.now_ns()) {
            let some = LOOK.min(share - calls);
            (0..some).try_for_each(|_| inputs.call(caller))?;
            calls += some;
        }
        Ok(calls)
    }

    /// The pass in which each call is timed.
    fn read(&self, caller: &mut dyn Caller, inputs: &mut Inputs) -> Result<Latencies, Failure> {
        let mut latencies = Latencies::default();
        let start_ns = self.clock.now_ns();
        let (mut before_ns, mut calls) = (start_ns, 0);
        while calls < self.share() && !self.is_over(start_ns, before_ns) {
            inputs.call(caller)?;
            let now_ns = self.clock.now_ns();
            latencies.record((now_ns - before_ns).saturating_sub(self.probe_ns));
            (before_ns, calls) = (now_ns, calls + 1);
        }
        Ok(latencies)
    }
}
