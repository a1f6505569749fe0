//! What is counted is the same every time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_engine::pipeline::StageKind;

use super::stepped::Stepped;
use super::*;
use crate::workload::debit_credit::Scale;

/// On this clock everything takes ten times as long as all before it.
struct SlowingClock(AtomicU64);

impl Clock for SlowingClock {
    fn now_ns(&self) -> u64 {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.saturating_mul(10), Ordering::Relaxed);
        now
    }
    fn unix_us(&self) -> u64 {
        0
    }
    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// Transactions that are watched read the clock, and were counted with it: 760 instructions
/// instead of 581, whenever the machine happened to be slow.
#[test]
fn what_is_counted_does_not_depend_on_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let limits = Limits { structure_bytes_max: 64 << 20, ..Limits::default() };
    let plan = Plan::new(&crate::settings::defaults()).unwrap();
    let mut product = Product::<MemoryLogged, Scale>::of_part(Part::Pipeline, &plan, limits, log);
    let product = product.as_mut().unwrap();
    let (branches, tellers_per_branch, accounts_per_branch) = (1, 10, 1_000);
    let workload = Scale { seed: 1, branches, tellers_per_branch, accounts_per_branch };
    product.load(workload, 1, &mut |_, _| ()).unwrap();
    product.take_files();
    let (database, log) = (product.take().unwrap(), product.log.take().unwrap());
    let clock = Arc::new(SlowingClock(AtomicU64::new(1_000)));
    let mut stepped = Stepped::start(database, log, Some(0), clock);
    stepped.step(StageKind::Room);
    let inputs: Vec<_> = workload.inputs().take(GROUP).collect();
    let meter = Meter::default();
    for _ in 0..5 {
        stepped.run(&inputs, &meter, None).unwrap();
    }
    assert_eq!(stepped.pipeline.statistics().overruns, 0);
    assert!(stepped.end().close().poison.is_none());
}
