//! Opening a directory: a new log in an empty one, or all that an old one tells.
//!
//! ```text
//!   directory ──► a log there? ── no ──► nothing else there? ──► new log
//!                      │ yes                                        │
//!                 recover, replay ──► store ──► tables as defined? ─┴─► missing tables, durable
//! ```
//!
//! One thread reads and replays. Not here: what a log looks like (storage `value_log/`), running
//! (`database.rs`). Invariant: what is opened is locked, so that one database at a time has it; a
//! directory that is refused for its definitions is left with the same rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_engine::rng::entropy;
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::{
    self, GroupNumber, LOCK_FILE, LogBuffer, LogSettings, LogWriter, RecoverOptions, Replay,
};

use crate::calls::Logged;
use crate::definition::difference;
use crate::error::Error;

/// What the names of a log's files begin with.
const SEGMENT_PREFIX: &str = "log-";

/// What came back when a directory was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Transactions replayed.
    pub transactions: u64,
    /// Groups of transactions they were in.
    pub groups: u64,
    /// The end of the log that was cut off, if there was one: remains of a group that was being
    /// written when the last process ended, and that nobody was told of.
    pub cut: Option<TornTail>,
}

/// The remains of a group that never became durable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// How many bytes were found there.
    pub bytes: u64,
}

/// A store and its log.
pub(crate) struct Opened {
    pub(crate) store: Logged,
    pub(crate) writer: LogWriter,
    pub(crate) recovery: Option<Recovery>,
}

/// Opens the database in `directory`, with at least these tables.
pub(crate) fn open(
    directory: &Path,
    limits: Limits,
    log: LogSettings,
    tables: &[TableDef],
) -> Result<Opened, Error> {
    let disk: Arc<dyn Disk> = Arc::new(make_directory(directory)?);
    let names = disk.list()?;
    let mut opened = match names.iter().any(|name| name.starts_with(SEGMENT_PREFIX)) {
        true => recover(disk, limits, log)?,
        false => match names.iter().find(|name| *name != LOCK_FILE) {
            Some(stranger) => {
                return Err(Error::Directory(format!(
                    "{} holds {stranger} and no database: give a new or an empty directory",
                    directory.display()
                )));
            }
            None => create(disk, limits, log)?,
        },
    };
    define(&mut opened, tables)?;
    Ok(opened)
}

/// Makes a directory, with those above it, so that it survives a crash.
fn make_directory(directory: &Path) -> Result<OsDisk, Error> {
    let made: Vec<PathBuf> = directory
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_owned)
        .collect();
    let disk = OsDisk::create(directory)?;
    for path in made {
        // A relative path of one part lies in the current directory.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        OsDisk::open(parent.unwrap_or(Path::new(".")))?.sync_dir()?;
    }
    Ok(disk)
}

fn create(disk: Arc<dyn Disk>, limits: Limits, log: LogSettings) -> Result<Opened, Error> {
    let log = LogSettings { salt: entropy(), ..log };
    let writer = LogWriter::create(disk, log).map_err(|failure| Error::log(&failure))?;
    Ok(Opened { store: Logged::new(limits), writer, recovery: None })
}

/// Replays a log on the calling thread; the store is made before anything is written.
struct Replaying {
    limits: Limits,
    part: Option<ReplayPart>,
    newest: GroupNumber,
    store: Option<Logged>,
}

impl Replay for Replaying {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), String> {
        self.newest = group;
        match &mut self.part {
            Some(part) => part.replay(group, records),
            None => Err("records behind the end of a log".to_owned()),
        }
    }

    fn complete(&mut self) -> Result<(), (GroupNumber, String)> {
        let part = self.part.take().map_or(Err("it was replayed before".to_owned()), |part| {
            let rebuilt = part.finish()?;
            Logged::from_replay(self.limits, vec![rebuilt])
        });
        self.store = Some(part.map_err(|what| (self.newest, what))?);
        Ok(())
    }
}

fn recover(disk: Arc<dyn Disk>, limits: Limits, log: LogSettings) -> Result<Opened, Error> {
    let part = Some(ReplayPart::new(0, 1, limits));
    let mut replaying = Replaying { limits, part, newest: 0, store: None };
    let options = RecoverOptions::default();
    // Should the log lack one after all, the next database in the directory has this salt.
    let log = LogSettings { salt: entropy(), ..log };
    let recovered = value_log::recover(disk, log, options, &mut replaying, &mut |_| {});
    let recovered = recovered.map_err(|failure| Error::log(&failure))?;
    let Some(store) = replaying.store else { unreachable!("a log that was opened was replayed") };
    let torn = |cut: value_log::Cut| TornTail {
        file: cut.file,
        offset: cut.offset,
        bytes: cut.torn_bytes,
    };
    let recovery = Recovery {
        transactions: recovered.transactions,
        groups: recovered.groups,
        cut: recovered.cut.map(torn),
    };
    Ok(Opened { store, writer: recovered.writer, recovery: Some(recovery) })
}

/// Compares the tables with those of the program and adds what is missing, durably.
fn define(opened: &mut Opened, tables: &[TableDef]) -> Result<(), Error> {
    let Opened { store, writer, .. } = opened;
    let mut missing = Vec::new();
    for table in tables {
        match store.schema().table(&table.name) {
            None => missing.push(table),
            Some(position) => {
                if let Some(difference) = difference(&store.schema().tables[position], table) {
                    return Err(Error::Definition(Box::new(difference)));
                }
            }
        }
    }
    for table in missing {
        store.create_table(table.clone())?;
    }
    let mut log = LogBuffer::new();
    store.take_log(&mut log);
    if log.is_empty() {
        return Ok(());
    }
    let appended = writer.append_group(&[log.as_slice()], log.transactions(), None);
    let synced = appended.and_then(|_| writer.sync());
    synced.map(|_| ()).map_err(|failure| Error::log(&failure))
}
