//! A stream of bytes over descriptors of the system, which do not block: TCP, pipes, FIFOs (ISL-11).
//!
//! Not here: how the two ends come together (`kinds.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::framed::Stream;
use super::unix::timespec;

/// What is read from one descriptor and written to another, or to the same.
#[derive(Debug)]
pub(super) struct Descriptors {
    input: OwnedFd,
    output: OwnedFd,
}

impl Descriptors {
    /// A stream over both.
    ///
    /// # Errors
    /// When the system refuses that they do not block.
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        for end in [&input, &output] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { input, output })
    }
}

impl io::Read for Descriptors {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.input, into)?)
    }
}

impl io::Write for Descriptors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.output, bytes)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Descriptors {
    fn another(&self) -> io::Result<Self> {
        Ok(Self { input: self.input.try_clone()?, output: self.output.try_clone()? })
    }

    fn wait(&mut self, writes: bool, time_max: Duration) {
        let mut ends =
            [PollFd::new(&self.input, PollFlags::IN), PollFd::new(&self.output, PollFlags::OUT)];
        let ends = if writes { &mut ends[..] } else { &mut ends[..1] };
        // What has gone wrong the next read or write finds.
        _ = poll(ends, Some(&timespec(time_max)));
    }
}
