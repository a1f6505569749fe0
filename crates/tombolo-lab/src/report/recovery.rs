//! The results of `recover` and `inspect`.

use minijinja::value::{Serde, Value};
use serde::{Deserialize, Serialize};
use tombolo_storage::memory::image::{ImageFailure, ImageSurvey, RingSurvey};
use tombolo_storage::value_log::{SegmentState, SegmentSurvey};

use super::rounded;
use super::run::RestartResult;
use super::terminal::Style;
use super::text::text;
use crate::files::{Recovery, notice};
use crate::rows::Finding;
use crate::upkeep::in_doubt::InDoubt;
use crate::upkeep::inspect::{Inspection, PagesInspection, TableRecords};

/// A result of `recover`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RecoverResult {
    pub directory: String,
    /// Nothing was cut off.
    pub clean: bool,
    pub image_bytes: u64,
    pub image_cpu_s: f64,
    pub log_bytes: u64,
    pub row_images: u64,
    pub transactions: u64,
    pub replay_cpu_s: f64,
    pub wall_s: f64,
    pub last_group: u64,
    pub epoch: u32,
    pub torn_bytes: u64,
    pub lost_groups: u64,
    pub lost_transactions: u64,
}

impl RecoverResult {
    /// The result of recovering what was in `directory`.
    pub fn new(directory: String, recovery: &Recovery) -> Self {
        let cut = recovery.cut.as_ref();
        Self {
            directory,
            clean: recovery.is_clean(),
            image_bytes: recovery.image_bytes,
            image_cpu_s: rounded(recovery.image_cpu_s, 6),
            log_bytes: recovery.log_bytes,
            row_images: recovery.row_images,
            transactions: recovery.transactions,
            replay_cpu_s: rounded(recovery.replay_cpu_s(), 6),
            wall_s: rounded(recovery.wall_s, 6),
            last_group: recovery.last_group,
            epoch: recovery.epoch,
            torn_bytes: cut.map_or(0, |cut| cut.torn_bytes),
            lost_groups: cut.map_or(0, |cut| cut.lost.groups),
            lost_transactions: cut.map_or(0, |cut| cut.lost.transactions),
        }
    }

    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        text("recover", Value::from(Serde(self)), style).trim_end().to_owned()
    }
}

/// A result of `recover` on a paged store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RecoverPagesResult {
    pub directory: String,
    /// The work of the restart; none where the database had been closed.
    pub restart: Option<RestartResult>,
}

impl RecoverPagesResult {
    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        text("restart", Value::from(Serde(self)), style).trim_end().to_owned()
    }
}

/// A segment's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentResult {
    /// Its name.
    pub file: String,
    /// `used`, `spare`, `unfinished` or `damaged`.
    pub state: String,
    /// The version of its format.
    pub format_version: u32,
    /// Its place in the segments' order.
    pub sequence: u64,
    /// How often it was used.
    pub uses: u32,
    /// Its length.
    pub segment_bytes: u64,
    /// Groups begin at multiples of this.
    pub block_bytes: u64,
    /// The oldest group in it.
    pub first_group: Option<u64>,
    /// The newest.
    pub last_group: Option<u64>,
}

impl From<&SegmentSurvey> for SegmentResult {
    fn from(segment: &SegmentSurvey) -> Self {
        let (state, groups) = match segment.state {
            SegmentState::Used { first, last } => ("used", Some((first, last))),
            SegmentState::Spare => ("spare", None),
            SegmentState::Unfinished => ("unfinished", None),
            SegmentState::Damaged => ("damaged", None),
        };
        let file = segment.file.rsplit('/').next().unwrap_or(&segment.file).to_owned();
        let SegmentSurvey { format_version, sequence, uses, segment_bytes, block_bytes, .. } =
            *segment;
        let (first_group, last_group) =
            (groups.map(|(first, _)| first), groups.map(|(_, last)| last));
        Self {
            file,
            state: state.to_owned(),
            format_version,
            sequence,
            uses,
            segment_bytes,
            block_bytes,
            first_group,
            last_group,
        }
    }
}

/// The checkpoint image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageResult {
    /// The catalogue's file.
    pub file: String,
    /// The version of its format.
    pub format_version: u32,
    /// The last complete checkpoint; 0 for none.
    pub complete: u64,
    /// The group it is complete as of.
    pub group: u64,
    /// The checkpoint that was being written.
    pub writing: Option<u64>,
    /// Directories its rings lie in.
    pub directories: u32,
    /// Bytes of all rings.
    pub bytes: u64,
    /// Its rings.
    pub rings: Vec<RingResult>,
}

/// A ring of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingResult {
    /// Its file.
    pub file: String,
    /// Which directory it lies in, from 0 on.
    pub directory: u32,
    /// The table.
    pub table: String,
    /// `rows` or `values`.
    pub slots: String,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// How many slots are live.
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

impl From<&ImageSurvey> for ImageResult {
    fn from(image: &ImageSurvey) -> Self {
        let ring = |ring: &RingSurvey| RingResult {
            file: ring.file.clone(),
            directory: ring.directory,
            table: image.tables.get(ring.table as usize).cloned().unwrap_or_default(),
            slots: if ring.is_values { "values" } else { "rows" }.to_owned(),
            slot_bytes: ring.slot_bytes,
            live: ring.live,
            blocks: ring.blocks,
            spare_blocks: ring.spare_blocks,
            block_bytes: ring.block_bytes,
            complete: ring.complete,
            written: ring.written,
        };
        let bytes = |ring: &RingSurvey| {
            (u64::from(ring.blocks) + u64::from(ring.spare_blocks)) * u64::from(ring.block_bytes)
        };
        Self {
            file: image.file.rsplit('/').next().unwrap_or(&image.file).to_owned(),
            format_version: image.format_version,
            complete: image.complete,
            group: image.position.group,
            writing: image.writing,
            directories: image.directories,
            bytes: image.rings.iter().map(bytes).sum(),
            rings: image.rings.iter().map(ring).collect(),
        }
    }
}

/// Damage of an image.
fn image_damage(failure: &ImageFailure) -> Finding {
    let (file, offset) = match failure {
        ImageFailure::Damaged { file, offset, .. } => (Some(file.clone()), Some(*offset)),
        _ => (None, None),
    };
    Finding { file, offset, check: "image".to_owned(), what: failure.to_string() }
}

/// A result of `inspect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named like the fields of recover and of a segment's header")]
pub struct InspectResult {
    pub directory: String,
    pub format_version: u32,
    pub epoch: u32,
    pub groups: u64,
    pub last_group: u64,
    pub transactions: u64,
    pub log_bytes: u64,
    pub record_bytes: u64,
    pub torn_bytes: u64,
    pub image: Option<ImageResult>,
    pub segments: Vec<SegmentResult>,
    pub tables: Vec<TableRecords>,
    /// Transactions over several islands that are not ended; none known where damage hides them.
    pub in_doubt: Option<Vec<InDoubt>>,
    pub damage: Vec<Finding>,
    /// One line about where the log ends, if there is anything to say.
    pub notice: Option<String>,
}

impl InspectResult {
    /// The result of looking into `directory`.
    pub fn new(directory: String, found: &Inspection) -> Self {
        let log = &found.log;
        let cut = log.cut.as_ref();
        let damage = cut.and_then(|cut| cut.damage.as_ref().map(|damage| (cut, damage)));
        let damage = damage.map(|(cut, damage)| Finding {
            file: Some(cut.file.clone()),
            offset: Some(cut.offset),
            check: "log".to_owned(),
            what: damage.to_string(),
        });
        let of_image = found.image.iter().flat_map(|image| &image.damage).map(image_damage);
        Self {
            directory,
            format_version: log.format_version(),
            epoch: log.epoch,
            groups: log.groups,
            last_group: log.last_group,
            transactions: log.transactions,
            log_bytes: log.bytes,
            record_bytes: found.record_bytes,
            torn_bytes: cut.map_or(0, |cut| cut.torn_bytes),
            image: found.image.as_ref().map(ImageResult::from),
            segments: log.segments.iter().map(SegmentResult::from).collect(),
            tables: found.tables.clone(),
            in_doubt: found.in_doubt.clone(),
            damage: of_image.chain(damage).collect(),
            notice: cut.map(|cut| notice(cut, false)),
        }
    }

    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        text("inspect", Value::from(Serde(self)), style).trim_end().to_owned()
    }
}

/// A file of a paged store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileResult {
    /// Its name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
}

/// A result of `inspect` on a paged store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct InspectPagesResult {
    pub directory: String,
    pub files: Vec<FileResult>,
    pub in_doubt: Vec<InDoubt>,
}

impl InspectPagesResult {
    /// The result of looking into `directory`.
    pub fn new(directory: String, found: PagesInspection) -> Self {
        let files = found.files.into_iter().map(|(file, bytes)| FileResult { file, bytes });
        Self { directory, files: files.collect(), in_doubt: found.in_doubt }
    }

    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        text("inspect_pages", Value::from(Serde(self)), style).trim_end().to_owned()
    }
}
