//! `Rings`: reads or writes of a file that are on their way to the device at the same time, through the system's
//! `io_uring`.
//!
//! One call for all of them, and the device works on several. Where the system has no such ring, or refuses one to
//! this process, as some containers do, nothing is transferred here. Not here: what is done then, and errors (`os.rs`):
//! a transfer that failed here is made again in the ordinary way, which fails with its reason.
//!
//! Invariant: when a call returns, the system uses none of the bytes that it was given.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};

use crate::sync::{Mutex, give_way};

/// Transfers under way at the same time.
const DEPTH: usize = 32;

/// Rings for the transfers of a file: one for each thread that has some under way, made when it is first needed.
#[derive(Default)]
pub(super) struct Rings(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    rings: Vec<IoUring>,
    /// The system has none, or one has failed.
    are_missing: bool,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").finish_non_exhaustive()
    }
}

impl Rings {
    /// As where the system has none.
    #[cfg(test)]
    pub(super) fn missing() -> Self {
        Self(Mutex::new(Idle { rings: Vec::new(), are_missing: true }))
    }

    /// A ring that no thread uses.
    fn take(&self) -> Option<IoUring> {
        let mut idle = self.0.lock();
        if idle.are_missing {
            return None;
        }
        let taken = idle.rings.pop();
        drop(idle);
        taken.or_else(|| IoUring::new(DEPTH as u32).ok())
    }

    fn give_back(&self, ring: Option<IoUring>) {
        let mut idle = self.0.lock();
        match ring {
            Some(ring) => idle.rings.push(ring),
            None => idle.are_missing = true,
        }
    }

    /// Writes pieces of a file, each at its offset; returns which of them were not written, or not whole.
    pub(super) fn write(&self, file: BorrowedFd<'_>, pieces: &[(u64, &[u8])]) -> Vec<usize> {
        let file = types::Fd(file.as_raw_fd());
        let writes = pieces.iter().map(|(offset, bytes)| {
            let write = opcode::Write::new(file, bytes.as_ptr(), bytes.len() as u32);
            (write.offset(*offset).build(), bytes.len())
        });
        self.transfer(&writes.collect::<Vec<_>>())
    }

    /// Reads pieces of a file, each from its offset; returns which of them were not read, or not whole.
    pub(super) fn read(&self, file: BorrowedFd<'_>, pieces: &mut [(u64, &mut [u8])]) -> Vec<usize> {
        let file = types::Fd(file.as_raw_fd());
        let reads = pieces.iter_mut().map(|(offset, bytes)| {
            let read = opcode::Read::new(file, bytes.as_mut_ptr(), bytes.len() as u32);
            (read.offset(*offset).build(), bytes.len())
        });
        self.transfer(&reads.collect::<Vec<_>>())
    }

    /// Carries out transfers, each of so many bytes; returns which of them were not, or not whole. Their files and
    /// bytes stay where they are until this returns.
    fn transfer(&self, transfers: &[(squeue::Entry, usize)]) -> Vec<usize> {
        let mut ring = self.take();
        let mut left = Vec::new();
        for (chunk, first) in transfers.chunks(DEPTH).zip((0..).step_by(DEPTH)) {
            let mut whole = [false; DEPTH];
            if ring.as_mut().is_some_and(|ring| !transfer_chunk(ring, chunk, &mut whole)) {
                ring = None;
            }
            left.extend((0..chunk.len()).filter(|at| !whole[*at]).map(|at| first + at));
        }
        self.give_back(ring);
        left
    }
}

/// Carries out as many transfers as a ring has room for, and notes which were whole; whether the ring may be used
/// again.
fn transfer_chunk(
    ring: &mut IoUring,
    transfers: &[(squeue::Entry, usize)],
    whole: &mut [bool; DEPTH],
) -> bool {
    for (at, (transfer, _)) in transfers.iter().enumerate() {
        let transfer = transfer.clone().user_data(at as u64);
        // SAFETY: the callers of `Rings::transfer` borrow the file and the bytes until that returns, and it returns
        // only when none of its transfers is under way.
        let pushed = unsafe { ring.submission().push(&transfer) };
        assert!(pushed.is_ok(), "an empty ring has room for a chunk");
    }
    let (mut under_way, mut works) = (transfers.len(), true);
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
            whole[at] = usize::try_from(done.result()) == Ok(transfers[at].1);
            under_way -= 1;
        }
    }
    works
}
