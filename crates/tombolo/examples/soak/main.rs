//! Twenty threads that call for a minute while others submit, add an index, sum all accounts and take backups.
//!
//! `cargo xtask soak`, or
//! `cargo run --release -p tombolo --example soak -- [--seconds N] [--threads N] DIRECTORY`
//!
//! It runs once in memory and once durably, in DIRECTORY, which it empties first. What must hold: money is exact at any
//! time, after the next opening, and in each backup; no call is lost, executed twice or out of its caller's order; the
//! index leads to every account; no thread is starved (`judge.rs`). It prints a JSON object for each run; the exit
//! status is 1 where something does not hold.
//!
//! Not here: crashes (`cargo xtask kills`, `cargo xtask sim`), how fast it is (`tombolo compare calls`).

mod bank;
mod callers;
mod judge;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tombolo::Database;
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads::{on_each, pause};
use tombolo_storage::disk::{Disk, Open, OsDisk};

use bank::{Bank, MONEY};
use callers::{CallResults, Field, KINDS};
use judge::{BEYOND_NS_MAX, Latencies, Watched};

/// Threads that submit, besides those that call.
const SUBMITTERS: usize = 2;
/// Flushes that are measured without the database, for comparison.
const RAW_FLUSHES: usize = 256;

/// What was asked for.
struct Options {
    seconds: u64,
    threads: usize,
    directory: PathBuf,
}

fn options(words: &[String]) -> Option<Options> {
    let (mut seconds, mut threads, mut directory) = (60, 20, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = words.next()?.parse().ok().filter(|&seconds| seconds > 0)?,
            "--threads" => threads = words.next()?.parse().ok().filter(|&threads| threads > 0)?,
            _ if word.starts_with('-') || directory.is_some() => return None,
            _ => directory = Some(PathBuf::from(word)),
        }
    }
    Some(Options { seconds, threads, directory: directory? })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = options(&words) else {
        eprintln!("Usage: soak [--seconds N] [--threads N] DIRECTORY");
        return ExitCode::from(2);
    };
    let mut holds = true;
    for is_durable in [false, true] {
        match soak(&options, is_durable) {
            Ok(SoakResult { line, faults }) => {
                println!("{line}");
                faults.iter().for_each(|fault| eprintln!("soak: {fault}"));
                holds &= faults.is_empty();
            }
            Err(what) => {
                eprintln!("soak: {what}");
                return ExitCode::from(3);
            }
        }
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The result of one database, in memory or durable.
struct SoakResult {
    /// The JSON object.
    line: String,
    /// What does not hold.
    faults: Vec<String>,
}

/// The results of threads other than the callers.
#[derive(Default)]
struct SideResults {
    watched: Watched,
    audits: u64,
    index_s: f64,
    copies: Vec<Copied>,
}

/// A backup, and the calls that had been answered before it began.
struct Copied {
    place: PathBuf,
    settled: Vec<i64>,
    took_s: f64,
    bytes: u64,
}

/// The parts besides calling.
#[derive(Clone, Copy)]
enum Part {
    Call(usize),
    Submit(usize),
    WatchFlushes,
    WatchPauses,
    Audit,
    AddIndex,
    BackUp,
    End,
}

/// The result of a part.
enum Came {
    Calls(Box<CallResults>),
    Watched(Watched),
    Audited(u64),
    Indexed(f64),
    Copied(Vec<Copied>),
    Nothing,
}

fn soak(options: &Options, is_durable: bool) -> Result<SoakResult, String> {
    let Options { seconds, threads, directory } = options;
    let callers = threads + SUBMITTERS;
    let data = directory.join("data");
    // What an earlier one left is gone now.
    let _ = std::fs::remove_dir_all(directory);
    let raw = match is_durable {
        true => Some(raw_flushes(directory)?),
        false => None,
    };
    let path = data.display().to_string();
    let path = is_durable.then_some(path.as_str());
    let bank = Bank::open(path, callers).map_err(|error| format!("opening: {error}"))?;
    let field = Field {
        bank: &bank,
        clock: SystemClock::new(),
        is_over: AtomicBool::new(false),
        settled: (0..callers).map(|_| AtomicI64::new(0)).collect(),
    };
    let mut parts: Vec<Part> = (0..*threads).map(Part::Call).collect();
    parts.extend((*threads..callers).map(Part::Submit));
    parts.extend([Part::WatchPauses, Part::Audit, Part::AddIndex, Part::End]);
    if is_durable {
        parts.extend([Part::BackUp, Part::WatchFlushes]);
    }
    let (before, length) = (bank.db.statistics(), Duration::from_secs(*seconds));
    let came = on_each(parts, |part| come(part, &field, directory, length));
    let after = bank.db.statistics();
    let (mut results, mut side, mut faults) = (Vec::new(), SideResults::default(), Vec::new());
    for came in came {
        match came {
            Ok(Came::Calls(calls)) => results.push(*calls),
            Ok(Came::Watched(watched)) => side.watched.add(watched),
            Ok(Came::Audited(audits)) => side.audits = audits,
            Ok(Came::Indexed(index_s)) => side.index_s = index_s,
            Ok(Came::Copied(copies)) => side.copies = copies,
            Ok(Came::Nothing) => {}
            Err(what) => faults.push(what),
        }
    }
    faults.extend(results.iter().filter_map(|results| results.fault.clone()));
    let last: Vec<i64> = results.iter().map(|results| results.last).collect();
    if results.len() == callers && faults.is_empty() {
        faults.extend(faults_of(&bank, &last).map_err(|error| error.to_string())?);
        bank.close().map_err(|error| format!("closing: {error}"))?;
        faults.extend(faults_on_disk(path, directory, &last, &side.copies)?);
    }
    let starved = starved(&results[..results.len().min(*threads)], &side.watched);
    // On a busy machine it is reported, and no failure.
    if starved.threads > 0 && !side.watched.machine_is_busy() {
        let ms = starved.beyond_ns_max as f64 / 1e6;
        faults.push(format!("{} threads starved, one for {ms:.1} ms at p99.99", starved.threads));
    }
    let flushes = (after.flushes - before.flushes, after.transactions_per_flush());
    let line = Line { options, is_durable, results: &results, side: &side, raw, flushes, starved };
    Ok(SoakResult { line: line.json(faults.is_empty())?, faults })
}

/// One thread's part.
fn come(part: Part, field: &Field<'_>, place: &Path, length: Duration) -> Result<Came, String> {
    let since_s = |began_ns: u64| (field.clock.now_ns() - began_ns) as f64 / 1e9;
    match part {
        Part::Call(caller) => {
            callers::call(field, caller).map(|results| Came::Calls(Box::new(results)))
        }
        Part::Submit(caller) => {
            callers::submit(field, caller).map(|results| Came::Calls(Box::new(results)))
        }
        Part::WatchFlushes => {
            let watched = Watched::flushes(&field.bank.db, &field.clock, &field.is_over);
            Ok(Came::Watched(watched))
        }
        Part::WatchPauses => Ok(Came::Watched(Watched::pauses(&field.clock, &field.is_over))),
        Part::Audit => callers::audit(field).map(Came::Audited),
        Part::AddIndex => {
            field.wait_for(length, 0.5);
            let began_ns = field.clock.now_ns();
            let added = field.bank.add_index();
            added.map_err(|error| format!("the index: {error}"))?;
            Ok(Came::Indexed(since_s(began_ns)))
        }
        // The second while the index is added.
        Part::BackUp => {
            let mut copies = Vec::new();
            for number in 0..2 {
                field.wait_for(length, 0.25);
                let (settled, began_ns) = (field.settled(), field.clock.now_ns());
                let to = place.join(format!("backup-{number}"));
                let made = field.bank.db.backup(&to);
                let made = made.map_err(|error| format!("backup {number}: {error}"))?;
                let took_s = since_s(began_ns);
                copies.push(Copied { place: to, settled, took_s, bytes: made.bytes });
            }
            Ok(Came::Copied(copies))
        }
        Part::End => {
            pause(length);
            field.is_over.store(true, Ordering::SeqCst);
            Ok(Came::Nothing)
        }
    }
}

/// What is wrong with the rows of an open bank whose callers' last calls were these.
fn faults_of(bank: &Bank, last: &[i64]) -> Result<Vec<String>, tombolo::Error> {
    let mut faults = Vec::new();
    let money = bank.money()?;
    if money != MONEY {
        faults.push(format!("{money} in all accounts, not {MONEY}"));
    }
    let found = bank.last_calls(last.len())?;
    if found != last {
        faults.push(format!("the callers' last calls are {found:?}, answered were {last:?}"));
    }
    faults.extend(bank.fault_of_index()?.map(|fault| format!("the index: {fault}")));
    Ok(faults)
}

/// The same of what is on disk: the database when it is opened again, and its backups.
fn faults_on_disk(
    data: Option<&str>,
    directory: &Path,
    last: &[i64],
    copies: &[Copied],
) -> Result<Vec<String>, String> {
    let Some(data) = data else { return Ok(Vec::new()) };
    let of = |what: &str, error: tombolo::Error| format!("{what}: {error}");
    let bank = Bank::open(Some(data), last.len()).map_err(|error| of("opening again", error))?;
    let mut faults = faults_of(&bank, last).map_err(|error| of("opened again", error))?;
    bank.close().map_err(|error| of("closing", error))?;
    for (number, copy) in copies.iter().enumerate() {
        let what = format!("backup {number}");
        let restored = directory.join(format!("restored-{number}"));
        Database::restore(&copy.place, &restored).map_err(|error| of(&what, error))?;
        let path = restored.display().to_string();
        let bank = Bank::open(Some(&path), last.len()).map_err(|error| of(&what, error))?;
        let money = bank.money().map_err(|error| of(&what, error))?;
        let found = bank.last_calls(last.len()).map_err(|error| of(&what, error))?;
        if money != MONEY {
            faults.push(format!("{what}: {money} in all accounts, not {MONEY}"));
        }
        for (caller, &found) in found.iter().enumerate() {
            let known = copy.settled[caller]..=last[caller];
            if !known.contains(&found) {
                faults.push(format!("{what}: caller {caller} is at {found}, not in {known:?}"));
            }
        }
        bank.close().map_err(|error| of(&what, error))?;
    }
    Ok(faults)
}

/// How long forcing a block to the device takes that nothing else writes to.
fn raw_flushes(directory: &Path) -> Result<Latencies, String> {
    const FILE: &str = "raw-flushes";
    let (clock, mut latencies) = (SystemClock::new(), Latencies::new()?);
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let mut measure = || {
        let disk = OsDisk::open(directory)?;
        let (file, block) = (disk.open(FILE, Open::New)?, [0xA5; 4_096]);
        let length = (RAW_FLUSHES * block.len()) as u64;
        file.set_len(length)?;
        (0..length).step_by(block.len()).try_for_each(|at| file.write_at(&block, at))?;
        file.sync()?;
        for at in (0..length).step_by(block.len()) {
            let began_ns = clock.now_ns();
            file.write_at(&block, at)?;
            file.sync()?;
            latencies.record(clock.now_ns() - began_ns);
        }
        disk.remove(FILE)
    };
    let measured: Result<(), tombolo_storage::disk::DiskError> = measure();
    measured.map_err(|error| error.to_string())?;
    Ok(latencies)
}

/// Threads that waited too long.
struct Starved {
    threads: usize,
    /// The longest of any thread at its percentile 99.99, beyond flushes and pauses.
    beyond_ns_max: u64,
}

fn starved(results: &[CallResults], watched: &Watched) -> Starved {
    let beyond =
        results.iter().map(|results| watched.beyond_at_p9999_ns(results.calls, &results.slow));
    let beyond: Vec<u64> = beyond.collect();
    let threads = beyond.iter().filter(|&&ns| ns > BEYOND_NS_MAX).count();
    Starved { threads, beyond_ns_max: beyond.into_iter().max().unwrap_or_default() }
}

/// What is reported of a run.
struct Line<'f> {
    options: &'f Options,
    is_durable: bool,
    results: &'f [CallResults],
    side: &'f SideResults,
    raw: Option<Latencies>,
    /// How many there were, and transactions in each.
    flushes: (u64, f64),
    starved: Starved,
}

impl Line<'_> {
    fn json(&self, holds: bool) -> Result<String, String> {
        let Options { seconds, threads, .. } = self.options;
        let durability = if self.is_durable { "group" } else { "none" };
        let (calling, submitting) = self.results.split_at(self.results.len().min(*threads));
        let sum =
            |results: &[CallResults]| results.iter().map(|results| results.calls).sum::<u64>();
        let (calls, submitted) = (sum(calling), sum(submitting));
        let of_threads = || calling.iter().map(|results| results.calls);
        let least = of_threads().min().unwrap_or_default();
        let most = of_threads().max().unwrap_or_default();
        let mut latencies = Vec::new();
        for (at, kind) in KINDS.iter().enumerate() {
            latencies.push(format!("\"{kind}\":{}", all(calling, at)?.json()));
        }
        latencies.push(format!("\"submitted\":{}", all(submitting, 0)?.json()));
        let raw = self.raw.as_ref().map_or("null".to_owned(), Latencies::json);
        let (flushes, per_flush) = self.flushes;
        let SideResults { watched, audits, index_s, copies } = self.side;
        let of = |copy: &Copied| format!("{{\"s\":{:.3},\"bytes\":{}}}", copy.took_s, copy.bytes);
        let backups: Vec<String> = copies.iter().map(of).collect();
        let ms = |ns: u64| ns as f64 / 1e6;
        let (pause_ms, beyond_ms) = (ms(watched.pause_ns_max()), ms(self.starved.beyond_ns_max));
        let is_busy = watched.machine_is_busy();
        let slow: usize = calling.iter().map(|results| results.slow.len()).sum();
        Ok(format!(
            "{{\"command\":\"soak\",\"durability\":\"{durability}\",\"seconds\":{seconds},\"threads\":{threads},\
             \"submitters\":{SUBMITTERS},\"calls\":{calls},\"submitted\":{submitted},\
             \"calls_per_thread\":{{\"min\":{least},\"max\":{most}}},\"latency_us\":{{{}}},\
             \"calls_over_50ms\":{slow},\"beyond_ms_p9999_max\":{beyond_ms:.1},\"threads_starved\":{},\
             \"pause_ms_max\":{pause_ms:.1},\"machine_is_busy\":{is_busy},\"flushes\":{flushes},\
             \"transactions_per_flush\":{per_flush:.1},\"raw_flush_us\":{raw},\
             \"audits\":{audits},\"index_s\":{index_s:.3},\"backups\":[{}],\
             \"money\":{MONEY},\"holds\":{holds}}}",
            latencies.join(","),
            self.starved.threads,
            backups.join(","),
        ))
    }
}

/// Latencies of one kind, of all threads.
fn all(results: &[CallResults], kind: usize) -> Result<Latencies, String> {
    let mut all = Latencies::new()?;
    results.iter().for_each(|results| all.add(&results.latencies[kind]));
    Ok(all)
}
