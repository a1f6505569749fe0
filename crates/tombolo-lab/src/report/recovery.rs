//! The results of `recover` and `inspect`.

use std::fmt::Write as _;

use serde::Serialize;
use tombolo_storage::value_log::{FORMAT_VERSION, SegmentState, SegmentSurvey};

use super::check::DamageResult;
use super::terminal::Style;
use super::{Header, rounded, separated, size};
use crate::durable::{Recovery, notice};
use crate::inspect::{Inspection, TableRecords};

/// A result of `recover`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RecoverResult {
    #[serde(flatten)]
    pub header: Header,
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
    pub fn new(header: Header, directory: String, recovery: &Recovery) -> Self {
        let cut = recovery.cut.as_ref();
        Self {
            header,
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
            lost_groups: cut.map_or(0, |cut| cut.lost_groups),
            lost_transactions: cut.map_or(0, |cut| cut.lost_transactions),
        }
    }

    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        let state = match (self.lost_groups, self.clean) {
            (_, true) => style.good("✓ nothing was cut off"),
            (0, _) => format!("a torn tail of {} was cut off", size(self.torn_bytes)),
            (lost, _) => style.bad(&format!("{} groups are lost", separated(lost))),
        };
        let mut text = style.strong(&self.directory);
        let mut say = |name: &str, what: &str| {
            let written = write!(text, "\n  {name:<11}{what}");
            debug_assert!(written.is_ok(), "a string takes everything");
        };
        if self.image_bytes > 0 {
            let (bytes, cpu_s) = (size(self.image_bytes), self.image_cpu_s);
            say("image", &format!("{bytes} loaded, {cpu_s:.3} s of CPU"));
        }
        say("log", &format!("{} up to group {}", size(self.log_bytes), separated(self.last_group)));
        let (transactions, images) = (separated(self.transactions), separated(self.row_images));
        say("replayed", &format!("{transactions} transactions, {images} row images"));
        let cpu_s = self.image_cpu_s + self.replay_cpu_s;
        say("took", &format!("{:.3} s, {cpu_s:.3} s of CPU", self.wall_s));
        say("end", &state);
        text
    }
}

/// A segment's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentResult {
    /// Its name.
    pub file: String,
    /// `used`, `spare`, `unfinished` or `damaged`.
    pub state: &'static str,
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
        let SegmentSurvey { sequence, uses, segment_bytes, block_bytes, .. } = *segment;
        let (first_group, last_group) =
            (groups.map(|(first, _)| first), groups.map(|(_, last)| last));
        Self { file, state, sequence, uses, segment_bytes, block_bytes, first_group, last_group }
    }
}

/// A table's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "inspect.rs says what each field means")]
pub struct TableResult {
    pub table: String,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub values_set: u64,
    pub bytes: u64,
}

impl From<&TableRecords> for TableResult {
    fn from(records: &TableRecords) -> Self {
        let TableRecords { table, inserted, updated, deleted, values_set, bytes } = records.clone();
        Self { table, inserted, updated, deleted, values_set, bytes }
    }
}

/// A result of `inspect`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named like the fields of recover and of a segment's header")]
pub struct InspectResult {
    #[serde(flatten)]
    pub header: Header,
    pub directory: String,
    pub format_version: u32,
    pub epoch: u32,
    pub groups: u64,
    pub last_group: u64,
    pub transactions: u64,
    pub log_bytes: u64,
    pub record_bytes: u64,
    pub torn_bytes: u64,
    pub segments: Vec<SegmentResult>,
    pub tables: Vec<TableResult>,
    pub damage: Vec<DamageResult>,
    /// One line about where the log ends, if there is anything to say.
    pub notice: Option<String>,
}

impl InspectResult {
    /// The result of looking into `directory`.
    pub fn new(header: Header, directory: String, found: &Inspection) -> Self {
        let log = &found.log;
        let cut = log.cut.as_ref();
        let damage = cut.and_then(|cut| cut.damage.as_ref().map(|damage| (cut, damage)));
        let damage = damage.map(|(cut, damage)| DamageResult {
            file: Some(cut.file.clone()),
            offset: Some(cut.offset),
            check: "log".to_owned(),
            what: damage.to_string(),
        });
        Self {
            header,
            directory,
            format_version: FORMAT_VERSION,
            epoch: log.epoch,
            groups: log.groups,
            last_group: log.last_group,
            transactions: log.transactions,
            log_bytes: log.bytes,
            record_bytes: found.record_bytes,
            torn_bytes: cut.map_or(0, |cut| cut.torn_bytes),
            segments: log.segments.iter().map(SegmentResult::from).collect(),
            tables: found.tables.iter().map(TableResult::from).collect(),
            damage: damage.into_iter().collect(),
            notice: cut.map(|cut| notice(cut, false)),
        }
    }

    /// The same for people.
    pub fn text(&self, style: Style) -> String {
        let mut lines = vec![
            style.strong(&self.directory),
            format!(
                "  value log of format {}, opened {} times: {} groups, {} transactions, {} ({} of \
                 records)",
                self.format_version,
                self.epoch,
                separated(self.groups),
                separated(self.transactions),
                size(self.log_bytes),
                size(self.record_bytes)
            ),
        ];
        for segment in &self.segments {
            let holds = match (segment.first_group, segment.last_group) {
                (Some(first), Some(last)) => {
                    format!("groups {} to {}", separated(first), separated(last))
                }
                _ => segment.state.to_owned(),
            };
            lines.push(format!(
                "  {:<12}{:>9}  no. {:<6} used {:<4} {holds}",
                segment.file,
                size(segment.segment_bytes),
                segment.sequence,
                segment.uses
            ));
        }
        let heads = ["inserted", "updated", "deleted", "values", "bytes"];
        let heads = heads.map(|head| format!("{head:>14}")).concat();
        lines.push(format!("  {:<14}{heads}", "records of"));
        for table in &self.tables {
            let TableResult { inserted, updated, deleted, values_set, bytes, .. } = *table;
            let counts = [inserted, updated, deleted, values_set, bytes];
            let counts = counts.map(|count| format!("{:>14}", separated(count))).concat();
            lines.push(format!("  {:<14}{counts}", table.table));
        }
        match (&self.notice, self.damage.is_empty()) {
            (None, _) => {
                lines.push(format!("  {} the log ends with a whole group", style.good("✓")))
            }
            (Some(notice), true) => lines.push(format!("  {notice}")),
            (Some(notice), false) => lines.push(format!("  {}", style.bad(notice))),
        }
        lines.join("\n")
    }
}
