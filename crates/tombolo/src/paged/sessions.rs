//! The sessions of a paged database: a call takes one that is free, and gives it back.
//!
//! There are as many as calls ran at the same time, up to a bound; a call that finds all of them taken waits. Not here:
//! what runs in a session (`database.rs`). Invariant: a session that was given back has no transaction.

use std::ops::{Deref, DerefMut};

use tombolo_storage::paged::store::{OpenError, PagedStore};
use tombolo_storage::profile::Conventional;
use tombolo_storage::sync::{Condvar, Mutex};

use crate::error::Error;

/// The store of paged databases: the conventional profile, with all its switches on.
pub(super) type Store = PagedStore<Conventional>;

/// A session, and the number of its next transaction; no other session has that.
pub(super) struct Session {
    pub(super) store: Store,
    next: u64,
}

/// Of a session's numbers, the bits that count its transactions.
const NUMBER_BITS: u32 = 40;

impl Session {
    /// The number of the transaction that begins now.
    pub(super) fn advance(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Those that are free.
struct Idle {
    sessions: Vec<Session>,
    /// How many there are, free or taken.
    open: usize,
    /// How many there may be.
    max: usize,
    /// How many were ever opened.
    opened: u64,
    is_closed: bool,
}

/// Those of one database.
pub(super) struct Sessions {
    /// The session of which others are made; none once the database is closed.
    first: Mutex<Option<Store>>,
    idle: Mutex<Idle>,
    changed: Condvar,
}

/// A session while a call has it.
pub(super) struct Taken<'a> {
    sessions: &'a Sessions,
    session: Option<Session>,
}

impl Deref for Taken<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().unwrap_or_else(|| unreachable!("it is given back when this goes"))
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().unwrap_or_else(|| unreachable!("it is given back when this goes"))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut idle = self.sessions.idle.lock();
        idle.sessions.extend(self.session.take());
        match idle.is_closed {
            true => self.sessions.changed.notify_all(),
            false => self.sessions.changed.notify_one(),
        }
    }
}

impl Sessions {
    /// Up to `max` at a time, of the database that `first` is a session of.
    pub(super) fn new(first: Store, max: usize) -> Self {
        let idle = Idle { sessions: Vec::new(), open: 0, max, opened: 0, is_closed: false };
        Self { first: Mutex::new(Some(first)), idle: Mutex::new(idle), changed: Condvar::new() }
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
    pub(super) fn take(&self) -> Result<Taken<'_>, Error> {
        let mut idle = self.idle.lock();
        loop {
            if idle.is_closed {
                return Err(Error::Closed);
            }
            if let Some(session) = idle.sessions.pop() {
                return Ok(Taken { sessions: self, session: Some(session) });
            }
            if idle.open == idle.max {
                idle = self.changed.wait(idle);
                continue;
            }
            idle.open += 1;
            idle.opened += 1;
            let next = idle.opened << NUMBER_BITS;
            drop(idle);
            let opened = self.open();
            match opened {
                Ok(store) => {
                    let session = Some(Session { store, next });
                    return Ok(Taken { sessions: self, session });
                }
                Err(error) => {
                    idle = self.idle.lock();
                    idle.open -= 1;
                    self.changed.notify_all();
                    if idle.open == 0 {
                        return Err(error);
                    }
                    // The pool has frames for no more of them.
                    idle.max = idle.open;
                }
            }
        }
    }

    /// How many sessions there are.
    pub(super) fn count(&self) -> usize {
        self.idle.lock().open
    }

    /// Closes the database once all calls have returned. No other call is accepted.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub(super) fn close(&self) -> Result<(), OpenError> {
        let mut idle = self.idle.lock();
        idle.is_closed = true;
        self.changed.notify_all();
        while idle.sessions.len() < idle.open {
            idle = self.changed.wait(idle);
        }
        let sessions = std::mem::take(&mut idle.sessions);
        idle.open = 0;
        drop(idle);
        drop(sessions);
        let first = self.first.lock().take();
        first.map_or(Ok(()), Store::close)
    }
}
