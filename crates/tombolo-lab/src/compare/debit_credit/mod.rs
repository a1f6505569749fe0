//! Debit-credit on other engines: at equal durability, with equal callers, on servers too.
//!
//! Every engine is loaded with the rows that our own loader makes, gets the same inputs in the same
//! numbers, and keeps all its files in a directory of its own under one parent, on one disk. With
//! `--durability group` an answer means that the transaction is on that disk, on every engine; with
//! `none` nothing does, and each is as fast as it can be. Afterwards every balance must be what the
//! inputs make of it (`ledger`).
//!
//! # Map
//! `ledger` makes the inputs and computes the resulting balances, `rows` are the loaded rows. Our
//! own side uses the pipeline, like `run`. Each engine embedded in this process has one
//! thread, which takes the waiting calls of all callers together (`embedded`): `sqlite`, `lmdb`, `rocksdb`,
//! `redb`. Servers (`server`) are processes of their own, called through a socket per caller by one thread here
//! (`sockets`): `redis`, `postgres`. `values` are the rows of engines that keep bytes under keys.
//!
//! # What is measured
//! Processor time of an embedded engine is that of this process, callers included, ours too; of a
//! server that of its processes, and the callers' apart. An answer is timed from making the call
//! until it is taken.

#[cfg(feature = "embedded")]
mod embedded;
mod ledger;
#[cfg(feature = "compare-lmdb")]
mod lmdb;
#[cfg(feature = "compare-postgres")]
#[expect(clippy::disallowed_types, reason = "sockets of servers that are not ours")]
mod postgres;
#[cfg(feature = "compare-redb")]
mod redb;
#[cfg(feature = "compare-redis")]
#[expect(clippy::disallowed_types, reason = "sockets of servers that are not ours")]
mod redis;
#[cfg(feature = "compare-rocksdb")]
mod rocksdb;
mod rows;
#[cfg(feature = "servers")]
mod server;
#[cfg(feature = "servers")]
#[expect(clippy::disallowed_types, reason = "sockets of servers that are not ours")]
mod sockets;
#[cfg(feature = "compare-sqlite")]
mod sqlite;
#[cfg(feature = "values")]
mod values;

use std::path::PathBuf;

use tombolo_engine::clock::SystemClock;
use tombolo_storage::log::Durability;
use tombolo_storage::profile::{Memory, MemoryProfile};

use super::peer::{Peer, built, names_of, opener};
use super::rounds::{Opened, Rounds};
use super::{Batch, Calls, Measured, OURS, Scratch, absolute, tombolo};
use crate::drive::create_piped;
use crate::failure::Failure;
use crate::files::{FlushTimes, Medium, Place};
use crate::plan::{self, estimate};
use crate::progress::Progress;
use crate::rows::Quiescent;
use crate::settings::{self, Settings, Source};
use crate::workload::Workload;
use crate::workload::debit_credit::Scale;
use crate::workload::debit_credit::input::Input;
use crate::workload::debit_credit::settings::BRANCHES;
use crate::workload::{self, AnyWorkload};
use ledger::Ledger;
use rows::{Balances, Rows};

/// A function that opens another engine and loads it.
type Open = for<'a> fn(&Opening<'a>, &mut dyn FnMut(f64)) -> Opened<'a, Input, Balances>;

/// A function that opens an engine as one that opens any.
#[cfg(feature = "peers")]
macro_rules! opens {
    ($open:expr) => {
        |opening, progress| Ok(Box::new($open(opening, progress)?))
    };
}

/// The other engines.
const PEERS: [Peer<Open>; 6] = [
    Peer::new("sqlite", built!("compare-sqlite", opens!(sqlite::Sqlite::open))),
    Peer::new("lmdb", built!("compare-lmdb", opens!(lmdb::Lmdb::open))),
    Peer {
        before: "sudo apt-get install librocksdb-dev clang && ",
        ..Peer::new("rocksdb", built!("compare-rocksdb", opens!(rocksdb::RocksDb::open)))
    },
    Peer::new("redb", built!("compare-redb", opens!(redb::open))),
    Peer {
        verify_machine: built!("compare-redis", redis::verify_machine),
        ..Peer::new("redis", built!("compare-redis", opens!(redis::Redis::open)))
    },
    Peer {
        verify_machine: built!("compare-postgres", postgres::verify_machine),
        ..Peer::new("postgres", built!("compare-postgres", opens!(postgres::Postgres::open)))
    },
];

/// The names of the other engines, whether built in or not.
pub fn peers() -> Vec<&'static str> {
    names_of(&PEERS)
}

/// The extent of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How our own side runs; what concerns all engines is the same for the others.
    run: plan::Plan,
    scale: Scale,
    /// Where all engines' directories go, if it was said.
    data: Option<PathBuf>,
    rounds: Rounds,
}

impl Plan {
    /// Reads the settings of a comparison.
    ///
    /// # Errors
    /// When settings do not fit each other.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let durability = settings.word(&settings::DURABILITY);
        if !["", "none", "group"].contains(&durability) {
            return Err(Failure::usage(format!(
                "engines cannot be compared at durability {durability}: use --durability none or \
                 group"
            )));
        }
        // Here the directory is the parent of all engines', also of those without durable files.
        let mut own = settings.clone();
        own.set(settings::DATA.name, "", Source::Flag)?;
        let run = plan::Plan::of(workload::info::<Scale>(), &own)?;
        let AnyWorkload::DebitCredit(scale) = run.workload else { unreachable!("{run:?}") };
        let data = settings.word(&settings::DATA);
        Ok(Self {
            run,
            scale,
            data: (!data.is_empty()).then(|| data.into()),
            rounds: Rounds::of(settings),
        })
    }

    fn is_durable(&self) -> bool {
        self.run.durability != Durability::None
    }

    fn calls(&self) -> Calls {
        Calls { clients: self.run.clients, in_flight: self.run.in_flight }
    }
}

/// The parameters with which an engine is opened.
struct Opening<'a> {
    plan: &'a Plan,
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "ours loads its own"))]
    rows: &'a Rows,
    /// A directory that is not there yet, for it alone.
    directory: PathBuf,
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "for peers in this process"))]
    clock: &'a SystemClock,
}

/// Says how to build what is not in this build, and refuses profiles without a pipeline.
///
/// # Errors
/// Usage.
pub fn verify_names(names: &[String]) -> Result<(), Failure> {
    for name in names {
        match name.strip_prefix(OURS) {
            Some(profile) if profile == Memory::NAME => {}
            Some(profile) => {
                return Err(Failure::usage(format!(
                    "profile {profile} has no pipeline: compare debit-credit with --profiles {}",
                    Memory::NAME
                )));
            }
            None => _ = opener(&PEERS, name, Scale::NAME)?,
        }
    }
    Ok(())
}

/// Refuses a machine that lacks memory, or what one of the engines needs, before anything is loaded.
///
/// # Errors
/// Environment, with what to install.
pub fn verify_machine(plan: &Plan, names: &[String]) -> Result<(), Failure> {
    let inputs = plan.rounds.transactions as u64;
    let needed = estimate::bytes(&plan.scale, plan.rounds.all(), inputs);
    // Each engine keeps all rows in memory, and so does what they are loaded from.
    let needed = needed.saturating_mul(names.len() as u64 + 1);
    plan::verify_memory(needed, plan.run.memory_limit, &BRANCHES)?;
    let named = PEERS.iter().filter(|peer| names.iter().any(|name| name == peer.name));
    named.filter_map(|peer| peer.verify_machine).try_for_each(|verify| verify())
}

/// Our own side, behind its pipeline: a log and no image, since the other engines write no checkpoints meanwhile
/// either.
fn open_own<'e>(
    opening: &Opening<'_>,
    progress: &mut dyn FnMut(f64),
) -> Opened<'e, Input, Balances> {
    let plan = plan::Plan { image: None, ..opening.plan.run.clone() };
    let directory = opening.plan.is_durable().then_some(&*opening.directory);
    let instance = create_piped(&plan, directory, &FlushTimes::default())?;
    let find = |mut database: Quiescent<'_>| Ok(Rows::read(database.store())?.balances());
    tombolo::load(instance, opening.plan.scale, plan.load_threads, find, progress)
}

/// Runs the same transactions on the engines called `names`.
///
/// # Errors
/// When an engine cannot be opened or fails. Failed checks are for [`failure`](super::failure) to
/// find.
pub fn compare(
    plan: &Plan,
    names: &[String],
    progress: &mut dyn Progress,
) -> Result<Vec<Measured>, Failure> {
    let clock = SystemClock::new();
    let medium = Medium::lasting_if(plan.is_durable());
    let scratch = Scratch(Place::create(plan.data.as_deref(), medium)?);
    // Servers leave this process's current directory: only a full path means the same to them.
    let parent = absolute(&scratch.0.path)?;
    let rows = Rows::of(plan.scale, plan.run.load_threads);
    let mut ledger = Ledger::new(plan.scale, &rows);
    let open = |name: &str, progress: &mut dyn FnMut(f64)| {
        let directory = parent.join(name.strip_prefix(OURS).unwrap_or(name));
        let opening = Opening { plan, rows: &rows, directory, clock: &clock };
        match name.starts_with(OURS) {
            true => open_own(&opening, progress),
            false => opener(&PEERS, name, Scale::NAME)?(&opening, progress),
        }
    };
    let database = plan.scale.describe();
    let take = |count| ledger.take(count);
    let contenders = plan.rounds.run(names, &database, open, take, progress)?;
    progress.begin("verifying");
    let judge = |found, answered: &Batch| (ledger.verify(&found, answered), None);
    let (durability, calls) = (plan.run.durability_name(), Some(plan.calls()));
    let found = contenders.into_iter().map(|of| of.measured(durability, calls, judge)).collect();
    progress.end();
    found
}

#[cfg(test)]
mod syncs_tests;
#[cfg(test)]
mod tests;
