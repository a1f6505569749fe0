//! After a crash: each transaction that islands had prepared is decided as its coordinator had.
//!
//! All islands are open and no call is admitted. A prepared transaction's number names its coordinator. If a row there
//! has the number, it commits; if none has, its coordinator never decided, and it is undone (presumed abort). A crash
//! meanwhile leaves the rest prepared, and the rows as they are. Not here: rows of decisions (engine
//! `islands/decided.rs`).

use std::collections::BTreeSet;

use tombolo_engine::islands::commit::TransactionNumber;
use tombolo_engine::islands::decided::Decided;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::paged::store::Decision;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::row::RowId;

use super::super::sessions::Store;
use super::builder::damaged;
use crate::error::Error;

/// Decides what is prepared on the islands; durably. The rows of decisions of each, which may be written over.
pub(super) fn resolve(stores: &mut [Store], decided: Decided) -> Result<Vec<Vec<RowId>>, Error> {
    let (mut rows, mut committed) = (Vec::new(), BTreeSet::new());
    for (island, store) in stores.iter_mut().enumerate() {
        let found = decided.rows(store).map_err(damaged)?;
        let own = found.iter().filter(|(_, number)| number.island.index() == island);
        committed.extend(own.map(|(_, number)| *number));
        rows.push(found.into_iter().map(|(row, _)| row).collect());
    }
    if plant::is(Plant::PagedDecisionNotLookedUp) {
        committed.clear();
    }
    for store in stores {
        for prepared in store.prepared() {
            let number = TransactionNumber::of(prepared.owner);
            let number = number.ok_or_else(|| damaged(StoreError::UnfitChanges))?;
            let decision = match committed.contains(&number) {
                true => Decision::Commit,
                false => Decision::Abort,
            };
            store.decide(prepared.owner, decision).map_err(damaged)?;
        }
    }
    Ok(rows)
}
