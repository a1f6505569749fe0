//! The process of an island: opens it, and runs what arrives, until the database closes or its process ends.
//!
//! ```text
//!   receiving thread: calls ──► run here, or by others ──► answers ─► outward.rs
//! ```
//!
//! The receiving thread waits for the link, and for what its island makes it wait for. When the link ends, the island
//! is closed, so that its directory is free. If the database's process is gone and a transaction does not end, the
//! process ends without it. Not here: starting it (`supervisor.rs`), what an island does with what
//! arrives.

use std::process::exit;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use tombolo_engine::link::{Link, LinkKind, UnixLink, accept, all_counted, bundle, inherited};
use tombolo_engine::pipeline::remote_checkpoint::wait_for_parent;
use tombolo_engine::threads::{Running, pause};

use super::outward::Outward;
use super::wire::{self, Item, Welcome};
use super::{ProcessSettings, VARIABLE, errors};
use crate::error::Error;

/// How long the process waits for its welcome.
const WELCOME_MAX: Duration = Duration::from_secs(30);

/// How long the island may take to close when the database's process is gone. A transaction may never end, but what
/// was answered is in the log.
const CLOSING_MAX: Duration = Duration::from_secs(5);

/// How long it waits at once for what is to do.
const WAIT: Duration = Duration::from_secs(60);

/// What a program declares its islands to be.
pub(crate) trait Hosts {
    type Island: Island;

    /// In lines; the process of an island has to declare the same.
    fn words(&self) -> String;

    fn settings(&self) -> &ProcessSettings;

    /// Opens the island that the welcome says.
    ///
    /// # Errors
    /// Those of opening it.
    fn open(self, welcome: &Welcome, outward: &Arc<Outward>) -> Result<Self::Island, Error>;
}

/// An island that is open in this process.
pub(crate) trait Island {
    /// Does what an item asks for; `None` if it is none.
    fn arrived(&self, item: &[u8], outward: &Arc<Outward>) -> Option<Next>;

    /// All that has arrived was handed over.
    fn pauses(&self) {}

    /// Closes it.
    ///
    /// # Errors
    /// Those of closing it: nothing is lost.
    fn close(self) -> Result<(), Error>;
}

/// What follows an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    Closes,
}

/// Whether this process was started as an island of another one.
pub(crate) fn is_asked() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Is an island, to the end of the process.
pub(crate) fn run(program: impl Hosts) -> ! {
    let Ok(link) = inherited() else {
        // There is no process that this could be reported to.
        eprintln!(
            "{VARIABLE} is set, but no database has started this process as an island: unset it"
        );
        exit(1)
    };
    let _watching = Running::start("tombolo-parent", || {
        if wait_for_parent() {
            pause(CLOSING_MAX);
            exit(1)
        }
    });
    exit(match serve(program, link) {
        Ok(()) => 0,
        Err(_) => 1,
    })
}

/// Why a process ends in failure: it is reported over the link, if there still is one.
struct Failed;

fn serve(program: impl Hosts, link: UnixLink) -> Result<(), Failed> {
    let mut control = link;
    let refused = |error: &Error| Item::new(wire::REFUSED).rest(&errors::encode(error));
    let welcome = match welcomed(&program.words(), &mut control) {
        Ok(welcome) => welcome,
        Err(error) => {
            // No bundle: the database's process may be of another version.
            _ = control.send(&[&refused(&error)]);
            return Err(Failed);
        }
    };
    let ProcessSettings { link, silence_max, .. } = *program.settings();
    let (receiving, sending) = linked(control, link).map_err(|_| Failed)?;
    let outward = Arc::new(Outward::new(sending, silence_max));
    let sends = outward.clone();
    let Ok(sender) = Running::start("tombolo-sending", move || sends.run()) else {
        return Err(Failed);
    };
    // From now on it is noticed if this process hangs.
    outward.lives();
    outward.send_now().map_err(|_| Failed)?;
    let ended = match program.open(&welcome, &outward) {
        Ok(island) => serve_opened(island, receiving, &outward),
        Err(error) => {
            outward.put(refused(&error));
            Err(Failed)
        }
    };
    outward.end();
    sender.join();
    ended
}

/// The link of this kind, as one that receives and one that sends. Another one than that over which the process was
/// welcomed, the database offers as soon as this process says something.
fn linked(mut control: UnixLink, kind: LinkKind) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    let link: Box<dyn Link> = if kind == LinkKind::Unix {
        Box::new(control)
    } else {
        let mut alive = Vec::new();
        bundle(&[Item::new(wire::ALIVE).end()], &mut alive);
        control.send(&[&alive]).map_err(io::Error::other)?;
        accept(control)?
    };
    link.split()
}

/// What the database says that this process is to be.
fn welcomed(words: &str, receiving: &mut UnixLink) -> Result<Welcome, Error> {
    let failed =
        |what: String| Error::System(format!("an island's process has no welcome: {what}"));
    receiving.wait(WELCOME_MAX);
    let bytes = receiving.receive().map_err(|end| failed(end.to_string()))?;
    let bytes = bytes.ok_or_else(|| failed("the database does not send it".to_owned()))?;
    let welcome = Welcome::decode(bytes).map_err(Error::OtherVersion)?;
    refuse_other(words, &welcome.declaration)?;
    Ok(welcome)
}

/// Refuses to be an island of a program that declares something else.
pub(crate) fn refuse_other(own: &str, declared: &str) -> Result<(), Error> {
    if own == declared {
        return Ok(());
    }
    let (mut own, mut other) = (own.lines(), declared.lines());
    let (own, other) = loop {
        match (own.next(), other.next()) {
            (own, other) if own == other => {}
            (own, other) => break (own.unwrap_or("nothing"), other.unwrap_or("nothing")),
        }
    };
    Err(Error::OtherVersion(format!(
        "the process of an island declares {own}, where the database's process declares {other}: declare the same \
         tables and procedures in the same order whenever the program runs"
    )))
}

fn serve_opened(
    island: impl Island,
    mut receiving: Box<dyn Link>,
    outward: &Arc<Outward>,
) -> Result<(), Failed> {
    outward.opened();
    Outward::sends_later();
    outward.put(Item::new(wire::READY).u32(std::process::id()).end());
    let is_asked_to_close = receive(&island, &mut *receiving, outward);
    outward.closes();
    let closed = island.close();
    let words = closed.as_ref().err().map(errors::encode).unwrap_or_default();
    outward.put(Item::new(wire::CLOSED).rest(&words));
    if is_asked_to_close && closed.is_ok() { Ok(()) } else { Err(Failed) }
}

/// Runs what arrives; returns whether the database closes. Otherwise its process is gone, or sends what is damaged.
fn receive(island: &impl Island, receiving: &mut dyn Link, outward: &Arc<Outward>) -> bool {
    loop {
        loop {
            let bundle = match receiving.receive() {
                Ok(Some(bundle)) => bundle,
                Ok(None) => break,
                Err(_) => return false,
            };
            let Some(items) = all_counted(bundle) else { return false };
            for item in items {
                match island.arrived(item, outward) {
                    Some(Next::GoesOn) => {}
                    Some(Next::Closes) => return true,
                    None => return false,
                }
            }
        }
        island.pauses();
        if outward.send_now().is_err() {
            return false;
        }
        receiving.wait(WAIT);
    }
}
