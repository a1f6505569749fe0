//! The process of an island: opens it, and runs what arrives, until the database closes or its process ends.
//!
//! ```text
//!   receiving thread: calls ──► run here (in memory), or queued ──► answers ─► outward.rs
//!                     what other islands say, links ──► the island's inbox
//! ```
//!
//! The receiving thread waits for the link only, and for room in the queue of calls, which its island empties without
//! it. When the link ends, the island is closed, so that its directory is free. Not here: starting it
//! (`supervisor.rs`).

use std::process::exit;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use tombolo_engine::islands::commit::{Event, IslandId};
use tombolo_engine::link::{
    Link, LinkKind, UnixLink, accept, all_counted, bundle, inherited, put_counted,
};
use tombolo_engine::threads::Running;

use super::super::mail::{Item as Arrived, Outwards};
use super::super::opening::OneIsland;
use super::super::parts::{Transaction, Why};
use super::code::Code;
use super::outward::Outward;
use super::upkeep::{self, Upkeep};
use super::wire::{self, In, Item, Welcome};
use super::{Bindings, ProcessesBuilder, VARIABLE, errors};
use crate::calls::{CallOptions, Pending, Settled, Started};
use crate::core::{Core, Patience};
use crate::error::Error;

/// How long the process waits for its welcome.
const WELCOME_MAX: Duration = Duration::from_secs(30);

/// How long it waits at once for what is to do.
const WAIT: Duration = Duration::from_secs(60);

/// Whether this process was started as an island of another one.
pub(super) fn is_asked() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Is an island, to the end of the process.
pub(super) fn run(builder: ProcessesBuilder) -> ! {
    let Ok(link) = inherited() else {
        // There is no process that this could be reported to.
        eprintln!(
            "{VARIABLE} is set, but no database has started this process as an island: unset it"
        );
        exit(1)
    };
    exit(match serve(builder, link) {
        Ok(()) => 0,
        Err(_) => 1,
    })
}

/// Why a process ends in failure: it is reported over the link, if there still is one.
struct Failed;

fn serve(builder: ProcessesBuilder, link: UnixLink) -> Result<(), Failed> {
    let mut control = link;
    let refused = |error: &Error| Item::new(wire::REFUSED).rest(&errors::encode(error));
    let welcome = match welcomed(&builder, &mut control) {
        Ok(welcome) => welcome,
        Err(error) => {
            // No bundle: the database's process may be of another version.
            _ = control.send(&[&refused(&error)]);
            return Err(Failed);
        }
    };
    let (receiving, sending) = linked(control, builder.link).map_err(|_| Failed)?;
    let outward = Arc::new(Outward::new(sending, builder.silence_max));
    let sends = outward.clone();
    let Ok(sender) = Running::start("tombolo-sending", move || sends.run()) else {
        return Err(Failed);
    };
    // From now on it is noticed if this process hangs.
    outward.lives();
    outward.send_now().map_err(|_| Failed)?;
    let ended = match open(builder, &welcome) {
        Ok(island) => island.serve(receiving, &outward),
        Err(error) => {
            outward.put(refused(&error));
            Err(Failed)
        }
    };
    outward.end();
    sender.join();
    ended
}

/// An island that is open.
struct Child {
    me: IslandId,
    one: OneIsland,
    code: Arc<Code>,
    upkeep: Arc<Upkeep>,
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
fn welcomed(builder: &ProcessesBuilder, receiving: &mut UnixLink) -> Result<Welcome, Error> {
    let failed =
        |what: String| Error::System(format!("an island's process has no welcome: {what}"));
    receiving.wait(WELCOME_MAX);
    let bytes = receiving.receive().map_err(|end| failed(end.to_string()))?;
    let bytes = bytes.ok_or_else(|| failed("the database does not send it".to_owned()))?;
    let welcome = Welcome::decode(bytes).map_err(Error::OtherVersion)?;
    builder.refuse_other(&welcome.declaration)?;
    Ok(welcome)
}

/// Opens the island that the welcome says.
fn open(builder: ProcessesBuilder, welcome: &Welcome) -> Result<Child, Error> {
    let (me, directory) = (welcome.island, welcome.directory.as_deref().map(str::as_ref));
    let one = builder.islands.open_one(directory, me.into())?;
    let bindings = Bindings { database: &one.database };
    let bound = builder.procedures.iter().map(|procedure| (procedure.bind)(&bindings));
    let code = Arc::new(Code::new(bound.collect::<Result<_, _>>()?));
    Ok(Child { me: IslandId(me), one, code, upkeep: Arc::default() })
}

impl Child {
    fn serve(self, mut receiving: Box<dyn Link>, outward: &Arc<Outward>) -> Result<(), Failed> {
        outward.opened(self.code.clone());
        self.one.mail.set_outwards(self.me, outward.clone());
        Outward::sends_later();
        outward.put(Item::new(wire::READY).u32(std::process::id()).end());
        let is_asked_to_close = self.receive(&mut *receiving, outward);
        outward.closes();
        let closed = self.one.close();
        let words = closed.as_ref().err().map(errors::encode).unwrap_or_default();
        outward.put(Item::new(wire::CLOSED).rest(&words));
        if is_asked_to_close && closed.is_ok() { Ok(()) } else { Err(Failed) }
    }

    /// Runs what arrives; returns whether the database closes. Otherwise its process is gone, or sends what is
    /// damaged.
    fn receive(&self, receiving: &mut dyn Link, outward: &Arc<Outward>) -> bool {
        let core = self.one.database.core();
        loop {
            loop {
                let bundle = match receiving.receive() {
                    Ok(Some(bundle)) => bundle,
                    Ok(None) => break,
                    Err(_) => return false,
                };
                let Some(items) = all_counted(bundle) else { return false };
                for item in items {
                    match self.arrived(item, outward) {
                        Some(Next::GoesOn) => {}
                        Some(Next::Closes) => return true,
                        None => return false,
                    }
                }
            }
            while !core.is_durable() && core.help() {}
            if outward.send_now().is_err() {
                return false;
            }
            receiving.wait(WAIT);
        }
    }

    /// Does what an item asks for; `None` if it is none.
    fn arrived(&self, item: &[u8], outward: &Arc<Outward>) -> Option<Next> {
        let mut from = In(item);
        let put = |arrived| self.one.mail.put(self.me, arrived);
        match from.u8()? {
            wire::CALL => {
                let (number, procedure) = (from.u64()?, self.code.procedure(from.u32()?)?);
                match procedure.start(from.0.to_vec()) {
                    Started::Ended(answer) => outward.answer(number, &answer),
                    Started::Pending(pending) => outward.answer_later(number, pending),
                }
            }
            wire::CALL_ONCE => {
                let (number, id) = (from.u64()?, from.u128()?);
                let procedure = self.code.procedure(from.u32()?)?;
                match procedure.once(id).submit(from.0.to_vec()) {
                    Ok(pending) => outward.answer_later(number, pending),
                    Err(error) => outward.answer(number, &Err(error)),
                }
            }
            wire::BEGIN => self.begin(from.u64()?, parts(from)?, outward),
            wire::LINK_MADE => put(Arrived::Event(Event::LinkMade(IslandId(from.u16()?)))),
            wire::LINK_BROKEN => put(Arrived::Event(Event::LinkBroken(IslandId(from.u16()?)))),
            wire::MESSAGE => {
                put(Arrived::Message { from: IslandId(from.u16()?), bytes: from.0.to_vec() });
            }
            wire::ASK => put(Arrived::Ask),
            wire::STATISTICS => {
                let statistics = self.one.database.statistics();
                outward.answer(from.u64()?, &Ok(upkeep::encode_statistics(statistics)));
            }
            wire::FLUSHED => {
                outward.answer(from.u64()?, &upkeep::flushed(self.one.database.core()));
            }
            wire::CHECKPOINT => {
                self.aside(from.u64()?, outward, |core| core.checkpoint().map(|()| Vec::new()));
            }
            wire::HOLD => {
                let upkeep = self.upkeep.clone();
                self.aside(from.u64()?, outward, move |core| upkeep.hold(core));
            }
            wire::COPY => {
                let (number, group, me) = (from.u64()?, from.u64()?, self.me.index());
                let to = String::from_utf8(from.0.to_vec()).ok()?;
                self.aside(number, outward, move |core| upkeep::copy(core, me, group, &to));
            }
            wire::RELEASE => self.upkeep.release(),
            wire::CLOSE => return Some(Next::Closes),
            _ => return None,
        }
        Some(Next::GoesOn)
    }

    /// Does on a thread of its own what may take long, and answers it then.
    fn aside(
        &self,
        number: u64,
        outward: &Arc<Outward>,
        work: impl FnOnce(&Core) -> Result<Vec<u8>, Error> + Send + 'static,
    ) {
        let (core, answers) = (self.one.database.core().clone(), outward.clone());
        let started =
            Running::start("tombolo-upkeep", move || answers.answer(number, &work(&core)));
        if let Err(refused) = started {
            outward.answer(number, &Err(refused.into()));
        }
    }

    /// Begins a transaction over several islands.
    fn begin(&self, number: u64, parts: Vec<(IslandId, Vec<u8>)>, outward: &Arc<Outward>) {
        let core = self.one.database.core();
        let transaction = Transaction::sent(parts);
        let envelope = transaction.enter(&self.one.mail);
        let ticket = match core.queue(envelope, &CallOptions::new(), Patience::Waits) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.one.mail.leave(transaction.number());
                return outward.answer(number, &Err(error));
            }
        };
        let pending = Pending::<Result<(), Why>, Settled>::new(core.clone(), ticket);
        let schema = core.schema.clone();
        outward.answer_later(number, async move {
            match pending.await? {
                Ok(()) => {
                    let mut answers = Vec::new();
                    for part in transaction.results() {
                        put_counted(&mut answers, &part);
                    }
                    Ok(answers)
                }
                Err(why) => Err(why.into_error(&schema.get())),
            }
        });
    }
}

/// What follows an item.
enum Next {
    GoesOn,
    Closes,
}

/// The parts of a transaction: those of an island behind its number.
fn parts(mut from: In<'_>) -> Option<Vec<(IslandId, Vec<u8>)>> {
    let mut parts: Vec<(IslandId, Vec<u8>)> = Vec::new();
    while !from.is_over() {
        parts.push((IslandId(from.u16()?), from.counted()?.to_vec()));
    }
    Some(parts)
}
