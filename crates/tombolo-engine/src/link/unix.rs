//! A link between two processes of one machine: a pair of connected UNIX sockets.
//!
//! One end is given to a process as its standard input when it is started. So no other process can connect,
//! no file is left behind, no path is too long; and when either process ends, however it does, the
//! other one finds the link ended. Not here: starting it (`processes.rs`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::framed::{Framed, Stream};

#[expect(clippy::disallowed_types, reason = "this is the link door")]
type Socket = std::os::unix::net::UnixStream;

/// A [`super::Link`] to another process of this machine.
pub type UnixLink = Framed<UnixEnd>;

/// One of two connected sockets, which does not block.
#[derive(Debug)]
pub struct UnixEnd(Socket);

/// A link, and its other end for a process that is started.
///
/// # Errors
/// When the system has no sockets left.
pub fn pair() -> io::Result<(UnixLink, OwnedFd)> {
    let (own, other) = Socket::pair()?;
    own.set_nonblocking(true)?;
    // What is shared is the socket, not this: the other end may block or not.
    Ok((Framed::new(UnixEnd(own)), other.into()))
}

/// The link that this process was started with as its standard input.
///
/// # Errors
/// When that is no socket: the process was started by hand.
pub fn inherited() -> io::Result<UnixLink> {
    let own = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    own.peer_addr()?;
    own.set_nonblocking(true)?;
    Ok(Framed::new(UnixEnd(own)))
}

impl io::Read for UnixEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl io::Write for UnixEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for UnixEnd {
    fn wait(&mut self, writes: bool, time_max: Duration) {
        let flags = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut ends = [PollFd::new(&self.0, flags)];
        let time_max = Timespec {
            tv_sec: i64::try_from(time_max.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time_max.subsec_nanos().into(),
        };
        // What has gone wrong the next read or write finds.
        _ = poll(&mut ends, Some(&time_max));
    }
}

/// The link of a process that was given this end.
#[cfg(not(loom))]
#[cfg(test)]
pub(super) fn of(other: OwnedFd) -> UnixLink {
    let own = Socket::from(other);
    own.set_nonblocking(true).unwrap();
    Framed::new(UnixEnd(own))
}
