//! The log's files: segments of a value log (`value_log/`), whose groups are what one flush writes. A
//! position in it is an LSN.
//!
//! Promises to transactions are counted in bytes of records, the space of segments in blocks, and each flush takes
//! whole blocks. A flush that needs more than the unpromised space first makes another segment; if the disk is full,
//! it sets the log's end aside, which takes no space of a segment (`value_log/side.rs`).
//! Records that are set aside are written into a segment as one group when there is space again, or when they fill a
//! slot; that group takes at most a seventh more than its records.
//!
//! Not here: which session flushes when, what the records mean, restart.

use super::buffer::Ring;
use super::record::Record;
use super::settings::{LogError, LogFailure, LogSettings};
use super::{VisitRecord, read};
use crate::disk::{ALIGNMENT_MAX, Disk};
use crate::paged::pool::PagesMark;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::value_log::{
    self, DirectoryLock, GroupNumber, LogWriter, Preparer, ReadLog, SLOT_BYTES, Space,
};

/// What the names of the log's segments begin with; the side file's does, too.
pub const LOG_FILES: &str = "log-";

/// The whole log, in version 1 of the format.
const FORMER_FILE: &str = "log";

/// The version of the format of segments and records.
pub const FORMAT_VERSION: u32 = value_log::FORMAT_VERSION;

/// Of a full disk, what is left for structure modifications that have begun, in bytes.
pub(super) const LEFT_FOR_IMAGES: u64 = 1 << 20;

/// Bytes of a group that are not records: its header, and what fills its last block up, at most.
const GROUP_EXTRA: u64 = 64 + ALIGNMENT_MAX as u64;

/// The longest records that are set aside.
const ASIDE_BYTES_MAX: u64 = SLOT_BYTES - GROUP_EXTRA;

/// Bytes of segments that are never promised: for the group that says what is released, and the
/// headers of groups that go on in another segment.
const KEPT_BYTES: u64 = 6 * GROUP_EXTRA;

// A group that is too long to be set aside takes less than a seventh more than its records.
const _: () = assert!(ASIDE_BYTES_MAX / 7 > 2 * GROUP_EXTRA);

/// How many bytes of records can be written in any case to so many bytes of segments.
const fn promised(segment_bytes: u64) -> u64 {
    segment_bytes.saturating_sub(KEPT_BYTES) / 8 * 7
}

/// A log that is written.
#[derive(Debug)]
pub(super) struct LogFile {
    writer: Mutex<LogWriter>,
    space: Space,
    preparer: Preparer,
    disk: Arc<dyn Disk>,
    /// The database's number.
    number: u64,
    /// The LSN of the first record that is written.
    base: u64,
    /// The LSN of the first record that a restart needs.
    needed: u64,
    /// Whether a session makes a segment ready.
    is_preparing: AtomicBool,
    /// Whether flushes may use what is left for structure modifications.
    uses_rest: AtomicBool,
    /// See [`LogFile::taken_bytes`].
    taken_bytes: AtomicU64,
    /// What it was when the log was made or opened, less what the writer has written since.
    taken_before: u64,
}

/// A log as it was at one time: what of it a copy needs.
#[derive(Debug)]
pub struct KeptLog {
    /// Where it is.
    pub(crate) disk: Arc<dyn Disk>,
    /// The LSN from which on a restart needed it.
    pub(crate) needed: u64,
    /// The newest group that was durable.
    pub(crate) group: GroupNumber,
    /// What was set aside behind that.
    pub(crate) aside: Vec<u8>,
}

impl KeptLog {
    /// Whether the same was durable then.
    #[must_use]
    pub fn ends_as(&self, other: &Self) -> bool {
        self.group == other.group && self.aside == other.aside
    }
}

/// Where a flush put its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Into segments.
    ToSegments,
    /// Into the side file: they are written again, with what follows.
    Aside,
}

impl LogFile {
    /// Makes the log.
    pub(super) fn create(disk: Arc<dyn Disk>, settings: &LogSettings) -> Result<Self, LogError> {
        let writer =
            LogWriter::create_at(Arc::clone(&disk), settings.segments(), settings.first_lsn())?;
        Ok(Self::with(disk, writer))
    }

    /// Opens a log, to be written on behind its records, if it is that of `pages`; shows them.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        settings: &LogSettings,
        pages: Option<PagesMark>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<Self, LogError> {
        let lock = DirectoryLock::take(&*disk)?;
        if disk.exists(FORMER_FILE)? {
            let (file, found) = (FORMER_FILE.to_owned(), 1);
            return Err(value_log::LogFailure::OtherVersion { file, found }.into());
        }
        // All of it is verified before anything is changed.
        let mut show = read::shown_from(0, visit);
        let log = ReadLog::read(lock, Arc::clone(&disk), settings.segments(), &mut show)?;
        let (needed, end, salt) = (log.positions.needed, log.positions.end, log.positions.salt);
        if let Some(pages) = pages {
            pages.verify(salt, needed, end.max(needed))?;
        }
        let mut writer = log.write_on()?;
        writer.continue_at(end.max(needed).max(settings.first_lsn()));
        let needed = if end > needed { needed } else { writer.end() };
        Ok(Self { needed, ..Self::with(disk, writer) })
    }

    fn with(disk: Arc<dyn Disk>, writer: LogWriter) -> Self {
        let (space, preparer, base) = (writer.space(), writer.preparer(), writer.end());
        let (is_preparing, number) = (AtomicBool::new(false), writer.salt());
        let taken_bytes = writer.used_bytes();
        // Beginning the epoch took some of it.
        let taken_before = taken_bytes.saturating_sub(writer.usage().written_bytes);
        let (writer, needed) = (Mutex::new(writer), base);
        Self {
            writer,
            space,
            preparer,
            disk,
            number,
            base,
            needed,
            is_preparing,
            uses_rest: AtomicBool::new(false),
            taken_bytes: AtomicU64::new(taken_bytes),
            taken_before,
        }
    }

    /// The database's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The LSN of the first record that is written.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The LSN of the first record that a restart needs; the base if the log was closed.
    pub(super) fn needed(&self) -> u64 {
        self.needed
    }

    /// Shows the records from an LSN on that were there when the log was opened.
    pub(super) fn read(
        &self,
        from: u64,
        visit: &mut dyn FnMut(u64, &Record<'_>),
    ) -> Result<(), LogError> {
        read::read_log(&*self.disk, from, visit).map(drop)
    }

    /// Bytes that the log took in its files: those it had when it was opened, and all that were written since, with
    /// headers of groups and what fills blocks up.
    pub(super) fn taken_bytes(&self) -> u64 {
        // Relaxed: the number orders nothing but itself.
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Up to which LSN there is space.
    pub(super) fn limit(&self) -> u64 {
        self.limit_of(&self.writer.lock())
    }

    fn limit_of(&self, writer: &LogWriter) -> u64 {
        writer.end() + promised(self.space.available_bytes())
    }

    /// The length of all segments, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.space.log_bytes()
    }

    /// Makes segments until there is space up to `lsn`.
    pub(super) fn take_space(&self, lsn: u64) -> Result<(), value_log::LogFailure> {
        while self.limit() < lsn {
            self.preparer.prepare_more()?;
        }
        Ok(())
    }

    /// What is left of a full disk for structure modifications that have begun, in bytes.
    pub(super) fn left_for_images(&self) -> u64 {
        // Relaxed: the thread that changes it publishes and flushes itself.
        if self.uses_rest.load(Ordering::Relaxed) { 0 } else { LEFT_FOR_IMAGES }
    }

    /// Whether that may be used up, by a thread that then frees segments: none can be given back while the end of
    /// the log is set aside.
    pub(super) fn set_uses_rest(&self, uses: bool) {
        self.uses_rest.store(uses, Ordering::Relaxed);
    }

    /// Makes one segment more ready.
    pub(super) fn take_segment(&self) -> Result<(), value_log::LogFailure> {
        match self.preparer.prepare_more() {
            // Spare segments of other lengths went with that: now there may be room.
            Err(error) if error.is_full() => self.preparer.prepare_more(),
            done => done,
        }
        .map(drop)
    }

    /// Whether the segment that was to be made last found no room.
    pub(super) fn is_short(&self) -> bool {
        self.preparer.is_short()
    }

    /// Whether segments can be used again once nothing before `lsn` is needed.
    pub(super) fn frees_before(&self, lsn: u64) -> bool {
        self.writer.lock().closed_before(lsn) > 0
    }

    /// Removes segments that are not needed. One that remains is one that may be used again.
    pub(super) fn give_back(&self) {
        let _ = self.writer.lock().trim();
    }

    /// Makes a segment ready if one is due and no other session does.
    pub(super) fn prepare_ahead(&self) {
        if !self.preparer.is_due() {
            return;
        }
        // Acquire and Release: what one session made is seen by the next that looks whether one is due.
        if !self.is_preparing.swap(true, Ordering::Acquire) {
            // What fails is known to the writer, which fails with it.
            let _ = self.preparer.prepare();
            self.is_preparing.store(false, Ordering::Release);
        }
    }

    /// Writes `parts`, one behind the other, which lie behind all that is in segments and end at `end`,
    /// and makes them durable; changes what `ring` may promise accordingly.
    pub(super) fn write(
        &self,
        parts: [&[u8]; 2],
        end: u64,
        ring: &Ring,
    ) -> Result<Written, value_log::LogFailure> {
        let mut writer = self.writer.lock();
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        // In a log of short segments, each has a header of a group more.
        let cost = bytes + bytes / 512 + GROUP_EXTRA;
        loop {
            let left = self.space.available_bytes().checked_sub(cost);
            let limit = left.map(|left| end + promised(left));
            if limit.is_some_and(|limit| ring.lower_file(limit, self.left_for_images())) {
                break;
            }
            match self.preparer.prepare_more() {
                Ok(_) => {}
                Err(error) if !error.is_full() => return Err(error),
                Err(_) if bytes <= ASIDE_BYTES_MAX => {
                    writer.set_aside(&parts)?;
                    return Ok(Written::Aside);
                }
                Err(error) if left.is_none() => return Err(error),
                // What was promised has room all the same.
                Err(_) => break,
            }
        }
        writer.append_filling(&parts)?;
        writer.sync()?;
        let taken_bytes = self.taken_before + writer.usage().written_bytes;
        self.taken_bytes.store(taken_bytes, Ordering::Relaxed);
        ring.promise_file(self.limit_of(&writer));
        Ok(Written::ToSegments)
    }

    /// Says, durably, that nothing before `lsn` is needed, which is durable; segments are used again.
    pub(super) fn release_before(
        &self,
        lsn: u64,
        ring: &Ring,
    ) -> Result<usize, value_log::LogFailure> {
        let mut writer = self.writer.lock();
        let left = self.space.available_bytes().saturating_sub(2 * GROUP_EXTRA);
        if !ring.lower_file(writer.end() + promised(left), 0) {
            self.preparer.prepare_more()?;
        }
        writer.release_to(lsn)
    }

    /// What is to be copied so that a restart finds what is durable now.
    pub(super) fn kept(&self) -> Result<KeptLog, value_log::LogFailure> {
        let writer = self.writer.lock();
        let (needed, aside) = writer.needed_and_aside()?;
        Ok(KeptLog { disk: Arc::clone(&self.disk), needed, group: writer.durable(), aside })
    }

    /// Reads back what was written up to `end`; says what is wrong with it.
    pub(super) fn verify(&self, end: u64) -> Result<(), LogError> {
        let found = read::read_records(&*self.disk, 0, |_, _| ())?;
        // What was released may have been set aside, and is not there then.
        let found_end = found.end.max(found.needed);
        if found_end < end {
            let value_log::Positions { file, offset, .. } = found;
            let what = format!("the log ends here, at {found_end}, but it is durable up to {end}");
            return Err(LogFailure::Damaged { file, offset, what }.into());
        }
        Ok(())
    }

    /// Empties the log, whose numbers continue from `tail`.
    pub(super) fn close(&self, tail: u64, ring: &Ring) -> Result<(), value_log::LogFailure> {
        self.release_before(tail, ring)?;
        self.writer.lock().trim()?;
        Ok(())
    }
}
