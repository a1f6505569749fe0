//! Group commit: one session at a time flushes for all, the others wait for it.
//!
//! ```text
//!                 no flush runs                      write and sync succeed
//!   harden ──────────────────────► leader: flushes ─────────────────────────► durable, wakes all
//!     │                                    │ fail
//!     │ a flush runs                       ▼
//!     └──────────────► follower: waits   poisoned for good, wakes all
//! ```
//!
//! A leader writes everything published so far and syncs once. Records that are published meanwhile are written by the
//! next leader: the device is never idle while a session waits, and no group waits for more records.
//! This needs no extra thread and no clock. The end of a flush wakes all followers that it covers, and one of the
//! others, which leads the next flush.
//!
//! A flush waits a moment for records that are being copied, takes this file's mutex for a moment, and uses the disk.
//! It takes no page latch and no lock. So a session may flush, or wait for a flush, while it holds page latches:
//! neither a full ring nor the eviction of a page leads to a deadlock.
//!
//! After a failed write or sync it is unknown what the file holds: the log is poisoned, and nothing
//! is acknowledged, written or promised any more.
//!
//! Not here: which durability a transaction asked for.

use super::buffer::{Drain, Ring};
use super::file::{LogFile, Written};
use super::settings::LogError;
use crate::error::Error;
use crate::latch::{AtomicCounter, Counter};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};
use crate::value_log;

/// How a flush came about that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Another session's covered it.
    Covered,
    /// The caller led it.
    Led,
}

/// Brings a ring to its file.
#[derive(Debug)]
pub(super) struct Flusher {
    file: LogFile,
    /// The log before this LSN is durable. Grows only, and only a leader raises it.
    durable: AtomicCounter,
    state: Mutex<State>,
    /// Whether a record was refused for want of room, and none was sought since.
    has_refused: AtomicBool,
    /// Whether none was found the last time.
    is_all_needed: AtomicBool,
    /// Where those wait whom an even flush covers, and those whom an odd one does.
    ended: [Condvar; 2],
}

#[derive(Debug, Default)]
struct State {
    is_flushing: bool,
    /// Where the flush that runs ends, or the last one did.
    flushing_to: u64,
    /// How many flushes have ended.
    turn: usize,
    poisoned: Option<&'static str>,
    flushes: u64,
    buffer_full: u64,
}

impl State {
    fn check(&self) -> Result<(), Error> {
        self.poisoned.map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }
}

impl Flusher {
    /// For a log without records.
    pub(super) fn new(file: LogFile) -> Self {
        let durable = AtomicCounter::new(file.base());
        let [has_refused, is_all_needed] = [false; 2].map(AtomicBool::new);
        let (state, ended) = Default::default();
        Self { file, durable, state, has_refused, is_all_needed, ended }
    }

    /// The file.
    pub(super) fn file(&self) -> &LogFile {
        &self.file
    }

    /// The log before this LSN is durable.
    #[inline]
    pub(super) fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// Flushes that succeeded, and how often a full ring asked for one.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.flushes, state.buffer_full)
    }

    /// Returns when the record at `lsn` is durable. If that takes a flush, it covers what was
    /// published so far, but nothing from `end` on.
    pub(super) fn flush_to(&self, ring: &Ring, lsn: u64, end: u64) -> Result<Flush, Error> {
        if self.durable() > lsn {
            return Ok(Flush::Covered);
        }
        let mut state = self.state.lock();
        loop {
            state.check()?;
            if self.durable() > lsn {
                return Ok(Flush::Covered);
            }
            if !state.is_flushing {
                break;
            }
            let is_covered = lsn < state.flushing_to;
            let turn = state.turn + usize::from(!is_covered);
            state = self.ended[turn % 2].wait(state);
        }
        state.is_flushing = true;
        let drain = ring.drain(end);
        state.flushing_to = drain.to();
        drop(state);
        let result = self.lead(ring, drain);
        let mut state = self.state.lock();
        state.is_flushing = false;
        state.turn += 1;
        let turn = state.turn;
        let result = match result {
            Ok(is_written) => {
                state.flushes += u64::from(is_written);
                Ok(Flush::Led)
            }
            Err(error) => Err(Self::poison(&mut state, ring, &error.to_string())),
        };
        drop(state);
        self.ended[(turn + 1) % 2].notify_all();
        match &result {
            Ok(_) => self.ended[turn % 2].notify_one(),
            Err(_) => self.ended[turn % 2].notify_all(),
        }
        result
    }

    /// Writes what was published; says whether there was anything.
    fn lead(&self, ring: &Ring, drain: Drain<'_>) -> Result<bool, value_log::LogFailure> {
        let (from, to) = (drain.from(), drain.to());
        if from == to {
            return Ok(false);
        }
        assert!(from <= self.durable(), "what is durable and what was drained must agree");
        match self.file.write(drain.parts(), to, ring)? {
            // Before it counts as durable: a thread that sees that also finds its room free.
            Written::ToSegments => drain.finish(),
            // It is drained again with what follows.
            Written::Aside => drop(drain),
        }
        self.durable.raise(to);
        Ok(true)
    }

    /// Makes room in a ring that is full up to `tail`.
    #[cold]
    pub(super) fn make_room(&self, ring: &Ring, tail: u64) -> Result<(), Error> {
        self.state.lock().buffer_full += 1;
        self.flush_to(ring, tail - 1, u64::MAX).map(drop)
    }

    /// Takes space in the files for what ends at `needed`, and promises it.
    #[cold]
    pub(super) fn take_space(&self, ring: &Ring, needed: u64) -> Result<(), Error> {
        self.state.lock().check()?;
        let taken = self.settle(ring, self.file.take_space(needed));
        // Relaxed, here and below: the session that was refused reads it itself.
        match taken {
            Ok(()) => self.is_all_needed.store(false, Ordering::Relaxed),
            Err(error) if error.is_full() => self.has_refused.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        taken
    }

    /// Makes one segment more ready; `false` if there is no room for it.
    pub(super) fn take_segment(&self, ring: &Ring) -> Result<bool, Error> {
        self.state.lock().check()?;
        match self.settle(ring, self.file.take_segment()) {
            Err(error) if error.is_full() => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    /// Whether a record was refused for want of room, and none was sought since.
    #[inline(always)]
    pub(super) fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// Room was sought, and found or not.
    pub(super) fn sought(&self, is_found: bool) {
        self.has_refused.store(false, Ordering::Relaxed);
        self.is_all_needed.store(!is_found, Ordering::Relaxed);
    }

    /// Says that nothing before `lsn` is needed, which is durable; how many segments are used again.
    pub(super) fn release_before(&self, ring: &Ring, lsn: u64) -> Result<usize, Error> {
        self.settle(ring, self.file.release_before(lsn, ring))
    }

    /// What comes of a call that gave the files other room, or found none.
    fn settle<T>(&self, ring: &Ring, result: Result<T, value_log::LogFailure>) -> Result<T, Error> {
        let mut state = self.state.lock();
        state.check()?;
        match result {
            Ok(done) => {
                ring.promise_file(self.file.limit());
                Ok(done)
            }
            Err(error) if error.is_full() => {
                let again = !self.is_all_needed.load(Ordering::Relaxed);
                Err(Error::LogFull { again })
            }
            Err(error) => {
                let error = Self::poison(&mut state, ring, &error.to_string());
                drop(state);
                self.ended.iter().for_each(Condvar::notify_all);
                Err(error)
            }
        }
    }

    /// Ends the log for good.
    fn poison(state: &mut State, ring: &Ring, cause: &str) -> Error {
        ring.shut();
        // Errors are copied about and live longer than the log, so what happened is kept for good:
        // once in a log's life.
        let reason = *state
            .poisoned
            .get_or_insert_with(|| Box::leak(format!("its log failed: {cause}").into_boxed_str()));
        Error::Poisoned { reason }
    }

    /// Whether the log failed.
    pub(super) fn poisoned(&self) -> Option<&'static str> {
        self.state.lock().poisoned
    }

    /// Flushes what is left and empties the file.
    pub(super) fn close(&self, ring: &Ring) -> Result<(), LogError> {
        let tail = ring.tail();
        // That it failed is in the state, and may have been before.
        let _ = self.flush_to(ring, tail - 1, u64::MAX);
        let mut state = self.state.lock();
        if let Some(reason) = state.poisoned {
            return Err(super::LogFailure::Poisoned { reason }.into());
        }
        ring.shut();
        state.poisoned = Some("its log is closed");
        Ok(self.file.close(tail, ring)?)
    }
}
