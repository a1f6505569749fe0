//! An island of a paged store in a process of its own: what it does with what arrives.
//!
//! ```text
//!   receiving thread ──► a worker: call ───────────────────────────► a session of the pool ──► answer
//!                                  step, vote, decision, undoing ──► its transaction's session ──► answer
//! ```
//!
//! The database's process sends the next item of a transaction when it has the answer to the last one, so a session
//! has one job at a time. Not here: the process (`processes/host.rs`), how a transaction over several islands commits
//! (`steps.rs`). Invariant: a session in which a step or a vote failed has no transaction.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_engine::islands::commit::TransactionNumber;
use tombolo_engine::islands::decided::Decided;
use tombolo_engine::threads::panic_message;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::owner::Owner;
use tombolo_storage::paged::store::{Decision, Vote};
use tombolo_storage::row::RowId;
use tombolo_storage::store::{Phase, Store as _};
use tombolo_storage::sync::Mutex;

use super::super::super::database::Counters;
use super::super::super::sessions::Session;
use super::super::super::tx::PagedTx;
use super::super::builder::damaged;
use super::database::encode_statistics;
use super::workers::Workers;
use super::{PagedBindings, PagedDatabase, PagedProcessesBuilder, Run};
use crate::calls::OnDatabaseThread;
use crate::error::{Error, Stop};
use crate::processes::ProcessSettings;
use crate::processes::host::{Hosts, Island, Next};
use crate::processes::outward::Outward;
use crate::processes::wire::{self, In, Item, Welcome};

/// The session of a transaction over several islands.
struct Seated {
    session: Session,
    /// The row in which its last decision on this island is, if it decided here.
    row: Option<RowId>,
}

/// An island that is open.
pub(crate) struct Child {
    served: Arc<Served>,
    workers: Arc<Workers>,
}

struct Served {
    database: PagedDatabase,
    procedures: Vec<Run>,
    decided: Decided,
    seats: Mutex<Seats>,
}

/// Sessions of transactions over several islands.
#[derive(Default)]
struct Seats {
    /// By the number that the database's process gave each; none while a job has one.
    all: BTreeMap<u32, Option<Seated>>,
    /// The island closes: a transaction is undone as soon as no job has its session.
    closes: bool,
}

impl Hosts for PagedProcessesBuilder {
    type Island = Child;

    fn words(&self) -> String {
        self.words()
    }

    fn settings(&self) -> &ProcessSettings {
        &self.settings
    }

    fn open(self, welcome: &Welcome, _: &Arc<Outward>) -> Result<Child, Error> {
        let Some(directory) = &welcome.directory else {
            return Err(Error::Directory("a paged database has a directory".to_owned()));
        };
        let database = self.islands.open_one(directory.as_ref(), welcome.island.into())?;
        let bindings = PagedBindings { database: &database };
        let bound = self.declared.binds().map(|bind| bind(&bindings));
        let procedures = bound.collect::<Result<_, _>>()?;
        let decided = Decided::of(&database.schema()).map_err(damaged)?;
        let served = Served { database, procedures, decided, seats: Mutex::default() };
        Ok(Child { served: Arc::new(served), workers: Arc::default() })
    }
}

impl Island for Child {
    fn arrived(&self, item: &[u8], outward: &Arc<Outward>) -> Option<Next> {
        let mut from = In(item);
        let kind = from.u8()?;
        match kind {
            wire::CLOSE => return Some(Next::Closes),
            // Islands say nothing to each other.
            wire::LINK_MADE | wire::LINK_BROKEN => return Some(Next::GoesOn),
            wire::ASK => {
                let outward = outward.clone();
                self.workers.run(move || {
                    outward.lives();
                    _ = outward.send_now();
                });
                return Some(Next::GoesOn);
            }
            _ => {}
        }
        let (number, asked) = (from.u64()?, Asked::read(kind, from)?);
        let (served, outward) = (self.served.clone(), outward.clone());
        self.workers.run(move || {
            Outward::sends_later();
            let answer = served.answer(asked);
            if let Err(Error::Poisoned(why) | Error::Unknown(why)) = &answer {
                // Nothing of this island is written any more: its next process finds what is durable.
                outward.stopped(why.clone());
            }
            outward.answer(number, &answer);
            // An end of the link, the receiving thread finds.
            _ = outward.send_now();
        });
        Some(Next::GoesOn)
    }

    fn close(self) -> Result<(), Error> {
        self.served.undo_open();
        self.workers.end();
        let Some(served) = Arc::into_inner(self.served) else {
            return Err(Error::System("an island's threads have not ended".to_owned()));
        };
        drop(served.seats);
        served.database.close()
    }
}

/// What the database's process asks for.
enum Asked {
    Call {
        procedure: u32,
        input: Vec<u8>,
    },
    Step {
        seat: u32,
        begins: bool,
        only_reads: bool,
        waits: u32,
        procedure: u32,
        input: Vec<u8>,
    },
    Vote {
        seat: u32,
        owner: Owner,
    },
    /// Commits; if there is a number, this decides.
    Decide {
        seat: u32,
        new_row: bool,
        owner: Option<Owner>,
    },
    Undo {
        seat: u32,
        owner: Option<Owner>,
    },
    Settle {
        owner: Owner,
        decision: Decision,
    },
    Decided(Owner),
    Prepared,
    Statistics,
    Checkpoint,
}

impl Asked {
    fn read(kind: u8, from: In<'_>) -> Option<Self> {
        let mut from = from;
        let owner = |from: &mut In<'_>| from.u128().map(Owner::new);
        let some = |owner: Owner| (owner.number() > 0).then_some(owner);
        Some(match kind {
            wire::CALL => Self::Call { procedure: from.u32()?, input: from.0.to_vec() },
            wire::STEP => Self::Step {
                seat: from.u32()?,
                begins: from.u8()? == 1,
                only_reads: from.u8()? == 1,
                waits: from.u32()?,
                procedure: from.u32()?,
                input: from.0.to_vec(),
            },
            wire::VOTE => Self::Vote { seat: from.u32()?, owner: owner(&mut from)? },
            wire::DECIDE => Self::Decide {
                seat: from.u32()?,
                new_row: from.u8()? == 1,
                owner: some(owner(&mut from)?),
            },
            wire::UNDO => Self::Undo { seat: from.u32()?, owner: some(owner(&mut from)?) },
            wire::SETTLE => Self::Settle {
                decision: if from.u8()? == 1 { Decision::Commit } else { Decision::Abort },
                owner: owner(&mut from)?,
            },
            wire::DECIDED => Self::Decided(owner(&mut from)?),
            wire::PREPARED => Self::Prepared,
            wire::STATISTICS => Self::Statistics,
            wire::CHECKPOINT => Self::Checkpoint,
            _ => return None,
        })
    }
}

/// The process was started again since the transaction had begun here, which is undone by that.
const BEGUN_BEFORE: &str = "its process was started again";

impl Served {
    fn answer(&self, asked: Asked) -> Result<Vec<u8>, Error> {
        match asked {
            Asked::Call { procedure, input } => {
                let run = self.procedure(procedure)?;
                self.database.transaction(|tx| run(tx, &input))
            }
            Asked::Step { seat, begins, only_reads, waits, procedure, input } => {
                let run = self.procedure(procedure)?;
                self.in_seat(seat, |own, seated| {
                    own.begin(seated, begins)?;
                    seated.session.store.set_lock_waits(waits);
                    own.step(seated, only_reads, |tx| run(tx, &input))
                })
            }
            Asked::Vote { seat, owner } => {
                self.in_seat(seat, |own, seated| own.vote(seated, owner))
            }
            Asked::Decide { seat, new_row, owner } => {
                self.in_seat(seat, |own, seated| own.decide(seated, new_row, owner))
            }
            Asked::Undo { seat, owner } => self.in_seat(seat, |own, seated| {
                undo(seated);
                owner.map_or(Ok(()), |owner| own.settle(owner, Decision::Abort))?;
                Ok(Vec::new())
            }),
            Asked::Settle { owner, decision } => self.settle(owner, decision).map(|()| Vec::new()),
            Asked::Decided(owner) => self.has_decided(owner),
            Asked::Prepared => {
                let prepared = self.database.sessions.ask(|store| store.prepared());
                let prepared = prepared.ok_or(Error::Closed)?;
                let all = prepared.into_iter().map(|prepared| prepared.owner.number());
                Ok(all.flat_map(u128::to_le_bytes).collect())
            }
            Asked::Statistics => Ok(encode_statistics(&self.database.statistics())),
            Asked::Checkpoint => self.database.checkpoint().map(|()| Vec::new()),
        }
    }

    fn procedure(&self, number: u32) -> Result<&Run, Error> {
        // All processes are one program, so it was damaged in memory.
        let none = || Error::Aborted("what was sent names no procedure");
        self.procedures.get(number as usize).ok_or_else(none)
    }

    /// The error of the store, as callers get it.
    fn refused(&self, error: StoreError) -> Error {
        match error {
            StoreError::Poisoned { reason } => Error::Poisoned(reason.into()),
            error => Error::stopped(Stop::Error(error), &self.database.schema()),
        }
    }

    /// Does something in the session with this number.
    fn in_seat<T>(
        &self,
        seat: u32,
        work: impl FnOnce(&Self, &mut Seated) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let known = self.seats.lock().all.insert(seat, None);
        let mut seated = match known {
            Some(Some(seated)) => seated,
            Some(None) => return Err(Error::Nested), // the database's process sends one item at a time
            None => match self.database.sessions.open() {
                Ok(store) => Seated { session: Session::new(store), row: None },
                Err(error) => {
                    self.seats.lock().all.remove(&seat);
                    return Err(error);
                }
            },
        };
        let done = work(self, &mut seated);
        let mut seats = self.seats.lock();
        if seats.closes {
            undo(&mut seated);
        }
        seats.all.insert(seat, Some(seated));
        done
    }

    /// Undoes what is open: jobs may wait for its locks, and nothing ends it any more.
    fn undo_open(&self) {
        let mut seats = self.seats.lock();
        seats.closes = true;
        seats.all.values_mut().flatten().for_each(undo);
    }

    /// Begins the transaction here, or finds it begun.
    fn begin(&self, seated: &mut Seated, begins: bool) -> Result<(), Error> {
        if !begins {
            return begun(seated);
        }
        undo(seated); // what a lost message left
        let Session { store, ids } = &mut seated.session;
        ids.begin();
        store.set_isolation(self.database.isolation);
        store.begin().map_err(|error| self.refused(error))?;
        store.begin_writes();
        Ok(())
    }

    /// Runs a step: whether the transaction has changed anything here, and the answer.
    fn step(
        &self,
        seated: &mut Seated,
        only_reads: bool,
        run: impl FnOnce(&mut PagedTx<'_>) -> Result<Vec<u8>, Stop>,
    ) -> Result<Vec<u8>, Error> {
        let Session { store, ids } = &mut seated.session;
        let mut tx = PagedTx::new(store, &self.database.tables, ids, only_reads);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let _here = OnDatabaseThread::enter();
            run(&mut tx)
        }));
        let ended = match (ran, tx.refused()) {
            (Err(panic), _) => {
                Counters::count(&self.database.counters.panicked);
                Err(Error::Panicked(panic_message(&*panic)))
            }
            // What doomed it counts, whatever the closure made of it.
            (Ok(_), Some(error)) => Err(self.refused(error)),
            (Ok(Err(Stop::Error(error))), None) => Err(self.refused(error)),
            (Ok(Err(stop)), None) => Err(Error::stopped(stop, &self.database.schema())),
            (Ok(Ok(answer)), None) => Ok(answer),
        };
        match ended {
            Ok(answer) => {
                let has_changed = u8::from(seated.session.store.has_changed());
                Ok(Item::new(has_changed).rest(&answer))
            }
            Err(error) => {
                undo(seated);
                Err(error)
            }
        }
    }

    /// Prepares the transaction, or ends it if it has only read; the answer is durable.
    fn vote(&self, seated: &mut Seated, owner: Owner) -> Result<Vec<u8>, Error> {
        begun(seated)?;
        let store = &mut seated.session.store;
        let voted = store.verify_homes().and_then(|()| match store.has_changed() {
            true => store.prepare_unhardened(owner),
            false => store.commit_unhardened().map(|position| (Vote::ReadOnly, position)),
        });
        let voted = voted.and_then(|(vote, position)| store.harden(position).map(|()| vote));
        match voted {
            Ok(vote) => Ok(vec![u8::from(vote == Vote::Prepared)]),
            Err(error) => {
                undo(seated);
                Err(self.refused(error))
            }
        }
    }

    /// Commits, durably; with a number, that decides the transaction.
    fn decide(
        &self,
        seated: &mut Seated,
        new_row: bool,
        owner: Option<Owner>,
    ) -> Result<Vec<u8>, Error> {
        begun(seated)?;
        let Seated { session: Session { store, .. }, row } = seated;
        if new_row {
            *row = None;
        }
        let noted = store.verify_homes().and_then(|()| match owner {
            None => Ok(*row),
            Some(owner) => {
                let number = TransactionNumber::of(owner).ok_or(StoreError::UnfitChanges)?;
                self.decided.decide(store, *row, number).map(Some)
            }
        });
        match noted {
            Ok(noted) => *row = noted,
            Err(error) => {
                undo(seated);
                return Err(self.refused(error));
            }
        }
        store.commit().map_err(|error| Error::Unknown(error.to_string().into()))?;
        Counters::count(&self.database.counters.committed);
        if owner.is_some() {
            Counters::count(&self.database.counters.over_islands);
        }
        Ok(Vec::new())
    }

    /// Commits or undoes what is prepared, durably; if it was before, nothing happens.
    fn settle(&self, owner: Owner, decision: Decision) -> Result<(), Error> {
        let mut session = self.database.take()?;
        match session.store.decide(owner, decision) {
            Ok(()) | Err(StoreError::NotPrepared { .. }) => Ok(()),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Whether this island has decided that a transaction commits.
    fn has_decided(&self, owner: Owner) -> Result<Vec<u8>, Error> {
        let mut session = self.database.take()?;
        let rows = self.decided.rows(&mut session.store).map_err(|error| self.refused(error))?;
        let has_decided = rows.iter().any(|(_, number)| number.owner() == owner);
        Ok(vec![u8::from(has_decided)])
    }
}

/// Refuses a transaction that had begun in an earlier process.
fn begun(seated: &Seated) -> Result<(), Error> {
    match seated.session.store.phase() {
        Phase::Idle => Err(Error::IslandRestarts { island: 0, why: BEGUN_BEFORE.into() }),
        _ => Ok(()),
    }
}

/// Undoes what is open in a session.
fn undo(seated: &mut Seated) {
    let store = &mut seated.session.store;
    if store.phase() != Phase::Idle && store.abort().is_err() {
        store.poison("a transaction over several islands could not be undone");
    }
}
