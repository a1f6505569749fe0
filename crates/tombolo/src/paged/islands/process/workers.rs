//! `Workers`: threads that run jobs, as many as ran at the same time.
//!
//! A job may wait for a lock that another job gives back, so none waits for a thread: if all are at work, one more is
//! started. Not here: which jobs (`child.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_engine::threads::Running;
use tombolo_storage::sync::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    is_over: bool,
}

/// See the file's head.
#[derive(Default)]
pub(super) struct Workers {
    state: Mutex<State>,
    changed: Condvar,
    threads: Mutex<Vec<Running>>,
}

impl Workers {
    /// Runs a job on a thread of its own. Where the system refuses another thread, the first that is free runs it.
    pub(super) fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        let is_short = state.jobs.len() > state.idle;
        drop(state);
        self.changed.notify_one();
        if is_short {
            let own = self.clone();
            if let Ok(thread) = Running::start("tombolo-worker", move || own.work()) {
                self.threads.lock().push(thread);
            }
        }
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
            } else if state.is_over {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state);
                state.idle -= 1;
            }
        }
    }

    /// Waits until all jobs are done, and ends the threads.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(Running::join);
    }
}
