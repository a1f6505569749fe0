//! Counts the instructions of a call by callgrind, on the caller's thread and on all threads.
//!
//! The command starts itself under valgrind once per engine and kind of count, with a hidden command ([`child`]): it
//! opens the engine, calls it some times uncounted, then counts. The instructions of the loop around the calls are
//! counted on an engine that does nothing, and subtracted.
//!
//! Callgrind collects for a thread only while that thread has switched it on, so the first count has the instructions
//! between call and answer on the calling thread. In the second process all threads collect: that count includes the
//! engine's own threads, and what they execute while they wait.
//!
//! Not here: callgrind (`counters/callgrind.rs`), the calls (`driver`).

use std::ffi::{CString, OsString};
use std::path::Path;

use crate::settings::{self, Settings};

use super::driver::Inputs;
use super::{Caller, Engine, OpenOwn, Opening, What, durability_name, open, what_named};
use crate::counters::callgrind::{Callgrind, Collected, Program};
use crate::counters::client;
use crate::failure::{Blamed, Failure};
use crate::plan::own_file;

/// The hidden command that a counted process is started with.
pub const CHILD_COMMAND: &str = "count-calls-under-callgrind";
/// Calls before the first that is counted.
const UNCOUNTED: usize = 200;
/// Added to a count's name where the engine that does nothing is counted.
const EMPTY: &str = ".empty";

/// The mean instructions of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The kind of call.
    pub what: What,
    /// User instructions on the caller's thread.
    pub instructions: f64,
    /// User instructions on all threads of the process.
    pub instructions_all_threads: f64,
}

/// How many calls the settings ask to count, if any.
///
/// # Errors
/// When what they ask for does not count calls, or is not there.
pub(super) fn calls_to_count(settings: &Settings) -> Result<Option<u64>, Failure> {
    match settings.word(&settings::COUNTER) {
        "none" => Ok(None),
        "perf" => Err(Failure::usage(
            "calls are counted by callgrind, on the caller's thread: use --counter callgrind",
        )),
        _ => {
            Callgrind::find()?;
            Callgrind::verify(&own_file()?)?;
            Ok(Some(settings.count(&settings::COUNTED)))
        }
    }
}

/// Counts `calls` calls of each of `whats` on the engine called `name`, which gets directories whose
/// names begin like `directory`.
///
/// # Errors
/// When the counted process fails.
pub(super) fn count(
    name: &str,
    is_durable: bool,
    whats: &[What],
    calls: u64,
    directory: &Path,
) -> Result<Vec<Counted>, Failure> {
    let program = |suffix: &str| -> Result<Program, Failure> {
        let whats: Vec<_> = whats.iter().map(|what| what.name()).collect();
        let mut args: Vec<OsString> = [CHILD_COMMAND, "--engine", name].map(Into::into).into();
        args.extend(["--durability", durability_name(is_durable)].map(Into::into));
        args.extend([OsString::from("--what"), whats.join(",").into()]);
        args.extend([OsString::from("--counted"), calls.to_string().into()]);
        let mut own = directory.as_os_str().to_owned();
        own.push(suffix);
        args.extend([OsString::from("--directory"), own]);
        Ok(Program { program: own_file()?, args, env: Vec::new() })
    };
    let callgrind = Callgrind::find()?;
    let one = callgrind.totals(&program("-one")?, Collected::OneThread)?;
    let mut all_threads = program("-all")?;
    all_threads.args.push("--all-threads".into());
    let all = callgrind.totals(&all_threads, Collected::AllThreads)?;
    let each = |totals: &[(String, u64)], what: What| -> Result<f64, Failure> {
        let of = |name: String| totals.iter().find(|(found, _)| *found == name);
        let (Some(whole), Some(empty)) =
            (of(what.name().to_owned()), of(format!("{}{EMPTY}", what.name())))
        else {
            return Err(Failure::check(format!("calls of {name} were not counted")));
        };
        Ok((whole.1 as f64 - empty.1 as f64) / calls as f64)
    };
    let counted = |&what| {
        let (instructions, instructions_all_threads) = (each(&one, what)?, each(&all, what)?);
        Ok(Counted { what, instructions, instructions_all_threads })
    };
    whats.iter().map(counted).collect()
}

/// The purpose of a counted process.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'a> {
    /// The engine that is called.
    pub engine: &'a str,
    /// The names of the calls.
    pub whats: &'a [String],
    /// How many of each are counted.
    pub calls: u64,
    /// Whether the instructions of all threads are collected, and not only the caller's.
    pub all_threads: bool,
}

/// The main function of a counted process.
///
/// # Errors
/// When it does not run under callgrind, or the engine fails.
pub fn child(
    counting: Counting<'_>,
    opening: &Opening<'_>,
    own: OpenOwn<'_>,
) -> Result<(), Failure> {
    if !client::running_on_valgrind() {
        return Err(Failure::usage(format!(
            "{CHILD_COMMAND} counts under valgrind: use compare calls --counter callgrind"
        )));
    }
    let engine = open(counting.engine, opening, own)?;
    for what in counting.whats {
        let what = what_named(what)?;
        count_on(&Empty, what, EMPTY, counting)?;
        count_on(&*engine, what, "", counting)?;
    }
    engine.close()
}

fn count_on(
    engine: &dyn Engine,
    what: What,
    suffix: &str,
    Counting { calls, all_threads, .. }: Counting<'_>,
) -> Result<(), Failure> {
    let name = CString::new(format!("{}{suffix}", what.name())).or_check()?;
    let mut outcome = Ok(());
    engine.with_caller(true, &mut |caller| {
        let mut inputs = Inputs::new(1, &[0], what);
        outcome = (0..UNCOUNTED).try_for_each(|_| inputs.call(caller));
        if outcome.is_err() {
            return;
        }
        client::start_instrumentation();
        client::zero_stats();
        if !all_threads {
            client::toggle_collect();
        }
        outcome = repeat(caller, &mut inputs, calls);
        if !all_threads {
            client::toggle_collect();
        }
        client::dump_stats(&name);
        client::stop_instrumentation();
    })?;
    outcome
}

/// The loop whose instructions are counted: the same for every engine.
#[inline(never)]
fn repeat(caller: &mut dyn Caller, inputs: &mut Inputs, calls: u64) -> Result<(), Failure> {
    (0..calls).try_for_each(|_| inputs.call(caller))
}

/// An engine that does nothing.
struct Empty;

impl Engine for Empty {
    fn version(&self) -> &str {
        ""
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut Self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        Ok(None)
    }
}

impl Caller for Empty {
    fn transfer(&mut self, _: i32, _: i32, _: i64) -> Result<(), Failure> {
        Ok(())
    }

    fn read(&mut self, _: i32) -> Result<i64, Failure> {
        Ok(0)
    }
}
