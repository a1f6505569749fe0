//! The processes of the islands, supervised: started, greeted, linked with each other, and started again when they end.
//!
//! ```text
//!             welcome                 ready                      link ends, or it hangs
//!   started ──────────► opens, recovers ─────► up: links, calls ────────────────────────► down: others told, ─┐
//!      ▲                     │ refused, or it hangs                                       calls lost, killed  │
//!      └──────── pause ◄─────┴────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Each island has a thread here, which starts its process, and receives what it sends. What one island says to another
//! passes through this process: it is put into the other's link, or dropped if that one is down. So messages keep
//! their order, none comes twice, and one that was lost was lost because a link broke, of which the sender is told.
//!
//! Invariant: an island is told that a link was made before anything that the other one says on it, and that it broke
//! before it was made again. Not here: calls (`database.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use std::{env, fmt, io};

use tombolo_engine::link::{Link, LinkKind, offer};
use tombolo_engine::pipeline::remote_checkpoint::{Process, Program};
use tombolo_engine::threads::pause;
use tombolo_storage::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use super::outbox::Outbox;
use super::seat::{ROOM_WAIT, Seat};
use super::silence::Silence;
use super::wire::{self, In, Item, Welcome, all_counted};
use super::{VARIABLE, errors};
use crate::error::Error;

/// The pause before a process that ended is started again: after the first end, and at most.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a thread waits at once for what a process sends, before it tries again to send what a full link left.
const WAIT: Duration = Duration::from_secs(1);

/// How the process of an island is started.
pub(super) struct Starting {
    pub(super) program: Program,
    /// What it has to declare, too.
    pub(super) declaration: String,
    /// Of the database; none for one in memory.
    pub(super) directory: Option<String>,
    /// How long it may be silent.
    pub(super) silence_max: Option<Duration>,
    /// What links it with this process.
    pub(super) kind: LinkKind,
}

/// What the threads of all islands share.
pub(super) struct Supervised {
    pub(super) seats: Vec<Seat>,
    starting: Starting,
    /// Held while islands are linked or parted.
    linking: Mutex<()>,
    /// No process is started any more.
    closes: AtomicBool,
    restarts: AtomicU64,
    /// The first error of closing.
    closed: Mutex<Option<Error>>,
}

impl Supervised {
    pub(super) fn new(islands: usize, starting: Starting) -> Self {
        let is_in_memory = starting.directory.is_none();
        Self {
            seats: (0..islands).map(|island| Seat::new(island, is_in_memory)).collect(),
            starting,
            linking: Mutex::new(()),
            closes: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            closed: Mutex::new(None),
        }
    }

    pub(super) const fn is_in_memory(&self) -> bool {
        self.starting.directory.is_none()
    }

    /// How often a process was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Lets each island close.
    pub(super) fn close(&self) {
        self.closes.store(true, Ordering::SeqCst);
        for seat in &self.seats {
            seat.send([Item::new(wire::CLOSE).end()]); // one that is down has nothing to close
        }
    }

    /// The first error of closing.
    pub(super) fn closed(&self) -> Result<(), Error> {
        self.closed.lock().take().map_or(Ok(()), Err)
    }

    fn closes(&self) -> bool {
        self.closes.load(Ordering::SeqCst)
    }

    /// Keeps an island's process running until the database closes. `first` learns whether it opened, and if not, it
    /// is not tried again.
    pub(super) fn supervise(&self, island: usize, first: &Sender<Result<(), Error>>) {
        let (mut is_first, mut pauses) = (true, PAUSE);
        while !self.closes() {
            match self.start(island) {
                Ok(started) => {
                    let began = self.link(island, started);
                    if std::mem::take(&mut is_first) {
                        _ = first.send(Ok(()));
                    } else {
                        self.restarts.fetch_add(1, Ordering::Relaxed);
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
        seat.begins(Outbox::new(sending), id);
        for (other, peer) in self.others(island) {
            seat.send([Item::new(wire::LINK_MADE).u16(other as u16).end()]);
            peer.send([Item::new(wire::LINK_MADE).u16(island as u16).end()]);
        }
        seat.opens();
        drop(linking);
        if self.closes() {
            seat.send([Item::new(wire::CLOSE).end()]);
        }
        Linked { receiving, process }
    }

    /// Hands on what a process sends until it ends, or hangs.
    fn run(&self, island: usize, linked: Linked) {
        let Linked { mut receiving, process } = linked;
        let (seat, mut reason) = (&self.seats[island], None);
        let mut silence = Silence::new(self.starting.silence_max);
        // Whose links may be full.
        let mut full: BTreeSet<usize> = (0..self.seats.len()).collect();
        let end: String = loop {
            match receiving.receive() {
                Ok(Some(bundle)) => {
                    silence.ends();
                    if self.received(island, bundle, &mut reason, &mut full).is_none() {
                        break "the link to it is damaged: no message of an island".to_owned();
                    }
                }
                Ok(None) => {
                    if let Some(why) = silence.hangs() {
                        break why;
                    }
                    full.insert(island);
                    full.retain(|island| self.seats[*island].is_full());
                    let pause = silence.pause(if full.is_empty() { WAIT } else { ROOM_WAIT });
                    receiving.wait(pause);
                    if silence.lasts(pause) {
                        seat.send_past(Item::new(wire::ASK).end());
                    }
                }
                Err(end) => break end.to_string(),
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

    /// Hands on what an island has sent; `None` if it is nothing of that. `reason` is why it ends, if it says so;
    /// `full` are islands to which something is left to be sent.
    fn received(
        &self,
        island: usize,
        bundle: &[u8],
        reason: &mut Option<Error>,
        full: &mut BTreeSet<usize>,
    ) -> Option<()> {
        let mut said: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        for item in all_counted(bundle)? {
            let mut from = In(item);
            match from.u8()? {
                wire::ANSWER => self.seats[island].answered(from.u64()?, Ok(from.0.to_vec())),
                wire::FAILED => {
                    let (number, error) = (from.u64()?, errors::decode(from.0, island));
                    self.seats[island].answered(number, Err(error));
                }
                wire::MESSAGE => {
                    let to = usize::from(from.u16()?);
                    self.seats.get(to)?;
                    let message = Item::new(wire::MESSAGE).u16(island as u16).rest(from.0);
                    match said.iter_mut().find(|(other, _)| *other == to) {
                        Some((_, messages)) => messages.push(message),
                        None => said.push((to, vec![message])),
                    }
                }
                wire::CLOSED if from.is_over() => {}
                wire::ALIVE => {}
                wire::CLOSED => *reason = Some(errors::decode(from.0, island)),
                _ => return None,
            }
        }
        for (to, messages) in said {
            self.seats[to].send(messages); // if it is down, its link broke
            full.insert(to);
        }
        Some(())
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
    receiving: Box<dyn Link>,
    process: Box<dyn Process>,
}

/// A process whose island is open.
struct Started {
    receiving: Box<dyn Link>,
    sending: Box<dyn Link>,
    process: Box<dyn Process>,
    id: u32,
}
