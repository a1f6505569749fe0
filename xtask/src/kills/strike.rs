//! Processes that are killed, or for which a system call fails.
//!
//! strace strikes at the n-th call *of a thread*: each thread is counted separately. A thread that makes too few is not
//! struck; then the process is killed as it is, and another is tried with a smaller n. strace must stop at every system
//! call (no `--seccomp-bpf`): a signal sent at the stop that filter makes is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::case::{Outcome, Random};
use super::chain::{Chain, SMALL_SEGMENT, segment};
use super::place::{self, Of};
use crate::process::{Ended, PATIENCE, Running, sleep, words};
use crate::shipped::wait_until_free;

/// How long a call is waited for after the first answers.
const WAIT_FOR_CALL: Duration = Duration::from_secs(2);
/// How often a case is tried.
const TRIES: u32 = 4;
/// Time within which a recovery is killed, in microseconds: about as long as it takes.
const RECOVERY_US: u64 = 800_000;

/// Words for a run that does not end by itself.
pub(super) fn endless(mut run: Vec<String>) -> Vec<String> {
    run.extend(words("--seconds 600"));
    run
}

/// Whether anything was answered, as the file of answers shows.
pub(super) fn has_answered(acks: &Path) -> bool {
    std::fs::metadata(acks).is_ok_and(|file| file.len() > 0)
}

/// Killed a while after its first answers.
pub(super) fn working(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    let (words, acks) = chain.next_run(&chain.data(), segment(random));
    let mut process = chain.start(chain.world.program(), &endless(words))?;
    let struck = process.wait_until(PATIENCE, || has_answered(&acks));
    sleep(Duration::from_micros(random.below(150_000)));
    process.kill();
    killed(chain, process, &acks)?;
    let place = place::of_time(&chain.data(), "time");
    chain.verify_killed()?;
    Ok(match struck {
        true => Outcome::struck(place),
        false => Outcome::Missed("it answered nothing".to_owned()),
    })
}

/// Killed at any time since it was started.
pub(super) fn any_time(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    let (words, acks) = chain.next_run(&chain.data(), segment(random));
    let mut process = chain.start(chain.world.program(), &endless(words))?;
    sleep(Duration::from_micros(random.below(1_000_000)));
    process.kill();
    killed(chain, process, &acks)?;
    let place = place::of_time(&chain.data(), "time");
    chain.verify_killed()?;
    Ok(Outcome::struck(place))
}

/// Verifies that a process was killed, and did not end by itself.
fn killed(chain: &mut Chain<'_>, process: Running, acks: &Path) -> Result<Ended, String> {
    let ended = process.finish(Duration::from_secs(10))?;
    chain.answers_of(acks);
    match ended.was_killed() {
        true => Ok(ended),
        false => Err(format!("it ended by itself with {}", ended.brief())),
    }
}

/// Where strace writes the calls that it strikes at.
fn trace(chain: &Chain<'_>) -> PathBuf {
    chain.folder.join("trace")
}

/// The words that run the command under strace, with `fault` at the `nth` time a thread makes `call`.
fn traced(chain: &Chain<'_>, call: &str, fault: &str, nth: u64, run: Vec<String>) -> Vec<String> {
    let trace = trace(chain);
    // An earlier trace would be of another process.
    let _ = std::fs::remove_file(&trace);
    let mut all =
        words(&format!("-f -y -qq -s 0 -e trace={call} -e inject={call}:{fault}:when={nth} -o"));
    all.extend([trace.display().to_string(), "--".to_owned()]);
    all.push(chain.world.program().display().to_string());
    all.extend(run);
    all
}

/// Runs the command until it is struck at a call; returns the file of that call, if it was. A command that
/// answers, as `acks` shows, does not end by itself and is killed; any other may have ended before.
fn strike(
    chain: &mut Chain<'_>,
    (call, nth): (&str, u64),
    words: Vec<String>,
    acks: Option<PathBuf>,
) -> Result<Option<String>, String> {
    wait_until_free(&chain.data())?;
    let words = traced(chain, call, "signal=KILL", nth, words);
    let mut process = chain.start(Path::new("strace"), &words)?;
    process.wait_until(PATIENCE, || acks.as_deref().is_some_and(has_answered));
    process.wait_until(WAIT_FOR_CALL, || false);
    let has_ended = process.ended();
    let place = || {
        let of = place::of_call(&trace(chain), call, nth);
        has_ended.then(|| of.unwrap_or(Of::Other).place(call))
    };
    if let Some(acks) = acks {
        process.kill();
        let place = place();
        return killed(chain, process, &acks).map(|_| place);
    }
    let place = place();
    let ended = process.finish(PATIENCE)?;
    match ended.status {
        _ if has_ended && ended.was_killed() => Ok(place),
        Some(0) => Ok(None), // it was over before
        _ => Err(format!("recover ended with {}", ended.brief())),
    }
}

/// Killed when a thread of it makes `call` for the n-th time.
pub(super) fn at_call(
    chain: &mut Chain<'_>,
    call: &str,
    random: &mut Random,
) -> Result<Outcome, String> {
    let is_of_segments = matches!(call, "fallocate" | "fsync");
    let mut nth = random.magnitude(if is_of_segments { 2 } else { 8 });
    for _ in 0..TRIES {
        // Small segments, so that there are some to be made.
        let segment = if is_of_segments { SMALL_SEGMENT } else { segment(random) };
        let (words, acks) = chain.next_run(&chain.data(), segment);
        let struck = strike(chain, (call, nth), endless(words), Some(acks))?;
        chain.verify_killed()?;
        if let Some(place) = struck {
            return Ok(Outcome::struck(place));
        }
        nth = (nth / 4).max(1);
    }
    Ok(Outcome::Missed(format!("no thread made {call} {nth} times")))
}

/// Killed while it recovers, and again while it recovers from that.
pub(super) fn recovering(chain: &mut Chain<'_>, random: &mut Random) -> Result<Outcome, String> {
    let mut places = Vec::new();
    let deaths = 1 + random.below(3) as usize;
    // The last tries are at a call that every recovery makes.
    for at in 0..deaths + TRIES as usize {
        let is_last_resort = at >= deaths;
        if is_last_resort && !places.is_empty() {
            break;
        }
        if !is_last_resort && random.below(3) == 0 {
            places.extend(recover_for_a_while(chain, random)?);
            continue;
        }
        let (call, nth) = match is_last_resort {
            true => ("pwrite64", 1),
            false => match random.one_of(&["pread64", "pwrite64", "fdatasync", "openat"]) {
                call @ ("pread64" | "openat") => (call, random.magnitude(5)),
                call => (call, 1 + random.below(3)),
            },
        };
        let (subject, struck) = match random.below(3) {
            0 => {
                let (words, acks) = chain.next_run(&chain.data(), segment(random));
                let struck = strike(chain, (call, nth), endless(words), Some(acks))?;
                // Before the next one answers anything, which would hide what this one lost.
                chain.verify_killed()?;
                ("run", struck)
            }
            _ => ("recover", strike(chain, (call, nth), recover(chain), None)?),
        };
        places.extend(struck.map(|place| format!("{subject} {place}")));
    }
    chain.verify_killed()?;
    Ok(match places.is_empty() {
        true => Outcome::Missed("every recovery was over before".to_owned()),
        false => Outcome::Struck(places),
    })
}

fn recover(chain: &Chain<'_>) -> Vec<String> {
    vec!["recover".to_owned(), chain.data().display().to_string()]
}

/// Kills a recovery at some time; where, unless it was over before.
fn recover_for_a_while(chain: &Chain<'_>, random: &mut Random) -> Result<Option<String>, String> {
    wait_until_free(&chain.data())?;
    let mut process = chain.start(chain.world.program(), &recover(chain))?;
    process.wait_until(Duration::from_micros(random.below(RECOVERY_US)), || false);
    process.kill();
    let ended = process.finish(Duration::from_secs(10))?;
    match ended.status {
        _ if ended.was_killed() => Ok(Some(place::of_time(&chain.data(), "recover time"))),
        Some(0) => Ok(None),
        _ => Err(format!("recover ended with {}", ended.brief())),
    }
}

/// The n-th `call` of a thread fails. A failure of the log ends the run, which reports it with `word`; that
/// nothing is answered after it, `cargo xtask trace` shows. A failure of the image ends checkpoints: the run
/// continues, and is killed when it has answered more.
pub(super) fn failed(
    chain: &mut Chain<'_>,
    call: &str,
    word: &str,
    random: &mut Random,
) -> Result<Outcome, String> {
    let (words, acks) = chain.next_run(&chain.data(), segment(random));
    let nth = random.magnitude(6);
    let words = traced(chain, call, "error=EIO", nth, endless(words));
    let mut process = chain.start(Path::new("strace"), &words)?;
    let mut of = Of::Other;
    let reported = trace(chain);
    process.wait_until(PATIENCE, || {
        place::of_call(&reported, call, nth).is_some_and(|found| {
            of = found;
            true
        })
    });
    if of.is_of_checkpoints() {
        let length = || std::fs::metadata(&acks).map_or(0, |file| file.len());
        let before = length();
        if process.wait_until(PATIENCE, || length() > before) {
            process.kill();
            killed(chain, process, &acks)?;
            chain.verify(&chain.data())?;
            return Ok(Outcome::struck(of.place(&format!("failed {call}"))));
        }
        // Then a call of the log was another thread's n-th, or it was still opening.
    }
    let ended = process.finish(PATIENCE)?;
    chain.answers_of(&acks);
    if !ended.is_clear_refusal() || !ended.stderr.contains(word) {
        return Err(format!("{call} failed the {nth}. time and ended it with {}", ended.brief()));
    }
    let of = place::of_call(&reported, call, nth).unwrap_or(of);
    chain.verify(&chain.data())?;
    Ok(Outcome::struck(of.place(&format!("failed {call}"))))
}
