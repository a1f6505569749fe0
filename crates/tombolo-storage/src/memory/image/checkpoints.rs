//! `Checkpoints`: begins a checkpoint, completes it, and then returns the position up to which the log may be released.
//!
//! ```text
//!            begin: rings' files made and synced,          step of all parts until Complete,
//!            then the catalogue that names them            then the catalogue that says so
//!   idle ───────────────────────────────────────► writing ─────────────────────────────────► idle
//!    ▲                                               ▲                                          │
//!    │ start: no checkpoint was under way            │ start: one was; it is continued          │
//!    └───────────────────────────────────────────────┴──────────────────────────────────────────┘
//! ```
//!
//! *Idle*: the catalogue names checkpoint i; every block has an intact copy of it or of i + 1 on the
//! way. *Writing*: the catalogue on the disk names i + 1 and all its rings before any block of it is
//! written. A failure that is not `Full` is final: the state on the disk is unknown until a restart.
//!
//! Not here: blocks (`part.rs`), threads, when to begin.

use super::catalogue::{Catalogue, Checkpoint};
use super::directories;
use super::load::{Image, MirroredPart};
use super::part::{Completed, Needs, SlabNeed};
use super::ring::{Ring, block_layout, is_ring_file};
use super::settings::{ImageFailure, ImageSettings};
use super::stamp::Stamp;
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::sync::Arc;
use crate::value_log::{LogPosition, definition};

/// A new ring has at least one slot for so many that are covered already, so that a slab has a
/// number of rings that grows with the logarithm of its size.
const GROWTH_DIVISOR: u64 = 4;

/// The image's catalogue, open for writing. See the module's head.
#[derive(Debug)]
pub struct Checkpoints {
    disks: Vec<Arc<dyn Disk>>,
    /// The claims of all directories but the first, locked.
    _claims: Vec<Box<dyn DiskFile>>,
    settings: ImageSettings,
    /// As it is on the disk.
    catalogue: Catalogue,
    /// In which checkpoints begin and blocks are written from here on.
    epoch: u32,
    /// The greatest sequence number of any file.
    newest: u64,
    failure: Option<ImageFailure>,
}

/// What parts have to know of a checkpoint that has begun.
#[derive(Clone, Debug)]
pub struct Begun {
    pub(super) stamp: Stamp,
    /// Those that are new.
    pub(super) rings: Vec<Ring>,
    /// Numbers of rings that are no longer: their tables were dropped.
    pub(super) gone: Vec<u32>,
}

impl Begun {
    /// The checkpoint's number.
    pub fn number(&self) -> u64 {
        self.stamp.checkpoint
    }
}

impl Checkpoints {
    /// Continues the image that was found and loaded into these parts, all there are, for the log
    /// with this salt that is in this epoch ([`crate::value_log::LogWriter::salt`],
    /// [`crate::value_log::LogWriter::epoch`]). What was found may be in the system's memory only: it is
    /// made durable.
    ///
    /// # Errors
    /// `Stranger`, `Misplaced`, `InUse`, `Full`, `Disk`.
    pub fn start(
        image: Image,
        loaded: &[MirroredPart],
        salt: u64,
        epoch: u32,
    ) -> Result<Self, ImageFailure> {
        let known_epoch = loaded.iter().map(|part| part.epoch).max().unwrap_or(0);
        let epoch = epoch.max(known_epoch.saturating_add(1));
        let Image { disks, settings, found, .. } = image;
        let newest = found.newest;
        let known = match &found.catalogue {
            Some((catalogue, file)) if catalogue.salt != salt => {
                return Err(ImageFailure::Stranger { file: file.clone() });
            }
            found => found.as_ref().map_or(0, |(catalogue, _)| catalogue.directories),
        };
        let claims = directories::claim(&disks, salt, known)?;
        let Some((mut catalogue, _)) = found.catalogue else {
            let catalogue =
                Catalogue { salt, directories: disks.len() as u32, ..Catalogue::default() };
            let none =
                Self { disks, _claims: claims, settings, catalogue, epoch, newest, failure: None };
            none.remove_strays()?;
            return Ok(none);
        };
        catalogue.directories = disks.len() as u32;
        // The values of rows that changed since the complete checkpoint lie in other slots now than
        // blocks say which were written before the restart: the continued checkpoint is complete as
        // of the same position, no later one.
        catalogue.writing.position = match catalogue.writing.number {
            0 => LogPosition::default(),
            _ => catalogue.complete.position,
        };
        let as_found = catalogue.clone();
        let mut checkpoints = Self {
            disks,
            _claims: claims,
            settings,
            catalogue: as_found,
            epoch,
            newest,
            failure: None,
        };
        checkpoints.write(catalogue, true)?;
        checkpoints.remove_strays()?;
        Ok(checkpoints)
    }

    /// Removes rings' files that no catalogue names: those of a checkpoint that never began, or of
    /// an image that is not needed because the log was whole without it.
    fn remove_strays(&self) -> Result<(), ImageFailure> {
        let names: Vec<_> = self.catalogue.rings.iter().map(Ring::file_name).collect();
        for disk in &self.disks {
            let files = disk.list()?.into_iter();
            for stray in files.filter(|name| is_ring_file(name) && !names.contains(name)) {
                disk.remove(&stray)?;
            }
        }
        Ok(())
    }

    /// The checkpoint that is being written, if one is.
    pub fn writing(&self) -> Option<u64> {
        Some(self.catalogue.writing.number).filter(|&number| number != 0)
    }

    /// The last complete checkpoint; 0 for none.
    pub fn complete_number(&self) -> u64 {
        self.catalogue.complete.number
    }

    /// What parts write blocks with while a checkpoint is written.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.writing().map(|checkpoint| Stamp { checkpoint, epoch: self.epoch })
    }

    /// What the last complete checkpoint is complete as of: the log from that group on is needed.
    pub fn position(&self) -> LogPosition {
        self.catalogue.complete.position
    }

    /// Bytes of all rings' files.
    pub fn image_bytes(&self) -> u64 {
        self.catalogue.rings.iter().map(Ring::file_bytes).sum()
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<&ImageFailure> {
        self.failure.as_ref()
    }

    pub(super) fn settings(&self) -> ImageSettings {
        self.settings
    }

    pub(super) fn salt(&self) -> u64 {
        self.catalogue.salt
    }

    pub(super) fn disks(&self) -> &[Arc<dyn Disk>] {
        &self.disks
    }

    /// Begins the next checkpoint, with what all parts need. It will be complete as of the oldest of
    /// their positions. Rings that are missing are made, so that a full disk is met here.
    ///
    /// # Errors
    /// `Full`: the call may be tried again, and the last complete checkpoint is valid. `Disk`.
    ///
    /// # Panics
    /// When one is being written, or no part is given.
    pub fn begin(&mut self, parts: &[Needs]) -> Result<Begun, ImageFailure> {
        self.refuse_if_failed()?;
        assert!(self.writing().is_none(), "a checkpoint is being written already");
        let positions = parts.iter().map(|part| part.position);
        let position = positions.min_by_key(|position| position.group).expect("at least one part");
        // The part that read most of the log knows all definitions. Changes of earlier builds have no
        // number, and only ever added.
        let age = |schema: &&Schema| {
            let columns = schema.tables.iter().map(|table| table.columns.len()).sum::<usize>();
            (schema.changes(), schema.tables.len(), schema.indexes() + columns)
        };
        let newest = parts.iter().map(|part| &part.schema).max_by_key(age);
        let schema = newest.expect("at least one part");
        let mut next = self.catalogue.clone();
        next.tables = schema.tables.iter().map(definition::encode).collect();
        next.changes = schema.changes();
        let is_gone = |table: u32| schema.tables[table as usize].is_dropped();
        let gone: Vec<_> = next.rings.extract_if(.., |ring| is_gone(ring.slab.table)).collect();
        let number = next.complete.number + 1;
        next.writing = Checkpoint { number, epoch: self.epoch, position };
        let slabs = parts.iter().flat_map(|part| &part.slabs);
        let rings = self.missing_rings(&mut next, slabs.filter(|need| !is_gone(need.slab.table)));
        for ring in &rings {
            self.make(ring)?;
        }
        self.sync_directories(&rings)?;
        next.rings.extend_from_slice(&rings);
        let stamp = next.writing.course();
        self.write(next, !plant::is(Plant::RingNotInCatalogueFirst))?;
        for ring in &gone {
            let removed = self.disks[ring.stripe as usize].remove(&ring.file_name());
            removed.map_err(|error| self.fail(error))?;
        }
        let gone = gone.iter().map(|ring| ring.number).collect();
        Ok(Begun { stamp, rings, gone })
    }

    /// Rings for the slots that no ring has.
    fn missing_rings<'a>(
        &self,
        next: &mut Catalogue,
        needs: impl Iterator<Item = &'a SlabNeed>,
    ) -> Vec<Ring> {
        let mut rings = Vec::new();
        for need in needs {
            let own = next.rings.iter().filter(|ring| ring.slab == need.slab);
            let covered = own.map(Ring::end_slot).max().unwrap_or(0);
            let used = u64::from(need.used);
            if used <= covered {
                continue;
            }
            let most = u64::from(u32::MAX) - covered;
            let slots = (used - covered).max(covered / GROWTH_DIVISOR).min(most);
            let (block_bytes, block_slots) =
                block_layout(need.slot_bytes, slots, self.settings.block_bytes);
            rings.push(Ring {
                number: next.next_ring,
                stripe: next.next_ring % self.disks.len() as u32,
                slab: need.slab,
                slot_bytes: need.slot_bytes,
                first_slot: covered as u32,
                block_slots,
                blocks: slots.div_ceil(block_slots.into()) as u32,
                spare: self.settings.spare_blocks,
                block_bytes,
                created_by: next.writing.number,
            });
            next.next_ring += 1;
        }
        rings
    }

    /// Makes a ring's file and takes its space. A file of this name is left from a checkpoint that
    /// never began.
    fn make(&mut self, ring: &Ring) -> Result<(), ImageFailure> {
        let disk = Arc::clone(&self.disks[ring.stripe as usize]);
        let name = ring.file_name();
        let made = (|| {
            if disk.exists(&name)? {
                disk.remove(&name)?;
            }
            let file = disk.open(&name, Open::New)?;
            file.set_len(ring.file_bytes())?;
            file.sync()
        })();
        made.map_err(|error| {
            // Made again by the next try; until then its space is wanted.
            _ = disk.remove(&name);
            self.fail(error)
        })
    }

    fn sync_directories(&mut self, rings: &[Ring]) -> Result<(), ImageFailure> {
        for stripe in 0..self.disks.len() {
            let is_left_out = stripe > 0 && plant::is(Plant::StripeNotSynced);
            if !is_left_out && rings.iter().any(|ring| ring.stripe as usize == stripe) {
                self.disks[stripe].sync_dir().map_err(|error| self.fail(error))?;
            }
        }
        Ok(())
    }

    /// All parts have written all their blocks: the checkpoint is complete as of the position
    /// returned, and the log may be released before its group
    /// ([`crate::value_log::LogWriter::release_before`]).
    ///
    /// # Errors
    /// `Full`: may be tried again. `Disk`.
    ///
    /// # Panics
    /// When none is being written, or what parts completed is another one.
    pub fn complete(&mut self, parts: &[Completed]) -> Result<LogPosition, ImageFailure> {
        self.refuse_if_failed()?;
        let number = self.writing().expect("a checkpoint is being written");
        assert!(!parts.is_empty() && parts.iter().all(|part| part.0 == number));
        let mut next = self.catalogue.clone();
        next.complete = std::mem::take(&mut next.writing);
        self.write(next, !plant::is(Plant::LogReleasedEarly))?;
        Ok(self.position())
    }

    /// Writes the next state of the catalogue.
    fn write(&mut self, mut next: Catalogue, is_durable: bool) -> Result<(), ImageFailure> {
        self.newest += 1;
        next.sequence = self.newest;
        next.write(&*self.disks[0], is_durable).map_err(|error| self.fail(error))?;
        self.catalogue = next;
        Ok(())
    }

    fn refuse_if_failed(&self) -> Result<(), ImageFailure> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: DiskError) -> ImageFailure {
        let failure = ImageFailure::from(error);
        if !failure.is_full() {
            self.failure = Some(failure.clone());
        }
        failure
    }
}
