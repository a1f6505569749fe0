//! The loop with a clock that shows the time it is set to: what is measured, and what is not.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::drive;
use crate::histogram::Latencies;
use crate::plan::Options;
use crate::settings;
use crate::workload::tpcc::input::{Generator, Input, Mix};
use crate::workload::tpcc::loader::Scale;
use crate::workload::tpcc::nurand::Constants;

/// Every reading of the time is 100 ns after the last one, and so is every one of processor time.
#[derive(Default)]
struct StepClock {
    now: AtomicU64,
    cpu: AtomicU64,
}

impl Clock for StepClock {
    fn now_ns(&self) -> u64 {
        self.now.fetch_add(100, Ordering::Relaxed) + 100
    }
    fn unix_us(&self) -> u64 {
        self.now.load(Ordering::Relaxed) / 1_000
    }
    fn process_cpu(&self) -> Duration {
        Duration::from_nanos(2 * self.now.load(Ordering::Relaxed))
    }
    fn thread_cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu.fetch_add(100, Ordering::Relaxed))
    }
}

fn with_driver(run: impl FnOnce(&mut Driver<'_, Input>, &mut dyn Instance)) {
    let mut instance = drive::create("memory", &Options::default()).unwrap();
    let scale = Scale { seed: 1, warehouses: 1, mix: Mix::Paper };
    instance.load(scale, 1, &mut |_, _| {}).unwrap();
    let clock = StepClock::default();
    let mut inputs = Generator::new(1, Mix::Paper, 1, Constants::from_seed(1));
    let plan = Plan::new(&settings::defaults()).unwrap();
    let plan = Plan { batch: 300, reserve: true, memory_limit: None, ..plan };
    let mut driver = Driver::new(&clock, &mut inputs, &plan);
    run(&mut driver, &mut *instance);
}

#[test]
fn exactly_as_many_run_as_are_asked_for_and_each_pass_is_measured() {
    with_driver(|driver, instance| {
        driver.warm_up(instance, 50).unwrap();
        let mut parts = Vec::new();
        let found = driver
            .run(instance, Bound::Transactions(1_000), &mut |part, _| parts.push(part))
            .unwrap();
        let total = found.tally.total();
        assert_eq!(total.committed + total.aborted, 1_000);
        assert_eq!(parts, [0.3, 0.6, 0.9, 1.0]);
        let reasons: u64 = found.tally.reasons.iter().map(|(_, count)| count).sum();
        assert_eq!(reasons, total.aborted);
        // Four batches, one slice each: a reading before and one after.
        assert_eq!(found.wall, Duration::from_nanos(4 * 100));
        assert!(found.per_second() > 0.0 && found.per_cpu_second() > 0.0);
        // What comes next is the input after the last that ran.
        let after = Generator::new(1, Mix::Paper, 1, Constants::from_seed(1)).nth(1_050);
        assert_eq!(driver.inputs.next(), after);
        let latencies = driver.time(instance, 200, 1, None).unwrap();
        let all: u64 = latencies.iter().map(Latencies::len).sum();
        assert_eq!(all, 200);
    });
}

#[test]
fn time_bounds_a_run() {
    with_driver(|driver, instance| {
        let found =
            driver.run(instance, Bound::Time(Duration::from_nanos(250)), &mut |_, _| {}).unwrap();
        assert_eq!(found.wall, Duration::from_nanos(300));
        assert_eq!(found.tally.total().committed + found.tally.total().aborted, 900);
    });
}

#[test]
fn a_call_waits_for_those_before_it() {
    with_driver(|driver, instance| {
        // One reading a transaction, each a probe's cost later: nothing is left of one caller's
        // time, and of many neither.
        for callers in [1, 7] {
            let latencies = driver.time(instance, 100, callers, None).unwrap();
            let mut all = Latencies::default();
            latencies.iter().for_each(|latencies| all.add(latencies));
            assert_eq!(all.len(), 100, "{callers} callers");
            assert_eq!(all.summary().unwrap().max, 0.001, "{callers} callers: the least there is");
        }
        assert!(driver.time(instance, 0, 7, None).unwrap().iter().all(Latencies::is_empty));
    });
}

#[test]
fn a_run_ends_before_memory_does() {
    with_driver(|driver, instance| {
        driver.memory_limit = Some(1);
        let error = driver.run(instance, Bound::Transactions(1), &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("memory is used up after 0"), "{error}");
        assert_eq!(error.blame().status(), 3);
    });
}
