//! `Ring`: writes of a file that are on their way to the device at the same time, through the system's `io_uring`.
//!
//! One call for all of them, and the device works on several. Where the system has no such ring, or refuses one to
//! this process, as some containers do, nothing is written here. Not here: what is done then, and errors (`os.rs`): a
//! write that failed here is made again in the ordinary way, which fails with its reason.
//!
//! Invariant: when `write` returns, the system uses none of the bytes that it was given.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use crate::sync::{Mutex, give_way};

/// Writes under way at the same time.
const DEPTH: usize = 32;

/// A file's ring, made when it is first used.
pub(super) struct Ring(Mutex<State>);

enum State {
    New,
    Ready(Box<IoUring>),
    /// There is none, or it has failed.
    Missing,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::New))
    }

    /// As where the system has none.
    #[cfg(test)]
    pub(super) fn missing() -> Self {
        Self(Mutex::new(State::Missing))
    }

    /// Writes pieces of a file, each at its offset; returns which of them were not written, or not whole.
    pub(super) fn write(&self, file: BorrowedFd<'_>, pieces: &[(u64, &[u8])]) -> Vec<usize> {
        let mut state = self.0.lock();
        if matches!(*state, State::New) {
            let made = IoUring::new(DEPTH as u32);
            *state = made.map_or(State::Missing, |ring| State::Ready(Box::new(ring)));
        }
        let mut left = Vec::new();
        for (chunk, first) in pieces.chunks(DEPTH).zip((0..).step_by(DEPTH)) {
            let mut written = [false; DEPTH];
            let works = match &mut *state {
                State::Ready(ring) => write_chunk(ring, file, chunk, &mut written),
                _ => false,
            };
            if !works {
                *state = State::Missing;
            }
            left.extend((0..chunk.len()).filter(|at| !written[*at]).map(|at| first + at));
        }
        left
    }
}

/// Writes as many pieces as a ring has room for, and notes which were written; whether the ring may be used again.
fn write_chunk(
    ring: &mut IoUring,
    file: BorrowedFd<'_>,
    pieces: &[(u64, &[u8])],
    written: &mut [bool; DEPTH],
) -> bool {
    for (at, (offset, bytes)) in pieces.iter().enumerate() {
        let write =
            opcode::Write::new(types::Fd(file.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32);
        let write = write.offset(*offset).build().user_data(at as u64);
        // SAFETY: the file and the bytes are borrowed until this function returns, and it returns only when none of
        // its writes is under way.
        let pushed = unsafe { ring.submission().push(&write) };
        assert!(pushed.is_ok(), "an empty ring has room for a chunk");
    }
    let (mut under_way, mut works) = (pieces.len(), true);
    while under_way > 0 {
        if !works {
            give_way();
        } else if let Err(cause) = ring.submit_and_wait(under_way) {
            let again = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
            if !cause.raw_os_error().is_some_and(|error| again.contains(&error)) {
                // What the system has not taken it will not take: the ring goes with it.
                under_way -= ring.submission().len();
                works = false;
            }
        }
        for done in ring.completion() {
            let at = done.user_data() as usize;
            written[at] = usize::try_from(done.result()) == Ok(pieces[at].1.len());
            under_way -= 1;
        }
    }
    works
}
