//! A stream of bytes over two POSIX message queues, one for each direction (ISL-11).
//!
//! A queue holds few messages of some kilobytes, so messages of a link are cut into pieces that fit. A queue does
//! not report the end of the other process; the control socket does. Not here: how names reach the other end.

use std::io;
use std::time::Duration;

use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use rustix::event::{PollFd, PollFlags, poll};

use super::framed::Stream;
use super::unix::{Control, timespec};

/// What the system allows without privileges: messages in a queue, and bytes of one.
const MESSAGES_MAX: i64 = 10;
const PIECE_BYTES: usize = 8_192;

/// A queue that is read and one that is written.
#[derive(Debug)]
pub(super) struct QueuePair {
    input: MqdT,
    output: MqdT,
}

impl QueuePair {
    /// Makes queues of these names: the first is read, the second written.
    ///
    /// # Errors
    /// When there are such queues already, or the system has no room for more.
    pub(super) fn make(names: &[String; 2]) -> io::Result<Self> {
        let attributes = MqAttr::new(0, MESSAGES_MAX, PIECE_BYTES as i64, 0);
        let made = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL;
        Self::with([&names[0], &names[1]], |name, way| {
            mq_open(name, way | made, Mode::S_IRUSR | Mode::S_IWUSR, Some(&attributes))
        })
        .map_err(|error| match error.raw_os_error() {
            // The system says "too many open files" of this, too.
            Some(code) if code == nix::errno::Errno::EMFILE as i32 => io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "no room for two more message queues, 160 KB: this user's queues together fill what `ulimit -q` \
                 allows, or the process has as many files open as `ulimit -n` allows",
            ),
            _ => error,
        })
    }

    /// Opens queues of these names.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn open(names: [&str; 2]) -> io::Result<Self> {
        Self::with(names, |name, way| mq_open(name, way, Mode::empty(), None))
    }

    fn with(
        [input, output]: [&str; 2],
        open: impl Fn(&str, MQ_OFlag) -> nix::Result<MqdT>,
    ) -> io::Result<Self> {
        let common = MQ_OFlag::O_NONBLOCK | MQ_OFlag::O_CLOEXEC;
        let input = open(input, MQ_OFlag::O_RDONLY | common)?;
        Ok(Self { input, output: open(output, MQ_OFlag::O_WRONLY | common)? })
    }

    /// Takes the names away, whether or not there are such queues; those that are open stay.
    pub(super) fn forget(names: &[String; 2]) {
        names.iter().for_each(|name| _ = mq_unlink(name.as_str()));
    }
}

/// One end of a pair of queues.
#[derive(Debug)]
pub(super) struct Queues {
    pair: QueuePair,
    control: Control,
    /// A piece: of `piece[..filled]` what lies from `taken` on was received and not read yet.
    piece: Box<[u8]>,
    filled: usize,
    taken: usize,
}

impl Queues {
    /// Over these, which `control` goes with.
    pub(super) fn new(pair: QueuePair, control: Control) -> Self {
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        Self { pair, control, piece, filled: 0, taken: 0 }
    }
}

impl io::Read for Queues {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.filled {
            match mq_receive(&self.pair.input, &mut self.piece, &mut 0) {
                Err(nix::errno::Errno::EAGAIN) if self.control.is_gone() => return Ok(0),
                received => (self.filled, self.taken) = (received?, 0),
            }
        }
        let rest = &self.piece[self.taken..self.filled];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

impl io::Write for Queues {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        match mq_send(&self.pair.output, piece, 0) {
            Err(nix::errno::Errno::EAGAIN) if self.control.is_gone() => Ok(0),
            sent => sent.map(|()| piece.len()).map_err(Into::into),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Queues {
    fn wait(&mut self, writes: bool, time_max: Duration) {
        let mut ends = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.pair.input, PollFlags::IN),
            PollFd::new(&self.pair.output, PollFlags::OUT),
        ];
        let ends = if writes { &mut ends[..] } else { &mut ends[..2] };
        // What has gone wrong the next read or write finds.
        _ = poll(ends, Some(&timespec(time_max)));
        self.control.look();
    }
}
