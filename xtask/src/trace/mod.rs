//! `cargo xtask trace`: verifies by system calls that no answer leaves before its group is durable.
//!
//! Real processes run TPC-C durably under strace. In each trace every rule of `trace/rules.rs` must hold, each answer
//! in the file of `--acks` must occur in it, and there must be exactly one `fdatasync` for each flush that
//! the result reports, besides those of segments that a flush filled, of seals, and of segments being
//! created. One process has one caller, one has many, and in one an `fdatasync` fails: after it nothing is
//! answered, written or retried. Checkpoints are written all the time: their own `fdatasync`s are
//! distinguished by their files. With `--errors` further processes run, in each of which one write or sync
//! fails, of any file, in any phase.
//!
//! It does not kill or measure: a process under strace is slow, and its flushes are large.

mod lines;
mod rules;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::needs;
use crate::options::Options;
use crate::process::{Ended, PATIENCE, Running, words};
use crate::provenance::{stamped, tenths};
use crate::random::Random;
use crate::shipped::{self, copy};
use crate::stopwatch::Stopwatch;

use lines::{Event, events};
use rules::{Counts, Judge};

/// Calls that could write to a file or force it to the device. strace ignores those that do not exist here.
const CALLS: &str = "trace=pwrite64,pwritev,pwritev2,write,writev,fdatasync,fsync,sync_file_range,fallocate,ftruncate";
/// Log records after which a checkpoint begins: so few that one is always being written, even with one caller.
const CHECKPOINT_LOG_BYTES: &str = "64KB";

/// One traced process.
#[derive(Clone, Copy, Debug)]
struct Round {
    clients: u32,
    transactions: u32,
    fails: Option<Failing>,
}

/// Which call of each thread fails.
#[derive(Clone, Copy, Debug)]
struct Failing {
    call: &'static str,
    error: &'static str,
    when: u64,
    /// Whether it is one of the log while calls are answered.
    is_log: bool,
}

const FAILING: Failing = Failing { call: "fdatasync", error: "EIO", when: 60, is_log: true };

const ROUNDS: [Round; 3] = [
    Round { clients: 1, transactions: 300, fails: None },
    Round { clients: 32, transactions: 6_000, fails: None },
    Round { clients: 32, transactions: 6_000, fails: Some(FAILING) },
];

/// Rounds with errors have fewer transactions.
const TRANSACTIONS: [(u32, u32); 2] = [(1, 60), (32, 1_500)];
/// Processes between two lines of progress.
const PROCESSES_PER_REPORT: u64 = 50;

/// Traces `tombolo`, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let given = Options::read("trace", &["--program", "--errors", "--seed"], words)?;
    let (errors, seed) = (given.number("--errors", 0)?, given.number("--seed", 0)?);
    if !needs::on_path("strace") {
        return Err(Failure::machine("trace: strace is missing; `cargo xtask test` installs it"));
    }
    let program = shipped::program(root, given.get("--program"))?;
    let clock = Stopwatch::start();
    let folder = crate::folders::target_folder(root).join("trace");
    let tracer = Tracer::prepare(program, folder).map_err(machine)?;
    let mut rounds = Vec::new();
    // Transactions in the log before the measured ones: the same for the same number of callers.
    let mut base = 0;
    for round in ROUNDS {
        let counts = tracer.round(round, &mut base).map_err(|what| tracer.broken(round, what))?;
        rounds.push(RoundRow::new(round, &counts, base));
    }
    let errors = with_errors(&tracer, errors, seed)?;
    let _ = std::fs::remove_dir_all(&tracer.folder);
    let wall_s = tenths(clock.elapsed().as_secs_f64());
    println!("{}", stamped(root, Row { command: "trace", wall_s, rounds, errors }));
    Ok(())
}

/// The report of `cargo xtask trace`.
#[derive(Debug, Serialize)]
struct Row {
    command: &'static str,
    wall_s: f64,
    rounds: Vec<RoundRow>,
    errors: ErrorsRow,
}

/// The results of one trace.
#[derive(Debug, Serialize)]
struct RoundRow {
    clients: u32,
    fdatasync_fails: bool,
    answers: u64,
    answer_writes: u64,
    groups: u64,
    fdatasyncs: SyncsRow,
}

/// The `fdatasync`s of a trace, by purpose.
#[derive(Debug, Serialize)]
struct SyncsRow {
    measured_flushes: u64,
    warm_up_flushes: u64,
    left_behind: u64,
    seals: u64,
    recovery: u64,
    segments: u64,
    image: u64,
}

/// The processes in which a call failed, by the call's purpose.
#[derive(Debug, Default, Serialize)]
struct ErrorsRow {
    processes: u64,
    seed: u64,
    of_log: u64,
    after_answers: u64,
    of_making_segments: u64,
    of_image: u64,
    not_reached: u64,
}

impl RoundRow {
    fn new(round: Round, counts: &Counts, base: u64) -> Self {
        let measured = measured(counts, base);
        Self {
            clients: round.clients,
            fdatasync_fails: round.fails.is_some(),
            answers: counts.answered,
            answer_writes: counts.answer_writes,
            groups: counts.groups,
            fdatasyncs: SyncsRow {
                measured_flushes: measured,
                warm_up_flushes: counts.flushes.len() as u64 - measured,
                left_behind: counts.left_behind,
                seals: counts.seals,
                recovery: counts.of_recovery,
                segments: counts.of_segments,
                image: counts.of_image,
            },
        }
    }
}

/// Runs processes in each of which a call fails; returns the number of each kind.
fn with_errors(tracer: &Tracer, processes: u64, seed: u64) -> Result<ErrorsRow, Failure> {
    // By number of callers: transactions in the log before the measured ones.
    let mut bases = [0; TRANSACTIONS.len()];
    let mut row = ErrorsRow { processes, seed, ..ErrorsRow::default() };
    for number in 0..processes {
        let mut random = Random::new(seed, 0, number as usize);
        let at = random.below(TRANSACTIONS.len() as u64) as usize;
        let (clients, transactions) = TRANSACTIONS[at];
        let round = |fails| Round { clients, transactions, fails };
        let broken = |what| tracer.broken(round(None), what);
        if bases[at] == 0 {
            tracer.round(round(None), &mut bases[at]).map_err(broken)?;
        }
        let (call, error) = random.one_of(&[
            ("fdatasync", "EIO"),
            ("fdatasync", "EIO"),
            ("pwrite64", "EIO"),
            ("pwrite64", "ENOSPC"),
        ]);
        let failing = Failing { call, error, when: random.magnitude(7), is_log: false };
        let failed = round(Some(failing));
        let counts = tracer.round(failed, &mut bases[at]);
        let counts = counts.map_err(|what| {
            let again = format!("{what} (--seed {seed}, number {number})");
            tracer.broken(failed, again)
        })?;
        match (counts.has_failed, counts.making_has_failed, counts.image_has_failed) {
            (true, ..) => row.of_log += 1,
            (_, true, _) => row.of_making_segments += 1,
            (.., true) => row.of_image += 1,
            _ => row.not_reached += 1,
        }
        row.after_answers += u64::from(counts.has_failed && counts.answered > 0);
        if (number + 1).is_multiple_of(PROCESSES_PER_REPORT) {
            let done = number + 1;
            eprintln!("xtask: trace: {done} of {processes} with errors, none broke a rule");
        }
    }
    Ok(row)
}

fn machine(what: String) -> Failure {
    Failure::machine(format!("trace: {what}"))
}

/// Flushes that made measured transactions durable.
fn measured(counts: &Counts, base: u64) -> u64 {
    counts.flushes.iter().filter(|&&transactions| transactions > base).count() as u64
}

/// The state shared by all rounds.
struct Tracer {
    program: PathBuf,
    folder: PathBuf,
}

impl Tracer {
    /// Loads the database.
    fn prepare(program: PathBuf, folder: PathBuf) -> Result<Self, String> {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        // strace names files by their whole path.
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let tracer = Self { program, folder };
        let base = tracer.file("base");
        let words = Self::words(&base, 1, "--warehouses 1 --transactions 1");
        let loaded = Running::start(&tracer.program, &words, &tracer.folder)?.finish(PATIENCE)?;
        match loaded.succeeded() {
            true => Ok(tracer),
            false => Err(format!("loading ended with {}", loaded.brief())),
        }
    }

    fn broken(&self, round: Round, what: String) -> Failure {
        let Round { clients, fails, .. } = round;
        let with = fails.map_or_else(String::new, |Failing { call, error, when, .. }| {
            format!(" and {error} of {call} {when}")
        });
        let place = self.folder.display();
        Failure::check(format!("trace: with {clients} callers{with}: {what}; see {place}"))
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn words(data: &str, clients: u32, more: &str) -> Vec<String> {
        let mut all = words(&format!(
            "run tpcc --profile memory --durability group --mix paper --latency-transactions 0 \
             --log-segment-bytes 4MB --checkpoint-log-bytes {CHECKPOINT_LOG_BYTES} --volatile-ok --json \
             --clients {clients} {more} --data"
        ));
        all.push(data.to_owned());
        all
    }

    /// Runs a process and judges it.
    fn round(&self, round: Round, base: &mut u64) -> Result<Counts, String> {
        let data = self.folder.join("data");
        let (acks, trace) = (self.file("acks"), self.file("trace"));
        let _ = std::fs::remove_dir_all(&data);
        let _ = std::fs::remove_file(&acks);
        copy(&self.folder.join("base"), &data)?;
        let ended = self.traced(round, &acks, &trace)?;
        let text = std::fs::read_to_string(&trace).map_err(|error| format!("{trace}: {error}"))?;
        let answers = match std::fs::read(&acks) {
            // It failed before it answered anything.
            Err(error) if error.kind() == ErrorKind::NotFound && round.fails.is_some() => {
                Vec::new()
            }
            answers => answers.map_err(|error| format!("{acks}: {error}"))?,
        };
        let found: Result<Vec<Vec<Event>>, String> = text.lines().map(events).collect();
        let found: Vec<Event> = found?.into_iter().flatten().collect();
        let answered = answers.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if round.fails.is_none() {
            // Each measured call that was answered is a transaction of the log, and nothing comes after them.
            let before = rules::transactions(&found).checked_sub(answered);
            *base = before.ok_or("more answers than transactions in the log")?;
        }
        let mut judge = Judge::new(&acks, &answers, *base);
        found.into_iter().try_for_each(|event| judge.see(event))?;
        let counts = judge.end()?;
        if counts.answered != answered {
            return Err(format!(
                "{answered} answers, of which {} are in the trace",
                counts.answered
            ));
        }
        match round.fails {
            Some(Failing { is_log: true, .. }) => refused(&ended, &counts)?,
            Some(failing) => survived_or_refused(&ended, &counts, failing)?,
            None => agree(&ended, &counts, *base)?,
        }
        Ok(counts)
    }

    fn traced(&self, round: Round, acks: &str, trace: &str) -> Result<Ended, String> {
        let Round { clients, transactions, fails } = round;
        let mut all = words(&format!("-f -y -x -s 64 -qq --seccomp-bpf -e {CALLS} -o"));
        all.push(trace.to_owned());
        if let Some(Failing { call, error, when, .. }) = fails {
            all.extend(words(&format!("-e inject={call}:error={error}:when={when}")));
        }
        all.extend(["--".to_owned(), self.program.display().to_string()]);
        let more = format!("--resume --transactions {transactions}");
        all.extend(Self::words(&self.file("data"), clients, &more));
        all.extend(["--acks".to_owned(), acks.to_owned()]);
        Running::start(Path::new("strace"), &all, &self.folder)?.finish(PATIENCE)
    }
}

/// A run whose log failed must report that, after some answers.
fn refused(ended: &Ended, counts: &Counts) -> Result<(), String> {
    match ended.is_clear_refusal() && counts.has_failed && counts.answered > 0 {
        true => Ok(()),
        false => {
            Err(format!("it answered {} calls and ended with {}", counts.answered, ended.brief()))
        }
    }
}

/// A run with a failed call must report the failure if it was one of the log; otherwise it must succeed, or report why
/// it could not begin.
fn survived_or_refused(ended: &Ended, counts: &Counts, failing: Failing) -> Result<(), String> {
    // Where there is no room for a segment, there may be a moment later.
    let has_failed = counts.has_failed || counts.making_has_failed && failing.error != "ENOSPC";
    let is_well = ended.succeeded() && !has_failed;
    match is_well || ended.is_clear_refusal() {
        true => Ok(()),
        false => {
            Err(format!("it answered {} calls and ended with {}", counts.answered, ended.brief()))
        }
    }
}

/// The result of a run must agree with the trace.
fn agree(ended: &Ended, counts: &Counts, base: u64) -> Result<(), String> {
    if !ended.succeeded() || counts.has_failed {
        return Err(format!("it ended with {}", ended.brief()));
    }
    let row = ended.row();
    let field =
        |name: &str| row[name].as_u64().ok_or_else(|| format!("the result has no number {name}"));
    let (flushes, committed) = (field("flushes")?, field("committed")?);
    let shown = measured(counts, base);
    if flushes != shown || flushes == 0 {
        return Err(format!("{flushes} flushes are reported, the trace has {shown} fdatasyncs"));
    }
    if counts.of_image == 0 || counts.image_has_failed {
        return Err("no checkpoint was written while transactions ran".to_owned());
    }
    match committed == counts.answered && base > 0 {
        true => Ok(()),
        false => Err(format!("{committed} calls committed, {} were answered", counts.answered)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Ended, agree, refused, run};
    use std::path::Path;

    fn ended(status: i32, stdout: &str, stderr: &str) -> Ended {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        Ended { status: Some(status), signal: None, stdout, stderr }
    }

    #[test]
    fn what_a_result_reports_must_be_what_the_trace_shows() {
        let counts =
            Counts { flushes: vec![3, 5, 6], answered: 2, of_image: 9, ..Counts::default() };
        let result = |flushes, committed| {
            ended(0, &format!("{{\"committed\":{committed},\"flushes\":{flushes},\"x\":1}}"), "")
        };
        assert_eq!(agree(&result(2, 2), &counts, 4), Ok(()));
        assert!(agree(&result(3, 2), &counts, 4).unwrap_err().contains("has 2 fdatasyncs"));
        assert!(agree(&result(2, 1), &counts, 4).unwrap_err().contains("1 calls committed"));
        assert!(agree(&ended(3, "", "tombolo: x"), &counts, 4).unwrap_err().contains("status 3"));
        let none = ended(0, "{\"committed\":2,\"flushes\":null}", "");
        assert!(agree(&none, &counts, 4).unwrap_err().contains("no number flushes"));
        let without = Counts { of_image: 0, ..counts };
        assert!(agree(&result(2, 2), &without, 4).unwrap_err().contains("no checkpoint"));
    }

    #[test]
    fn a_run_that_survives_a_failure_is_noticed() {
        let failed = Counts { answered: 2, has_failed: true, ..Counts::default() };
        assert_eq!(refused(&ended(3, "", "tombolo: it failed\n"), &failed), Ok(()));
        assert!(refused(&ended(0, "", ""), &failed).is_err());
        let unharmed = Counts { answered: 2, ..Counts::default() };
        assert!(refused(&ended(3, "", "tombolo: it failed\n"), &unharmed).is_err());
    }

    #[test]
    fn bad_usage_is_refused() {
        assert_eq!(run(Path::new("/"), &["--frob"]).unwrap_err().status(), 2);
    }
}
