//! Opening a directory: a new log in an empty one, or recovery from an existing log.
//!
//! ```text
//!   directory ──► a log there? ── no ──► nothing else there? ──► new log
//!                      │ yes                                        │
//!                 recover, replay ──► store ──► tables as defined? ─┴─► missing tables and indexes, durable
//! ```
//!
//! Not here: rebuilding the store from the log (engine `recovery`), running (`database.rs`).
//! Invariant: an open directory is locked, so that at most one database has it; a directory that is
//! refused because of its definitions keeps the same rows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::membership::{Member, are_exchanged, islands_in, membership};
use tombolo_engine::recovery::{self, OpenOptions};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::online::Built;
use tombolo_storage::schema::{DeclaredTable, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::{self, Cut, GroupNumber, LOCK_FILE, LogBuffer, LogWriter};

use crate::calls::OWN_PREFIX;
use crate::definition::difference;
use crate::error::Error;
use crate::product::Product;

/// The progress of opening a directory; see [`Builder::on_opening`](crate::Builder::on_opening).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Bytes of image and log that were read. The restart of a paged database reads the end of its log twice.
    pub bytes: u64,
    /// Bytes of their files; the log may end before its files do. Of a paged database known exactly once half of it is
    /// read.
    pub bytes_max: u64,
    /// Time since it began.
    pub elapsed: Duration,
    /// An estimate of the remaining time; none in the first half second.
    pub left: Option<Duration>,
}

impl Opening {
    /// The part of all bytes that was read, from 0 to 1.
    pub fn part(&self) -> f64 {
        self.bytes as f64 / self.bytes_max.max(1) as f64
    }
}

impl From<recovery::Progress> for Opening {
    fn from(now: recovery::Progress) -> Self {
        let bytes_max = now.image_bytes_max + now.log_bytes_max;
        Self {
            bytes: (now.image_bytes + now.log.bytes).min(bytes_max),
            bytes_max,
            elapsed: Duration::from_nanos(now.elapsed_ns),
            left: now.left_ns().map(Duration::from_nanos),
        }
    }
}

/// The program's function that is called with the progress.
#[derive(Clone)]
pub(crate) struct OnOpening(pub(crate) Arc<dyn Fn(Opening) + Send + Sync>);

impl fmt::Debug for OnOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnOpening")
    }
}

/// A report of the recovery of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Bytes of the checkpoint image that were read; 0 where there is none.
    pub image_bytes: u64,
    /// Transactions replayed: those that came after the image.
    pub transactions: u64,
    /// Groups of these transactions.
    pub groups: u64,
    /// The torn tail of the log that was cut off, if there was one: remains of a group that was being written
    /// when the last process ended, and of which no transaction was acknowledged.
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

/// A store, its log and its image.
pub(crate) struct Opened {
    pub(crate) store: Product,
    pub(crate) writer: LogWriter,
    pub(crate) checkpointing: Option<Checkpointing>,
    /// Their directories.
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    /// Bytes of the log records that were replayed after the image.
    pub(crate) behind_bytes: u64,
    pub(crate) recovery: Option<Recovery>,
    /// The last group of the log that was replayed.
    pub(crate) last_group: GroupNumber,
}

/// Opens the database in the first of `directories`, whose image is spread over all of them, with at least
/// these tables.
pub(crate) fn open(
    directories: &[PathBuf],
    options: &OpenOptions,
    tables: &[TableDef],
    observer: Option<&OnOpening>,
) -> Result<Opened, Error> {
    refuse_twins(directories)?;
    let disks = directories.iter().map(|directory| {
        let disk = make_directory(directory)?;
        Ok(Arc::new(disk) as Arc<dyn Disk>)
    });
    let disks = disks.collect::<Result<Vec<_>, Error>>()?;
    let mut opened = match value_log::holds_log(&*disks[0])? {
        true => {
            let mut opened = recover(&disks, options, observer)?;
            // Islands have the table among theirs.
            if tables.iter().all(|table| table.name != Member::NAME) {
                refuse_island(&directories[0], &mut opened.store)?;
            }
            opened
        }
        false => {
            for (directory, disk) in directories.iter().zip(&disks) {
                refuse_strangers(directory, &**disk)?;
            }
            create(&disks, options)?
        }
    };
    define(&mut opened, tables)?;
    Ok(opened)
}

/// Refuses a directory whose islands are being exchanged.
pub(crate) fn refuse_exchanged(directory: &Path) -> Result<(), Error> {
    match are_exchanged(directory) {
        false => Ok(()),
        true => Err(Error::Directory(format!(
            "{}: the number of its islands is being changed, and that did not come to its end: repeat it \
             (tombolo repartition), nothing is lost",
            directory.display()
        ))),
    }
}

/// Refuses the directory of a database of islands.
pub(crate) fn refuse_islands(directory: &Path) -> Result<(), Error> {
    refuse_exchanged(directory)?;
    match islands_in(directory) {
        0 => Ok(()),
        islands => Err(Error::Directory(format!(
            "{} holds a database of {islands} islands: open it with \
             Database::builder().islands({islands})",
            directory.display()
        ))),
    }
}

/// Refuses an island without the others: what it has prepared is decided by them.
pub(crate) fn refuse_island(directory: &Path, store: &mut impl Store) -> Result<(), Error> {
    let Some((own, _)) = membership(store).map_err(Error::Refused)? else { return Ok(()) };
    let within = directory.parent().unwrap_or(directory).display();
    Err(Error::Directory(format!(
        "{} holds {} of a database of {}: open {within} with islands({})",
        directory.display(),
        own.island,
        own.islands,
        own.islands
    )))
}

/// Refuses a directory that is given twice.
fn refuse_twins(directories: &[PathBuf]) -> Result<(), Error> {
    let twin = directories.iter().enumerate().find(|(at, one)| directories[..*at].contains(one));
    twin.map_or(Ok(()), |(_, twin)| {
        let what = "is given twice: give another one for checkpoints";
        Err(Error::Setting(format!("{} {what}", twin.display())))
    })
}

/// Refuses a directory for a new database that is not empty.
pub(crate) fn refuse_strangers(directory: &Path, disk: &dyn Disk) -> Result<(), Error> {
    let stranger = disk.list()?.into_iter().find(|name| name != LOCK_FILE);
    stranger.map_or(Ok(()), |stranger| {
        Err(Error::Directory(format!(
            "{} contains {stranger} but no database: give a new or an empty directory",
            directory.display()
        )))
    })
}

/// Makes a directory, with those above it, so that it survives a crash.
pub(crate) fn make_directory(directory: &Path) -> Result<OsDisk, Error> {
    let made: Vec<PathBuf> = directory
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_owned)
        .collect();
    let disk = OsDisk::create(directory)?;
    for path in made {
        // The parent of a relative path of one part is the current directory.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        OsDisk::open(parent.unwrap_or(Path::new(".")))?.sync_dir()?;
    }
    Ok(disk)
}

fn create(disks: &[Arc<dyn Disk>], options: &OpenOptions) -> Result<Opened, Error> {
    let created = recovery::create(disks, options);
    let recovery::Created { store, writer, checkpointing } =
        created.map_err(|failure| Error::opening(&failure))?;
    let disks = disks.to_vec();
    let (behind_bytes, recovery, last_group) = (0, None, 0);
    Ok(Opened { store, writer, checkpointing, disks, behind_bytes, recovery, last_group })
}

fn recover(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    observer: Option<&OnOpening>,
) -> Result<Opened, Error> {
    let opened = recovery::open(disks, options, &SystemClock::new(), &mut |now| {
        if let Some(OnOpening(observer)) = observer {
            observer(now.into());
        }
    });
    let recovery::Opened { store, writer, checkpointing, recovery } =
        opened.map_err(|failure| Error::opening(&failure))?;
    let torn = |cut: Cut| TornTail { file: cut.file, offset: cut.offset, bytes: cut.torn_bytes };
    let (behind_bytes, last_group) = (recovery.behind_bytes(), recovery.last_group);
    let recovery = Recovery {
        image_bytes: recovery.image_bytes,
        transactions: recovery.transactions,
        groups: recovery.groups,
        cut: recovery.cut.map(torn),
    };
    let (disks, recovery) = (disks.to_vec(), Some(recovery));
    Ok(Opened { store, writer, checkpointing, disks, behind_bytes, recovery, last_group })
}

/// Rows per step of building a missing index or column: large, because no call waits.
const BUILD_ROWS: usize = 1 << 20;

/// Adds the columns that a table lacks: those that remain of the given ones were declared as added.
fn define_columns(store: &mut Product, table: usize, given: &TableDef) -> Result<(), Error> {
    let stored = store.schema().tables[table].columns.len();
    for column in given.columns.iter().skip(stored) {
        let build = store.begin_column(&given.name, column.clone())?;
        while store.column_slice(&build, BUILD_ROWS)? != Built::Done {}
        drop(store.finish_column(build)?);
    }
    Ok(())
}

/// Creates the indexes that a table lacks.
fn define_indexes(store: &mut Product, table: usize, given: &TableDef) -> Result<(), Error> {
    for index in &given.indexes {
        if store.schema().tables[table].indexes.iter().any(|stored| stored.name == index.name) {
            continue;
        }
        let build = store.begin_index(&given.name, index.clone())?;
        while store.build_slice(&build, BUILD_ROWS)? != Built::Done {}
        store.finish_index(build)?;
    }
    Ok(())
}

/// Makes the store maintain the indexes that the program does not name, because its procedures may not know
/// them. The database's own tables are exempt: the library maintains their indexes.
fn follow_unnamed_indexes(store: &mut Product, tables: &[TableDef]) {
    let is_named = |table: &TableDef, index: &str| {
        let given = tables.iter().filter(|given| given.name == table.name);
        given.flat_map(|given| &given.indexes).any(|given| given.name == index)
    };
    let schema = store.schema();
    let mut unnamed = Vec::new();
    for (at, table) in schema.tables.iter().enumerate() {
        if table.name.starts_with(OWN_PREFIX) {
            continue;
        }
        for (number, index) in table.indexes.iter().enumerate() {
            if !is_named(table, &index.name) {
                unnamed.push(schema.index_position(at, number));
            }
        }
    }
    unnamed.into_iter().for_each(|position| store.follow_index(position));
}

/// Compares the tables with those of the program and adds what is missing, durably.
fn define(opened: &mut Opened, tables: &[TableDef]) -> Result<(), Error> {
    let Opened { store, .. } = opened;
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
    for table in tables {
        let Some(position) = store.schema().table(&table.name) else { continue };
        define_columns(store, position, table)?;
        define_indexes(store, position, table)?;
    }
    follow_unnamed_indexes(store, tables);
    make_durable(opened)
}

/// Makes durable what the store logged before anything runs.
pub(crate) fn make_durable(opened: &mut Opened) -> Result<(), Error> {
    let Opened { store, writer, .. } = opened;
    let mut log = LogBuffer::new();
    store.take_log(&mut log);
    if log.is_empty() {
        return Ok(());
    }
    writer.set_time(SystemClock::new().unix_us());
    let appended = writer.append_group(&[log.as_slice()], log.transactions(), None);
    let synced = appended.and_then(|_| writer.sync());
    synced.map(|_| ()).map_err(|failure| Error::log(&failure))
}
