//! A step that hangs: which of its tests had not ended, and where their threads stood, before it is killed.
//!
//! Both stand below the table of steps, too, because a build machine may show only the end of a long output. Not here:
//! the limit of a step (`mod.rs`), the descendants' end (`process.rs`). Stacks are printed if `gdb` is installed.

use std::process::{Command, Stdio};

use crate::needs::on_path;
use crate::process::with_descendants;

/// Frames of a thread: enough to reach the test from a lock deep in the engine.
const FRAMES: &str = "40";

/// The tests of `said` that have not ended, one per line; the panics of their threads; and the stacks of all processes
/// that `process` has started.
pub(super) fn report(process: u32, said: &str) -> String {
    let names: String = unended(said).map(|test| format!("still running: test {test}\n")).collect();
    let stacks = with_descendants(process).into_iter().filter_map(stacks);
    names + &panics(said) + &stacks.collect::<String>()
}

/// The last panics of threads that a test has started: others may wait for such a thread in vain.
fn panics(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let panics = lines.windows(2).filter(|pair| pair[0].starts_with("thread '<unnamed>'"));
    let panics: Vec<_> = panics.map(|pair| format!("{}\n{}\n", pair[0], pair[1])).collect();
    panics[panics.len().saturating_sub(PANICS_MAX)..].concat()
}

/// The most panics that are repeated.
const PANICS_MAX: usize = 8;

/// The tests that libtest has reported as slow, and whose end it has not printed since.
fn unended(said: &str) -> impl Iterator<Item = &str> {
    let slow = said.lines().filter_map(|line| {
        line.strip_prefix("test ")?.split_once(" has been running for over")?.0.into()
    });
    slow.filter(|test| !said.contains(&format!("test {test} ... ")))
}

/// The stacks of a process's threads, unless it only waits for others.
fn stacks(process: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    let name = name.trim();
    if matches!(name, "cargo" | "sh" | "xtask") {
        return None;
    }
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let state = state.rsplit(") ").next()?.chars().next()?;
    let head = format!("process {process} ({name}, state {state})\n");
    if !on_path("gdb") {
        return Some(head);
    }
    let process = process.to_string();
    let all = format!("thread apply all backtrace {FRAMES}");
    let mut gdb = Command::new("gdb");
    gdb.args(["--batch", "--nx", "-p", &process, "-ex", &all]).stdin(Stdio::null());
    let said = gdb.stderr(Stdio::null()).output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said);
    Some(head + &said.lines().filter_map(short).collect::<String>())
}

/// A frame without its address and its arguments, or the line before a thread's frames.
fn short(line: &str) -> Option<String> {
    if line.starts_with("Thread ") {
        return Some(format!("{line}\n"));
    }
    let line = line.starts_with('#').then_some(line)?;
    let number = line.split_whitespace().next()?;
    let rest = line.split_once(" in ").map_or(line[number.len()..].trim(), |(_, rest)| rest);
    let name = rest.split_once(" (").map_or(rest, |(name, _)| name);
    Some(format!("{number} {name}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn tests_that_have_not_ended_are_named() {
        let said = "test a::fast ... ok\n\
            test a::slow has been running for over 60 seconds\n\
            test a::slower has been running for over 60 seconds\n\
            test a::slow ... ok\n";
        assert_eq!(unended(said).collect::<Vec<_>>(), ["a::slower"]);
    }

    #[test]
    fn panics_of_a_tests_threads_are_repeated() {
        let said = "thread '<unnamed>' (7) panicked at a.rs:1:2:\nnot so\nstack backtrace:\n\
            thread 'tombolo-execution' (8) panicked at b.rs:3:4:\nouch\n";
        assert_eq!(panics(said), "thread '<unnamed>' (7) panicked at a.rs:1:2:\nnot so\n");
    }

    #[test]
    fn processes_that_a_step_has_started_are_reported() {
        let mut shell = Command::new("sh");
        let mut shell =
            shell.args(["-c", "sleep 600 & wait"]).stdout(Stdio::null()).spawn().unwrap();
        let process = shell.id();
        while with_descendants(process).len() < 2 {
            crate::process::sleep(std::time::Duration::from_millis(5));
        }
        let report = report(process, "");
        crate::process::end_with_children(process);
        shell.wait().unwrap();
        assert!(report.contains("(sleep, state "), "{report}");
    }

    #[test]
    fn a_frame_is_a_number_and_a_name() {
        let line = "#3  0x00005555556 in tombolo::seat::Seat::wait<T> (self=0x7fff) at seat.rs:9";
        assert_eq!(short(line).unwrap(), "#3 tombolo::seat::Seat::wait<T>\n");
        let thread = "Thread 2 (Thread 0x7fff (LWP 7) \"islands::a_test\"):";
        assert_eq!(short(thread).unwrap(), format!("{thread}\n"));
        assert_eq!(short("[New LWP 7]"), None);
    }
}
