//! Two ends of a link in one process, for tests and the simulator: bytes arrive late, in pieces of any
//! length, and the link may be cut after any byte.
//!
//! Not here: threads; no thread is woken. Invariant: the same seed and the same calls give the same result.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use tombolo_storage::sync::Mutex;

use super::framed::{Framed, Stream};
use crate::rng::Rng;

/// How a link in memory behaves.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFaults {
    /// Bytes that one direction holds.
    pub capacity_bytes: usize,
    /// The most bytes a call writes or reads; fewer at random.
    pub piece_bytes: usize,
    /// Calls that find nothing though there is something and the other end is there, or no room though
    /// there is some: one in so many; 0 for none.
    pub delays: u64,
    /// Bytes after which both directions are cut, all together.
    pub cut_after: u64,
}

impl Default for MemoryFaults {
    /// None.
    fn default() -> Self {
        Self { capacity_bytes: 256 << 10, piece_bytes: usize::MAX, delays: 0, cut_after: u64::MAX }
    }
}

/// What both ends share.
#[derive(Debug)]
struct Shared {
    /// What is on its way to either end.
    to: [VecDeque<u8>; 2],
    is_open: [bool; 2],
    passed: u64,
    faults: MemoryFaults,
    rng: Rng,
}

/// One of two ends.
#[derive(Debug)]
pub struct MemoryEnd {
    shared: Arc<Mutex<Shared>>,
    side: usize,
}

/// Both ends of a link.
pub fn pair(faults: MemoryFaults, seed: u64) -> (Framed<MemoryEnd>, Framed<MemoryEnd>) {
    let (to, rng) = ([VecDeque::new(), VecDeque::new()], Rng::from_seed(seed));
    let shared = Shared { to, is_open: [true; 2], passed: 0, faults, rng };
    let shared = Arc::new(Mutex::new(shared));
    let end = |side| Framed::new(MemoryEnd { shared: Arc::clone(&shared), side });
    (end(0), end(1))
}

impl Shared {
    /// How many of `bytes` this call moves.
    fn piece(&mut self, bytes: usize) -> io::Result<usize> {
        let MemoryFaults { piece_bytes, delays, .. } = self.faults;
        if bytes == 0 || delays > 0 && self.rng.below(delays) == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = bytes.min(piece_bytes.max(1));
        Ok(if most < bytes { 1 + self.rng.below(most as u64) as usize } else { most })
    }
}

impl io::Read for MemoryEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut shared = self.shared.lock();
        let (there, is_open) = (shared.to[self.side].len(), shared.is_open[1 - self.side]);
        if there == 0 && !is_open {
            return Ok(0);
        }
        // As with a socket, what was sent before the end is there when the end is.
        let bytes = match is_open {
            true => shared.piece(there.min(into.len()))?,
            false => there.min(into.len()),
        };
        for (at, byte) in shared.to[self.side].drain(..bytes).enumerate() {
            into[at] = byte;
        }
        Ok(bytes)
    }
}

impl io::Write for MemoryEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = self.shared.lock();
        if !shared.is_open[1 - self.side] || !shared.is_open[self.side] {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = shared.faults.capacity_bytes.saturating_sub(shared.to[1 - self.side].len());
        let left = usize::try_from(shared.faults.cut_after - shared.passed).unwrap_or(usize::MAX);
        let piece = shared.piece(bytes.len().min(room))?.min(left);
        shared.to[1 - self.side].extend(&bytes[..piece]);
        shared.passed += piece as u64;
        if piece == left {
            shared.is_open = [false; 2];
        }
        Ok(piece.max(1).min(bytes.len()))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for MemoryEnd {
    fn wait(&mut self, _: bool, _: Duration) {}
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.shared.lock().is_open[self.side] = false;
    }
}

/// An end to write any bytes to, and the link at the other one.
#[cfg(not(loom))]
#[cfg(test)]
pub(super) fn raw_pair() -> (MemoryEnd, Framed<MemoryEnd>) {
    let (from, to) = pair(MemoryFaults::default(), 0);
    (from.into_stream(), to)
}
