//! `counters`: the cost of a word that threads share (ISL-8, ISL-9).
//!
//! As many threads as there are cores add to counters: all to one, those of a socket or of an island to one each,
//! each to its own; the threads of a counter spread, grouped, or wherever the system puts them. The paper's Table 1
//! is the number of counters, its Fig 2 the placements of threads that share one for each socket.
//!
//! Not here: placements (the engine's `islands/placement.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::clock::Clock;
use tombolo_engine::islands::placement::Placement;
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::threads;

use crate::failure::{Blamed, Failure};
use crate::numbers::mean_and_deviation;

/// A counter in a cache line of its own, and the next line, which a processor fetches with it.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU64);

/// How many counters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Single,
    PerSocket,
    PerIsland,
    PerCore,
}

impl Sharing {
    const ALL: [Self; 4] = [Self::Single, Self::PerSocket, Self::PerIsland, Self::PerCore];

    const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::PerSocket => "per_socket",
            Self::PerIsland => "per_island",
            Self::PerCore => "per_core",
        }
    }

    fn counters(self, machine: &Topology) -> usize {
        match self {
            Self::Single => 1,
            Self::PerSocket => machine.sockets().len(),
            Self::PerIsland => machine.islands().len(),
            Self::PerCore => machine.cores.len(),
        }
    }
}

/// A result of `counters`: one arrangement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct CountersResult {
    pub sharing: String,
    pub counters: usize,
    pub placement: String,
    pub threads: usize,
    pub additions_per_s: f64,
    pub deviation_percent: f64,
    pub times_single: f64,
}

/// How long each arrangement is measured, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Each measurement.
    pub time: Duration,
    /// How many there are.
    pub repeat: u32,
}

/// Measures every arrangement of this machine, and shows each as it comes. An arrangement that is another one's by
/// a different name, as one counter for each of one socket, is left out.
///
/// # Errors
/// When a thread cannot be bound to its core, or `show` fails.
pub fn measure(
    clock: &dyn Clock,
    machine: &Topology,
    effort: Effort,
    mut show: impl FnMut(CountersResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cores = machine.cores.len();
    let mut single = None;
    let mut measured = Vec::new();
    for sharing in Sharing::ALL {
        let counters = sharing.counters(machine);
        for placement in [Placement::Grouped, Placement::Spread, Placement::Os] {
            // Where each counter has one thread, or all have one, it is the same whichever core that runs on.
            let is_alike = placement == Placement::Spread && (counters == 1 || counters == cores);
            if is_alike || measured.contains(&(counters, placement)) {
                continue;
            }
            measured.push((counters, placement));
            let places = placement.cores(machine, counters, cores / counters);
            let rates = (0..effort.repeat).map(|_| additions_per_s(clock, &places, effort.time));
            let (mean, deviation) = mean_and_deviation(&rates.collect::<Result<Vec<_>, _>>()?);
            show(CountersResult {
                sharing: sharing.name().to_owned(),
                counters,
                placement: placement.name().to_owned(),
                threads: cores / counters * counters,
                additions_per_s: mean,
                deviation_percent: deviation,
                times_single: mean / *single.get_or_insert(mean),
            })?;
        }
    }
    Ok(())
}

/// How often threads on these cores add to their group's counter, all together.
fn additions_per_s(
    clock: &dyn Clock,
    groups: &[Vec<Vec<usize>>],
    time: Duration,
) -> Result<f64, Failure> {
    let counters: Vec<Alone> = groups.iter().map(|_| Alone::default()).collect();
    let (ready, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let is_any_bound = AtomicBool::new(false);
    let threads: Vec<(usize, &Vec<usize>)> = groups
        .iter()
        .enumerate()
        .flat_map(|(group, threads)| threads.iter().map(move |cores| (group, cores)))
        .collect();
    let count = threads.len() as u64;
    let work = |(group, cores): (usize, &Vec<usize>)| {
        let bound = threads::bind_to(cores);
        is_any_bound.fetch_or(bound.is_ok(), Ordering::SeqCst);
        // Also where it could not be bound: the others wait for it.
        ready.fetch_add(1, Ordering::SeqCst);
        let counter = &counters[group].0;
        while bound.is_ok() && !is_over.load(Ordering::Relaxed) {
            for _ in 0..100 {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        bound
    };
    let run = || {
        // One more than needed, so that none runs on the calling thread, whose cores stay as they are.
        threads::on_each(threads.iter().copied().map(Some).chain([None]), |thread| {
            thread.map_or(Ok(()), work)
        })
    };
    let watch = || {
        while ready.load(Ordering::SeqCst) < count {
            threads::give_way();
        }
        let (start, before) = (clock.now_ns(), sum(&counters));
        threads::pause(time);
        // On a busy machine, perhaps no thread has run yet.
        while is_any_bound.load(Ordering::SeqCst) && sum(&counters) == before {
            threads::pause(time);
        }
        let (end, after) = (clock.now_ns(), sum(&counters));
        is_over.store(true, Ordering::Relaxed);
        (after - before) as f64 / Duration::from_nanos(end - start).as_secs_f64()
    };
    let (bound, rate) = threads::both(run, watch);
    bound.into_iter().collect::<Result<(), _>>().or_environment()?;
    Ok(rate)
}

fn sum(counters: &[Alone]) -> u64 {
    counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_engine::clock::SystemClock;

    #[test]
    fn each_arrangement_of_this_machine_is_measured_once() {
        let machine = Topology::of_machine();
        let effort = Effort { time: Duration::from_millis(5), repeat: 2 };
        let mut found = Vec::new();
        let show = |result: CountersResult| {
            assert!(result.additions_per_s > 0.0 && result.deviation_percent >= 0.0);
            found.push((result.counters, result.placement));
            Ok(())
        };
        measure(&SystemClock::new(), &machine, effort, show).unwrap();
        assert!(found.contains(&(1, "grouped".to_owned())), "{found:?}");
        let all = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), all);
    }
}
