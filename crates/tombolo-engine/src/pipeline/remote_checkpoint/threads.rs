//! The threads of the other process: one for messages, and one for each part of DB′.
//!
//! Not here: their work (`server.rs`, the stages). Invariant: the function returns when all threads have ended.

use std::sync::Arc;
use std::time::Duration;

use tombolo_storage::disk::Disk;
use tombolo_storage::sync::Arc as StorageArc;

use crate::clock::Clock;
use crate::link::Link;
use crate::pipeline::remote_checkpoint::server::CheckpointProcess;
use crate::pipeline::stage::Step;
use crate::pipeline::stage_loop::{StageLoop, WhenBroken};
use crate::threads::{NoThread, Running};

/// Writes the checkpoints of a database whose process is at the other end of `link`, until that one
/// closes it or is gone; the directories are those of the database, in its order.
///
/// # Errors
/// When the system has too few threads.
pub fn run_checkpoint_process(
    link: Box<dyn Link>,
    disks: Vec<StorageArc<dyn Disk>>,
    clock: Arc<dyn Clock>,
) -> Result<(), NoThread> {
    let mut process = CheckpointProcess::new(link, disks, Arc::clone(&clock));
    let mut threads = Vec::new();
    loop {
        let now_ns = clock.now_ns();
        let step = process.step(now_ns);
        let stages = process.take_stages();
        if !stages.is_empty() {
            let broken = process.broken();
            let broken: WhenBroken = Arc::new(move |kind, message| {
                if let Some(broken) = &broken {
                    broken(&format!("the {kind} stage panicked: {message}"));
                }
            });
            let start = |_| Running::start_for("tombolo-checkpoint", StageLoop::run);
            let started: Vec<_> = (0..stages.len()).map(start).collect::<Result<_, _>>()?;
            // All are there: they may begin.
            for ((thread, give), (stage, signal)) in started.into_iter().zip(stages) {
                let clock = Arc::clone(&clock);
                let stages = StageLoop::new(vec![stage], signal, clock, 0, Arc::clone(&broken));
                assert!(give.send(stages).is_ok(), "a thread waits for its stage");
                threads.push(thread);
            }
        }
        match step {
            Step::Progress => {}
            Step::IdleUntil(until_ns) => {
                let ns = until_ns.map_or(u64::MAX, |until_ns| until_ns.saturating_sub(now_ns));
                process.wait(Duration::from_nanos(ns));
            }
            Step::Ended => break,
        }
    }
    threads.into_iter().for_each(Running::join);
    // The lock is given back when all have ended.
    drop(process);
    Ok(())
}
