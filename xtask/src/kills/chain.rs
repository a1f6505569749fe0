//! A chain: one directory that lives through case after case, and what must hold after each.
//!
//! What must hold: `tombolo check` can read the directory, all its checks are true, and for each client the
//! table `client_seq` names a call not older than the last one that was answered. Which calls were answered
//! is in the files that `run --acks` wrote; a line without an end was never finished and counts for nothing.
//!
//! `tombolo check` takes longer than most cases. So where only a process was killed it is run after every third
//! case and at the end, which finds the same: a client goes on counting where the database says it ended, so one
//! that counts a call again that was answered has lost it; one that does not count on leaves the gap in the table;
//! and what is half there stays half there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::case::{self, Kind, Outcome, Random};
use super::process::{Ended, Running, wait_until_free};
use super::summary::CaseEnd;
use crate::Failure;

/// Cases that one directory lives through; the last spoils its files.
pub(super) const CASES_PER_CHAIN: usize = 10;
/// Callers of a run: few, so that logs grow little while a kill is waited for.
const CLIENTS: &str = "8";
/// Kills after which the database is checked.
const KILLS_PER_CHECK: u32 = 3;
/// A command that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// The log's segments: those of the first database, small ones of which many are made, and what runs have.
const SEGMENT: &str = "8MB";
pub(super) const SMALL_SEGMENT: &str = "1MB";
const SEGMENTS: [&str; 3] = [SMALL_SEGMENT, "4MB", SEGMENT];

/// The length of a run's segments.
pub(super) fn segment(random: &mut Random) -> &'static str {
    random.one_of(&SEGMENTS)
}

/// What all chains share.
pub(super) struct World {
    program: PathBuf,
    /// Everything is in here.
    folder: PathBuf,
    pub(super) seed: u64,
    /// Memory that a run takes.
    data_kb: u64,
    /// The command's commit, as it says itself.
    pub(super) commit: String,
}

impl World {
    /// Loads the database that every chain begins with.
    pub(super) fn prepare(program: PathBuf, folder: PathBuf, seed: u64) -> Result<Self, Failure> {
        let machine = |what: String| Failure::machine(format!("kills: {what}"));
        let path = folder.display();
        // What an earlier call kept is gone now.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| machine(format!("{path}: {error}")))?;
        let mut world = Self { program, folder, seed, data_kb: 0, commit: String::new() };
        let mut words = world.run_words(&world.base(), &world.base_acks(), seed, SEGMENT);
        words.extend(["--warehouses", "1", "--transactions", "100"].map(str::to_owned));
        let started = Running::start(&world.program, &words, &world.folder);
        let mut process = started.map_err(machine)?;
        while !process.ended() {
            world.data_kb = world.data_kb.max(process.data_kb().unwrap_or_default());
            process.wait_until(Duration::from_millis(20), || false);
        }
        let ended = process.finish(PATIENCE).map_err(machine)?;
        if !ended.succeeded() {
            return Err(machine(format!("loading ended with {}", ended.brief())));
        }
        let commit =
            ended.stdout.split_once("\"commit\":\"").and_then(|(_, at)| at.split_once('"'));
        world.commit = commit.map(|(commit, _)| commit.to_owned()).unwrap_or_default();
        Ok(world)
    }

    /// Memory that a run takes, about.
    pub(super) fn data_kb(&self) -> u64 {
        self.data_kb
    }

    fn base(&self) -> PathBuf {
        self.folder.join("base")
    }

    fn base_acks(&self) -> PathBuf {
        self.folder.join("base-acks")
    }

    /// Takes what is not needed any more away.
    pub(super) fn end(&self, all: bool) {
        let gone = if all { self.folder.clone() } else { self.base() };
        // What stays is in nobody's way.
        let _ = std::fs::remove_dir_all(gone);
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The words of a run on `data`; how long it takes and whether it resumes is the caller's.
    fn run_words(&self, data: &Path, acks: &Path, seed: u64, segment: &str) -> Vec<String> {
        let (data, acks) = (data.display().to_string(), acks.display().to_string());
        let seed = seed.to_string();
        let words = [
            "run",
            "tpcc",
            "--profile",
            "memory",
            "--durability",
            "group",
            "--data",
            &data,
            "--acks",
            &acks,
            "--clients",
            CLIENTS,
            "--latency-transactions",
            "100",
            "--seed",
            &seed,
            "--log-segment-bytes",
            segment,
            "--mix",
            "standard",
            // Little at a time, since most runs are killed soon.
            "--batch",
            "5k",
            // For the small disks of some cases, and for machines whose disk is memory: processes die here, not
            // the machine.
            "--volatile-ok",
            "--json",
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Runs the command to its end.
    pub(super) fn call(&self, words: &[String], scratch: &Path) -> Result<Ended, String> {
        Running::start(&self.program, words, scratch)?.finish(PATIENCE)
    }
}

/// A chain at work.
pub(super) struct Chain<'w> {
    pub(super) world: &'w World,
    pub(super) number: usize,
    /// Its files are in here.
    pub(super) folder: PathBuf,
    /// How often a run was started.
    runs: u32,
    /// The last call of each client that was answered.
    answered: BTreeMap<u64, u64>,
    /// A call that was answered and is lost.
    lost: Option<String>,
    /// Kills since the database was checked.
    unchecked: u32,
}

impl<'w> Chain<'w> {
    pub(super) fn new(world: &'w World, number: usize) -> Self {
        let folder = world.folder.join(format!("chain-{number}"));
        Self { world, number, folder, runs: 0, answered: BTreeMap::new(), lost: None, unchecked: 0 }
    }

    /// The database's directory.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Runs cases until one fails or there is no time; `tell` hears of each.
    pub(super) fn run(
        mut self,
        cases: usize,
        has_time: &dyn Fn() -> bool,
        tell: &dyn Fn(&CaseEnd),
    ) {
        let began = self.begin();
        let mut kind = Kind::Working;
        for at in (0..cases).take_while(|_| has_time()) {
            kind = Kind::of(self.world.seed, self.number, at, at + 1 == CASES_PER_CHAIN);
            let before = self.acknowledged();
            let outcome = began.clone().and_then(|()| case::run(&mut self, kind, at));
            if let Some(what) = told(&outcome) {
                self.report(kind, at, what, outcome.is_err());
            }
            let is_over = outcome.is_err();
            let acknowledged = self.acknowledged() - before;
            tell(&CaseEnd { kind: kind.name(), outcome, acknowledged });
            if is_over {
                return;
            }
        }
        if self.unchecked > 0
            && let Err(what) = self.verify(&self.data())
        {
            self.report(kind, cases, &what, true);
            tell(&CaseEnd { kind: "end-of-chain", outcome: Err(what), acknowledged: 0 });
            return;
        }
        // A chain that held is not looked at any more.
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    fn begin(&mut self) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        copy(&self.world.base(), &self.data())?;
        self.answers_of(&self.world.base_acks());
        Ok(())
    }

    fn report(&self, kind: Kind, at: usize, what: &str, has_failed: bool) {
        let (World { seed, .. }, kind) = (self.world, kind.name());
        if !has_failed {
            return eprintln!("xtask: kills: {kind} did not strike: {what}");
        }
        eprintln!(
            "xtask: kills: {kind} failed: {what}\n  again: cargo xtask kills --seed {seed} --chain {} --count {} \
             # case {at}; its files are in {}",
            self.number,
            (self.number + 1) * CASES_PER_CHAIN,
            self.folder.display()
        );
    }

    /// How many calls were answered so far.
    fn acknowledged(&self) -> u64 {
        self.answered.values().sum()
    }

    /// The words of the chain's next run on `data`, whose new segments are `segment` long, and the file of its
    /// answers.
    pub(super) fn next_run(&mut self, data: &Path, segment: &str) -> (Vec<String>, PathBuf) {
        self.runs += 1;
        let acks = self.folder.join(format!("acks-{}", self.runs));
        let seed = self.world.seed + 1_000 * self.number as u64 + u64::from(self.runs);
        let mut words = self.world.run_words(data, &acks, seed, segment);
        words.push("--resume".to_owned());
        (words, acks)
    }

    /// Counts on the answers in `file`.
    pub(super) fn answers_of(&mut self, file: &Path) {
        let text = std::fs::read(file).unwrap_or_default();
        let again = count(&mut self.answered, &String::from_utf8_lossy(&text));
        self.lost = self.lost.take().or(again);
    }

    /// Reads the database in `data` with `tombolo check`, which changes nothing.
    pub(super) fn check(&self, data: &Path) -> Result<Ended, String> {
        let rows = self.folder.join("rows");
        let words =
            ["check", &data.display().to_string(), "--dump", &rows.display().to_string(), "--json"];
        let words = words.map(str::to_owned);
        self.world.call(&words, &self.folder)
    }

    /// A process was killed: as [`Chain::verify`], now or after a later kill.
    pub(super) fn verify_killed(&mut self) -> Result<(), String> {
        wait_until_free(&self.data(), PATIENCE)?;
        self.unchecked += 1;
        match self.lost.clone() {
            Some(lost) => Err(lost),
            None if self.unchecked < KILLS_PER_CHECK => Ok(()),
            None => self.verify(&self.data()),
        }
    }

    /// Everything that was answered is in `data`, and nothing is half there.
    pub(super) fn verify(&mut self, data: &Path) -> Result<(), String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        wait_until_free(data, PATIENCE)?;
        self.unchecked = 0;
        let checked = self.check(data)?;
        if !checked.succeeded() || !checked.stdout.contains("\"consistent\":true") {
            return Err(format!("check ended with {}", checked.brief()));
        }
        let table = self.folder.join("rows").join("client_seq.copy");
        let rows = std::fs::read_to_string(&table);
        let rows = rows.map_err(|error| format!("{}: {error}", table.display()))?;
        lost(&self.answered, &rows).map_or(Ok(()), Err)
    }
}

/// What is to be said of a case.
fn told(outcome: &Result<Outcome, String>) -> Option<&str> {
    match outcome {
        Ok(Outcome::Struck(_)) => None,
        Ok(Outcome::Missed(what) | Outcome::Skipped(what)) | Err(what) => Some(what),
    }
}

/// Counts answers in; a call that was answered before.
fn count(answered: &mut BTreeMap<u64, u64>, text: &str) -> Option<String> {
    let mut again = None;
    for (client, seq) in numbers(text) {
        let last = answered.entry(client).or_default();
        if seq <= *last {
            again.get_or_insert_with(|| {
                format!("call {seq} of client {client} was answered twice: {last} was lost")
            });
        }
        *last = (*last).max(seq);
    }
    again
}

/// The first answered call that is not in the table.
fn lost(answered: &BTreeMap<u64, u64>, rows: &str) -> Option<String> {
    let there: BTreeMap<u64, u64> = numbers(rows).collect();
    let mut lost = answered.iter().filter_map(|(client, &seq)| {
        let found = there.get(client).copied();
        let what = match found {
            None => "it has no row".to_owned(),
            Some(found) if found < seq => format!("the last one there is {found}"),
            Some(_) => return None,
        };
        Some(format!("call {seq} of client {client} was answered and is lost: {what}"))
    });
    lost.next()
}

/// Two numbers a line; a line that was not ended is none.
fn numbers(text: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::parse);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(client)), Some(Ok(seq)), None) => Some((client, seq)),
            _ => None,
        }
    })
}

/// Copies a folder's files.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = std::fs::create_dir_all(to).and_then(|()| {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    });
    copied.map_err(|error: std::io::Error| format!("cannot copy {}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::{count, lost, numbers};
    use std::collections::BTreeMap;

    #[test]
    fn only_whole_lines_count() {
        let read: Vec<_> = numbers("1 2\n3\t4\nx 5\n6 7 8\n9 1").collect();
        assert_eq!(read, [(1, 2), (3, 4)]);
        assert_eq!(numbers("1 2").count(), 0);
    }

    #[test]
    fn a_call_that_is_counted_again_was_lost() {
        let mut answered = BTreeMap::new();
        assert_eq!(count(&mut answered, "0 1\n1 1\n0 3\n"), None);
        assert_eq!(count(&mut answered, "0 4\n1 2\n"), None);
        let lost = count(&mut answered, "1 3\n0 4\n0 5\n").unwrap();
        assert!(lost.contains("call 4 of client 0 was answered twice: 4 was lost"), "{lost}");
        assert_eq!(answered, BTreeMap::from([(0, 5), (1, 3)]));
    }

    #[test]
    fn a_lost_call_is_named() {
        let answered = BTreeMap::from([(0, 5), (1, 7)]);
        assert_eq!(lost(&answered, "0\t5\n1\t9\n2\t0\n"), None);
        let behind = lost(&answered, "0\t5\n1\t6\n").unwrap();
        assert!(behind.contains("call 7 of client 1") && behind.contains("is 6"), "{behind}");
        assert!(lost(&answered, "1\t7\n").unwrap().contains("no row"));
    }
}
