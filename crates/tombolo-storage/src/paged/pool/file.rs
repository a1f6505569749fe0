//! The data file: page n at offset n × page size, page 0 says what the file is.
//!
//! Everything that comes in is verified (length, magic, version, page size, checksum, number,
//! bounds) and refused with file and offset; everything that goes out is stamped with its checksum
//! on a copy, so a page can be written while rows of it are read; where a crash may tear it, that copy is
//! durable first (`copies.rs`). Space is taken from the file system in extents ahead of use: a full disk is met
//! when a page is made, not when it is written.
//!
//! Not here: which pages are in memory, the write-ahead rule.

use std::time::Duration;

use super::copies::{Copies, NewestCopies, PageBatch, batch_pages, is_whole};
use super::error::PageFailure;
use super::space::SpaceState;
use super::{PageError, PagesMark, Result};
use crate::disk::{ALIGNMENT_MAX, Disk, DiskFile, Open};
use crate::header_copies::{long, short};
use crate::paged::page::{
    FORMAT_VERSION, HEADER_BYTES, MAGIC, Page, PageBuffer, PageId, PageKind, PageMut, PageSize,
    StoreId,
};
use crate::sync::{Mutex, MutexGuard, Parker};

/// The data file's name in its directory.
pub const PAGES_FILE: &str = "pages";

/// A file that another process has is refused after so many tries, two seconds.
const LOCK_TRIES: u32 = 1_000;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The file grows by an eighth of its length, at least and at most by these.
const EXTENT_BYTES_MIN: u64 = 256 << 10;
const EXTENT_BYTES_MAX: u64 = 64 << 20;

/// Offsets in the body of page 0, `u32` but for the magic and the last two: docs/format.md.
const VERSION: usize = MAGIC.len();
const PAGE_BYTES: usize = VERSION + 4;
const PAGES: usize = PAGE_BYTES + 4;
const FREE_HEAD: usize = PAGES + 4;
const FREE_PAGES: usize = FREE_HEAD + 4;
const ROOT: usize = FREE_PAGES + 4;
const CLOSED: usize = ROOT + 4;
const LOG: usize = CLOSED + 4;
const POSITION: usize = LOG + 8;
const _: () = assert!(HEADER_BYTES + PAGES <= ALIGNMENT_MAX);

/// The position of the log that page 0 says.
pub(super) fn position_in<S: PageSize>(page: Page<'_, S>) -> u64 {
    long(page.body(), POSITION)
}

/// Takes the file for this process. One that was killed keeps it until the system has carried out, or dropped, the
/// transfers that the process had under way, some milliseconds after its end.
fn take(file: &dyn DiskFile) -> Result<()> {
    for _ in 0..LOCK_TRIES {
        if file.try_lock()? {
            return Ok(());
        }
        // No thread has a word for this one.
        Parker::<()>::default().park_for(LOCK_PAUSE);
    }
    Err(PageFailure::InUse { file: file.name().to_owned() }.into())
}

/// The data file of a directory.
#[derive(Debug)]
pub(super) struct PageFile<S> {
    file: Box<dyn DiskFile>,
    /// Held for as long as pages are on their way to the file.
    writer: Mutex<PageWriter<S>>,
}

/// What writes pages.
#[derive(Debug)]
pub(super) struct PageWriter<S> {
    /// None where no restart needs pages that are whole.
    copies: Option<Copies>,
    /// What is written next.
    pub(super) batch: PageBatch<S>,
}

impl<S: PageSize> PageFile<S> {
    /// Makes the file, and the one of copies if a crash must not tear a page. It counts as not closed until
    /// [`PageFile::write_header`] says so.
    pub(super) fn create(
        disk: &dyn Disk,
        copies: bool,
        [log, position]: [u64; 2],
    ) -> Result<(Self, SpaceState)> {
        let file = disk.open_direct(PAGES_FILE, Open::New)?;
        take(&*file)?;
        let copies = copies.then(|| Copies::create::<S>(disk)).transpose()?;
        let state = SpaceState { log, position, ..SpaceState::empty() };
        let file = Self::with(file, copies);
        file.write_header(state, false)?;
        file.sync()?;
        disk.sync_dir()?;
        Ok((file, state))
    }

    /// Opens a file that was closed, or, if `restarts`, that is to be restarted; then, if it was not closed or
    /// its page 0 does not say so, pages that a crash tore are repaired. It is to be marked as not closed
    /// ([`PageFile::mark_open`]) before anything is written.
    pub(super) fn open(
        disk: &dyn Disk,
        copies: bool,
        restarts: bool,
    ) -> Result<(Self, SpaceState)> {
        let file = disk.open_direct(PAGES_FILE, Open::Write)?;
        take(&*file)?;
        let copies = copies.then(|| Copies::open::<S>(disk)).transpose()?;
        let file = Self::with(file, copies);
        let state = file.read_header(false).or_else(|error| {
            let writer = file.writer.lock();
            let Some(copies) = writer.copies.as_ref().filter(|_| restarts) else {
                return Err(error);
            };
            copies.repair::<S>(&*file.file)?;
            file.read_header(restarts)
        })?;
        Ok((file, state))
    }

    /// What the file says of its log, or will say once it is repaired, if it may be (`repairs`). Writes nothing.
    ///
    /// # Errors
    /// When page 0 is damaged and no copy of it is there, or pages of a file that was closed are missing, and their
    /// copies, too.
    pub(super) fn survey(disk: &dyn Disk, repairs: bool) -> Result<PagesMark> {
        let file = Self::with(disk.open(PAGES_FILE, Open::Read)?, None);
        file.survey_by(disk, repairs).or_else(|_| {
            // Page 0 may be on its way to the file: of a process that has it, or was killed.
            take(&*file.file)?;
            file.survey_by(disk, repairs)
        })
    }

    fn survey_by(&self, disk: &dyn Disk, repairs: bool) -> Result<PagesMark> {
        let len = self.file.len()?;
        let read = self.read_state(len);
        let is_repaired = match &read {
            Ok(state) => state.is_closed && state.reserved_pages < state.pages,
            Err(_) => !self.has_whole_header(len)?,
        };
        if !is_repaired || !repairs {
            return read.map(|state| state.mark());
        }
        let copies = NewestCopies::<S>::on(disk)?;
        let copy = |id| copies.as_ref().and_then(|copies| copies.get(id));
        let state = match (read, copy(PageId(0))) {
            (Err(error), None) => return Err(error),
            (Err(_), Some(page)) => self.state_in(page, len)?,
            (Ok(state), _) => state,
        };
        let mut lacks = state.reserved_pages..state.pages;
        if state.is_closed && lacks.any(|page| copy(PageId(page)).is_none()) {
            return Err(self.too_short(len, state.pages));
        }
        Ok(state.mark())
    }

    /// Says that the file is not closed, durably, if it says so.
    pub(super) fn mark_open(&self, state: &mut SpaceState) -> Result<()> {
        if state.is_closed {
            state.is_closed = false;
            self.write_header(*state, false)?;
            self.sync()?;
        }
        Ok(())
    }

    fn with(file: Box<dyn DiskFile>, copies: Option<Copies>) -> Self {
        Self { file, writer: Mutex::new(PageWriter { copies, batch: PageBatch::new() }) }
    }

    fn offset(id: PageId) -> u64 {
        u64::from(id.0) * S::BYTES as u64
    }

    #[cold]
    fn damaged(&self, offset: u64, what: impl Into<String>) -> PageError {
        let (file, what) = (self.file.name().to_owned(), what.into());
        PageFailure::Damaged { file, offset, what }.into()
    }

    /// The refusal of a page number that is not in the file.
    #[cold]
    pub(super) fn no_such_page(&self, id: PageId, pages: u32) -> PageError {
        let what = format!("something leads to page {}, but there are {pages} pages", id.0);
        self.damaged(Self::offset(id), what)
    }

    /// Whether page 0 is whole, whatever it says.
    fn has_whole_header(&self, len: u64) -> Result<bool> {
        let mut page = PageBuffer::<S>::new();
        if len >= S::BYTES as u64 {
            self.file.read_at(page.bytes_mut(0, 1), 0)?;
        }
        Ok(is_whole(page.page(), PageId(0)))
    }

    /// The refusal of a file that was closed, and is shorter than its pages.
    #[cold]
    fn too_short(&self, len: u64, pages: u32) -> PageError {
        self.damaged(len, format!("the file ends here, but it should hold {pages} pages"))
    }

    fn read_header(&self, restarts: bool) -> Result<SpaceState> {
        let len = self.file.len()?;
        let state = self.read_state(len)?;
        if !state.is_closed && !restarts {
            return Err(PageFailure::NotClosed { file: self.file.name().to_owned() }.into());
        }
        // What was not closed may be as long as it was at any time.
        if state.is_closed && state.reserved_pages < state.pages {
            return Err(self.too_short(len, state.pages));
        }
        Ok(state)
    }

    /// What page 0 says in a file of `len` bytes.
    fn read_state(&self, len: u64) -> Result<SpaceState> {
        self.check_prefix(len)?;
        if len < S::BYTES as u64 {
            return Err(self.ends_early(len));
        }
        let mut scratch = PageBuffer::<S>::new();
        let mut page = scratch.page_mut();
        self.read_page(PageId(0), &mut page)?;
        self.state_in(page.read(), len)
    }

    /// The same of a page that is whole.
    fn state_in(&self, page: Page<'_, S>, len: u64) -> Result<SpaceState> {
        let field = |at| short(page.body(), at);
        if page.kind() != PageKind::Header {
            return Err(self.damaged(0, "page 0 is not a header"));
        }
        let state = SpaceState {
            is_closed: field(CLOSED) == 1,
            log: long(page.body(), LOG),
            position: position_in(page),
            lsn: page.lsn(),
            pages: field(PAGES),
            reserved_pages: (len / S::BYTES as u64).try_into().unwrap_or(u32::MAX),
            free_head: field(FREE_HEAD),
            free_pages: field(FREE_PAGES),
            root: field(ROOT),
        };
        if state.pages == 0 || state.free_head >= state.pages || state.root >= state.pages {
            return Err(self.damaged(HEADER_BYTES as u64, "page numbers are out of range"));
        }
        Ok(state)
    }

    /// The refusal of a file without a whole page 0.
    #[cold]
    fn ends_early(&self, len: u64) -> PageError {
        self.damaged(len, "the file ends inside its first page")
    }

    /// Whose file it is, before its page size can be relied on.
    fn check_prefix(&self, len: u64) -> Result<()> {
        // Less cannot be read where transfers are aligned, and no page is shorter.
        if len < ALIGNMENT_MAX as u64 {
            return Err(self.ends_early(len));
        }
        let mut first = PageBuffer::<S>::new();
        let prefix = &mut first.bytes_mut(0, 1)[..ALIGNMENT_MAX];
        self.file.read_at(prefix, 0)?;
        let body = &prefix[HEADER_BYTES..];
        let at = |offset| (HEADER_BYTES + offset) as u64;
        if body[..MAGIC.len()] != MAGIC {
            return Err(self.damaged(at(0), "this is no data file of Tombolo"));
        }
        let version = short(body, VERSION);
        if version != FORMAT_VERSION {
            // Of a page that is whole, that is no damage.
            if self.has_whole_header(len)? {
                let (file, found) = (self.file.name().to_owned(), version);
                return Err(PageFailure::OtherVersion { file, found }.into());
            }
            let what = format!("format version {version}, this program reads {FORMAT_VERSION}");
            return Err(self.damaged(at(VERSION), what));
        }
        let bytes = short(body, PAGE_BYTES);
        if bytes as usize != S::BYTES {
            let what = format!("pages of {bytes} bytes, this profile uses {}", S::BYTES);
            return Err(self.damaged(at(PAGE_BYTES), what));
        }
        Ok(())
    }

    /// Writes page 0.
    pub(super) fn write_header(&self, state: SpaceState, closed: bool) -> Result<()> {
        let mut scratch = PageBuffer::<S>::new();
        let mut page = scratch.page_mut();
        page.format(PageId(0), StoreId(0), PageKind::Header);
        page.set_lsn(state.lsn);
        let body = page.body_mut();
        body[..MAGIC.len()].copy_from_slice(&MAGIC);
        for (at, value) in [
            (VERSION, FORMAT_VERSION),
            (PAGE_BYTES, S::BYTES as u32),
            (PAGES, state.pages),
            (FREE_HEAD, state.free_head),
            (FREE_PAGES, state.free_pages),
            (ROOT, state.root),
            (CLOSED, u32::from(closed)),
        ] {
            body[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [(LOG, state.log), (POSITION, state.position)] {
            body[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let mut writer = self.writer();
        writer.batch.push(page.read());
        self.write(&mut writer)
    }

    /// Reads page `id` and verifies it. `page` is unspecified when that fails.
    pub(super) fn read_page(&self, id: PageId, page: &mut PageMut<'_, S>) -> Result<()> {
        let offset = Self::offset(id);
        match self.file.read_at(page.bytes_mut(), offset) {
            Err(error) if error.is_truncated() => {
                return Err(self.damaged(self.file.len()?.min(offset), "the file ends here"));
            }
            result => result?,
        }
        self.verify(id, page.read())
    }

    /// Reads several pages at the same time and verifies them. All are unspecified when that fails.
    pub(super) fn read_pages(&self, pages: &mut [(PageId, PageMut<'_, S>)]) -> Result<()> {
        let pieces = pages.iter_mut().map(|(id, page)| (Self::offset(*id), page.bytes_mut()));
        self.file.read_pieces(&mut pieces.collect::<Vec<_>>())?;
        pages.iter().try_for_each(|(id, page)| self.verify(*id, page.read()))
    }

    fn verify(&self, id: PageId, page: Page<'_, S>) -> Result<()> {
        let verified = page.verify_checksum().and_then(|()| page.verify(id));
        verified.map_err(|what| self.damaged(Self::offset(id), what))
    }

    /// Shows all pages that the file has, in order, each as it was at some time since this began, and whole: how many
    /// bytes there are, where those shown lie, and these. Pages that were never written are zeros.
    pub(super) fn show_all<E: From<PageError>>(
        &self,
        mut show: impl FnMut(u64, u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let pages = self.file.len().map_err(PageError::from)? / S::BYTES as u64;
        let mut buffer = PageBuffer::<S>::of(batch_pages::<S>());
        for first in (0..pages).step_by(batch_pages::<S>()) {
            let count = (pages - first).min(batch_pages::<S>() as u64) as usize;
            {
                let _none_is_written = self.writer.lock();
                let read = self.file.read_at(buffer.bytes_mut(0, count), first * S::BYTES as u64);
                read.map_err(PageError::from)?;
            }
            for at in 0..count {
                let (page, id) = (buffer.page_at(at), PageId((first + at as u64) as u32));
                let verified = page.verify_checksum().and_then(|()| page.verify(id));
                if let Err(what) = verified
                    && page.bytes().iter().any(|byte| *byte != 0)
                {
                    return Err(self.damaged(Self::offset(id), what).into());
                }
            }
            let bytes = buffer.bytes(0, count);
            show(pages * S::BYTES as u64, first * S::BYTES as u64, bytes)?;
        }
        Ok(())
    }

    /// Holds what writes pages; a batch that was not written is forgotten.
    pub(super) fn writer(&self) -> MutexGuard<'_, PageWriter<S>> {
        let mut writer = self.writer.lock();
        writer.batch.clear();
        writer
    }

    /// Writes the pages of the batch.
    pub(super) fn write(&self, writer: &mut PageWriter<S>) -> Result<()> {
        let PageWriter { copies, batch } = writer;
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(copies) = copies {
            copies.write(batch, &*self.file)?;
        }
        batch.write_in_place(&*self.file)?;
        batch.clear();
        Ok(())
    }

    /// Takes space for at least `pages` pages; says for how many there is space now.
    pub(super) fn reserve(&self, pages: u32, reserved: u32) -> Result<u32> {
        if pages <= reserved {
            return Ok(reserved);
        }
        let size = S::BYTES as u64;
        let (needed, held) = (u64::from(pages) * size, u64::from(reserved) * size);
        let extent = (held / 8).clamp(EXTENT_BYTES_MIN, EXTENT_BYTES_MAX) / size * size;
        let wanted = needed.max(held + extent).min(u64::from(u32::MAX) * size);
        let granted = match self.file.set_len(wanted) {
            Ok(()) => wanted,
            // What is left may still be enough for what is needed.
            Err(error) if error.is_full() => self.file.set_len(needed).map(|()| needed)?,
            Err(error) => return Err(error.into()),
        };
        Ok((granted / size) as u32)
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }
}
