//! A link between two processes of one machine: a pair of connected UNIX sockets.
//!
//! One end is given to a process as its standard input when it is started. So no other process can connect,
//! no file is left behind, no path is too long; and when either process ends, however it does, the
//! other one finds the link ended. Not here: starting it (`processes.rs`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::framed::{Framed, Stream};

#[expect(clippy::disallowed_types, reason = "this is the link door")]
type Socket = std::os::unix::net::UnixStream;

/// A [`super::Link`] to another process of this machine.
pub type UnixLink = Framed<UnixEnd>;

/// One of two connected sockets. It blocks only in [`Stream::wait_and_read`].
#[derive(Debug)]
pub struct UnixEnd {
    socket: Socket,
    /// The time limit of a blocking read, as set in the system; zero: none was set.
    time_max: Duration,
}

impl UnixEnd {
    const fn new(socket: Socket) -> Self {
        Self { socket, time_max: Duration::ZERO }
    }
}

fn read_now(socket: &Socket, into: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket, into, RecvFlags::DONTWAIT)?.0)
}

fn write_now(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// A link, and its other end for a process that is started.
///
/// # Errors
/// When the system has no sockets left.
pub fn pair() -> io::Result<(UnixLink, OwnedFd)> {
    let (own, other) = Socket::pair()?;
    Ok((Framed::new(UnixEnd::new(own)), other.into()))
}

/// The link that this process was started with as its standard input.
///
/// # Errors
/// When that is no socket: the process was started by hand.
pub fn inherited() -> io::Result<UnixLink> {
    let own = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    own.peer_addr()?;
    Ok(Framed::new(UnixEnd::new(own)))
}

impl UnixLink {
    /// The number of its socket in this process.
    pub(super) fn descriptor(&self) -> i32 {
        self.stream().socket.as_raw_fd()
    }
}

impl Read for UnixEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_now(&self.socket, into)
    }
}

impl Write for UnixEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_now(&self.socket, bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for UnixEnd {
    fn another(&self) -> io::Result<Self> {
        Ok(Self::new(self.socket.try_clone()?))
    }

    fn wait(&mut self, writes: bool, time_max: Duration) {
        let flags = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut ends = [PollFd::new(&self.socket, flags)];
        // What has gone wrong the next read or write finds.
        _ = poll(&mut ends, Some(&timespec(time_max)));
    }

    fn wait_and_read(&mut self, into: &mut [u8], time_max: Duration) -> Option<io::Result<usize>> {
        if time_max.is_zero() {
            return None;
        }
        if time_max != self.time_max {
            self.socket.set_read_timeout(Some(time_max)).ok()?;
            self.time_max = time_max;
        }
        Some(recv(&self.socket, into, RecvFlags::empty()).map(|read| read.0).map_err(Into::into))
    }
}

/// How long a call of `poll` lasts at most.
pub(super) fn timespec(time_max: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time_max.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time_max.subsec_nanos().into(),
    }
}

/// A socket that accompanies a stream which does not report the end of the other process, or on which a thread cannot
/// sleep.
#[derive(Debug)]
pub(super) struct Control {
    socket: Socket,
    is_gone: bool,
}

impl Control {
    /// Over the socket of a link that carried its last message.
    pub(super) fn of(link: UnixLink) -> Self {
        Self { socket: link.into_stream().socket, is_gone: false }
    }

    /// Whether the other process was gone when this one looked last.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Wakes the other process, should it sleep.
    pub(super) fn ring(&self) {
        // Where there is no room it has been woken often enough; if it is gone that is found later.
        _ = write_now(&self.socket, &[1]);
    }

    /// Takes what the other process woke this one with, and finds out whether it is gone.
    pub(super) fn look(&mut self) {
        let mut rings = [0; 64];
        loop {
            match read_now(&self.socket, &mut rings) {
                Ok(0) => self.is_gone = true,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.is_gone |= error.kind() != io::ErrorKind::WouldBlock,
            }
            return;
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The link of a process that was given this end.
#[cfg(not(loom))]
#[cfg(test)]
pub(super) fn of(other: OwnedFd) -> UnixLink {
    Framed::new(UnixEnd::new(Socket::from(other)))
}
