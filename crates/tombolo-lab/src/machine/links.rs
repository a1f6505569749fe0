//! `links`: what messages between two processes cost, by kind of link and by how far apart they run (ISL-11).
//!
//! The other process is this program with a hidden command, started with one end of a socket as its standard
//! input. Round trips come one after the other; a stream is sent without a pause and answered once. An end that
//! finds nothing polls for a while and then sleeps, unless both run on one core: then it sleeps immediately.
//!
//! Not here: links (the engine's `link/`), where the processes run (`islands/placement.rs`).

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::topology::{Distance, Topology};
use tombolo_engine::link::{self, Link, LinkEnd, LinkKind};
use tombolo_engine::pipeline::remote_checkpoint::Program;
use tombolo_engine::threads;

use crate::failure::{Blamed, Failure};
use crate::histogram::{Latencies, Summary};
use crate::plan::own_file;

/// The hidden command of the other process.
pub const CHILD_COMMAND: &str = "link-end";

/// How often an end looks for a message before it sleeps.
const POLLS: u32 = 2_000;
/// How long an end sleeps at most before it looks again.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Whether a message wants an answer, in its first byte.
const ANSWER: u8 = b'a';
const NO_ANSWER: u8 = b'n';

/// A result of `links`: one kind at one distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct LinksResult {
    pub link: String,
    pub distance: String,
    pub cores: [usize; 2],
    pub message_bytes: usize,
    pub messages_per_s: f64,
    pub round_trips_per_s: f64,
    pub round_trip_us: Option<Summary>,
}

/// The effort for each kind at each distance.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// How long a stream is sent, and how long round trips are made.
    pub time: Duration,
}

/// Measures every kind of link between processes on cores of this machine, at every distance it has, and shows
/// each result as it comes.
///
/// # Errors
/// When a process cannot be started or bound to its core, a link ends, or `show` fails.
pub fn measure(
    machine: &Topology,
    effort: Effort,
    mut show: impl FnMut(LinksResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for kind in LinkKind::ALL {
        for (distance, cores) in machine.pairs() {
            let between = Between { kind, distance, cores, effort };
            // On a thread of its own, so that this one stays where it is.
            let (measured, ()) = threads::both(|| between.measure(), || ());
            show(measured?)?;
        }
    }
    Ok(())
}

/// A kind of link at a distance.
#[derive(Clone, Copy)]
struct Between {
    kind: LinkKind,
    distance: Distance,
    cores: [usize; 2],
    effort: Effort,
}

impl Between {
    /// Polls of an end that finds nothing: none where they would keep the other end from its work.
    fn polls(self) -> u32 {
        if self.distance == Distance::SameCore { 0 } else { POLLS }
    }

    fn measure(self) -> Result<LinksResult, Failure> {
        let arguments = [CHILD_COMMAND.into(), self.cores[1].to_string(), self.polls().to_string()];
        let program =
            Program { path: own_file()?, arguments: arguments.map(OsString::from).to_vec() };
        let (control, _process) = program.spawn().map_err(Failure::environment)?;
        threads::bind_to(&self.cores[..1]).or_environment()?;
        let offered = link::offer(self.kind, control, &std::env::temp_dir());
        let mut link = offered.map_err(|error| {
            Failure::environment(format!("no link of kind {}: {error}", self.kind.name()))
        })?;
        let clock = SystemClock::new();
        let mut end = End { link: &mut *link, polls: self.polls() };
        let (trips, took) = self.round_trips(&mut end, &clock).or_environment()?;
        Ok(LinksResult {
            link: self.kind.name().to_owned(),
            distance: self.distance.name().to_owned(),
            cores: self.cores,
            message_bytes: self.effort.message_bytes,
            messages_per_s: self.stream(&mut end, &clock).or_environment()?,
            round_trips_per_s: trips.len() as f64 / took.as_secs_f64(),
            round_trip_us: trips.summary(),
        })
    }

    fn message(self, first: u8) -> Vec<u8> {
        let mut message = vec![0; self.effort.message_bytes.max(1)];
        message[0] = first;
        message
    }

    /// Messages and their answers, one after the other; how long each took, and all.
    fn round_trips(
        self,
        end: &mut End<'_>,
        clock: &dyn Clock,
    ) -> Result<(Latencies, Duration), LinkEnd> {
        let message = self.message(ANSWER);
        let mut trips = Latencies::default();
        let start = clock.now_ns();
        let mut now = start;
        while Duration::from_nanos(now - start) < self.effort.time {
            end.send(&message)?;
            end.receive()?;
            let before = std::mem::replace(&mut now, clock.now_ns());
            trips.record(now - before);
        }
        Ok((trips, Duration::from_nanos(now - start)))
    }

    /// Messages without a pause, all of which have arrived when the last one is answered; how many a second.
    fn stream(self, end: &mut End<'_>, clock: &dyn Clock) -> Result<f64, LinkEnd> {
        let (message, last) = (self.message(NO_ANSWER), self.message(ANSWER));
        let (start, mut sent) = (clock.now_ns(), 0_u64);
        while Duration::from_nanos(clock.now_ns() - start) < self.effort.time {
            (0..100).try_for_each(|_| end.send(&message))?;
            sent += 100;
        }
        end.send(&last)?;
        end.receive()?;
        Ok(sent as f64 / Duration::from_nanos(clock.now_ns() - start).as_secs_f64())
    }
}

/// One end of a link, whose owner has nothing else to do.
struct End<'a> {
    link: &'a mut dyn Link,
    polls: u32,
}

impl End<'_> {
    fn send(&mut self, message: &[u8]) -> Result<(), LinkEnd> {
        while !self.link.send(&[message])? {
            self.link.wait(SLEEP_MAX);
        }
        Ok(())
    }

    /// Waits for a message; its first byte.
    fn receive(&mut self) -> Result<u8, LinkEnd> {
        loop {
            for _ in 0..=self.polls {
                if let Some(message) = self.link.receive()? {
                    return Ok(message.first().copied().unwrap_or(NO_ANSWER));
                }
                // What was taken and could not be sent: the buffer was full.
                self.link.flush()?;
            }
            self.link.wait(SLEEP_MAX);
        }
    }
}

/// The other process, on this core: it answers what asks for an answer, until the link ends.
///
/// # Errors
/// Usage, when it was started without a link; when it cannot be bound to its core.
pub fn run_other_end(core: usize, polls: u32) -> Result<(), Failure> {
    let control = link::inherited().map_err(|_| {
        Failure::usage("this command is started by `tombolo links`, as the other end of its links")
    })?;
    threads::bind_to(&[core]).or_environment()?;
    let mut link = link::accept(control).or_environment()?;
    let mut end = End { link: &mut *link, polls };
    let mut answer = || match end.receive()? {
        ANSWER => end.send(&[ANSWER]),
        _ => Ok(()),
    };
    while answer().is_ok() {}
    Ok(())
}
