//! Inspecting an image: its catalogue, its rings, the checkpoints that their blocks belong to, and all damage.
//!
//! Not here: rows (`load.rs`), the log behind it (`value_log/survey.rs`). Nothing is changed.

use super::catalogue::Catalogue;
use super::load::{Image, RingReader, Whole};
use super::ring::Ring;
use super::settings::ImageFailure;
use crate::schema::TableDef;
use crate::value_log::{GroupNumber, LogPosition, definition};

/// What an image holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSurvey {
    /// The catalogue's file.
    pub file: String,
    /// The version of the format it is written in.
    pub format_version: u32,
    /// How many catalogues there were so far.
    pub sequence: u64,
    /// The last complete checkpoint; 0 for none.
    pub complete: u64,
    /// What it is complete as of.
    pub position: LogPosition,
    /// The checkpoint that was being written, if one was.
    pub writing: Option<u64>,
    /// Directories that the rings lie in.
    pub directories: u32,
    /// The tables' names, in the order of the schema; `(dropped)` of those that were dropped.
    pub tables: Vec<String>,
    /// Its rings.
    pub rings: Vec<RingSurvey>,
    /// The newest group whose changes any block holds; 0 for none.
    pub known: GroupNumber,
    /// What is wrong with any of them.
    pub damage: Vec<ImageFailure>,
}

/// One ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSurvey {
    /// Its file.
    pub file: String,
    /// Which directory it lies in, from 0 on.
    pub directory: u32,
    /// Which table it is of.
    pub table: u32,
    /// Whether it holds values of variable length, and not rows.
    pub is_values: bool,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// The first of its slots.
    pub first_slot: u32,
    /// Rows or values that live in its blocks.
    pub live: u64,
    /// Its blocks.
    pub blocks: u32,
    /// Places beyond them.
    pub spare_blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks whose newest copy is of the complete checkpoint.
    pub complete: u32,
    /// Blocks whose newest copy is of the one that was being written.
    pub written: u32,
}

/// What stands for the name of a table that was dropped.
const DROPPED: &str = "(dropped)";

fn name_of(table: TableDef) -> String {
    if table.is_dropped() { DROPPED.to_owned() } else { table.name.into() }
}

impl Image {
    /// Reads all blocks; `progress` is called with the bytes read. `None` where there is no image.
    ///
    /// # Errors
    /// `Disk`, `Rows`. Damage is part of what is found.
    pub fn survey(
        &self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<ImageSurvey>, ImageFailure> {
        let (Some(catalogue), Some(file)) = (self.catalogue(), self.file()) else {
            return Ok(None);
        };
        let (table, writing) = (|bytes: &Vec<u8>| definition::decode(bytes), catalogue.writing);
        let tables = catalogue.tables.iter().map(table);
        let mut survey = ImageSurvey {
            file: file.to_owned(),
            format_version: self.found.version,
            sequence: catalogue.sequence,
            complete: catalogue.complete.number,
            position: catalogue.complete.position,
            writing: Some(writing.number).filter(|&number| number > 0),
            directories: catalogue.directories,
            tables: tables.map(|found| found.map_or_else(String::new, name_of)).collect(),
            rings: Vec::new(),
            known: 0,
            damage: Vec::new(),
        };
        for ring in &catalogue.rings {
            let looked = self.look_at(catalogue, ring, &mut survey, progress);
            match looked {
                Err(damage @ ImageFailure::Damaged { .. }) => survey.damage.push(damage),
                looked => looked?,
            }
        }
        Ok(Some(survey))
    }

    fn look_at(
        &self,
        catalogue: &Catalogue,
        ring: &Ring,
        survey: &mut ImageSurvey,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ImageFailure> {
        let mut reader = RingReader::new(self, catalogue, ring)?;
        let mut live = vec![0; ring.blocks as usize];
        let mut count = |block: &super::block::Block<'_>| {
            let bits = block.live_bits().map(|bits| u64::from(bits.count_ones()));
            live[block.header.block as usize] = bits.sum();
            Ok(())
        };
        reader.read(&mut count, progress)?;
        let (complete, written) = reader.copies();
        survey.rings.push(RingSurvey {
            file: ring.file_name(),
            directory: ring.stripe,
            table: ring.slab.table,
            is_values: ring.slab.class().is_some(),
            slot_bytes: ring.slot_bytes,
            first_slot: ring.first_slot,
            live: live.iter().sum(),
            blocks: ring.blocks,
            spare_blocks: ring.spare,
            block_bytes: ring.block_bytes,
            complete,
            written,
        });
        let Whole { newest, .. } = reader.finish()?;
        survey.known = survey.known.max(newest);
        Ok(())
    }
}
