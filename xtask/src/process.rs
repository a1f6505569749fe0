//! A process that is started to be killed: in a process group of its own, so that none of its children survives.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// The polling interval for a process.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// The default limit of writable memory for a process: enough for one warehouse, the rows that
/// a chain adds, and a second copy of all rows, which checkpoints of some cases are written from.
///
/// A run without room for its probe of cache misses (256 MB) omits it, and so starts in half the time.
pub(crate) const MEMORY_KB: u64 = 700_000;
/// A command that takes longer is considered hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// The most time that one polling step counts, so that a suspended machine does not look like a hung process.
const LOOK_MAX: Duration = Duration::from_millis(100);

#[expect(clippy::disallowed_methods, reason = "a chore waits for processes; no engine runs here")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Kills a process and all its descendants, which get no signal before.
///
/// Unlike a separate process group, this leaves them in ours, so that an interrupt from the keyboard reaches them.
pub(crate) fn end_with_children(process: u32) {
    // From the top, so that no parent restarts a killed child.
    let doomed = with_descendants(process).into_iter().map(|process| process.to_string());
    let _ = Command::new("kill").arg("-9").args(doomed).stderr(Stdio::null()).status();
}

/// A process and all its descendants, parents before their children.
pub(crate) fn with_descendants(process: u32) -> Vec<u32> {
    let parents = parents();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        at += 1;
    }
    found
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |process: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // After the name, which may contain anything: its state, then its parent.
        let (_, rest) = stat.rsplit_once(')')?;
        Some((process, rest.split_whitespace().nth(1)?.parse().ok()?))
    };
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(parent).collect()
}

/// The words of a command line; no word contains a blank.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The end of a process.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Its exit status; none if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status == Some(0)
    }

    /// The row that it printed; null if it printed anything else.
    pub(crate) fn row(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_default()
    }

    /// Whether it ended with a clear error: one with a remedy, and no panic.
    pub(crate) fn is_clear_refusal(&self) -> bool {
        let errors = self.stderr.lines().filter(|line| !line.contains("notice:"));
        let errors: Vec<&str> = errors.filter(|line| !line.trim().is_empty()).collect();
        matches!(self.status, Some(1..=3))
            && matches!(errors.as_slice(), [line] if line.starts_with("tombolo: "))
            && !self.stderr.contains("internal error")
    }

    /// Whether SIGKILL ended it. strace ends with 128 + 9 where it cannot end with the signal itself.
    pub(crate) fn was_killed(&self) -> bool {
        self.signal == Some(9) || self.status == Some(137)
    }

    /// Its end and its last output, for messages.
    pub(crate) fn brief(&self) -> String {
        let how = match (self.status, self.signal) {
            (Some(status), _) => format!("status {status}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown end".to_owned(),
        };
        let said: String = self.stderr.trim().chars().take(400).collect();
        if said.is_empty() { how } else { format!("{how}: {said}") }
    }
}

/// A process under way.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts a program with [`MEMORY_KB`]; its output goes to files in `scratch`.
    pub(crate) fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        scratch: &Path,
    ) -> Result<Self, String> {
        Self::start_within(MEMORY_KB, program, arguments, scratch)
    }

    /// Like [`Running::start`], with a limit of writable memory (`ulimit -d`), not of
    /// address space, of which a store reserves at the start all that it may ever need.
    pub(crate) fn start_within<A: AsRef<OsStr>>(
        limit_kb: u64,
        program: &Path,
        arguments: &[A],
        scratch: &Path,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot run {}: {error}", program.display());
        let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
        let file = |path: &Path| {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).open(path).map_err(failed)
        };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -d {limit_kb} && exec \"$0\" \"$@\"")]).arg(program);
        command.args(arguments).process_group(0).env_remove("RUST_BACKTRACE");
        command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&err)?);
        Ok(Self { child: command.spawn().map_err(failed)?, out, err })
    }

    /// Kills it with all its descendants, without a prior signal.
    pub(crate) fn kill(&mut self) {
        if self.ended() {
            return; // its number may have been reused
        }
        // The group first: the traced program would continue without strace.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
    }

    /// Its private memory, as the system counts it for a limit, in KB; none once it has ended.
    pub(crate) fn data_kb(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let data = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
        data.split_whitespace().next()?.parse().ok()
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until it has ended or `until` returns true, at most for `time`; returns whether `until` did.
    pub(crate) fn wait_until(&mut self, time: Duration, mut until: impl FnMut() -> bool) -> bool {
        let mut waited = Duration::ZERO;
        while waited < time && !self.ended() {
            if until() {
                return true;
            }
            let clock = Stopwatch::start();
            sleep(LOOK);
            waited += clock.elapsed().min(LOOK_MAX);
        }
        false
    }

    /// Waits for its end, at most for `time`, then kills it.
    pub(crate) fn finish(mut self, time: Duration) -> Result<Ended, String> {
        self.wait_until(time, || false);
        if !self.ended() {
            self.kill();
        }
        let status: ExitStatus = self.child.wait().map_err(|error| error.to_string())?;
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let (stdout, stderr) = (read(&self.out), read(&self.err));
        Ok(Ended { status: status.code(), signal: status.signal(), stdout, stderr })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, MEMORY_KB, Running};
    use crate::stopwatch::Stopwatch;
    use crate::tidy::scratch::Scratch;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_killed_process_takes_its_children_along() {
        let scratch = Scratch::new(&[("x", "")]);
        let words = ["-c", "sleep 60 & echo begun; wait"];
        let mut running = Running::start(Path::new("sh"), &words, scratch.root()).unwrap();
        let out = scratch.root().join("stdout");
        let begun = || std::fs::read_to_string(&out).is_ok_and(|text| !text.is_empty());
        assert!(running.wait_until(Duration::from_secs(20), begun));
        running.kill();
        let clock = Stopwatch::start();
        let ended = running.finish(Duration::from_secs(20)).unwrap();
        assert_eq!((ended.signal, ended.stdout.as_str()), (Some(9), "begun\n"));
        assert!(clock.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_process_gets_the_memory_it_was_given() {
        let scratch = Scratch::new(&[("x", "")]);
        let limit = |started: Result<Running, String>| {
            started.unwrap().finish(Duration::from_secs(20)).unwrap().stdout
        };
        let (sh, words) = (Path::new("sh"), ["-c", "ulimit -d"]);
        assert_eq!(limit(Running::start(sh, &words, scratch.root())), format!("{MEMORY_KB}\n"));
        let within = Running::start_within(70_000, sh, &words, scratch.root());
        assert_eq!(limit(within), "70000\n");
    }

    #[test]
    fn a_refusal_is_one_line_with_a_status() {
        let ended = |status, stderr: &str| Ended {
            status,
            signal: None,
            stdout: String::new(),
            stderr: stderr.to_owned(),
        };
        assert!(ended(Some(3), "tombolo: disk full: free space\n").is_clear_refusal());
        assert!(ended(Some(3), "tombolo: notice: cut\ntombolo: full\n").is_clear_refusal());
        for unclear in [
            ended(Some(0), "tombolo: x\n"),
            ended(None, "tombolo: x\n"),
            ended(Some(101), "tombolo: x\n"),
            ended(Some(3), ""),
            ended(Some(3), "memory allocation of 7 bytes failed\n"),
            ended(Some(1), "tombolo: internal error: x\n"),
        ] {
            assert!(!unclear.is_clear_refusal(), "{unclear:?}");
        }
    }
}
