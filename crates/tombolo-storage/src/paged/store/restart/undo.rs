//! The third pass: transactions that did not end are undone, all together and the newest change first; ghosts of
//! committed transactions are removed.
//!
//! This uses the code of abort and commit: the records of a transaction were read back into the buffer from which a
//! session undoes. Log space for all of these transactions is reserved before the first one is continued.

use super::redo::{Deleted, Left, Redone};
use super::{Restart, Watch, prepared};
use crate::lock::Reads;
use crate::log::{Logging, UndoRecord};
use crate::paged::heap::RowFile;
use crate::paged::page::PageId;
use crate::paged::pool::{PageAccess, ReadPage};
use crate::paged::store::database::{Database, Owner};
use crate::paged::store::error::OpenError;
use crate::paged::store::sessions::Sessions;
use crate::paged::store::transaction::{Ghost, Session};
use crate::profile::PagedProfile;

/// Ends all transactions but those that are prepared; `needed` is where the log that is kept begins.
///
/// # Errors
/// When log or disk fail, or pages contradict the log.
pub(super) fn undo<P: PagedProfile>(
    database: &Database<P>,
    needed: u64,
    redone: Redone<<P::Log as Logging>::Transaction>,
    watch: &mut Watch<'_>,
) -> Result<Restart, OpenError> {
    let Redone { mut restart, mut left, prepared, newest, heap_pages } = redone;
    heap_pages.into_iter().try_for_each(|page| note_room(database, page))?;
    for left in left.values_mut() {
        database.log.resume(&mut left.log)?;
    }
    restart.transactions_prepared = prepared.len() as u64;
    // Before anything is undone: what holds a gap has to know if that vanishes.
    prepared::take_up(database, needed, prepared, &mut left)?;
    let mut session = Session::open(database)?;
    // Those whose newest change is newest first.
    let mut active: Vec<(u64, u64)> = left
        .iter()
        .filter(|(_, left)| !left.unended.is_committed)
        .map(|(&id, left)| (database.log.newest_undoable(&left.log), id))
        .collect();
    restart.transactions_undone = active.len() as u64;
    active.sort_unstable();
    let mut record = UndoRecord::new();
    while let Some((_, id)) = active.pop() {
        let Some(transaction) = left.get_mut(&id) else { continue };
        std::mem::swap(&mut session.log, &mut transaction.log);
        let next = session.undo_newest(database, &mut record, Reads::OfOthers)?;
        std::mem::swap(&mut session.log, &mut transaction.log);
        match next {
            Some(next) => {
                let at = active.partition_point(|waiting| *waiting < (next, id));
                active.insert(at, (next, id));
            }
            None => watch.undone(),
        }
    }
    for left in left.into_values().filter(|left| left.unended.is_committed) {
        restart.transactions_cleared += 1;
        clear_away(database, &mut session, left)?;
    }
    session.end(database);
    database.sessions.continue_behind(newest);
    Ok(restart)
}

/// Enters a heap page among those that have room.
fn note_room<P: PagedProfile>(database: &Database<P>, page: PageId) -> Result<(), OpenError> {
    let page = database.pages.fix_shared(page)?;
    let owner = database.owners.get(usize::from(page.page().store().0));
    if let Some(&Owner::Table(table)) = owner {
        database.tables[table].rows.note_room(page.page());
    }
    Ok(())
}

/// Clears away what a committed transaction deleted, as far as it had not.
fn clear_away<P: PagedProfile>(
    database: &Database<P>,
    session: &mut Session<P>,
    left: Left<<P::Log as Logging>::Transaction>,
) -> Result<(), OpenError> {
    recall_deleted(database, session, left);
    session.purge_ghosts(database)?;
    session.ghosts.clear();
    session.ghost_keys.clear();
    Ok(database.log.end_commit(&mut session.log)?)
}

/// Gives a session a transaction, and what that deleted and did not clear away.
pub(super) fn recall_deleted<P: PagedProfile>(
    database: &Database<P>,
    session: &mut Session<P>,
    left: Left<<P::Log as Logging>::Transaction>,
) {
    let Left { log, deleted, cleared, .. } = left;
    session.log = log;
    for deleted in deleted {
        let store = match &deleted {
            Deleted::Row(store, _) | Deleted::Entry(store, ..) => usize::from(store.0),
        };
        match (deleted, database.owners.get(store)) {
            (Deleted::Row(_, place), Some(&Owner::Table(table)))
                if !cleared.contains(&(place.page, place.slot)) =>
            {
                session.ghosts.push(Ghost::Row { table, place });
            }
            (Deleted::Entry(_, row, key), Some(&Owner::Index(index))) => {
                session.ghost_keys.extend_from_slice(&key);
                let key_end = session.ghost_keys.len();
                session.ghosts.push(Ghost::Entry { index, row, key_end });
            }
            _ => {}
        }
    }
}
