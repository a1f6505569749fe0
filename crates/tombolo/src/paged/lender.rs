//! `Lender`: what calls need one of while they run, a session for instance. A call borrows one, and gives it back.
//!
//! There are as many as calls ran at the same time, up to a bound; a call that finds all of them lent waits. Not here:
//! what is lent (`sessions.rs`, `islands/crew.rs`).

use std::ops::{Deref, DerefMut};

use tombolo_storage::sync::{Condvar, Mutex};

use crate::error::Error;

/// Those that are free.
struct Idle<T> {
    free: Vec<T>,
    /// How many there are, free or lent.
    open: usize,
    /// How many there may be.
    max: usize,
    is_closed: bool,
}

pub(super) struct Lender<T> {
    idle: Mutex<Idle<T>>,
    changed: Condvar,
}

/// One while a call has it.
pub(super) struct Lent<'a, T> {
    lender: &'a Lender<T>,
    one: Option<T>,
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.one.as_ref().unwrap_or_else(|| unreachable!("it is given back when this goes"))
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.one.as_mut().unwrap_or_else(|| unreachable!("it is given back when this goes"))
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let mut idle = self.lender.idle.lock();
        idle.free.extend(self.one.take());
        match idle.is_closed {
            true => self.lender.changed.notify_all(),
            false => self.lender.changed.notify_one(),
        }
    }
}

impl<T> Lender<T> {
    /// Lends up to `max` at a time.
    pub(super) fn new(max: usize) -> Self {
        let idle = Idle { free: Vec::new(), open: 0, max, is_closed: false };
        Self { idle: Mutex::new(idle), changed: Condvar::new() }
    }

    /// A free one, or one that `open` makes; waits where all are lent.
    ///
    /// # Errors
    /// `Closed`; that of `open` where there is none yet.
    pub(super) fn lend(&self, open: impl Fn() -> Result<T, Error>) -> Result<Lent<'_, T>, Error> {
        let mut idle = self.idle.lock();
        loop {
            if idle.is_closed {
                return Err(Error::Closed);
            }
            if let Some(one) = idle.free.pop() {
                return Ok(Lent { lender: self, one: Some(one) });
            }
            if idle.open == idle.max {
                idle = self.changed.wait(idle);
                continue;
            }
            idle.open += 1;
            drop(idle);
            match open() {
                Ok(one) => return Ok(Lent { lender: self, one: Some(one) }),
                Err(error) => {
                    idle = self.idle.lock();
                    idle.open -= 1;
                    self.changed.notify_all();
                    if idle.open == 0 {
                        return Err(error);
                    }
                    // There is no room for more of them.
                    idle.max = idle.open;
                }
            }
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.idle.lock().open
    }

    /// Drops them once all are back. None is lent any more.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock();
        idle.is_closed = true;
        self.changed.notify_all();
        while idle.free.len() < idle.open {
            idle = self.changed.wait(idle);
        }
        let free = std::mem::take(&mut idle.free);
        idle.open = 0;
        drop(idle);
        drop(free);
    }
}
