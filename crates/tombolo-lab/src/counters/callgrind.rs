//! The counting parent: runs a program under callgrind and reads what it counted.
//!
//! The program loads its database uninstrumented (valgrind at its fastest), then counts
//! ([`Meter::count`](super::meter::Meter::count), usually in children by
//! [`fork_each`](super::fork::fork_each)). Every process appends its dumps to one file of its own.
//!
//! # The same counts every time
//! The program starts with an environment of nothing but what the caller gives and a few fixed
//! variables: the environment lies on the stack and shifts the alignment of everything on it, and
//! the C library's copies take steps that depend on alignment. Addresses themselves are valgrind's:
//! it hands memory out in the same order each time, whatever the kernel randomises.
//!
//! # What it does not do
//! It does not look at callgrind's call graph, only at the total of each dump.

use super::CounterError;
use super::counts::Counts;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};

/// An installed valgrind.
#[derive(Clone, Debug)]
pub struct Callgrind {
    valgrind: PathBuf,
}

/// The program that counts.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its file.
    pub program: PathBuf,
    /// Its arguments. Paths in them should be of the same length in runs that are compared.
    pub args: Vec<OsString>,
    /// Its environment, besides `PATH`, `LC_ALL` and what valgrind adds.
    pub env: Vec<(OsString, OsString)>,
}

/// What a counted program gave.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The counts.
    pub counts: Counts,
    /// What it printed on standard output.
    pub stdout: Vec<u8>,
}

impl Callgrind {
    /// Looks valgrind up in `PATH`.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn find() -> Result<Self, CounterError> {
        Self::find_in(&env::var_os("PATH").unwrap_or_default())
    }

    fn find_in(path: &OsStr) -> Result<Self, CounterError> {
        let found = env::split_paths(path).map(|dir| dir.join("valgrind")).find(|at| at.is_file());
        found.map(|valgrind| Self { valgrind }).ok_or(CounterError::NoValgrind)
    }

    fn command(&self, program: &Program, dir: &Path) -> Command {
        let mut command = Command::new(&self.valgrind);
        command
            .args(["--tool=callgrind", "-q", "--instr-atstart=no", "--collect-atstart=no"])
            // Only totals are read: no caches, no branches, no addresses.
            .args(["--cache-sim=no", "--branch-sim=no", "--dump-instr=no"])
            // All dumps of a process in one file, and one file for each process.
            .args(["--combine-dumps=yes", "--trace-children=no"])
            .arg(file_option("--callgrind-out-file", dir, "out.%p"))
            .arg(file_option("--log-file", dir, "log.%p"))
            .arg(&program.program)
            .args(&program.args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        if let Some(lib) = env::var_os("VALGRIND_LIB") {
            command.env("VALGRIND_LIB", lib); // Where an unpacked valgrind finds its tools.
        }
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `program` to its end and reads its counts. Its standard error is ours.
    ///
    /// # Errors
    /// When it cannot be started, fails, or leaves counts that cannot be used.
    pub fn run(&self, program: &Program) -> Result<Counted, CounterError> {
        let dir = TemporaryDir::new()?;
        let output = self
            .command(program, &dir.path)
            .stderr(Stdio::inherit())
            .output()
            .map_err(CounterError::system("start valgrind"))?;
        if !output.status.success() {
            let log = dir.last_log_line()?;
            return Err(CounterError::Child {
                what: program.program.display().to_string(),
                how: format!("ended with {} {log}", output.status).trim_end().to_owned(),
            });
        }
        let mut counts = Counts::default();
        for text in dir.read("out.")? {
            for dump in parse(&text)? {
                counts.add(&dump.name, dump.instructions)?;
            }
        }
        Ok(Counted { counts, stdout: output.stdout })
    }
}

fn file_option(option: &str, dir: &Path, file: &str) -> OsString {
    // `%` starts a substitution in valgrind's file names; only the one in `file` is meant.
    let dir = dir.to_string_lossy().replace('%', "%%");
    format!("{option}={dir}/{file}").into()
}

/// One named dump.
#[derive(Debug, PartialEq, Eq)]
struct Dump {
    name: String,
    instructions: u64,
}

/// The dumps that a client request named, in a callgrind file with one or more parts.
///
/// A part says why it was written (`desc: Trigger: …`), then what its events are, then its cost by
/// function, and last its `totals:`. Everything else is passed over.
fn parse(text: &str) -> Result<Vec<Dump>, CounterError> {
    let damaged = |what: String| CounterError::Damaged(format!("callgrind's file: {what}"));
    let mut dumps = Vec::new();
    let mut name: Option<&str> = None;
    for line in text.lines() {
        if line.starts_with("part:") {
            if let Some(name) = name {
                return Err(damaged(format!("no totals for {name:?}")));
            }
        } else if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            name = trigger.strip_prefix("Client Request: ");
        } else if let Some(events) = line.strip_prefix("events:") {
            // Without simulations there is one event, and `totals:` has one number.
            if events.trim() != "Ir" {
                return Err(damaged(format!("its events are {:?}", events.trim())));
            }
        } else if let (Some(total), Some(of)) = (line.strip_prefix("totals:"), name) {
            let instructions = total.trim().parse();
            let instructions = instructions.map_err(|_| damaged(format!("{line:?} of {of:?}")))?;
            dumps.push(Dump { name: of.to_owned(), instructions });
            name = None;
        }
    }
    match name {
        Some(name) => Err(damaged(format!("no totals for {name:?}"))),
        None => Ok(dumps),
    }
}

/// A directory that is gone when this is.
struct TemporaryDir {
    path: PathBuf,
}

impl TemporaryDir {
    fn new() -> Result<Self, CounterError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("tombolo-callgrind-{}-{number}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).map_err(CounterError::system("make a temporary directory"))?;
        Ok(Self { path })
    }

    /// The contents of the files whose names begin with `prefix`, by name.
    fn read(&self, prefix: &str) -> Result<Vec<String>, CounterError> {
        let failed = || CounterError::system("read callgrind's files");
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let name = path.file_name().and_then(OsStr::to_str);
            if name.is_some_and(|name| name.starts_with(prefix)) {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        let read = |path: &PathBuf| fs::read(path).map_err(failed());
        // Names of functions in it need not be UTF-8; what is read of it is ASCII.
        let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        paths.iter().map(|path| read(path).map(lossy)).collect()
    }

    /// What valgrind said last, for the message of a failure.
    fn last_log_line(&self) -> Result<String, CounterError> {
        let logs = self.read("log.")?;
        let last = logs.iter().flat_map(|log| log.lines()).rfind(|line| !line.ends_with("== "));
        Ok(last.map(|line| format!("({line})")).unwrap_or_default())
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // Nothing depends on it; what cannot be removed stays in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts of a file by valgrind 3.19, functions shortened.
    const SAMPLE: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 4553\n\
        cmd:  target/release/counted\npart: 1\n\n\n\
        desc: I1 cache: \ndesc: D1 cache: \ndesc: LL cache: \n\n\
        desc: Timerange: Basic block 0 - 9001\n\
        desc: Trigger: Client Request: tombolo whole payment 10 1,3,3,3,1,0,1\n\n\
        positions: line\nevents: Ir\nsummary: 6000\n\n\n\
        ob=(1) /tmp/counted\nfl=(1) /tmp/main.rs\nfn=(1) counted::main\n0 6000\n\
        cfn=(2) totals\ncalls=1 0 \n0 4000\n\ntotals: 6000\n\n\
        part: 2\n\n\ndesc: Timerange: Basic block 9001 - 9100\n\
        desc: Trigger: Program termination\n\npositions: line\nevents: Ir\n\
        summary: 18446744073709293616\n\n\ntotals: 0\n";

    #[test]
    fn named_dumps_are_read_and_others_passed_over() {
        let dumps = parse(SAMPLE).unwrap();
        let name = "tombolo whole payment 10 1,3,3,3,1,0,1".to_owned();
        assert_eq!(dumps, [Dump { name, instructions: 6000 }]);
    }

    #[test]
    fn damage_is_named() {
        let check = |text: String, expect: &str| {
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expect), "{message}");
        };
        check(SAMPLE.replace("totals: 6000", "totals: 6000 7"), "totals: 6000 7");
        check(SAMPLE.replace("totals: 6000", ""), "no totals for");
        check(SAMPLE.replace("events: Ir", "events: Ir Dr"), "its events are \"Ir Dr\"");
        let cut = SAMPLE.find("totals: 6000").unwrap();
        check(SAMPLE[..cut].to_owned(), "no totals for");
    }

    #[test]
    fn without_valgrind_the_message_says_how_to_get_it() {
        let message = Callgrind::find_in(OsStr::new("/nowhere:/proc")).unwrap_err().to_string();
        assert!(message.contains("apt-get install valgrind"), "{message}");
        assert!(message.contains("--counter none"), "{message}");
    }

    #[test]
    fn temporary_directories_go_away() {
        let dir = TemporaryDir::new().unwrap();
        let path = dir.path.clone();
        fs::write(path.join("out.1"), "one").unwrap();
        fs::write(path.join("log.1"), "two").unwrap();
        assert_eq!(dir.read("out.").unwrap(), ["one"]);
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_status() {
        let callgrind = Callgrind::find().unwrap_or_else(|error| panic!("{error}"));
        let program = Program { program: "/bin/false".into(), ..Program::default() };
        let message = callgrind.run(&program).unwrap_err().to_string();
        assert!(message.starts_with("the counted process of /bin/false ended with"), "{message}");
    }
}
