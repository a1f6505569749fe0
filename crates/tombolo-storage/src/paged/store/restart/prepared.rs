//! Prepared transactions after a crash: each gets a session without a thread again, and its locks.
//!
//! Taking the locks never conflicts: all prepared transactions held their locks at the same time, and no session has
//! begun. Rows, pages and stores are locked by the names in the logged list. The name of a gap is a hash of the entry
//! above it. If that entry was removed after the list was made, the lock on its gap was handed on. The log has the
//! entry's key, so the gap below the first remaining entry from that key on is locked. If the entry was removed shortly
//! before the list was made, the list may have the gap's old name or its new one, and both are locked: a gap too many
//! only makes others wait.
//!
//! Not here: undoing other transactions and removing their ghosts, which hands gaps on again (`undo.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::analysis::Prepared;
use super::damaged_record;
use super::redo::Left;
use super::undo::recall_deleted;
use crate::error::Error;
use crate::lock::{LockError, LockName, Locking};
use crate::log::record::Content;
use crate::log::{ChangeKind, Logging};
use crate::paged::btree::{GapEnd, Position};
use crate::paged::page::StoreId;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::{Order, Phase};

use crate::paged::store::database::{Database, Owner};
use crate::paged::store::error::OpenError;
use crate::paged::store::prepared::lock_of;
use crate::paged::store::sessions::Sessions;
use crate::paged::store::transaction::Session;

/// Takes the prepared transactions out of those that are left.
///
/// # Errors
/// When the lock table has no room for what they hold, the log is damaged, or the disk fails.
pub(super) fn take_up<P: PagedProfile>(
    database: &Database<P>,
    needed: u64,
    prepared: BTreeMap<u64, Prepared>,
    left: &mut BTreeMap<u64, Left<<P::Log as Logging>::Transaction>>,
) -> Result<(), OpenError> {
    let removed = removed_above(database, needed, prepared.values())?;
    for (id, prepared) in prepared {
        let Some(left) = left.remove(&id) else { continue };
        let mut session = Session::unadmitted(database)?;
        session.phase = Phase::Writing;
        session.since.begin(prepared.since);
        if plant::is(Plant::PreparedForgottenByRestart) {
            session.since.end();
        }
        database.sessions.resume(&session.place, id);
        recall_deleted(database, &mut session, left);
        lock_again(database, &mut session, id, &prepared, &removed)?;
        if !database.prepared.enter(prepared.owner, session) {
            let what = format!("transaction {} is prepared twice", prepared.owner);
            return Err(damaged_record(prepared.lsn, &what));
        }
    }
    Ok(())
}

/// Takes a transaction's locks again.
fn lock_again<P: PagedProfile>(
    database: &Database<P>,
    session: &mut Session<P>,
    id: u64,
    prepared: &Prepared,
    removed: &[Removed],
) -> Result<(), OpenError> {
    let damaged = |what| damaged_record(prepared.lsn, what);
    let Some(held) = session.held.get_mut() else { return Ok(()) };
    database.locks.begin(held, id);
    if plant::is(Plant::PreparedLocksForgotten) {
        return Ok(());
    }
    let mut lock = |name, mode| {
        database.locks.lock_again(held, name, mode).map_err(|error| match error {
            LockError::TableFull => Error::LockTableFull.into(),
            _ => damaged("another transaction has a lock that this one held"),
        })
    };
    for entry in &prepared.locks {
        let (name, mode) = lock_of(entry).ok_or_else(|| damaged("a lock on nothing"))?;
        let mut gone = removed.iter().filter(|removed| removed.gap == name);
        if let Some(removed) = gone.clone().find(|removed| removed.lsn > prepared.lsn) {
            lock(removed.gap_now(database)?, mode)?;
            continue;
        }
        lock(name, mode)?;
        gone.try_for_each(|removed| lock(removed.gap_now(database)?, mode))?;
    }
    database.locks.settle(held);
    Ok(())
}

/// An entry that was removed, the gap below which may have been locked.
struct Removed {
    lsn: u64,
    /// The gap by the name it had.
    gap: LockName,
    /// The index.
    store: StoreId,
    row: RowId,
    key: Vec<u8>,
}

/// The entries above gaps that are locked that were removed since the log begins that is kept, in order.
fn removed_above<'a, P: PagedProfile>(
    database: &Database<P>,
    needed: u64,
    prepared: impl Iterator<Item = &'a Prepared>,
) -> Result<Vec<Removed>, OpenError> {
    let locks = prepared.flat_map(|prepared| &prepared.locks).filter_map(lock_of);
    let gaps = locks.filter(|(name, _)| name.is_gap()).map(|(name, _)| name.word());
    let gaps: BTreeSet<u64> = gaps.collect();
    let mut found = Vec::new();
    if !gaps.is_empty() && !plant::is(Plant::HandedOnGapsForgotten) {
        database.log.read(needed, &mut |lsn, record| {
            let Content::Change { change, before, .. } = record.content else { return };
            if change.kind != ChangeKind::EntryRemoved {
                return;
            }
            let gap = LockName::gap(change.store.0, GapEnd::below(before, change.row).word());
            if gaps.contains(&gap.word()) {
                let (store, row, key) = (change.store, change.row, before.to_vec());
                found.push(Removed { lsn, gap, store, row, key });
            }
        })?;
    }
    Ok(found)
}

impl Removed {
    /// The gap that the one below the entry is part of: that below the first entry from the entry's place on.
    fn gap_now<P: PagedProfile>(&self, database: &Database<P>) -> Result<LockName, OpenError> {
        let &Some(&Owner::Index(index)) = &database.owners.get(usize::from(self.store.0)) else {
            return Err(damaged_record(self.lsn, "an entry of no index"));
        };
        let mut gap = GapEnd::INDEX_END;
        let visit = |key: &[u8], row, _| {
            gap = GapEnd::below(key, row);
            ControlFlow::Break(())
        };
        let from = Position::At(&self.key, self.row);
        let tree = &database.indexes[index].tree;
        tree.scan(&database.pages, from, Position::Open, Order::Forward, visit, &())?;
        Ok(LockName::gap(self.store.0, gap.word()))
    }
}
