//! What is done to a process or to its files, and what is asked of it besides.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::chain::{Chain, PATIENCE};
use super::process::{Ended, Running, sleep};
use crate::needs;

/// How long a chosen system call is waited for before the process is killed anyway.
const WAIT_FOR_CALL: Duration = Duration::from_secs(2);

/// One kind of case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Killed a while after its first answers.
    Working,
    /// Killed at any time since it was started.
    AnyTime,
    /// Killed when it makes a system call for the n-th time.
    Call(&'static str),
    /// `recover` is killed.
    Recovering,
    /// The n-th sync fails: nothing may be answered after it.
    FailedSync,
    /// Its address space is limited.
    Memory,
    /// Its disk fills up, and later has room again.
    FullDisk,
    /// A byte of a file changes, or a file is cut short.
    Damage,
}

/// Kinds and how often each comes.
const KINDS: [(Kind, u64); 11] = [
    (Kind::Working, 5),
    (Kind::AnyTime, 2),
    (Kind::Call("fdatasync"), 3),
    (Kind::Call("pwrite64"), 3),
    (Kind::Call("write"), 2),
    (Kind::Call("fallocate"), 1),
    (Kind::Call("fsync"), 1),
    (Kind::Recovering, 3),
    (Kind::FailedSync, 1),
    (Kind::Memory, 1),
    (Kind::FullDisk, 1),
];

impl Kind {
    /// The kind of a case of a chain.
    pub(super) fn of(seed: u64, chain: usize, at: usize, is_last: bool) -> Self {
        if is_last {
            return Self::Damage;
        }
        let total: u64 = KINDS.iter().map(|(_, weight)| weight).sum();
        let mut left = Random::new(seed, chain, at).below(total);
        for (kind, weight) in KINDS {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Self::Working
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::AnyTime => "any-time",
            Self::Call(call) => call,
            Self::Recovering => "recovering",
            Self::FailedSync => "failed-sync",
            Self::Memory => "memory",
            Self::FullDisk => "full-disk",
            Self::Damage => "damage",
        }
    }
}

/// Numbers that follow from a seed (splitmix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, chain: usize, at: usize) -> Self {
        let mut random = Self(seed);
        for part in [chain as u64, at as u64] {
            random.0 = random.next() ^ part;
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Runs one case; whether what was to happen happened.
pub(super) fn run(chain: &mut Chain<'_>, kind: Kind, at: usize) -> Result<bool, String> {
    let mut random = Random::new(!chain.world.seed, chain.number, at);
    let data = chain.data();
    let struck = match kind {
        Kind::Working => working(chain, &mut random)?,
        Kind::AnyTime => any_time(chain, &mut random)?,
        Kind::Call(call) => at_call(chain, call, &mut random)?,
        Kind::Recovering => recovering(chain, &mut random)?,
        Kind::FailedSync => failed_sync(chain, &mut random)?,
        Kind::Memory => memory(chain, &mut random)?,
        Kind::FullDisk => return full_disk(chain),
        Kind::Damage => return damage(chain, &mut random),
    };
    chain.verify(&data)?;
    Ok(struck)
}

/// Words for a run that does not end by itself.
fn endless(mut words: Vec<String>) -> Vec<String> {
    words.extend(["--seconds", "600"].map(str::to_owned));
    words
}

fn working(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let (words, acks) = chain.next_run(&chain.data());
    let mut process = Running::start(chain.world.program(), &endless(words), &chain.folder)?;
    let answered = || std::fs::metadata(&acks).is_ok_and(|file| file.len() > 0);
    let struck = process.wait_until(PATIENCE, answered);
    sleep(Duration::from_micros(random.below(150_000)));
    process.kill();
    killed(chain, process, &acks)?;
    Ok(struck)
}

fn any_time(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let (words, acks) = chain.next_run(&chain.data());
    let mut process = Running::start(chain.world.program(), &endless(words), &chain.folder)?;
    sleep(Duration::from_micros(random.below(1_000_000)));
    process.kill();
    killed(chain, process, &acks)?;
    Ok(true)
}

/// A process that was killed said nothing wrong before.
fn killed(chain: &mut Chain<'_>, process: Running, acks: &Path) -> Result<Ended, String> {
    let ended = process.finish(Duration::from_secs(10))?;
    chain.answers_of(acks);
    match ended.signal {
        Some(9) => Ok(ended),
        // strace ends with 128 + 9 where it cannot end with the signal itself.
        _ if ended.status == Some(137) => Ok(ended),
        _ => Err(format!("it ended by itself with {}", ended.brief())),
    }
}

/// The words that run a command under strace, with a fault at a system call.
fn traced(chain: &Chain<'_>, fault: &str, calls: &str, words: Vec<String>) -> Vec<String> {
    let program = chain.world.program().display().to_string();
    let trace = ["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", calls, "-e", fault];
    let mut all: Vec<String> = trace.map(str::to_owned).to_vec();
    all.extend(["--".to_owned(), program]);
    all.extend(words);
    all
}

fn at_call(chain: &mut Chain<'_>, call: &str, random: &mut Random) -> Result<bool, String> {
    let (words, acks) = chain.next_run(&chain.data());
    let nth = 1 + match call {
        "fallocate" | "fsync" => random.below(3),
        _ => random.below(40),
    };
    let fault = format!("inject={call}:signal=KILL:when={nth}");
    let words = traced(chain, &fault, &format!("trace={call}"), endless(words));
    let mut process = Running::start(Path::new("strace"), &words, &chain.folder)?;
    let begun = || std::fs::metadata(&acks).is_ok_and(|file| file.len() > 0);
    process.wait_until(PATIENCE, begun);
    process.wait_until(WAIT_FOR_CALL, || false);
    let struck = process.ended();
    process.kill();
    killed(chain, process, &acks)?;
    Ok(struck)
}

fn recovering(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let words = vec!["recover".to_owned(), chain.data().display().to_string()];
    let calls = ["pread64", "pwrite64", "fdatasync", "fsync", "openat"];
    let call = calls[random.below(calls.len() as u64) as usize];
    let nth = 1 + random.below(if call == "pread64" || call == "openat" { 30 } else { 4 });
    let fault = format!("inject={call}:signal=KILL:when={nth}");
    let words = traced(chain, &fault, &format!("trace={call}"), words);
    let ended = Running::start(Path::new("strace"), &words, &chain.folder)?.finish(PATIENCE)?;
    match (ended.signal, ended.status) {
        (Some(9), _) | (_, Some(137)) => Ok(true),
        (_, Some(0)) => Ok(false), // it was over before
        _ => Err(format!("recover ended with {}", ended.brief())),
    }
}

fn failed_sync(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let (words, acks) = chain.next_run(&chain.data());
    let fault = format!("inject=fdatasync:error=EIO:when={}", 1 + random.below(60));
    let words = traced(chain, &fault, "trace=fdatasync", endless(words));
    let ended = Running::start(Path::new("strace"), &words, &chain.folder)?.finish(PATIENCE)?;
    chain.answers_of(&acks);
    match ended.is_clear_refusal() && ended.stderr.contains("sync") {
        true => Ok(true),
        false => Err(format!("a failed sync ended it with {}", ended.brief())),
    }
}

fn memory(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let (mut words, acks) = chain.next_run(&chain.data());
    words.extend(["--transactions", "2k"].map(str::to_owned));
    // From less than it needs to begin with to more than it needs.
    let kilobytes = (64 << 10 << random.below(8)) + random.below(1 << 15);
    let script = format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\"");
    let mut all = vec!["-c".to_owned(), script, chain.world.program().display().to_string()];
    all.extend(words);
    let ended = Running::start(Path::new("sh"), &all, &chain.folder)?.finish(PATIENCE)?;
    chain.answers_of(&acks);
    match (ended.succeeded(), ended.is_clear_refusal()) {
        (true, _) => Ok(false),
        (_, true) => Ok(true),
        _ => Err(format!("{kilobytes} KB of address space ended it with {}", ended.brief())),
    }
}

/// A file system in memory, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, megabytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        mount(&["-t", "tmpfs", "-o", &format!("size={megabytes}M"), "tombolo-kills"], &at)?;
        Ok(Self(at))
    }

    fn grow(&self, megabytes: u64) -> Result<(), String> {
        mount(&["-o", &format!("remount,size={megabytes}M")], &self.0)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What stays mounted is said by the system.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn mount(words: &[&str], at: &Path) -> Result<(), String> {
    let done = Command::new("mount").args(words).arg(at).stderr(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("cannot mount a tmpfs at {}", at.display())),
    }
}

fn full_disk(chain: &mut Chain<'_>) -> Result<bool, String> {
    if !needs::is_root() {
        return Ok(false); // nobody else may mount
    }
    let bytes: u64 = std::fs::read_dir(chain.data())
        .map_err(|error| error.to_string())?
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|file| file.len())
        .sum();
    let megabytes = (bytes >> 20) + 20;
    let Ok(disk) = SmallDisk::mount(chain.folder.join("small"), megabytes) else {
        return Ok(false); // a container that may not mount
    };
    let data = disk.0.join("data");
    super::chain::copy(&chain.data(), &data)?;
    let (words, acks) = chain.next_run(&data);
    let program = chain.world.program().to_owned();
    let ended = Running::start(&program, &endless(words), &chain.folder)?.finish(PATIENCE)?;
    chain.answers_of(&acks);
    if !ended.is_clear_refusal() || !ended.stderr.contains("full") {
        return Err(format!("a full disk ended it with {}", ended.brief()));
    }
    chain.verify(&data)?;
    disk.grow(megabytes + 200)?;
    let (mut words, acks) = chain.next_run(&data);
    words.extend(["--transactions", "500"].map(str::to_owned));
    let again = chain.world.call(&words, &chain.folder)?;
    chain.answers_of(&acks);
    if !again.succeeded() {
        return Err(format!("with room again, it ended with {}", again.brief()));
    }
    chain.verify(&data)?;
    // The chain goes on with what happened here.
    std::fs::remove_dir_all(chain.data()).map_err(|error| error.to_string())?;
    super::chain::copy(&data, &chain.data())?;
    Ok(true)
}

/// A closed directory in which one byte is another, or whose file is cut short: refused with the place, or
/// nothing is missing. Then the loss is accepted, and what is left must be whole.
fn damage(chain: &mut Chain<'_>, random: &mut Random) -> Result<bool, String> {
    let data = chain.data();
    let recover = |flag: Option<&str>| {
        let mut words = vec!["recover".to_owned(), data.display().to_string()];
        words.extend(flag.map(str::to_owned));
        chain.world.call(&words, &chain.folder)
    };
    let closed = recover(None)?;
    if !closed.succeeded() {
        return Err(format!("recover ended with {}", closed.brief()));
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&data)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
        })
        .collect();
    files.sort();
    let file = &files[random.below(files.len() as u64) as usize];
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(4) {
        0 => bytes.truncate(at),
        _ => bytes[at] ^= 1 << random.below(8),
    }
    std::fs::write(file, &bytes).map_err(|error| error.to_string())?;
    let refused = recover(None)?;
    if refused.succeeded() {
        // It struck what nobody reads.
        chain.verify(&data)?;
        return Ok(false);
    }
    let is_clear = refused.is_clear_refusal() && refused.status == Some(3);
    if !is_clear || !refused.stderr.contains(&name) || !refused.stderr.contains("offset") {
        let brief = refused.brief();
        return Err(format!("{name} was spoilt at {at}, and recover ended with {brief}"));
    }
    let accepted = recover(Some("--accept-loss"))?;
    if !accepted.succeeded() || !accepted.stderr.contains("--accept-loss says") {
        return Err(format!("recover --accept-loss ended with {}", accepted.brief()));
    }
    let again = recover(None)?;
    if !again.succeeded() {
        return Err(format!("after the loss was accepted, recover ended with {}", again.brief()));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{KINDS, Kind, Random};

    #[test]
    fn every_kind_comes_up_and_a_seed_repeats() {
        let kinds = |seed| (0..1_000).map(move |chain| Kind::of(seed, chain, 3, false));
        for (kind, _) in KINDS {
            assert!(kinds(1).any(|of| of == kind), "{kind:?}");
        }
        assert!(kinds(1).eq(kinds(1)) && !kinds(1).eq(kinds(2)));
        assert_eq!(Kind::of(1, 0, 9, true), Kind::Damage);
        let mut random = Random::new(1, 2, 3);
        assert!((0..100).all(|_| random.below(7) < 7));
        assert_eq!(Random::new(1, 2, 3).below(0), 0);
    }
}
