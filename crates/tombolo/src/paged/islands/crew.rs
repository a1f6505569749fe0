//! `Crew`: a session on each island, for one transaction over several of them at a time.
//!
//! A crew is borrowed whole, so no transaction waits for a session while it has others: sessions are in no circle of
//! waits. Not here: what the transaction does (`transaction.rs`, `commit.rs`). Invariant: a crew that was given back
//! has no transaction.

use tombolo_storage::paged::store::LogPosition;
use tombolo_storage::row::RowId;

use super::super::sessions::Session;

/// A crew's session on an island, and what it has there of its transaction.
pub(super) struct Member {
    pub(super) session: Session,
    /// The row in which the crew's last decision on this island is, if it decided there.
    pub(super) row: Option<RowId>,
    /// What has to be durable before that row may be written over: islands, and up to where.
    pub(super) unsettled: Vec<(usize, LogPosition)>,
}

impl Member {
    pub(super) const fn new(session: Session) -> Self {
        Self { session, row: None, unsettled: Vec::new() }
    }
}

/// Sessions on all islands, in their order.
pub(super) struct Crew {
    pub(super) members: Vec<Member>,
    /// The islands on which the transaction is, in the order in which it reached them.
    pub(super) reached: Vec<usize>,
}

impl Crew {
    pub(super) const fn new(members: Vec<Member>) -> Self {
        Self { members, reached: Vec::new() }
    }
}
