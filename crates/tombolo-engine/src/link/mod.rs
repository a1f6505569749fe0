//! The door to other processes: messages there and back (ISL-11).
//!
//! A [`Link`] accepts and delivers whole messages, in order, each at most once, and never waits: a
//! message that does not fit is refused, and receiving returns `None` while no message has arrived. The link ends when
//! the peer is gone, or when received bytes are not a message. A link that has ended stays so; a program that wants to
//! continue makes another one.
//!
//! | file | contains |
//! |---|---|
//! | `framed.rs` | messages over any stream of bytes: length, checksum, message |
//! | `unix.rs` | a pair of UNIX sockets, one end for a process that is started |
//! | `ring.rs` | memory that both processes share |
//! | `descriptors.rs` | TCP, pipes, named pipes |
//! | `queue.rs` | POSIX message queues |
//! | `kinds.rs` | how both processes get their end of a link of any kind |
//! | `bundle.rs` | several items in one message |
//! | `outbox/` | what threads put concurrently leaves in bundles, and no thread waits |
//! | `memory.rs` | two ends in one process, with the faults a test asks for |
//!
//! Not here: the content of messages (the users of a link), starting processes (`processes.rs`). Invariant: each
//! delivered message was sent with the same bytes; nothing is delivered after a damaged one.

mod bundle;
mod descriptors;
mod framed;
mod kinds;
mod memory;
mod outbox;
mod queue;
#[expect(unsafe_code, reason = "two processes reach the same memory")]
mod ring;
mod unix;

use std::time::Duration;
use std::{fmt, io};

pub use bundle::{ITEM_BYTES_MAX, all_counted, bundle, put_counted, take_counted};
pub use framed::{Framed, MESSAGE_BYTES_MAX};
pub use kinds::{LinkKind, accept, offer};
pub use memory::{MemoryEnd, MemoryFaults, pair as memory_pair};
pub use outbox::Outbox;
pub use unix::{UnixLink, inherited, pair as unix_pair};

/// Why a link carries nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The peer has closed its end, or its process is gone.
    Gone,
    /// The system says so.
    Failed(String),
    /// What arrived is no message.
    Damaged(String),
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the other process is gone"),
            Self::Failed(why) => write!(f, "the link to the other process failed: {why}"),
            Self::Damaged(what) => write!(f, "the link to the other process is damaged: {what}"),
        }
    }
}

impl std::error::Error for LinkEnd {}

/// One end of a link. See the module's head.
pub trait Link: Send {
    /// Sends a message of these parts, one behind the other; `false`: there is no room for it yet,
    /// and nothing of it was taken.
    ///
    /// # Errors
    /// When the link has ended.
    ///
    /// # Panics
    /// When the message is longer than [`MESSAGE_BYTES_MAX`].
    fn send(&mut self, message: &[&[u8]]) -> Result<bool, LinkEnd>;

    /// Continues sending what was taken and is not on its way; says whether nothing of that is left.
    ///
    /// # Errors
    /// When the link has ended.
    fn flush(&mut self) -> Result<bool, LinkEnd>;

    /// The next message, if it has arrived.
    ///
    /// # Errors
    /// When the link has ended, and all that arrived whole before was given.
    fn receive(&mut self) -> Result<Option<&[u8]>, LinkEnd>;

    /// Two links over the same stream: one that only receives, and one that only sends, for two threads. Nothing may
    /// have been sent that is not on its way.
    ///
    /// # Errors
    /// When the system has no descriptor left, and where one thread has to do both ([`LinkKind::has_halves`]).
    fn split(self: Box<Self>) -> io::Result<(Box<dyn Link>, Box<dyn Link>)>;

    /// Sleeps until something may have arrived, or what was taken may be sent, for `time_max` at most.
    /// For a thread that has nothing else to do.
    fn wait(&mut self, time_max: Duration);
}

#[cfg(not(loom))]
#[cfg(test)]
mod kinds_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
