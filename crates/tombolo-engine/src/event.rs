//! The door to a descriptor that becomes readable, so that a thread waits for it and for sockets in one
//! call of `poll` or `epoll`.
//!
//! Not here: when it is set (`pipeline/callers/mod.rs`), and the wait itself, which is its owner's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor of the operating system (`eventfd`) that is readable while the event is set.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// One that is not set.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Sets it: one system call.
    pub fn set(&self) {
        // It cannot fail but for being set 2^64 times, and then it is set.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes it back: one system call.
    pub fn clear(&self) {
        // It fails where it was not set.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
