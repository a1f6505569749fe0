//! A chain: one directory that lives through case after case, and what must hold after each.
//!
//! What must hold: `tombolo check` can read the directory, all its checks are true, and every call that was
//! answered is there (`answers.rs`).
//!
//! `tombolo check` takes longer than most cases. So where only a process was killed it is run after every third
//! case and at the end, which finds the same: a client that counts a lost call again shows it by its answers, a
//! client that does not leaves the gap in the table, and what is half there stays half there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::answers::Answers;
use super::case::{self, Kind, Outcome, Random};
use super::profile::Profile;
use super::summary::CaseEnd;
use crate::failure::Failure;
use crate::process::{Ended, MEMORY_KB, PATIENCE, Running, words};
use crate::shipped::{copy, wait_until_free};

/// Cases that one directory lives through; the last spoils its files.
pub(super) const CASES_PER_CHAIN: usize = 10;
/// Kills after which the database is checked.
const KILLS_PER_CHECK: u32 = 3;
/// The log's segments: those of the first database, small ones of which many are made, and what runs have.
const SEGMENT: &str = "8MB";
pub(super) const SMALL_SEGMENT: &str = "1MB";
const SEGMENTS: [&str; 3] = [SMALL_SEGMENT, "4MB", SEGMENT];

/// The length of a run's segments.
pub(super) fn segment(random: &mut Random) -> &'static str {
    random.one_of(&SEGMENTS)
}

/// The state that all chains share.
pub(super) struct World {
    program: PathBuf,
    pub(super) profile: Profile,
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
    pub(super) fn prepare(
        program: PathBuf,
        profile: Profile,
        target: PathBuf,
        seed: u64,
    ) -> Result<Self, Failure> {
        let folder = target.join(format!("kills-{}", profile.name()));
        let machine = |what: String| Failure::machine(format!("kills: {what}"));
        let path = folder.display();
        // Removes what an earlier call left.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| machine(format!("{path}: {error}")))?;
        let mut world = Self { program, profile, folder, seed, data_kb: 0, commit: String::new() };
        let mut run = world.run_words(&world.base(), &world.base_acks(), seed, SEGMENT);
        run.extend(words(&format!(
            "{} --warehouses 1 --transactions 100",
            profile.flags_of_first()
        )));
        let started = Running::start(&world.program, &run, &world.folder);
        let mut process = started.map_err(machine)?;
        while !process.ended() {
            world.data_kb = world.data_kb.max(process.data_kb().unwrap_or_default());
            process.wait_until(Duration::from_millis(20), || false);
        }
        let ended = process.finish(PATIENCE).map_err(machine)?;
        if !ended.succeeded() {
            return Err(machine(format!("loading ended with {}", ended.brief())));
        }
        world.commit = ended.row()["commit"].as_str().unwrap_or_default().to_owned();
        Ok(world)
    }

    /// Roughly the memory that a run takes.
    pub(super) fn data_kb(&self) -> u64 {
        self.data_kb
    }

    fn base(&self) -> PathBuf {
        self.folder.join("base")
    }

    fn base_acks(&self) -> PathBuf {
        self.folder.join("base-acks")
    }

    /// Removes everything but the files of chains that failed.
    pub(super) fn end(&self, has_failed: bool) {
        let gone = if has_failed { self.base() } else { self.folder.clone() };
        // Remaining files do no harm.
        let _ = std::fs::remove_dir_all(gone);
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The words of a run on `data`; how long it takes and whether it resumes is the caller's.
    fn run_words(&self, data: &Path, acks: &Path, seed: u64, segment: &str) -> Vec<String> {
        // Little at a time, since most runs are killed soon. Volatile files for the small disks of some cases, and for
        // machines whose disk is memory: processes die here, not the machine.
        let mut run = words(&format!(
            "run tpcc --profile {} --durability group --mix standard --seed {seed} --batch 5k {} \
             --latency-transactions 100 --log-segment-bytes {segment} --volatile-ok --json",
            self.profile.name(),
            self.profile.flags()
        ));
        for (flag, path) in [("--data", data), ("--acks", acks)] {
            run.extend([flag.to_owned(), path.display().to_string()]);
        }
        run
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
    answers: Answers,
    /// Answers of the cases that are over.
    reported: u64,
    /// Kills since the database was checked.
    unchecked: u32,
    /// Memory that its processes may write to, where a case does not say less.
    memory_kb: u64,
}

impl<'w> Chain<'w> {
    pub(super) fn new(world: &'w World, number: usize) -> Self {
        let folder = world.folder.join(format!("chain-{number}"));
        let answers = Answers::default();
        let memory_kb = MEMORY_KB;
        Self { world, number, folder, runs: 0, answers, reported: 0, unchecked: 0, memory_kb }
    }

    /// Starts a program with the chain's memory.
    pub(super) fn start<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        words: &[A],
    ) -> Result<Running, String> {
        Running::start_within(self.memory_kb, program, words, &self.folder)
    }

    /// Runs the command to its end.
    pub(super) fn call(&self, words: &[String]) -> Result<Ended, String> {
        self.start(self.world.program(), words)?.finish(PATIENCE)
    }

    /// Lets later processes take more memory: a database has grown until nothing more fitted on a disk.
    pub(super) fn raise_memory(&mut self) {
        self.memory_kb = 4 * MEMORY_KB;
    }

    /// The database's directory.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Runs cases until one fails or there is no time; `report` is called for each. The files of a failed one stay.
    pub(super) fn run(
        mut self,
        cases: usize,
        has_time: &dyn Fn() -> bool,
        report: &dyn Fn(&CaseEnd),
    ) {
        if let Err(what) = self.begin() {
            return self.end_case("start-of-chain", 0, Err(what), report);
        }
        for at in (0..cases).take_while(|_| has_time()) {
            let is_last = at + 1 == CASES_PER_CHAIN;
            let kind = Kind::of((self.world.profile, self.world.seed), self.number, at, is_last);
            let outcome = case::run(&mut self, kind, at);
            let has_failed = outcome.is_err();
            self.end_case(kind.name(), at, outcome, report);
            if has_failed {
                return;
            }
        }
        if self.unchecked > 0
            && let Err(what) = self.verify(&self.data())
        {
            return self.end_case("end-of-chain", cases, Err(what), report);
        }
        // Remaining files do no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Copies the database that every chain begins with.
    fn begin(&mut self) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        copy(&self.world.base(), &self.data())?;
        self.answers_of(&self.world.base_acks());
        self.reported = self.answers.count();
        Ok(())
    }

    /// Prints a case that failed or did not strike, and reports the outcome.
    fn end_case(
        &mut self,
        kind: &'static str,
        at: usize,
        outcome: Result<Outcome, String>,
        report: &dyn Fn(&CaseEnd),
    ) {
        match &outcome {
            Ok(Outcome::Struck(_)) => {}
            Ok(Outcome::Missed(why) | Outcome::Skipped(why)) => {
                eprintln!("xtask: kills: {kind} did not strike: {why}");
            }
            Err(what) => eprintln!(
                "xtask: kills: {kind} failed: {what}\n  again: cargo xtask kills --seed {} --chain {} \
                 --count {} # case {at}; its files are in {}",
                self.world.seed,
                self.number,
                (self.number + 1) * CASES_PER_CHAIN,
                self.folder.display()
            ),
        }
        let acknowledged = self.answers.count() - self.reported;
        self.reported = self.answers.count();
        report(&CaseEnd { kind, outcome, acknowledged });
    }

    /// The words of the chain's next run on `data`, whose new segments are `segment` long, and the file of its
    /// answers.
    pub(super) fn next_run(&mut self, data: &Path, segment: &str) -> (Vec<String>, PathBuf) {
        self.runs += 1;
        let acks = self.folder.join(format!("acks-{}", self.runs));
        let seed = self.world.seed + 1_000 * self.number as u64 + u64::from(self.runs);
        let mut run = self.world.run_words(data, &acks, seed, segment);
        let flags = self.world.profile.flags_of_run(seed, self.runs);
        run.extend(words(&format!("--resume {flags}")));
        (run, acks)
    }

    /// Adds the answers in `file`.
    pub(super) fn answers_of(&mut self, file: &Path) {
        let text = std::fs::read(file).unwrap_or_default(); // there is none before the first answer
        self.answers.add(&String::from_utf8_lossy(&text));
    }

    /// Reads the database in `data` with `tombolo check`, which changes nothing.
    pub(super) fn check(&self, data: &Path) -> Result<Ended, String> {
        let rows = self.folder.join("rows");
        let words =
            ["check", &data.display().to_string(), "--dump", &rows.display().to_string(), "--json"];
        let words = words.map(str::to_owned);
        self.call(&words)
    }

    /// A process was killed: as [`Chain::verify`], now or after a later kill.
    pub(super) fn verify_killed(&mut self) -> Result<(), String> {
        wait_until_free(&self.data())?;
        self.unchecked += 1;
        match self.unchecked < KILLS_PER_CHECK {
            true => self.answers.verify(),
            false => self.verify(&self.data()),
        }
    }

    /// Everything that was answered is in `data`, and nothing is half there.
    pub(super) fn verify(&mut self, data: &Path) -> Result<(), String> {
        self.answers.verify()?;
        wait_until_free(data)?;
        self.unchecked = 0;
        let checked = self.check(data)?;
        if !checked.succeeded() || checked.row()["consistent"] != true {
            return Err(format!("check ended with {}", checked.brief()));
        }
        let table = self.folder.join("rows").join("client_seq.copy");
        let rows = std::fs::read_to_string(&table);
        let rows = rows.map_err(|error| format!("{}: {error}", table.display()))?;
        self.answers.verify_in(&rows)
    }
}
