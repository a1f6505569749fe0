//! An island of a memory store in a process of its own: what it does with what arrives.
//!
//! ```text
//!   receiving thread: calls ──► run here (in memory), or queued ──► answers ─► outward
//!                     what other islands say, links ──► the island's inbox
//! ```
//!
//! The receiving thread waits for room in the queue of calls, which its island empties without it. Not here: the
//! process (`processes/host.rs`).

use std::sync::Arc;

use tombolo_engine::islands::commit::{Event, IslandId};
use tombolo_engine::link::put_counted;
use tombolo_engine::threads::Running;

use super::super::mail::Item as Arrived;
use super::super::opening::OneIsland;
use super::super::parts::{Transaction, Why};
use super::code::Code;
use super::outwards::IslandOutward;
use super::upkeep::{self, Upkeep};
use super::{Bindings, ProcessesBuilder};
use crate::calls::{CallOptions, Pending, Settled, Started};
use crate::core::{Core, Patience};
use crate::error::Error;
use crate::processes::ProcessSettings;
use crate::processes::host::{Hosts, Island, Next};
use crate::processes::outward::Outward;
use crate::processes::wire::{self, In, Welcome};

/// An island that is open.
pub(crate) struct Child {
    me: IslandId,
    one: OneIsland,
    code: Arc<Code>,
    upkeep: Arc<Upkeep>,
}

impl Hosts for ProcessesBuilder {
    type Island = Child;

    fn words(&self) -> String {
        self.words()
    }

    fn settings(&self) -> &ProcessSettings {
        &self.settings
    }

    fn open(self, welcome: &Welcome, outward: &Arc<Outward>) -> Result<Child, Error> {
        let directory = welcome.directory.as_deref().map(str::as_ref);
        let me = IslandId(welcome.island);
        let one = self.islands.open_one(directory, me.index())?;
        let bindings = Bindings { database: &one.database };
        let bound = self.declared.binds().map(|bind| bind(&bindings));
        let code = Arc::new(Code::new(bound.collect::<Result<_, _>>()?));
        let outwards = IslandOutward { outward: outward.clone(), code: code.clone() };
        one.mail.set_outwards(me, Arc::new(outwards));
        Ok(Child { me, one, code, upkeep: Arc::default() })
    }
}

impl Island for Child {
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

    fn pauses(&self) {
        let core = self.one.database.core();
        while !core.is_durable() && core.help() {}
    }

    fn close(self) -> Result<(), Error> {
        self.one.close()
    }
}

impl Child {
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

/// The parts of a transaction: those of an island behind its number.
fn parts(mut from: In<'_>) -> Option<Vec<(IslandId, Vec<u8>)>> {
    let mut parts: Vec<(IslandId, Vec<u8>)> = Vec::new();
    while !from.is_over() {
        parts.push((IslandId(from.u16()?), from.counted()?.to_vec()));
    }
    Some(parts)
}
