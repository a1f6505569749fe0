//! The counting parent: runs a program under callgrind and reads what it counted.
//!
//! It runs it twice, both at the same time: once for totals only, the figure called `instructions`,
//! and once for the cost of every instruction, from which the categories are added up. Both count
//! the same machine code, that of the command as it is shipped.
//!
//! The program loads its database uninstrumented (valgrind at its fastest), then counts
//! ([`Meter::count`](super::meter::Meter::count)) and dumps.
//!
//! # The same counts every time
//! The program starts with an environment of nothing but what the caller gives and a few fixed
//! variables: the environment lies on the stack and shifts the alignment of everything on it, and
//! the C library's copies take steps that depend on alignment. Addresses themselves are valgrind's:
//! it hands memory out in the same order each time, whatever the kernel randomises.
//!
//! # What it does not do
//! It does not know what a dump says (`dumps.rs`), nor which instruction is whose
//! (`attribution.rs`).

use super::CounterError;
use super::attribution::attribute;
use super::counts::Counts;
use super::dumps;
use super::names::CallNames;
use super::symbols::{Symbols, verify_debug_information};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

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

/// The result of a counted program.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The counts.
    pub counts: Counts,
    /// Its standard output.
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

    /// Refuses a program in which calls cannot be distinguished, before anything runs.
    ///
    /// # Errors
    /// When its file cannot be read or has no debug information.
    pub fn verify(program: &Path) -> Result<(), CounterError> {
        let (path, file) = read_program(program)?;
        verify_debug_information(&path, &file)
    }

    fn command(&self, program: &Program, dir: &Path, detail: Detail) -> Command {
        let mut command = Command::new(&self.valgrind);
        command
            .args(["--tool=callgrind", "-q", "--instr-atstart=no"])
            .arg(match detail {
                Detail::Totals(Collected::AllThreads) => "--collect-atstart=yes",
                _ => "--collect-atstart=no",
            })
            .args(["--cache-sim=no", "--branch-sim=no", "--trace-children=no"])
            .arg(match detail {
                Detail::Totals(_) => "--dump-instr=no",
                Detail::Instructions => "--dump-instr=yes",
            })
            // All dumps in one file, easily read; mangled names, because two functions of the same
            // name would be one.
            .args(["--combine-dumps=yes", "--compress-strings=no", "--compress-pos=no"])
            .arg("--demangle=no")
            .arg(file_option("--callgrind-out-file", dir, "out"))
            .arg(file_option("--log-file", dir, "log"))
            .arg(&program.program)
            .args(&program.args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if let Some(lib) = env::var_os("VALGRIND_LIB") {
            command.env("VALGRIND_LIB", lib); // Where an unpacked valgrind finds its tools.
        }
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `program` to its end, and reads how many instructions each of its dumps is of.
    ///
    /// # Errors
    /// When it cannot be started, fails, or leaves counts that cannot be used.
    pub fn totals(
        &self,
        program: &Program,
        collected: Collected,
    ) -> Result<Vec<(String, u64)>, CounterError> {
        let (text, _) = Running::start(self, program, Detail::Totals(collected))?.finish()?;
        let dumps = dumps::parse(&text)?;
        Ok(dumps.into_iter().map(|dump| (dump.name.to_owned(), dump.total)).collect())
    }

    /// Runs `program` to its end, twice, and reads its counts; its calls are the functions that
    /// `names` says. Its standard error is ours.
    ///
    /// # Errors
    /// When it cannot be started, fails, has no debug information, or leaves counts that cannot be
    /// used.
    pub fn run(&self, program: &Program, names: CallNames) -> Result<Counted, CounterError> {
        let (path, file) = read_program(&program.program)?;
        let mut symbols = Symbols::new(&path, &file, names)?;
        let totals = Running::start(self, program, Detail::Totals(Collected::OneThread))?;
        let instructions = Running::start(self, program, Detail::Instructions)?;
        let mut counts = Counts::default();
        let (text, stdout) = totals.finish()?;
        for dump in dumps::parse(&text)? {
            counts.add_whole(dump.name, dump.total)?;
        }
        let (text, again) = instructions.finish()?;
        if again != stdout {
            return Err(CounterError::Damaged("the program did not do the same twice".to_owned()));
        }
        for dump in dumps::parse(&text)? {
            counts.add_categories(dump.name, attribute(&dump, &mut symbols)?)?;
        }
        symbols.verify_calls_were_found()?;
        Ok(Counted { counts, stdout })
    }
}

/// Whose instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// Those of the thread that switches collecting on.
    OneThread,
    /// Those of all threads, while the program is instrumented.
    AllThreads,
}

/// A program's file by its real path, by which callgrind knows it.
fn read_program(program: &Path) -> Result<(PathBuf, Vec<u8>), CounterError> {
    let failed = || CounterError::system("read the counted program's file");
    let path = fs::canonicalize(program).map_err(failed())?;
    let file = fs::read(&path).map_err(failed())?;
    Ok((path, file))
}

/// The detail of callgrind's files.
#[derive(Clone, Copy, Debug)]
enum Detail {
    /// Totals.
    Totals(Collected),
    /// The cost of every instruction too.
    Instructions,
}

/// A program under callgrind, which ends when this is dropped.
struct Running {
    child: Option<Child>,
    dir: TempDir,
    what: String,
}

impl Running {
    fn start(with: &Callgrind, program: &Program, detail: Detail) -> Result<Self, CounterError> {
        let dir = tempfile::Builder::new().prefix("tombolo-callgrind-").tempdir();
        let dir = dir.map_err(CounterError::system("make a temporary directory"))?;
        let child = with.command(program, dir.path(), detail).spawn();
        let child = child.map_err(CounterError::system("start valgrind"))?;
        Ok(Self { child: Some(child), dir, what: program.program.display().to_string() })
    }

    /// Waits for its end: callgrind's file, and what it printed.
    fn finish(mut self) -> Result<(String, Vec<u8>), CounterError> {
        let failed = || CounterError::system("wait for valgrind");
        let ended = self.child.take().map(Child::wait_with_output).transpose();
        let Some(output) = ended.map_err(failed())? else { return Ok(Default::default()) };
        if !output.status.success() {
            let log = last_log_line(&self.dir)?;
            let how = format!("ended with {} {log}", output.status).trim_end().to_owned();
            return Err(CounterError::Child { what: self.what.clone(), how });
        }
        Ok((read(&self.dir, "out")?, output.stdout))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // After an error of the other run it does not matter how this one ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn file_option(option: &str, dir: &Path, file: &str) -> OsString {
    // `%` starts a substitution in valgrind's file names; only the one in `file` is meant.
    let dir = dir.to_string_lossy().replace('%', "%%");
    format!("{option}={dir}/{file}").into()
}

/// The dumps that callgrind wrote into `dir`.
fn read(dir: &TempDir, name: &str) -> Result<String, CounterError> {
    let bytes = fs::read(dir.path().join(name));
    let bytes = bytes.map_err(CounterError::system("read callgrind's files"))?;
    // Names of source files in it need not be UTF-8; what is read of it is.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Valgrind's last message, in brackets.
fn last_log_line(dir: &TempDir) -> Result<String, CounterError> {
    let log = read(dir, "log")?;
    let last = log.lines().rfind(|line| !line.ends_with("== "));
    Ok(last.map(|line| format!("({line})")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_valgrind_the_message_says_how_to_get_it() {
        let message = Callgrind::find_in(OsStr::new("/nowhere:/proc")).unwrap_err().to_string();
        assert!(message.contains("apt-get install valgrind"), "{message}");
        assert!(message.contains("--counter none"), "{message}");
    }

    #[test]
    fn temporary_directories_go_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        fs::write(path.join("out"), "one").unwrap();
        assert_eq!(read(&dir, "out").unwrap(), "one");
        assert!(read(&dir, "log").is_err());
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_status() {
        let callgrind = Callgrind::find().unwrap_or_else(|error| panic!("{error}"));
        let program = Program { program: "/bin/false".into(), ..Program::default() };
        let names = CallNames { of: "Store", methods: &[], drops: None };
        let message = callgrind.run(&program, names).unwrap_err().to_string();
        assert!(message.starts_with("the counted process of /bin/false ended with"), "{message}");
    }
}
