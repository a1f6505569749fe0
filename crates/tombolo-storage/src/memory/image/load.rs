//! Loading: of each block the newest intact copy, into the rows of a part.
//!
//! A copy counts if it is of the complete checkpoint or of the one after it that was being written, and
//! of the course that the catalogue means (`stamp.rs`). A file is read once, from its beginning to its
//! end, in large pieces; a block whose older copy lies in front of the newer one is stored twice.
//! Several threads may each load a part.
//!
//! Not here: replaying what came later (`memory/recovery/`), why rows of different moments are no harm
//! (`mod.rs`).

use super::super::Limits;
use super::super::recovery::{ReplayPart, is_own};
use super::block::{Block, decode, header};
use super::catalogue::{Catalogue, CatalogueScan};
use super::directories;
use super::ring::{Ring, is_ring_file};
use super::settings::{ImageFailure, ImageSettings, SecondCopy};
use super::stamp::Stamp;
use crate::disk::{Disk, DiskFile, Open, Operation};
use crate::plant::{self, Plant};
use crate::sync::Arc;
use crate::value_log::AlignedBuffer;
use crate::value_log::{GroupNumber, LogFailure, LogPosition, LogStart, RecoverOptions};

/// How much is read at a time, if a block is not longer.
const PIECE_BYTES: u64 = 4 << 20;

/// Bytes that are asked for before they are read.
const AHEAD_BYTES: u64 = 2 * PIECE_BYTES;

/// The image that lies on some directories, or that there is none.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) disks: Vec<Arc<dyn Disk>>,
    pub(super) settings: ImageSettings,
    pub(super) found: CatalogueScan,
    /// A file of an image, where there is no catalogue.
    pub(super) orphan: Option<String>,
}

/// Rows of some of the tables, as an image has them. Replay the log from [`Image::log_start`] on.
#[derive(Debug)]
pub struct LoadedPart {
    /// The rows.
    pub replay: ReplayPart,
    pub(super) rings: Vec<LoadedRing>,
    known: GroupNumber,
    /// The latest epoch that catalogue or blocks know of.
    epoch: u32,
    bytes: u64,
    dangling: usize,
    /// Where DB′ is to be.
    second: SecondCopy,
}

/// A second copy of the rows of some tables (DB′), if there is one, with their rings.
#[derive(Debug)]
pub struct MirroredPart {
    pub(super) copy: Copied,
    pub(super) rings: Vec<LoadedRing>,
    /// The latest epoch that the image knew of when it was loaded.
    pub(super) epoch: u32,
}

/// DB′ of some tables.
#[derive(Debug)]
pub(super) enum Copied {
    Memory(Box<ReplayPart>),
    /// There is none: this part of so many asks the store for its rows.
    None {
        part: usize,
        parts: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedRing {
    pub(super) ring: Ring,
    /// Blocks of the checkpoint that was being written, in whole batches from the first on.
    pub(super) written: u32,
}

impl LoadedPart {
    /// The newest group whose changes any of its blocks holds; 0 for none.
    pub fn known(&self) -> GroupNumber {
        self.known
    }

    /// Bytes of files that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Values that only the log has.
    pub fn dangling(&self) -> usize {
        self.dangling
    }

    /// DB′ of its tables, when the log was replayed: for [`super::CheckpointPart::new`].
    ///
    /// # Errors
    /// `Rows`: no memory, or as [`ReplayPart::settle`].
    pub fn mirror(&mut self) -> Result<MirroredPart, ImageFailure> {
        let copy = match self.second {
            SecondCopy::Memory => self.replay.mirror().map(|copy| Copied::Memory(Box::new(copy))),
            SecondCopy::None => self.replay.settle().map(|()| Copied::None { part: 0, parts: 1 }),
        };
        let copy = copy.map_err(ImageFailure::Rows)?;
        Ok(MirroredPart { copy, rings: self.rings.clone(), epoch: self.epoch })
    }
}

impl MirroredPart {
    /// All parts of one replay, divided into `count`: as many as there are to write checkpoints,
    /// however many there were to load and replay.
    ///
    /// # Panics
    /// When a part is missing, or `count` is 0.
    pub fn divide(parts: Vec<Self>, count: usize) -> Vec<Self> {
        let (mut in_memory, mut rings) = (Vec::new(), Vec::new());
        let epoch = parts.iter().map(|part| part.epoch).max().unwrap_or(0);
        for part in parts {
            rings.extend(part.rings);
            if let Copied::Memory(replay) = part.copy {
                in_memory.push(*replay);
            }
        }
        let copies: Vec<Copied> = match in_memory.is_empty() {
            false => ReplayPart::divide(in_memory, count)
                .into_iter()
                .map(|replay| Copied::Memory(Box::new(replay)))
                .collect(),
            true => (0..count).map(|part| Copied::None { part, parts: count }).collect(),
        };
        let divided = copies.into_iter().map(|copy| {
            let own = rings.iter().filter(|ring| copy.keeps(ring.ring.slab.table));
            Self { rings: own.copied().collect(), copy, epoch }
        });
        divided.collect()
    }
}

impl Copied {
    /// Whether it has the rows of a table.
    pub(super) fn keeps(&self, table: u32) -> bool {
        match self {
            Self::Memory(replay) => replay.keeps(table),
            Self::None { part, parts } => is_own(table as usize, *part, *parts),
        }
    }
}

impl Image {
    /// Looks for an image. The catalogue lies in the first directory, the rings in all of them; they
    /// are given in the same order each time, and more may be given than before.
    ///
    /// # Errors
    /// `OtherVersion`, `Directories`, `Misplaced`, `Settings`, `Disk`.
    ///
    /// # Panics
    /// When no directory is given.
    pub fn find(disks: Vec<Arc<dyn Disk>>, settings: ImageSettings) -> Result<Self, ImageFailure> {
        settings.check()?;
        assert!(!disks.is_empty(), "an image needs a directory");
        let found = Catalogue::find(&*disks[0])?;
        let (needed, given) = (
            found.catalogue.as_ref().map_or(0, |(catalogue, _)| catalogue.directories),
            disks.len() as u32,
        );
        if needed > given {
            return Err(ImageFailure::Directories { needed, given });
        }
        if let Some((catalogue, _)) = &found.catalogue {
            directories::check(&disks, catalogue.salt)?;
        }
        let orphan = match &found.catalogue {
            Some(_) => None,
            None => orphan(&disks)?,
        };
        Ok(Self { disks, settings, found, orphan })
    }

    pub(super) fn catalogue(&self) -> Option<&Catalogue> {
        self.found.catalogue.as_ref().map(|(catalogue, _)| catalogue)
    }

    /// Any file of an image, whether its catalogue is intact or not.
    pub fn any_file(&self) -> Option<&str> {
        let damaged = || self.found.passed_over.first().map(String::as_str);
        self.file().or_else(damaged).or(self.orphan.as_deref())
    }

    /// The catalogue's file, if there is an image.
    pub fn file(&self) -> Option<&str> {
        self.found.catalogue.as_ref().map(|(_, file)| &**file)
    }

    /// How many directories it lies in, the log's included; 0 if there is none.
    pub fn directories(&self) -> u32 {
        self.catalogue().map_or(0, |found| found.directories)
    }

    /// What the image is complete as of: the beginning if there is none.
    pub fn position(&self) -> LogPosition {
        self.catalogue().map_or_else(LogPosition::default, |found| found.complete.position)
    }

    /// Where replaying begins behind parts whose blocks hold changes of groups up to `known`, the
    /// newest [`LoadedPart::known`] of all.
    pub fn log_start(&self, known: GroupNumber) -> LogStart {
        let salt = self.catalogue().map(|catalogue| catalogue.salt);
        // Next to an image without a catalogue the log is needed from its first group on.
        let known = if self.is_without_catalogue() { known.max(1) } else { known };
        LogStart { salt, ..LogStart::behind(self.position(), known) }
    }

    /// How the log behind it is recovered. What an image without a catalogue may hold is no loss that
    /// can be accepted.
    pub fn recover_options(
        &self,
        known: GroupNumber,
        accept_loss: bool,
        keep: Option<GroupNumber>,
    ) -> RecoverOptions {
        let accept_loss = accept_loss && !self.is_without_catalogue();
        RecoverOptions { first: self.log_start(known), accept_loss, keep, last: None }
    }

    /// The real cause where the log lacks groups that it has to hold: it was released up to the
    /// position of a catalogue that is damaged or gone by now. `None` if the log itself is damaged.
    pub fn blamed_for(&self, failure: &LogFailure) -> Option<ImageFailure> {
        let (file, offset, what) = match failure {
            LogFailure::Irreparable { file, offset, what, .. } => (file, offset, what),
            LogFailure::Damaged { file, offset, what, .. } if self.is_without_catalogue() => {
                (file, offset, what)
            }
            _ => return None,
        };
        // What is wrong with it, without its own advice.
        let log = format!("the log alone is not whole ({file} at offset {offset}: {what})");
        match (self.found.passed_over.first(), &self.orphan) {
            (Some(file), _) => {
                let what = format!("no copy of the catalogue is intact, and {log}");
                Some(ImageFailure::Damaged { file: file.clone(), offset: 0, what })
            }
            (None, Some(file)) => Some(ImageFailure::NoCatalogue { file: file.clone(), log }),
            (None, None) => None,
        }
    }

    /// Whether there are files of an image, and no intact catalogue.
    fn is_without_catalogue(&self) -> bool {
        let is_traced = self.orphan.is_some() || !self.found.passed_over.is_empty();
        self.found.catalogue.is_none() && is_traced
    }

    /// Bytes of all rings' files.
    pub fn image_bytes(&self) -> u64 {
        self.catalogue().map_or(0, |found| found.rings.iter().map(Ring::file_bytes).sum())
    }

    /// Loads part `part` of `parts` (see [`ReplayPart::new`]); `progress` is called with the bytes
    /// read. Without an image the part is empty.
    ///
    /// # Errors
    /// `Damaged`, `Rows`, `Disk`.
    ///
    /// # Panics
    /// As [`ReplayPart::new`].
    pub fn load(
        &self,
        part: usize,
        parts: usize,
        limits: Limits,
        progress: &mut dyn FnMut(u64),
    ) -> Result<LoadedPart, ImageFailure> {
        let replay = ReplayPart::new(part, parts, limits);
        let (rings, second) = (Vec::new(), self.settings.copy);
        let mut loaded =
            LoadedPart { replay, rings, known: 0, epoch: 0, bytes: 0, dangling: 0, second };
        let Some((catalogue, file)) = &self.found.catalogue else {
            return Ok(loaded);
        };
        loaded.epoch = catalogue.complete.epoch.max(catalogue.writing.epoch);
        let schema = loaded.replay.load_schema(&catalogue.tables, catalogue.changes);
        let damaged = |what| ImageFailure::Damaged { file: file.clone(), offset: 0, what };
        schema.map_err(damaged)?;
        for ring in &catalogue.rings {
            if loaded.replay.keeps(ring.slab.table) {
                self.check_shape(ring, &loaded.replay, file)?;
                let mut reader = RingReader::new(self, catalogue, ring)?;
                let replay = &mut loaded.replay;
                reader.read(&mut |block| put_down(replay, ring, block), progress)?;
                let Whole { written, newest, epoch } = reader.finish()?;
                loaded.bytes += ring.file_bytes();
                loaded.known = loaded.known.max(newest);
                loaded.epoch = loaded.epoch.max(epoch);
                loaded.rings.push(LoadedRing { ring: *ring, written });
            }
        }
        loaded.dangling = loaded.replay.claim_values(loaded.known);
        Ok(loaded)
    }

    /// Refuses a ring that is of other slots than its table has.
    fn check_shape(
        &self,
        ring: &Ring,
        replay: &ReplayPart,
        file: &str,
    ) -> Result<(), ImageFailure> {
        let expected = replay.slot_bytes(ring.slab);
        if expected == Some(ring.slot_bytes as usize) {
            return Ok(());
        }
        let what = format!(
            "ring {} has slots of {} bytes, those of its table have {expected:?}",
            ring.number, ring.slot_bytes
        );
        Err(ImageFailure::Damaged { file: file.to_owned(), offset: 0, what })
    }
}

/// A ring's file in any of the directories.
fn orphan(disks: &[Arc<dyn Disk>]) -> Result<Option<String>, ImageFailure> {
    for disk in disks {
        if let Some(ring) = disk.list()?.iter().filter(|name| is_ring_file(name)).min() {
            return Ok(Some(disk.open(ring, Open::Read)?.name().to_owned()));
        }
    }
    Ok(None)
}

/// Puts the slots of a block into the slab they are of.
fn put_down(replay: &mut ReplayPart, ring: &Ring, block: &Block<'_>) -> Result<(), ImageFailure> {
    let first = ring.first_slot_of(block.header.block);
    let slots = (first, ring.block_slots);
    replay.load_slots(ring.slab, slots, block.live_bits(), block.slots).map_err(ImageFailure::Rows)
}

/// The way along one ring's file.
pub(super) struct RingReader<'a> {
    ring: &'a Ring,
    file: Box<dyn DiskFile>,
    salt: u64,
    complete: Stamp,
    /// The newest course whose copies count.
    newest: Stamp,
    /// Of each block, the checkpoint whose copy was loaded, 0 for none, and its newest group.
    loaded: Vec<(u64, GroupNumber)>,
    /// The latest epoch that any block is of.
    epoch: u32,
}

/// What a ring without damage comes to.
pub(super) struct Whole {
    /// Blocks of the checkpoint that was being written, in whole batches from the first on.
    pub(super) written: u32,
    /// The newest group whose changes any block holds.
    pub(super) newest: GroupNumber,
    /// The latest epoch that any block is of, abandoned ones too.
    pub(super) epoch: u32,
}

impl<'a> RingReader<'a> {
    pub(super) fn new(
        image: &Image,
        catalogue: &Catalogue,
        ring: &'a Ring,
    ) -> Result<Self, ImageFailure> {
        let disk = &*image.disks[ring.stripe as usize];
        let name = ring.file_name();
        let file = match image.settings.direct {
            true => disk.open_direct(&name, Open::Read),
            false => disk.open(&name, Open::Read),
        };
        let file = file.map_err(|error| match error.is_not_found() {
            true => {
                let what = "the catalogue names this file, and it is not there".to_owned();
                ImageFailure::Damaged { file: error.file().to_owned(), offset: 0, what }
            }
            false => error.into(),
        })?;
        let bytes = file.len()?;
        if bytes < ring.file_bytes() {
            let what = format!("the file ends here instead of at {}", ring.file_bytes());
            let file = file.name().to_owned();
            return Err(ImageFailure::Damaged { file, offset: bytes, what });
        }
        let (salt, complete) = (catalogue.salt, catalogue.complete.course());
        let newest =
            if catalogue.writing.number > 0 { catalogue.writing.course() } else { complete };
        let loaded = vec![(0, 0); ring.blocks as usize];
        Ok(Self { ring, file, salt, complete, newest, loaded, epoch: 0 })
    }

    /// Reads all places; `put` is given the blocks that count, of two copies perhaps both, the newer one
    /// last.
    pub(super) fn read(
        &mut self,
        put: &mut dyn FnMut(&Block<'_>) -> Result<(), ImageFailure>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ImageFailure> {
        let block_bytes = u64::from(self.ring.block_bytes);
        let places = self.ring.places();
        let together = (PIECE_BYTES / block_bytes).max(1);
        let mut buffer = AlignedBuffer::default();
        let mut place = 0;
        while place < places {
            let count = together.min(places - place);
            let length = (count * block_bytes) as usize;
            let bytes = buffer.try_first(length, Operation::Read, &*self.file)?;
            self.file.read_at(bytes, self.ring.offset(place))?;
            let behind = (places - place - count) * block_bytes;
            if behind > 0 {
                self.file.read_ahead(self.ring.offset(place + count), behind.min(AHEAD_BYTES));
            }
            for (at, bytes) in bytes.chunks_exact(block_bytes as usize).enumerate() {
                self.take(place + at as u64, bytes, put)?;
            }
            place += count;
            progress(count * block_bytes);
        }
        Ok(())
    }

    /// Stores the block at a place, if it is one that counts and newer than what is there.
    fn take(
        &mut self,
        place: u64,
        bytes: &[u8],
        put: &mut dyn FnMut(&Block<'_>) -> Result<(), ImageFailure>,
    ) -> Result<(), ImageFailure> {
        let ring = self.ring;
        let Some(head) = header(ring, bytes) else { return Ok(()) };
        let (known, checkpoint) = (self.loaded[head.block as usize].0, head.stamp.checkpoint);
        let counts = match plant::is(Plant::StaleBlockAccepted) {
            true => known == 0,
            false => head.stamp.is_of(self.complete) || head.stamp.is_of(self.newest),
        };
        let is_newer = counts && checkpoint >= known;
        // Of an abandoned course: the next one with this number has to begin in a later epoch.
        let is_abandoned = !counts && checkpoint >= self.complete.checkpoint;
        let is_here = ring.block_at(checkpoint, place) == Some(head.block);
        if !(is_newer || is_abandoned) || !is_here || checkpoint == 0 {
            return Ok(());
        }
        let Some(block) = decode(ring, self.salt, bytes) else { return Ok(()) };
        self.epoch = self.epoch.max(head.stamp.epoch);
        if is_newer {
            put(&block)?;
            self.loaded[head.block as usize] = (checkpoint, head.newest);
        }
        Ok(())
    }

    /// How many blocks have a newest copy of the complete checkpoint, and of the one under way.
    pub(super) fn copies(&self) -> (u32, u32) {
        let of = |number: u64| self.loaded.iter().filter(|copy| copy.0 == number).count() as u32;
        let (complete, newest) = (self.complete.checkpoint, self.newest.checkpoint);
        let under_way = if newest > complete { of(newest) } else { 0 };
        (if complete > 0 { of(complete) } else { 0 }, under_way)
    }

    /// Refuses a ring that lacks blocks.
    pub(super) fn finish(self) -> Result<Whole, ImageFailure> {
        let Self { ring, epoch, .. } = self;
        let (complete, under_way) = (self.complete.checkpoint, self.newest.checkpoint);
        let missing = self.loaded.iter().position(|&(checkpoint, _)| checkpoint == 0);
        if let Some(block) = missing
            && ring.created_by <= complete
        {
            let block = block as u32;
            let offset = ring.offset(ring.place(complete, block));
            let mut what = format!("block {block} of checkpoint {complete} is damaged");
            if under_way > complete {
                let newer = ring.offset(ring.place(under_way, block));
                what += &format!(", and so is that of {under_way} at offset {newer}");
            }
            let file = self.file.name().to_owned();
            return Err(ImageFailure::Damaged { file, offset, what });
        }
        let newest = self.loaded.iter().map(|&(_, newest)| newest).max().unwrap_or(0);
        if under_way == complete {
            return Ok(Whole { written: 0, newest, epoch });
        }
        let mut written = 0;
        while written < ring.blocks {
            let batch = ring.batch_of(written);
            let is_whole = batch.clone().all(|block| self.loaded[block as usize].0 == under_way);
            if !is_whole {
                break;
            }
            written = batch.end;
        }
        Ok(Whole { written, newest, epoch })
    }
}
