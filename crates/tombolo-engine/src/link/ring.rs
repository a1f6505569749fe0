//! A stream of bytes through memory that two processes share: no system call unless one of them sleeps (ISL-11).
//!
//! ```text
//!   direction 0: tail │ reader sleeps │ head │ writer sleeps     each in a cache line of its own
//!   direction 1: the same
//!   bytes of direction 0, bytes of direction 1: a power of two each
//! ```
//!
//! One end writes bytes and advances the tail, the other reads them and advances the head. An end that finds
//! nothing to do announces that it sleeps, looks once more, and waits for its socket; the other end, after advancing
//! its mark, looks for that announcement and wakes it through the socket. Not here: messages (`framed.rs`), how the
//! memory reaches the other process (`kinds.rs`).
//!
//! Invariants: only the writer sets a tail and only the reader a head; a head never passes its tail, and a tail
//! is at most the capacity ahead. What the other process writes there is verified before it is used.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, poll};
use tombolo_storage::sync::{AtomicU32, AtomicU64, Ordering, fence};

use super::framed::Stream;
use super::unix::{Control, timespec};

/// Bytes of each direction.
const CAPACITY: u64 = 1 << 20;

#[repr(C, align(128))]
struct Mark<T>(T);

/// What both ends know of a direction.
#[repr(C)]
pub(super) struct Direction {
    /// Bytes written so far.
    tail: Mark<AtomicU64>,
    reader_sleeps: Mark<AtomicU32>,
    /// Bytes read so far.
    head: Mark<AtomicU64>,
    writer_sleeps: Mark<AtomicU32>,
}

const MARKS_BYTES: usize = 4096;
const _: () = assert!(2 * size_of::<Direction>() <= MARKS_BYTES);

/// The length of the shared memory.
pub(super) const MEMORY_BYTES: u64 = MARKS_BYTES as u64 + 2 * CAPACITY;

/// One end of a direction: where its marks and its bytes are.
struct End {
    marks: NonNull<Direction>,
    bytes: NonNull<u8>,
}

impl End {
    fn marks(&self) -> &Direction {
        // SAFETY: inside the mapping, aligned to a page, which lives as long as the ring; both processes
        // reach these words as atomics only.
        unsafe { self.marks.as_ref() }
    }

    /// How many bytes are written and not read; what the other process says is not trusted.
    fn filled(tail: u64, head: u64) -> io::Result<u64> {
        let filled = tail.wrapping_sub(head);
        if filled <= CAPACITY {
            return Ok(filled);
        }
        let what = "the other process wrote marks that contradict each other";
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }

    /// Copies as many bytes in as there is room for.
    fn write(&self, from: &[u8]) -> io::Result<usize> {
        let marks = self.marks();
        // Relaxed: only this end sets it. Acquire: partner of the Release in `read`, so that bytes that were
        // read are not overwritten before.
        let tail = marks.tail.0.load(Ordering::Relaxed);
        let filled = Self::filled(tail, marks.head.0.load(Ordering::Acquire))?;
        let bytes = from.len().min((CAPACITY - filled) as usize);
        for (at, part) in parts(tail, bytes) {
            let (now, _) = from[part.clone()].split_at(part.len());
            // SAFETY: inside this direction's bytes; the other end reads none of them before the tail says so.
            unsafe {
                self.bytes.add(at).copy_from_nonoverlapping(NonNull::from(now).cast(), now.len())
            };
        }
        marks.tail.0.store(tail + bytes as u64, Ordering::Release);
        Ok(bytes)
    }

    /// Copies as many bytes out as there are.
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let marks = self.marks();
        // As in `write`, the other way round.
        let head = marks.head.0.load(Ordering::Relaxed);
        let filled = Self::filled(marks.tail.0.load(Ordering::Acquire), head)?;
        let bytes = into.len().min(filled as usize);
        for (at, part) in parts(head, bytes) {
            let now = &mut into[part];
            // SAFETY: inside this direction's bytes; the other end writes none of them before the head says so.
            unsafe {
                NonNull::from(&mut *now)
                    .cast()
                    .copy_from_nonoverlapping(self.bytes.add(at), now.len())
            };
        }
        marks.head.0.store(head + bytes as u64, Ordering::Release);
        Ok(bytes)
    }

    /// Whether there is anything to read, or any room to write.
    fn has(&self, room: bool) -> bool {
        let marks = self.marks();
        let (tail, head) =
            (marks.tail.0.load(Ordering::Acquire), marks.head.0.load(Ordering::Acquire));
        if room { tail.wrapping_sub(head) < CAPACITY } else { tail != head }
    }
}

/// Where `bytes` bytes from `position` on lie: at most two parts, each with its place in the caller's bytes.
fn parts(position: u64, bytes: usize) -> [(usize, std::ops::Range<usize>); 2] {
    let at = (position % CAPACITY) as usize;
    let first = bytes.min(CAPACITY as usize - at);
    [(at, 0..first), (0, first..bytes)]
}

/// Whether the other end says that it sleeps; it does not any more.
fn was_asleep(sleeps: &AtomicU32) -> bool {
    // SeqCst: partner of the one in `Ring::wait`. Either this thread sees that the other end is about to sleep,
    // or that one sees the mark that was just moved.
    fence(Ordering::SeqCst);
    sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
}

/// One end of memory that two processes share.
pub(super) struct Ring {
    input: End,
    output: End,
    control: Control,
    /// Unmapped when the ends are gone.
    _memory: MmapRaw,
}

// SAFETY: an end is one thread's at a time; what it points to is shared by atomics, or handed over by them.
unsafe impl Send for Ring {}

impl Ring {
    /// The first or the second end of `memory`, which has [`MEMORY_BYTES`].
    ///
    /// # Errors
    /// When it is shorter, or cannot be mapped.
    pub(super) fn new(memory: &OwnedFd, is_first: bool, control: Control) -> io::Result<Self> {
        if rustix::fs::fstat(memory)?.st_size as u64 != MEMORY_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no memory of a ring"));
        }
        let mapped = MmapOptions::new().len(MEMORY_BYTES as usize).map_raw(memory)?;
        let base = NonNull::new(mapped.as_mut_ptr()).expect("a mapping is nowhere at 0");
        let end = |direction: usize| {
            // SAFETY: both lie inside the mapping, whose length was verified.
            unsafe {
                let marks = base.add(direction * size_of::<Direction>()).cast();
                let bytes = base.add(MARKS_BYTES + direction * CAPACITY as usize);
                End { marks, bytes }
            }
        };
        let (input, output) = if is_first { (end(1), end(0)) } else { (end(0), end(1)) };
        Ok(Self { input, output, control, _memory: mapped })
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl io::Read for Ring {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(into)?;
        if bytes == 0 {
            // What it wrote before it went may have come meanwhile.
            let is_over = self.control.is_gone() && !self.input.has(false);
            return if is_over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        if was_asleep(&self.input.marks().writer_sleeps.0) {
            self.control.ring();
        }
        Ok(bytes)
    }
}

impl io::Write for Ring {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.control.is_gone() {
            return Ok(0);
        }
        let written = self.output.write(bytes)?;
        if written == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if was_asleep(&self.output.marks().reader_sleeps.0) {
            self.control.ring();
        }
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Ring {
    fn wait(&mut self, writes: bool, time_max: Duration) {
        let reader = &self.input.marks().reader_sleeps.0;
        let writer = &self.output.marks().writer_sleeps.0;
        reader.store(1, Ordering::Relaxed);
        writer.store(u32::from(writes), Ordering::Relaxed);
        // SeqCst: see `was_asleep`.
        fence(Ordering::SeqCst);
        let has_work = self.input.has(false) || writes && self.output.has(true);
        if !has_work {
            let mut ends = [PollFd::new(&self.control, PollFlags::IN)];
            // Whatever ends it: the caller looks again.
            _ = poll(&mut ends, Some(&timespec(time_max)));
        }
        reader.store(0, Ordering::Relaxed);
        writer.store(0, Ordering::Relaxed);
        self.control.look();
    }
}
