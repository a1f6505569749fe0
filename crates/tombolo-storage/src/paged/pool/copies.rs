//! Copies of pages that are being written: what repairs a page that a crash tore.
//!
//! Before a page is written in place, a copy of it is made durable in a file of its own, in the slots behind the
//! last ones. Once all slots are used the data file is synced, and they are used again from the first on: what
//! they held is whole in its place by then. So of every page that may be torn there is a whole copy, as new as
//! the one that was being written or newer; opening a file that was not closed puts it back.
//!
//! Refused: images of whole pages in the log at the first change after a checkpoint. They take room in the log
//! that an abort was not promised, and eight kilobytes for each page changed.
//!
//! Not here: which pages are written, and when (`write_back.rs`); bringing pages up to the log.

use std::collections::BTreeMap;

use super::Result;
use super::file::position_in;
use crate::disk::{Disk, DiskFile, Open};
use crate::paged::page::{Page, PageBuffer, PageId, PageSize};
use crate::plant::{self, Plant};
use crate::probe::{self, Counter};

/// The file's name in its directory.
pub(super) const COPIES_FILE: &str = "pages-copies";

/// Most bytes that are written together.
const BATCH_BYTES: usize = 512 << 10;

/// All slots together: the data file is synced once for so many bytes of pages.
const SLOTS_BYTES: usize = if cfg!(test) { BATCH_BYTES } else { 4 << 20 };

const fn slots<S: PageSize>() -> usize {
    SLOTS_BYTES / S::BYTES
}

/// Most pages that are written together.
pub(super) const fn batch_pages<S: PageSize>() -> usize {
    BATCH_BYTES / S::BYTES
}

/// Pages that are written together, each with its checksum.
#[derive(Debug)]
pub(super) struct PageBatch<S> {
    buffer: PageBuffer<S>,
    ids: Vec<PageId>,
}

impl<S: PageSize> PageBatch<S> {
    /// An empty one.
    pub(super) fn new() -> Self {
        // Memory is taken with the first page.
        Self { buffer: PageBuffer::of(0), ids: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.ids.len() == batch_pages::<S>()
    }

    /// Adds a copy of a page.
    pub(super) fn push(&mut self, page: Page<'_, S>) {
        assert!(!self.is_full(), "a batch that is full is written first");
        if self.buffer.len() == 0 {
            self.buffer = PageBuffer::of(batch_pages::<S>());
        }
        let mut copy = self.buffer.page_mut_at(self.ids.len());
        copy.copy_from(page);
        probe::count(Counter::PageCopies, 1);
        copy.stamp_checksum();
        self.ids.push(page.id());
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
    }

    /// Writes each page in its place in `file`; neighbours together.
    pub(super) fn write_in_place(&self, file: &dyn DiskFile) -> Result<()> {
        let (mut from, mut runs) = (0, Vec::new());
        while from < self.ids.len() {
            let follows =
                |(at, id): (usize, &PageId)| id.0 as usize == self.ids[from].0 as usize + at;
            let run = self.ids[from..].iter().enumerate().take_while(|&next| follows(next)).count();
            let offset = u64::from(self.ids[from].0) * S::BYTES as u64;
            runs.push((offset, self.buffer.bytes(from, run)));
            from += run;
        }
        Ok(file.write_pieces(&runs)?)
    }
}

/// The file of copies, as it is written.
#[derive(Debug)]
pub(super) struct Copies {
    file: Box<dyn DiskFile>,
    /// The slot that is used next.
    next: usize,
}

impl Copies {
    /// Makes the file.
    pub(super) fn create<S: PageSize>(disk: &dyn Disk) -> Result<Self> {
        let file = disk.open_direct(COPIES_FILE, Open::New)?;
        file.set_len((slots::<S>() * S::BYTES) as u64)?;
        Ok(Self { file, next: 0 })
    }

    /// Opens the file; makes it where there is none.
    pub(super) fn open<S: PageSize>(disk: &dyn Disk) -> Result<Self> {
        match disk.open_direct(COPIES_FILE, Open::Write) {
            Ok(file) => Ok(Self { file, next: 0 }),
            Err(error) if error.is_not_found() => Self::create::<S>(disk),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the copies of a batch durable, whose pages belong to `pages`.
    pub(super) fn write<S: PageSize>(
        &mut self,
        batch: &PageBatch<S>,
        pages: &dyn DiskFile,
    ) -> Result<()> {
        let count = batch.ids.len();
        if plant::is(Plant::CopyNotKept) {
            return Ok(());
        }
        if self.next + count > slots::<S>() {
            if !plant::is(Plant::SlotsUsedEarly) {
                pages.sync()?;
            }
            self.next = 0;
        }
        let offset = (self.next * S::BYTES) as u64;
        self.file.write_at(batch.buffer.bytes(0, count), offset)?;
        self.file.sync()?;
        self.next += count;
        Ok(())
    }

    /// Puts the newest copy of each page that `pages` does not have whole in its place; how many.
    pub(super) fn repair<S: PageSize>(&self, pages: &dyn DiskFile) -> Result<u32> {
        let NewestCopies::<S> { copies, slots } = NewestCopies::read(&*self.file)?;
        let mut repaired = 0;
        let mut found = PageBuffer::<S>::new();
        for (id, slot) in slots {
            let offset = u64::from(id.0) * S::BYTES as u64;
            let read = pages.read_at(found.bytes_mut(0, 1), offset);
            match read {
                Ok(()) if is_whole(found.page(), id) => continue,
                Err(error) if !error.is_truncated() => return Err(error.into()),
                _ => pages.write_at(copies.bytes(slot, 1), offset)?,
            }
            repaired += 1;
        }
        // Also what is whole may not be durable, and the slots are used again.
        pages.sync()?;
        Ok(repaired)
    }
}

/// The newest whole copy of each page.
#[derive(Debug)]
pub(super) struct NewestCopies<S> {
    copies: PageBuffer<S>,
    slots: BTreeMap<PageId, usize>,
}

impl<S: PageSize> NewestCopies<S> {
    /// Those on `disk`; `None` where there is no file of copies.
    pub(super) fn on(disk: &dyn Disk) -> Result<Option<Self>> {
        match disk.open(COPIES_FILE, Open::Read) {
            Ok(file) => Self::read(&*file).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read(file: &dyn DiskFile) -> Result<Self> {
        let count = slots::<S>().min((file.len()? / S::BYTES as u64) as usize);
        let mut copies = PageBuffer::<S>::of(count);
        file.read_at(copies.bytes_mut(0, count), 0)?;
        let mut newest: BTreeMap<PageId, usize> = BTreeMap::new();
        for slot in 0..count {
            let copy = copies.page_at(slot);
            if !is_whole(copy, copy.id()) {
                continue;
            }
            let known = newest.entry(copy.id()).or_insert(slot);
            if age(copies.page_at(*known), *known) <= age(copy, slot) {
                *known = slot;
            }
        }
        Ok(Self { copies, slots: newest })
    }

    /// The copy of a page.
    pub(super) fn get(&self, id: PageId) -> Option<Page<'_, S>> {
        self.slots.get(&id).map(|&slot| self.copies.page_at(slot))
    }
}

/// What is greater for the newer of two copies of a page. Page 0 is also written without a change of its LSN: then it
/// says another position of the log, or that the file is not closed any more, which is what the first slot is used for
/// when a file is opened.
fn age<S: PageSize>(copy: Page<'_, S>, slot: usize) -> (u64, u64, bool, usize) {
    match copy.id() {
        PageId(0) => (copy.lsn(), position_in(copy), slot == 0, slot),
        _ => (copy.lsn(), 0, false, slot),
    }
}

/// Whether bytes that may be anything are page `id`.
pub(super) fn is_whole<S: PageSize>(page: Page<'_, S>, id: PageId) -> bool {
    page.verify_checksum().and_then(|()| page.verify(id)).is_ok()
}
