//! A server as a child process: found, started in a directory of its own, its processor time, its end.
//!
//! A server that is dropped is asked to end, waited for, and killed if it does not. It also ends when this process
//! does, however that ends: `setpriv` has the kernel interrupt it then. Its output goes to a file in its directory,
//! and errors quote the last line of that file.
//!
//! Not here: settings and protocols of servers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::process::{Pid, Signal};

use crate::failure::Failure;

/// The file of a server's output, next to its data.
const OUTPUT: &str = "output.txt";
/// Between two looks at a server that is starting or ending.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Looks until a server must have started or ended: a minute.
const LOOKS_MAX: u32 = 3_000;

/// Another user, as whom a server runs that refuses to be root's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// The first of `names` that this machine has, if this process is root's; none if it is not.
    ///
    /// # Errors
    /// When there is none of them.
    #[cfg_attr(
        not(feature = "compare-postgres"),
        expect(dead_code, reason = "only PostgreSQL refuses to be root's")
    )]
    pub(super) fn instead_of_root(names: &[&str]) -> Result<Option<Self>, Failure> {
        if !fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = names.iter().find_map(|name| Self::find(&users, name));
        found.map(Some).ok_or_else(|| {
            let names = names.join(" or ");
            Failure::environment(format!(
                "there is no user {names}: run this as another user than root"
            ))
        })
    }

    /// The user called `name` in the lines of a passwd file.
    fn find(users: &str, name: &str) -> Option<Self> {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.into_iter().find(|fields| fields[0] == name)?;
        let id = |at: usize| found.get(at)?.parse().ok();
        Some(Self { name: name.to_owned(), uid: id(2)?, gid: id(3)? })
    }
}

/// Where `program` is: on the path, or in one of `folders`.
pub(super) fn find_program(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    on_path.iter().chain(folders).map(|folder| folder.join(program)).find(|file| {
        let found = fs::metadata(file);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// The message about a program that is not installed.
pub(super) fn not_installed(program: &str, package: &str) -> Failure {
    Failure::environment(format!(
        "{program} is not installed: apt-get install -y --no-install-recommends {package}"
    ))
}

/// A call of `program`, as `user` if there is one, that ends with this process.
pub(super) fn command(program: &Path, user: Option<&User>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=INT");
    if let Some(user) = user {
        let (uid, gid) = (user.uid, user.gid);
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// Refuses a machine without what starts servers.
///
/// # Errors
/// With what to install.
pub(super) fn verify_machine() -> Result<(), Failure> {
    find_program("setpriv", &[]).map(|_| ()).ok_or_else(|| not_installed("setpriv", "util-linux"))
}

/// A server that runs.
pub(super) struct Server {
    name: &'static str,
    process: Child,
    output: PathBuf,
}

impl Server {
    /// Starts `command` in `directory`.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("{name} cannot be started: {error}"))
        };
        let path = directory.join(OUTPUT);
        let output = fs::OpenOptions::new().create(true).append(true).open(&path);
        let output = output.map_err(failed)?;
        command.stdout(output.try_clone().map_err(failed)?).stderr(output).current_dir(directory);
        Ok(Self { name, process: command.spawn().map_err(failed)?, output: path })
    }

    /// Waits until `is_ready`.
    ///
    /// # Errors
    /// When the server ends before that, or takes a minute.
    pub(super) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<(), Failure> {
        for _ in 0..LOOKS_MAX {
            if is_ready() {
                return Ok(());
            }
            if let Ok(Some(_)) = self.process.try_wait() {
                return Err(self.failure("ended at its start"));
            }
            pause();
        }
        Err(self.failure("does not answer a minute after its start"))
    }

    /// A failure of this server, with the last it said.
    fn failure(&self, what: &str) -> Failure {
        let said = fs::read_to_string(&self.output).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        Failure::environment(format!("{} {what}; it said: {}", self.name, last.trim()))
    }

    /// Processor time of the server: of its process and all below it, and of those that have ended
    /// and were its children.
    pub(super) fn cpu(&self) -> Duration {
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            processes.extend(Process::read(&text));
        }
        let ticks = ticks_below(self.process.id(), &processes);
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, Signal::INT);
        }
        for _ in 0..LOOKS_MAX {
            match self.process.try_wait() {
                Ok(None) => pause(),
                _ => return,
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits a little.
fn pause() {
    // Early only for a signal, which asks for no more than another look.
    let _ = rustix::event::poll(&mut [], Some(&LOOK));
}

/// A process, as the system describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Processor time, user and system, in ticks.
    ticks: u64,
    /// The same of its children that have ended.
    ended_ticks: u64,
}

impl Process {
    /// Reads a line of `/proc/PID/stat`.
    fn read(text: &str) -> Option<Self> {
        let id = text.split(' ').next()?.parse().ok()?;
        // The name may hold blanks and parentheses.
        let (_, behind_name) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = behind_name.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            id,
            parent: number(1)? as u32,
            ticks: number(11)? + number(12)?,
            ended_ticks: number(13)? + number(14)?,
        })
    }
}

/// Ticks of the process `root` and of all below it.
fn ticks_below(root: u32, processes: &[Process]) -> u64 {
    let mut ticks = 0;
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        let own = processes.iter().filter(|process| process.id == id);
        ticks += own.map(|process| process.ticks + process.ended_ticks).sum::<u64>();
        let below = processes.iter().filter(|process| process.parent == id && process.id != id);
        open.extend(below.map(|process| process.id));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_time_is_that_of_all_its_processes() {
        let line = |id: u32, parent: u32, name: &str, ticks: [u32; 4]| {
            let [user, system, ended_user, ended_system] = ticks;
            format!(
                "{id} ({name}) S {parent} 1 1 0 -1 4194560 1 2 3 4 {user} {system} {ended_user} \
                 {ended_system} 20 0 1 0 100 1000 10 18446744073709551615\n"
            )
        };
        let lines = [
            line(10, 1, "postgres", [5, 3, 20, 10]),
            line(11, 10, "postgres: 1) x (y", [7, 2, 0, 0]),
            line(12, 11, "below that", [1, 1, 0, 0]),
            line(13, 1, "another", [100, 100, 100, 100]),
        ];
        let processes: Vec<_> = lines.iter().filter_map(|line| Process::read(line)).collect();
        assert_eq!(processes[1], Process { id: 11, parent: 10, ticks: 9, ended_ticks: 0 });
        assert_eq!(ticks_below(10, &processes), 38 + 9 + 2);
        assert_eq!((ticks_below(99, &processes), Process::read("")), (0, None));
    }

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:7::/:\npostgres:x:101:104:a:/b:/c\n";
        let expected = User { name: "postgres".to_owned(), uid: 101, gid: 104 };
        assert_eq!(User::find(users, "postgres"), Some(expected));
        assert_eq!(User::find(users, "post"), None);
    }

    #[test]
    fn a_server_that_ends_at_once_says_why_and_one_that_runs_is_ended() {
        let scratch = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = command(&find_program("sh", &[]).unwrap(), None);
            command.args(["-c", script]);
            Server::start("test", command, scratch.path()).unwrap()
        };
        let failure = shell("echo no room; echo; exit 3").wait_until(|| false).unwrap_err();
        assert_eq!(failure.to_string(), "test ended at its start; it said: no room");
        let server = shell("exec sleep 600");
        let process = PathBuf::from(format!("/proc/{}", server.process.id()));
        assert!(process.exists());
        drop(server);
        assert!(!process.exists());
    }
}
