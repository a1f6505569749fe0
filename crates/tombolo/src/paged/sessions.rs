//! The sessions of a paged database: a call borrows one that is free (`lender.rs`).
//!
//! Not here: what runs in a session (`database.rs`). Invariant: a session that was given back has no transaction.

use tombolo_storage::paged::store::{OpenError, PagedStore};
use tombolo_storage::profile::Conventional;
use tombolo_storage::sync::Mutex;

use super::ids::Ids;
use super::lender::{Lender, Lent};
use crate::error::Error;

/// The store of paged databases: the conventional profile, with all its switches on.
pub(crate) type Store = PagedStore<Conventional>;

/// A session, and the ids of rows that its transaction knows.
pub(super) struct Session {
    pub(super) store: Store,
    pub(super) ids: Ids,
}

impl Session {
    pub(super) fn new(store: Store) -> Self {
        Self { store, ids: Ids::new() }
    }
}

/// Those of one database.
pub(super) struct Sessions {
    /// The session of which others are made; none once the database is closed.
    first: Mutex<Option<Store>>,
    lender: Lender<Session>,
}

impl Sessions {
    /// Up to `max` at a time, of the database that `first` is a session of.
    pub(super) fn new(first: Store, max: usize) -> Self {
        Self { first: Mutex::new(Some(first)), lender: Lender::new(max) }
    }

    /// Asks the database about itself; `None` once it is closed.
    pub(super) fn ask<A>(&self, ask: impl FnOnce(&Store) -> A) -> Option<A> {
        self.first.lock().as_ref().map(ask)
    }

    /// Another session of the database.
    pub(super) fn open(&self) -> Result<Store, Error> {
        let opened = self.ask(Store::session).ok_or(Error::Closed)?;
        match opened {
            Some(opened) => opened.map_err(|error| Error::paged(&error)),
            None => unreachable!("the profile has locks and latches"),
        }
    }

    /// A free session; waits for one where all are taken.
    ///
    /// # Errors
    /// `Closed`; that of a first session that cannot be opened.
    pub(super) fn take(&self) -> Result<Lent<'_, Session>, Error> {
        self.lender.lend(|| self.open().map(Session::new))
    }

    /// How many sessions there are.
    pub(super) fn count(&self) -> usize {
        self.lender.count()
    }

    /// Closes the database once all calls have returned. No other call is accepted.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub(super) fn close(&self) -> Result<(), OpenError> {
        self.lender.close();
        let first = self.first.lock().take();
        first.map_or(Ok(()), Store::close)
    }
}
