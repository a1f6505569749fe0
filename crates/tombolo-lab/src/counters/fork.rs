//! One loaded database, counted many times: a process for each count, forked after loading.
//!
//! Loading is the expensive part of a counted run. Every child of a fork starts from the same
//! memory (copied on write), so each counts exactly the same transactions on exactly the same
//! database, and the database is loaded once. All children are forked before the first one starts:
//! they find even the allocator in the same state, whatever reading their reports does to the
//! parent's. Under valgrind a forked child goes on under the same
//! tool; its counts are its own and go to a file of its own (`%p` in the file's name).
//!
//! What a child found comes back through a pipe as bytes that this module does not interpret.
//!
//! # What it does not do
//! It starts no program: [`callgrind`](super::callgrind) does that. A child runs no destructors and
//! flushes nothing at its end: it leaves by `_exit`.
//!
//! # Invariants
//! - At the moment of the fork the process has one thread, or there is an error: a lock held by
//!   another thread would stay locked in the child for ever.

use super::CounterError;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many threads this process has.
///
/// # Errors
/// When `/proc` does not say.
pub fn threads() -> Result<usize, CounterError> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(CounterError::system("read /proc/self/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"))
        .and_then(|threads| threads.trim().parse().ok())
        .ok_or_else(|| CounterError::Damaged("/proc/self/status names no threads".to_owned()))
}

/// A child: forked, then waiting to be started, then under way. It is gone when this is.
struct Child {
    pid: libc::pid_t,
    /// Ended without a byte, the child leaves without having run.
    start: Option<io::PipeWriter>,
    report: io::PipeReader,
}

impl Child {
    /// Lets the child go.
    fn start(&mut self) -> Result<(), CounterError> {
        let Some(start) = &mut self.start else { return Ok(()) };
        start.write_all(&[1]).map_err(CounterError::system("start a counted process"))
    }

    /// Reads the child's report to its end and waits for it.
    fn finish(mut self, what: &str) -> Result<Vec<u8>, CounterError> {
        let mut report = Vec::new();
        let read = self.report.read_to_end(&mut report);
        let status = self.wait().map_err(CounterError::system("wait for a counted process"))?;
        let how = match status {
            0 => return read.map(|_| report).map_err(CounterError::system("read a report")),
            _ if libc::WIFSIGNALED(status) => {
                format!("was ended by signal {}", libc::WTERMSIG(status))
            }
            _ => format!("failed with status {}", libc::WEXITSTATUS(status)),
        };
        Err(CounterError::Child { what: what.to_owned(), how })
    }

    /// Waits for the child's end; a second time there is nothing to wait for.
    fn wait(&mut self) -> io::Result<libc::c_int> {
        let pid = std::mem::replace(&mut self.pid, 0);
        let mut status = 0;
        // SAFETY: `pid` is a child of ours that is waited for once; `status` outlives the call.
        while pid != 0 && unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.start = None;
        // After an error of another child nobody asks how this one ended.
        let _ = self.wait();
    }
}

/// What the child does: never returns.
fn run_child(
    mut start: io::PipeReader,
    mut report: io::PipeWriter,
    run: impl FnOnce() -> Vec<u8>,
) -> ! {
    let started = start.read_exact(&mut [0]).is_ok();
    let sent = started
        && catch_unwind(AssertUnwindSafe(run)).is_ok_and(|bytes| report.write_all(&bytes).is_ok());
    // SAFETY: always sound; it skips the parent's destructors and buffers, which are not ours.
    unsafe { libc::_exit(i32::from(!sent)) }
}

/// Forks a child that waits to be started. The caller has made sure that there is one thread.
fn fork(earlier: &mut [Child], run: impl FnOnce() -> Vec<u8>) -> Result<Child, CounterError> {
    let (start_reader, start_writer) = io::pipe().map_err(CounterError::system("make a pipe"))?;
    let (report_reader, report_writer) = io::pipe().map_err(CounterError::system("make a pipe"))?;
    // SAFETY: there is one thread, this one, so the child's memory is in a state that this thread
    // left it in and everything in it may be used.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => {
            let source = io::Error::last_os_error();
            Err(CounterError::System { what: "fork a process for counting", source })
        }
        0 => {
            drop((start_writer, report_reader));
            // Only the parent may be able to start the others, or they would not see it leave.
            earlier.iter_mut().for_each(|child| child.start = None);
            // A parent that is killed takes its children along. Its refusal changes no count.
            // SAFETY: the call takes integers only.
            let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            run_child(start_reader, report_writer, run)
        }
        pid => Ok(Child { pid, start: Some(start_writer), report: report_reader }),
    }
}

/// Runs `run` once per target, each in a process forked from this one as it is now, at most
/// `at_once` at the same time, and returns what each returned, in the targets' order.
///
/// Nothing that `run` does is seen here, except for what it returns. A panic in it is an error
/// here.
///
/// # Errors
/// When this process has more than one thread, or a child cannot be made or ends badly. No child is
/// left running.
///
/// # Panics
/// When `at_once` is 0.
pub fn fork_each<T: std::fmt::Display>(
    targets: &[T],
    at_once: usize,
    mut run: impl FnMut(&T) -> Vec<u8>,
) -> Result<Vec<Vec<u8>>, CounterError> {
    assert!(at_once > 0, "at least one process runs at once");
    let threads = threads()?;
    if threads != 1 {
        return Err(CounterError::Threads(threads));
    }
    // From the first fork to the last nothing is allocated or freed: the allocator's state is part
    // of what every child has to find the same.
    let mut children = Vec::with_capacity(targets.len());
    for target in targets {
        let child = fork(&mut children, || run(target))?;
        children.push(child);
    }
    let mut children = VecDeque::from(children);
    children.iter_mut().take(at_once).try_for_each(Child::start)?;
    let mut reports = Vec::with_capacity(targets.len());
    for target in targets {
        let Some(child) = children.pop_front() else { break };
        reports.push(child.finish(&target.to_string())?);
        children.get_mut(at_once - 1).map_or(Ok(()), Child::start)?;
    }
    Ok(reports)
}
