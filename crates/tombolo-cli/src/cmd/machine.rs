//! `tombolo topology`, `counters` and `links`: the machine, without any engine.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::value_parser;
use tombolo_engine::clock::SystemClock;
use tombolo_engine::islands::topology::Topology;
use tombolo_lab::failure::Failure;
use tombolo_lab::machine::counters;
use tombolo_lab::machine::links;
use tombolo_lab::machine::topology::TopologyResult;
use tombolo_lab::report::terminal;

use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

fn milliseconds() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=60_000)
}

/// Draw the machine: its cores, and what they share
#[derive(Debug, clap::Args)]
pub(super) struct TopologyArguments {
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

/// Measure what it costs that threads share a word
///
/// As many threads as there are cores add to one counter, to one for each socket and island, and to one each.
#[derive(Debug, clap::Args)]
pub(super) struct CountersArguments {
    /// How long each arrangement is measured, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = milliseconds())]
    time_ms: u64,
    /// How often
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

/// Measure messages between two processes, by kind of link and by how far apart they run
#[derive(Debug, clap::Args)]
pub(super) struct LinksArguments {
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_048_576))]
    bytes: u32,
    /// How long each is measured, in milliseconds, once as a stream and once as round trips
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = milliseconds())]
    time_ms: u64,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

/// The other end of a link; started by `tombolo links`
#[derive(Debug, clap::Args)]
pub(super) struct EndArguments {
    core: usize,
    polls: u32,
}

pub(super) fn topology(arguments: &TopologyArguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let header = result_header("topology", &settings);
    let result = TopologyResult::new(&Topology::of_machine());
    Output::new(arguments.flags.json).result(&header, &result, terminal::topology)
}

pub(super) fn counters(arguments: &CountersArguments) -> Result<(), Failure> {
    let CountersArguments { time_ms, repeat, ref flags } = *arguments;
    let header = result_header("counters", &flags.settings()?)
        .and(&[("time_ms", time_ms.into()), ("repeat", repeat.into())]);
    let effort = counters::Effort { time: Duration::from_millis(time_ms), repeat };
    let (machine, output) = (Topology::of_machine(), Output::new(flags.json));
    output.people(|style| {
        let cores = machine.cores.len();
        style.strong(&format!("{cores} cores, {cores} threads\n"))
    })?;
    counters::measure(&SystemClock::new(), &machine, effort, |result| {
        output.result(&header, &result, terminal::counters)
    })
}

pub(super) fn links(arguments: &LinksArguments) -> Result<(), Failure> {
    let LinksArguments { bytes, time_ms, ref flags } = *arguments;
    let header = result_header("links", &flags.settings()?)
        .and(&[("bytes", bytes.into()), ("time_ms", time_ms.into())]);
    let time = Duration::from_millis(time_ms);
    let effort = links::Effort { message_bytes: bytes as usize, time };
    let output = Output::new(flags.json);
    output.people(|style| style.strong(&format!("messages of {bytes} bytes\n")))?;
    links::measure(&Topology::of_machine(), effort, |result| {
        output.result(&header, &result, terminal::links)
    })
}

pub(super) fn end(arguments: &EndArguments) -> Result<(), Failure> {
    links::run_other_end(arguments.core, arguments.polls)
}
