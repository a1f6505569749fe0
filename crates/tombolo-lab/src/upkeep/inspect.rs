//! `inspect`: what is in the files of a directory with a value log: the image's rings and blocks, segments,
//! groups, transactions, records of every table, and of an island, which is loaded for that, the transactions that are
//! not ended. Of a paged store: its files, and these transactions. Nothing is changed.
//!
//! Not here: whether the rows make sense (`check.rs`).

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tombolo_engine::clock::SystemClock;
use tombolo_engine::islands::prepared::Prepared;
use tombolo_engine::recovery::{OpenFailure, blame};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::image::ImageSurvey;
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::value_log::{
    self, GroupNumber, Record, Refused, Replay, SchemaKind, SchemaRecord, Survey, Transactions,
    definition,
};

use super::in_doubt::{self, InDoubt};
use super::recover;
use crate::failure::{Blamed, Failure};
use crate::files::{self, refused};
use crate::progress::Progress;

/// How many records a table has in the log, by what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRecords {
    /// The table's name.
    pub table: String,
    /// Rows made.
    pub inserted: u64,
    /// Changes of a row's bytes.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Values of variable length.
    pub values_set: u64,
    /// Bytes of rows and values in them.
    pub bytes: u64,
}

/// The content of image and log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The image, if there is one.
    pub image: Option<ImageSurvey>,
    /// The log's files and groups, from the one on that the image is complete as of.
    pub log: Survey,
    /// Records in these by table, in the order of the schema.
    pub tables: Vec<TableRecords>,
    /// Bytes of records.
    pub record_bytes: u64,
    /// Of an island, the transactions over several that are not ended; `None` where damage hides them.
    pub in_doubt: Option<Vec<InDoubt>>,
}

/// A paged store's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesInspection {
    /// Their names and bytes, in order.
    pub files: Vec<(String, u64)>,
    /// As of [`Inspection`].
    pub in_doubt: Vec<InDoubt>,
}

/// Counts records.
#[derive(Default)]
struct Counts {
    tables: Vec<TableRecords>,
    record_bytes: u64,
}

impl Counts {
    fn add(&mut self, table: String) {
        self.tables.push(TableRecords { table, ..TableRecords::default() });
    }

    fn count(&mut self, record: Record<'_>) -> Result<(), String> {
        let (table, bytes) = match record {
            Record::Schema(SchemaRecord {
                kind: SchemaKind::TableCreated,
                position,
                bytes,
                ..
            }) => {
                let table = definition::decode(bytes).ok_or("a table's definition is not one")?;
                // The image may know it; earlier builds, which dropped none, logged no position.
                let is_known = match position {
                    Some(position) => (position as usize) < self.tables.len(),
                    None => self.tables.iter().any(|known| known.table == table.name),
                };
                if !is_known {
                    self.add(table.name.into_owned());
                }
                return Ok(());
            }
            Record::Schema(_) => return Ok(()),
            Record::Updated { table, bytes, .. } => (table, bytes),
            Record::Inserted { table, fixed, .. } => (table, fixed),
            Record::Deleted { table, .. } => (table, &[][..]),
            Record::ValueSet { table, value, .. } => (table, value),
        };
        let counts = self.tables.get_mut(table as usize);
        let counts = counts.ok_or_else(|| format!("a record of table {table}, which is none"))?;
        counts.bytes += bytes.len() as u64;
        *match record {
            Record::Inserted { .. } => &mut counts.inserted,
            Record::Updated { .. } => &mut counts.updated,
            Record::Deleted { .. } => &mut counts.deleted,
            // The others were counted above, or not at all.
            _ => &mut counts.values_set,
        } += 1;
        Ok(())
    }

    fn count_all(&mut self, records: &[u8]) -> Result<(), String> {
        self.record_bytes += records.len() as u64;
        for transaction in Transactions::new(records) {
            for record in transaction.map_err(|error| error.to_string())? {
                self.count(record.map_err(|error| error.to_string())?)?;
            }
        }
        Ok(())
    }
}

impl Replay for Counts {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        self.count_all(records).map_err(|what| (group, what))
    }
}

/// Looks into a database's `directories`: its own, then those its image lies in besides.
///
/// # Errors
/// Usage when no log lies there; environment when it is in use, of another version, holds what is no
/// record, or cannot be read. Damage is part of what is found.
///
/// # Panics
/// When no directory is given.
pub fn inspect(
    directories: &[impl AsRef<Path>],
    progress: &mut dyn Progress,
) -> Result<Inspection, Failure> {
    let disks = files::disks(directories)?;
    progress.begin("reading image and log");
    let found = look(&disks, progress);
    progress.end();
    let mut found = found.map_err(|failure| refused(directories[0].as_ref(), &failure))?;
    if found.tables.iter().any(|table| table.table == Prepared::NAME) {
        // What keeps it from being loaded is damage, and was found.
        let options = recover::options();
        let loaded = files::survey(&disks, &options, &SystemClock::new(), progress).ok();
        let in_doubt = loaded.map(|mut loaded| in_doubt::in_store(&mut loaded.store));
        found.in_doubt = in_doubt.transpose()?;
    }
    Ok(found)
}

/// Looks into the directory of a paged store.
///
/// # Errors
/// When it is in use, damaged, or cannot be read.
pub fn inspect_pages(directory: &Path) -> Result<PagesInspection, Failure> {
    let in_doubt = in_doubt::in_pages(directory)?;
    let disk = OsDisk::open(directory).or_environment()?;
    let mut files = Vec::new();
    for name in disk.list().or_environment()? {
        let bytes = directory.join(&name).metadata().map_or(0, |file| file.len());
        files.push((name, bytes));
    }
    files.sort_unstable();
    Ok(PagesInspection { files, in_doubt })
}

fn look(disks: &[Arc<dyn Disk>], progress: &mut dyn Progress) -> Result<Inspection, OpenFailure> {
    let (lock, image, mut now) = files::find(disks)?;
    let survey = image.survey(&mut |bytes| {
        now.image_bytes += bytes;
        progress.part(now.part(), "");
    })?;
    let (mut counts, mut known) = (Counts::default(), 0);
    if let Some(survey) = &survey {
        survey.tables.iter().for_each(|table| counts.add(table.clone()));
        known = survey.known;
    }
    let first = image.log_start(known);
    let log = value_log::survey_locked(&lock, &*disks[0], first, &mut counts, &mut |log| {
        now.log = log;
        progress.part(now.part(), "");
    });
    let log = log.map_err(|failure| blame(&image, failure))?;
    let Counts { tables, record_bytes } = counts;
    Ok(Inspection { image: survey, log, tables, record_bytes, in_doubt: Some(Vec::new()) })
}
