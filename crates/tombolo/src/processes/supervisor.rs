//! The processes of the islands, supervised: started, greeted, linked with each other, and started again when they end.
//!
//! ```text
//!             welcome                 ready                      link ends, or it hangs
//!   started ──────────► opens, recovers ─────► up: links, calls ────────────────────────► down: announced,   ─┐
//!      ▲                     │ refused, or it hangs                                       calls lost, killed  │
//!      └──────── pause ◄─────┴────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Each island has a thread here, which starts its process, and mostly receives what it sends (`line.rs`). What one
//! island says to another passes through this process: it is put into the other's link, or dropped if that one is
//! down. So messages keep their order, none comes twice, and one is lost only if a link breaks, which the sender
//! learns.
//! Invariant: an island learns that a link was made before it receives anything on it, and that the link broke
//! before it is made again. Not here: calls (`database.rs`).

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, fmt, io};

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::link::{Link, LinkKind, all_counted, offer};
use tombolo_engine::pipeline::remote_checkpoint::{Process, Program};
use tombolo_engine::threads::pause;
use tombolo_storage::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use super::line::Line;
use super::seat::Seat;
use super::silence::Silence;
use super::wire::{self, In, Item, Welcome};
use super::{VARIABLE, errors};
use crate::error::Error;

/// The pause before a process that ended is started again: after the first end, and at most.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a thread waits at once for what a process sends, before it tries again to send what a full link left.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// How the process of an island is started.
pub(crate) struct Starting {
    pub(crate) program: Program,
    /// What it has to declare, too.
    pub(crate) declaration: String,
    /// Of the database; none for one in memory.
    pub(crate) directory: Option<String>,
    /// How long it may be silent.
    pub(crate) silence_max: Option<Duration>,
    /// What links it with this process.
    pub(crate) kind: LinkKind,
}

/// What the threads of all islands share.
pub(crate) struct Supervised {
    pub(crate) seats: Vec<Seat>,
    starting: Starting,
    /// Held while islands are linked or parted.
    linking: Mutex<()>,
    /// No process is started any more.
    closes: AtomicBool,
    restarts: AtomicU64,
    /// The first error of closing.
    closed: Mutex<Option<Error>>,
    /// Called with an island whose process was started again, once it takes calls.
    pub(crate) risen: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

impl Supervised {
    pub(crate) fn new(islands: usize, starting: Starting) -> Self {
        let is_in_memory = starting.directory.is_none();
        Self {
            seats: (0..islands).map(|island| Seat::new(island, is_in_memory)).collect(),
            starting,
            linking: Mutex::new(()),
            closes: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            closed: Mutex::new(None),
            risen: OnceLock::new(),
        }
    }

    pub(crate) const fn is_in_memory(&self) -> bool {
        self.starting.directory.is_none()
    }

    /// How often a process was started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Lets each island close.
    pub(crate) fn close(&self) {
        self.closes.store(true, Ordering::SeqCst);
        for seat in &self.seats {
            seat.send([Item::new(wire::CLOSE).end()]); // one that is down has nothing to close
        }
    }

    /// The first error of closing.
    pub(crate) fn closed(&self) -> Result<(), Error> {
        self.closed.lock().take().map_or(Ok(()), Err)
    }

    fn closes(&self) -> bool {
        self.closes.load(Ordering::SeqCst)
    }

    /// Keeps an island's process running until the database closes. `first` learns whether it opened, and if not, it
    /// is not tried again.
    pub(crate) fn supervise(&self, island: usize, first: &Sender<Result<(), Error>>) {
        let (mut is_first, mut pauses) = (true, PAUSE);
        while !self.closes() {
            match self.start(island) {
                Ok(started) => {
                    let began = self.link(island, started);
                    if std::mem::take(&mut is_first) {
                        _ = first.send(Ok(()));
                    } else {
                        self.restarts.fetch_add(1, Ordering::Relaxed);
                        self.risen.get().into_iter().for_each(|risen| risen(island));
                    }
                    self.run(island, began);
                    if self.is_in_memory() {
                        return; // what it had is lost
                    }
                    pauses = PAUSE;
                }
                Err(error) if is_first => {
                    _ = first.send(Err(error));
                    return;
                }
                Err(error) => self.seats[island].fails(error.to_string().into()),
            }
            if !self.closes() {
                pause(pauses);
                pauses = (2 * pauses).min(PAUSE_MAX);
            }
        }
    }

    /// Starts an island's process, and waits until the island is open.
    fn start(&self, island: usize) -> Result<Started, Error> {
        let Starting { program, declaration, directory, silence_max, kind } = &self.starting;
        let (mut control, process) =
            program.spawn_with(Some((VARIABLE, "yes"))).map_err(Error::System)?;
        let (declaration, directory) = (declaration.clone(), directory.clone());
        let welcome = Welcome { island: island as u16, declaration, directory };
        control.send(&[&welcome.encode()]).map_err(|end| not_started(island, &end))?;
        // The program may do anything before it opens the island.
        let mut id = self.greeting(island, &mut control, &mut Silence::new(None))?;
        let link: io::Result<Box<dyn Link>> = match kind {
            LinkKind::Unix => Ok(Box::new(control)),
            kind => offer(*kind, control, &env::temp_dir()),
        };
        let halves = link.and_then(<dyn Link>::split);
        let (mut receiving, sending) = halves.map_err(|error| not_started(island, &error))?;
        // From here on it says that it is alive, without being asked.
        while id.is_none() {
            let mut silence = Silence::new(*silence_max);
            silence.expects();
            id = self.greeting(island, &mut *receiving, &mut silence)?;
        }
        let id = id.unwrap_or_default();
        Ok(Started { receiving, sending, process, id })
    }

    /// Waits for what a process says next while it opens its island: it is open, and this is the number of the process,
    /// or not yet.
    fn greeting(
        &self,
        island: usize,
        link: &mut dyn Link,
        silence: &mut Silence,
    ) -> Result<Option<u32>, Error> {
        loop {
            if let Some(message) = link.receive().map_err(|end| not_started(island, &end))? {
                return greeted(message, island);
            }
            if self.closes() {
                return Err(Error::Closed);
            }
            if let Some(why) = silence.hangs() {
                return Err(not_started(island, &why));
            }
            let pause = silence.pause(CLOSING_WAIT);
            link.wait(pause);
            silence.lasts(pause);
        }
    }

    /// Links a process with the others; from here on it takes calls.
    fn link(&self, island: usize, started: Started) -> Linked {
        let Started { receiving, sending, process, id } = started;
        let seat = &self.seats[island];
        let linking = self.linking.lock();
        let line = Arc::new(Line::new(receiving, sending, self.seats.len()));
        seat.begins(line.clone(), id);
        for (other, peer) in self.others(island) {
            seat.send([Item::new(wire::LINK_MADE).u16(other as u16).end()]);
            peer.send([Item::new(wire::LINK_MADE).u16(island as u16).end()]);
        }
        seat.opens();
        drop(linking);
        if self.closes() {
            seat.send([Item::new(wire::CLOSE).end()]);
        }
        Linked { line, process }
    }

    /// Hands on what a process sends, or leaves that to callers, until it ends, or hangs.
    fn run(&self, island: usize, linked: Linked) {
        let Linked { line, process } = linked;
        let seat = &self.seats[island];
        let (mut silence, mut heard) = (Silence::new(self.starting.silence_max), 0);
        // By a clock: a wait for a millisecond may take five.
        let clock = SystemClock::new();
        let mut last_ns = clock.now_ns();
        let (end, reason) = loop {
            match line.take() {
                None => line.leave_to_callers(),
                Some(mut reading) => {
                    let read = self.read(island, &line, &mut reading, silence.pause(WAIT));
                    let reason = if read.is_err() { reading.reason.take() } else { None };
                    line.leave(reading);
                    match read {
                        Err(end) => break (end, reason),
                        // The next caller may be alone.
                        Ok(true) if seat.is_idle() => line.leave_to_callers(),
                        Ok(_) => {}
                    }
                }
            }
            let now_ns = clock.now_ns();
            let passed = Duration::from_nanos(now_ns - std::mem::replace(&mut last_ns, now_ns));
            if line.heard() != heard {
                heard = line.heard();
                silence.ends();
            } else if silence.lasts(passed) {
                seat.send_past(Item::new(wire::ASK).end());
            }
            if let Some(why) = silence.hangs() {
                break (why, None);
            }
        };
        let why: Arc<str> = match &reason {
            Some(error) => error.to_string().into(),
            None => end.into(),
        };
        let linking = self.linking.lock();
        seat.ends(&why);
        for (_, peer) in self.others(island) {
            peer.send([Item::new(wire::LINK_BROKEN).u16(island as u16).end()]);
        }
        drop(linking);
        drop(process); // killed, and waited for
        if self.closes()
            && let Some(error) = reason
        {
            self.closed.lock().get_or_insert(error);
        }
    }

    /// The other islands that are up.
    fn others(&self, island: usize) -> impl Iterator<Item = (usize, &Seat)> {
        let all = self.seats.iter().enumerate();
        all.filter(move |(other, seat)| *other != island && seat.is_up())
    }
}

fn not_started(island: usize, why: &dyn fmt::Display) -> Error {
    Error::System(format!("the process of island {island} did not start: {why}"))
}

/// The number of a process that says that its island is open; none if that is still to come.
///
/// # Errors
/// Why it is not opened.
fn greeted(message: &[u8], island: usize) -> Result<Option<u32>, Error> {
    // A refusal may be no bundle: it comes from a process that may be of another version.
    for item in all_counted(message).unwrap_or_else(|| vec![message]) {
        let mut from = In(item);
        match (from.u8(), from.u32()) {
            (Some(wire::READY), Some(id)) => return Ok(Some(id)),
            (Some(wire::REFUSED), _) => return Err(errors::decode(&item[1..], island)),
            (Some(wire::ALIVE), None) => {}
            _ => return Err(not_started(island, &"it says something else than expected")),
        }
    }
    Ok(None)
}

/// How long a thread that starts a process waits at once.
const CLOSING_WAIT: Duration = Duration::from_millis(100);

/// A process that takes calls.
struct Linked {
    line: Arc<Line>,
    process: Box<dyn Process>,
}

/// A process whose island is open.
struct Started {
    receiving: Box<dyn Link>,
    sending: Box<dyn Link>,
    process: Box<dyn Process>,
    id: u32,
}

#[cfg(test)]
mod tests {
    use tombolo_engine::link::{MemoryFaults, bundle, memory_pair};
    use tombolo_engine::rng::Rng;
    use tombolo_engine::threads::{give_way, on_each};

    use super::*;

    struct NoProcess;

    impl Process for NoProcess {
        fn ended(&mut self) -> Option<String> {
            None
        }

        fn kill(&mut self) {}
    }

    /// An island of one database, whose process is the other two ends.
    fn linked(faults: MemoryFaults, seed: u64) -> (Supervised, Linked, [impl Link; 2]) {
        let starting = Starting {
            program: Program { path: "none".into(), arguments: Vec::new() },
            declaration: String::new(),
            directory: None,
            silence_max: None,
            kind: LinkKind::Unix,
        };
        let supervised = Supervised::new(1, starting);
        let (receiving, sends) = memory_pair(faults, seed);
        let (sending, receives) = memory_pair(faults, seed + 1);
        let (receiving, sending) = (Box::new(receiving), Box::new(sending));
        let started = Started { receiving, sending, process: Box::new(NoProcess), id: 1 };
        let linked = supervised.link(0, started);
        (supervised, linked, [receives, sends])
    }

    /// Answers calls with what they say.
    fn echo([receives, sends]: &mut [impl Link; 2], is_over: impl Fn() -> bool) {
        let mut bytes = Vec::new();
        while !is_over() {
            if let Some(items) = receives.receive().unwrap().and_then(all_counted) {
                let answer = |item: &[u8]| [&[wire::ANSWER], &item[1..]].concat();
                let answers: Vec<_> = items.into_iter().map(answer).collect();
                bundle(&answers, &mut bytes);
                while sends.send(&[&bytes]) == Ok(false) {
                    give_way();
                }
            }
            _ = sends.flush();
            give_way();
        }
    }

    #[test]
    fn whichever_thread_reads_each_answer_finds_its_call_and_the_end_all_that_wait() {
        const CALLERS: u64 = 3;
        const CALLS: u64 = 100;
        for seed in 0..4 {
            let faults = MemoryFaults { capacity_bytes: 200, delays: 3, ..MemoryFaults::default() };
            let (supervised, linked, ends) = linked(faults, 2 * seed);
            let (linked, ends) = (Mutex::new(Some(linked)), Mutex::new(Some(ends)));
            let done = AtomicU64::new(0);
            on_each(0..CALLERS + 2, |thread| match thread {
                0 => supervised.run(0, linked.lock().take().unwrap()),
                1 => {
                    let mut ends = ends.lock().take().unwrap();
                    echo(&mut ends, || done.load(Ordering::SeqCst) == CALLERS);
                }
                caller => {
                    let mut random = Rng::stream(seed, &[caller]);
                    let call = |what: u64| {
                        supervised.call(0, |number| {
                            Item::new(wire::CALL).u64(number).rest(&what.to_le_bytes())
                        })
                    };
                    for _ in 0..CALLS {
                        let what = random.below(u64::MAX);
                        assert_eq!(call(what), Ok(what.to_le_bytes().to_vec()));
                        (0..random.below(3)).for_each(|_| give_way());
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    // Its process is about to end, or has.
                    let lost = loop {
                        if let Err(lost) = call(7) {
                            break lost;
                        }
                    };
                    let is_known =
                        matches!(lost, Error::AnswerLost { .. } | Error::IslandStopped(0));
                    assert!(is_known, "{lost}");
                }
            });
            assert!(supervised.seats[0].is_idle());
        }
    }
}
