//! `Builder`: the tables, settings and limits of a database to be opened.
//!
//! A wrong setting is reported when the database is opened, so that the builder's calls chain. Not here:
//! directories (`open.rs`), the meaning of settings (the engine's registry).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::checkpointing::{self, Checkpointing};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{
    self, Archiving, GroupLog, InCommon, LOG_BYTES_PER_CALL, Options, Pipeline, Spread,
    ValueLogGroups,
};
use tombolo_engine::recovery::OpenOptions;
use tombolo_engine::settings::{self, Settings, Source};
use tombolo_engine::threads;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::Limits;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::archive::LogArchive;
use tombolo_storage::value_log::{GroupNumber, LogSettings};

use crate::archive;
use crate::calls::{
    Counters, Durability, Kept, Neighbour, ReplySlots, Request, Runner, request_table,
};
use crate::cancels::Cancels;
use crate::core::Parts;
use crate::database::Database;
use crate::error::Error;
use crate::evolve::refuse_own_names;
use crate::open::{self, OnOpening, Opened, Opening, Recovery, refuse_islands};
use crate::product::Product;
use crate::tx::derived::TableRow;
use crate::tx::{Tables, next_number};

/// The parts of a database that belong to a directory.
struct OnDisk {
    log: ValueLogGroups,
    checkpointing: Option<Checkpointing>,
    archiving: Option<Archiving>,
    disks: Vec<Arc<dyn Disk>>,
    /// Bytes of the log records that were replayed after the image.
    behind_bytes: u64,
}

/// What makes a database one of several islands.
pub(crate) trait Joins {
    /// The clock of all islands.
    fn clock(&self) -> Arc<dyn Clock>;

    /// The number of the handles, which are those of all islands.
    fn handles(&self) -> u32;

    /// Its log among those of all islands, if these become durable together.
    fn in_common(&self) -> Option<InCommon>;

    /// Makes the store an island again, which holds what is in doubt; its log takes so many bytes at once.
    ///
    /// # Errors
    /// Its rows are not those of an island.
    fn join(
        self: Box<Self>,
        store: &mut Product,
        slots: &[Arc<ReplySlots>],
        group_bytes_max: Option<u64>,
    ) -> Result<Joined, Error>;
}

/// An island that joined: its share of the execution stage, and what to call once its pipeline runs.
pub(crate) type Joined = (Box<dyn Neighbour>, Box<dyn FnOnce(&Pipeline<Runner>)>);

/// A directory's files, opened.
pub(crate) struct Recovered {
    pub(crate) opened: Opened,
    archive: Option<LogArchive>,
}

/// A store with its files, before its pipeline starts.
pub(crate) struct Ready {
    pub(crate) store: Product,
    disk: Option<OnDisk>,
    recovery: Option<Recovery>,
}

/// Sets of reply slots: several, so that threads do not all share one list of free slots.
const REPLY_SLOT_SETS: usize = 4;

/// The length of a segment is a multiple of this.
const LOG_BLOCK_BYTES: u64 = 4_096;

/// The tables, settings and limits of a database to be opened; see [`Database::builder`].
///
/// ```
/// use tombolo::{Database, Durability, TableDef};
///
/// tombolo::table! {
///     /// Orders by number.
///     pub struct Order = "orders" { ID: BigInt; STATE: SmallInt; }
/// }
/// tombolo::index! {
///     /// By number.
///     pub struct OrderKey = "orders_pk" on Order (ID: BigInt) unique Tree;
/// }
///
/// # let place = tempfile::tempdir().unwrap();
/// # let directory = place.path().join("shop");
/// let db = Database::builder()
///     .table(TableDef::of::<Order>().with::<OrderKey>())
///     .durability(Durability::Group)
///     .memory_bytes_max(1 << 30)
///     .threads(2)
///     .set("time_per_group", "2ms")
///     .set("log_segment_bytes", "1 MB")
///     .open(&directory)?;
/// db.close()?;
/// # Ok::<(), tombolo::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "there is no database before `open` or `in_memory` is called"]
pub struct Builder {
    settings: Settings,
    tables: Vec<TableDef>,
    durability: Durability,
    /// Address space of one table or index; `None` for the default.
    structure_bytes_max: Option<usize>,
    /// Further directories for rings of the image, in addition to the database's own.
    checkpoint_directories: Vec<PathBuf>,
    /// The directory of the log's archive, and the longest time until archiving begins.
    log_archive: Option<PathBuf>,
    log_archive_time_max: Duration,
    /// Called with the progress of opening.
    on_opening: Option<OnOpening>,
    /// The first error in a setting.
    mistake: Option<Error>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            tables: Vec::new(),
            durability: Durability::default(),
            structure_bytes_max: None,
            checkpoint_directories: Vec::new(),
            log_archive: None,
            log_archive_time_max: archive::TIME_MAX,
            on_opening: None,
            mistake: None,
        }
    }

    /// Adds the table of a struct, and its indexes; see [`derive(Table)`](macro@crate::Table) and
    /// [`Builder::table`].
    pub fn define<R: TableRow>(self) -> Self {
        self.table(R::definition())
    }

    /// Adds this table. If the directory has no such table, it is created. If it has one, the definitions must
    /// be equal, except for columns at the end that are declared as added: these are added to the directory, with
    /// their default in all rows. Tables and indexes of a directory that are not named here are kept and
    /// can be used. If a procedure omits entries of such an index, they are written when it commits, which
    /// costs each commit a little.
    ///
    /// [`TableDef::of`] describes a table declared in Rust; others are defined at run time:
    ///
    /// ```
    /// use tombolo::{ColumnDef, Database, IndexDef, IndexKind, TableDef, types, Value};
    ///
    /// let table = TableDef {
    ///     name: "city".into(),
    ///     columns: vec![
    ///         ColumnDef::of::<types::Integer>("id"),
    ///         ColumnDef::of::<types::Text>("name"),
    ///     ],
    ///     indexes: vec![IndexDef {
    ///         name: "city_pk".into(),
    ///         columns: vec![0],
    ///         unique: true,
    ///         kind: IndexKind::Tree,
    ///     }],
    /// };
    /// let db = Database::builder().table(table).in_memory()?;
    /// let cities = db.dynamic_table("city")?;
    /// let names = db.transaction(move |tx| {
    ///     tx.insert_values(&cities, &[Value::Integer(1), Value::Text("Lübeck")])?;
    ///     let mut names = Vec::new();
    ///     for row in tx.rows(cities.handle())? {
    ///         names.push(tx.read_values(&cities, row, |values| format!("{:?}", values[1]))?);
    ///     }
    ///     Ok(names)
    /// })?;
    /// assert_eq!(names, ["Text(\"Lübeck\")"]);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn table(mut self, table: TableDef) -> Self {
        self.tables.push(table);
        self
    }

    /// Sets a setting by its name: one of [`SETTINGS`](crate::SETTINGS), those of `tombolo settings` that
    /// concern a database.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        let set = self.settings.set(name, value, Source::Flag).map_err(Error::from);
        if let Err(mistake) = set {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// The durability of calls that do not choose one. (Early answers are requested per call, because
    /// they have another type.)
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The most memory for rows, indexes, variable-length values and undo notes: the setting
    /// `memory_bytes_max`, at least 1 MB. A transaction that would exceed it is refused and undone; others
    /// are not affected. What checkpoints take is not counted: some megabytes, or, with the setting
    /// `checkpoint_copy = memory`, a second copy of the rows.
    pub fn memory_bytes_max(self, bytes: u64) -> Self {
        self.set(settings::MEMORY_BYTES_MAX.name, &bytes.to_string())
    }

    /// The most memory for the rows of one table, or for the entries of one index: 64 GB by default. That much
    /// address space is reserved for each (a process has 128 TB), but memory is used only as rows are added.
    pub const fn structure_bytes_max(mut self, bytes: usize) -> Self {
        self.structure_bytes_max = Some(bytes);
        self
    }

    /// Spreads the checkpoint image over these directories too, usually on other disks, which are then written
    /// and read in parallel by as many threads as the setting `checkpoint_threads`. Missing directories are
    /// created; a new one must be empty. Once opened with such directories, a database must always be opened
    /// with the same ones in the same order; more may be added at the end.
    ///
    /// ```
    /// # use tombolo::Database;
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (directory, second) = (place.path().join("shop"), place.path().join("second_disk"));
    /// let db = Database::builder()
    ///     .checkpoint_directories([&second])
    ///     .set("checkpoint_threads", "2")
    ///     .set("log_segment_bytes", "1 MB")
    ///     .open(&directory)?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn checkpoint_directories<D: Into<PathBuf>>(
        mut self,
        directories: impl IntoIterator<Item = D>,
    ) -> Self {
        self.checkpoint_directories.extend(directories.into_iter().map(Into::into));
        self
    }

    /// Archives the log in this directory, which must exist and be empty or contain this database's archive:
    /// every group of transactions is copied there once it is durable, and stays in the log until then. From a
    /// backup made since then, the database can be restored to any of these groups ([`Restore`](crate::Restore)).
    ///
    /// No transaction waits for the archive. If it cannot be written, because its disk is full or gone,
    /// [`Database::statistics`] reports this and the archive is retried; meanwhile the log grows, and writes fail
    /// only when the log's own disk, or `log_bytes_max`, leaves it no room.
    ///
    /// Once begun, an archive must be given at every opening: if a database was written without its
    /// archive, groups are missing there, and the archive is refused. Tombolo never deletes files of an
    /// archive; those older than the oldest backup that you keep may be deleted.
    pub fn log_archive(mut self, directory: impl AsRef<Path>) -> Self {
        self.log_archive = Some(directory.as_ref().to_owned());
        self
    }

    /// The longest time until a durable group is archived, and thus the most that a lost disk may cost: a
    /// minute by default. Each time one file is written, unless there is nothing new. A full log segment is
    /// archived immediately.
    pub const fn log_archive_time_max(mut self, time: Duration) -> Self {
        self.log_archive_time_max = time;
        self
    }

    /// The durability of calls that do not choose one.
    pub(crate) const fn default_durability(&self) -> Durability {
        self.durability
    }

    /// The settings whose values come from `source`, by name.
    pub(crate) fn settings_from(&self, source: Source) -> Vec<&'static str> {
        let all = settings::ALL.iter().filter(|setting| self.settings.source(setting) == source);
        all.map(|setting| setting.name).collect()
    }

    /// A call of this builder that only the memory store has a use for, if one was made.
    pub(crate) fn call_for_memory(&self) -> Option<&'static str> {
        let calls = [
            (self.structure_bytes_max.is_some(), "structure_bytes_max"),
            (!self.checkpoint_directories.is_empty(), "checkpoint_directories"),
            (self.log_archive.is_some(), "log_archive"),
        ];
        calls.into_iter().find_map(|(is_made, name)| is_made.then_some(name))
    }

    /// Who is told how far opening is.
    pub(crate) const fn observer(&self) -> Option<&OnOpening> {
        self.on_opening.as_ref()
    }

    /// The same with these tables only, in one directory.
    pub(crate) fn with_tables_only(&self, tables: Vec<TableDef>) -> Self {
        Self { tables, checkpoint_directories: Vec::new(), ..self.clone() }
    }

    pub(crate) fn further_directories(&self) -> &[PathBuf] {
        &self.checkpoint_directories
    }

    pub(crate) const fn has_archive(&self) -> bool {
        self.log_archive.is_some()
    }

    /// The same for one of so many databases that share its memory, in directories of this name within its own.
    pub(crate) fn share(&self, name: &str, databases: usize) -> Self {
        let mut own = self.clone();
        let within = |directory: &PathBuf| directory.join(name);
        own.checkpoint_directories = self.checkpoint_directories.iter().map(within).collect();
        own.log_archive = self.log_archive.as_ref().map(within);
        match self.settings.number(&settings::MEMORY_BYTES_MAX) {
            Some(bytes) => own.memory_bytes_max(bytes / databases as u64),
            None => own,
        }
    }

    /// Calls `observer` repeatedly while a directory is opened, on the thread that opens it, with the progress and
    /// the estimated time left: for users who wait for a large database. Of a [`paged`](Builder::paged) one while it is
    /// restarted, which is not needed if it was closed; of islands from several threads, about one island each time.
    ///
    /// ```
    /// # use tombolo::Database;
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("shop");
    /// let db = Database::builder()
    ///     .on_opening(|now| eprint!("\r{:.0} %, {:?} left", 100.0 * now.part(), now.left))
    ///     .open(&directory)?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn on_opening(mut self, observer: impl Fn(Opening) + Send + Sync + 'static) -> Self {
        self.on_opening = Some(OnOpening(Arc::new(observer)));
        self
    }

    /// The number of worker threads: 1, 2 (execution; logging and output), or more for one per stage. The
    /// default depends on the machine's cores. One more thread prepares room in the log.
    pub fn threads(self, threads: usize) -> Self {
        let word = match threads {
            0 | 1 => "one",
            2 => "two",
            _ => "each",
        };
        self.set(settings::PIPELINE_THREADS.name, word)
    }

    /// Opens the database in `directory`. Creates directory and database if they do not exist; otherwise
    /// recovers everything that was acknowledged, however the last process ended. Relative paths, here and
    /// elsewhere in a builder, are resolved against the current directory as it is now; the database is not
    /// affected if that changes later.
    ///
    /// # Errors
    /// [`Error::InUse`]; [`Error::Definition`] when a table exists with another definition;
    /// [`Error::Setting`], [`Error::Schema`]; [`Error::LogFull`] when the disk has no room for the
    /// log, [`Error::DiskFull`] when it has none for the few KB that opening writes elsewhere: nothing is
    /// lost, and opening can be retried; [`Error::Damaged`], [`Error::OtherVersion`];
    /// [`Error::Disk`] when the system does not allow reading or writing; [`Error::Directory`] when the
    /// directory contains foreign files.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<Database, Error> {
        let cores = threads::available();
        let options = self.options(cores)?;
        refuse_islands(directory.as_ref())?;
        let recovered = self.recover(directory.as_ref(), &self.all_tables()?, cores, None)?;
        let ready = Self::ready(recovered, self.log_archive_time_max)?;
        self.start(ready, options, None)
    }

    /// Opens the files in `directory`, with at least these tables, on up to `threads` threads; cuts the log off behind
    /// a group, if one is given.
    pub(crate) fn recover(
        &self,
        directory: &Path,
        tables: &[TableDef],
        threads: usize,
        last: Option<GroupNumber>,
    ) -> Result<Recovered, Error> {
        let log = self.log_settings()?;
        let own = directory.to_owned();
        let directories: Vec<_> =
            [own].into_iter().chain(self.checkpoint_directories.iter().cloned()).collect();
        let archive = self.log_archive.as_ref().map(|archive| archive::take(archive, &directories));
        let archive = archive.transpose()?;
        let how = OpenOptions {
            limits: self.limits(),
            log,
            image: checkpointing::image_settings(&self.settings),
            checkpoint_threads: self.settings.count(&settings::CHECKPOINT_THREADS) as usize,
            threads,
            accept_loss: false,
            without_unfit_indexes: false,
            keep: archive.as_ref().and_then(LogArchive::keep),
            last,
        };
        let opened = open::open(&directories, &how, tables, self.on_opening.as_ref())?;
        Ok(Recovered { opened, archive })
    }

    /// What runs on these files.
    pub(crate) fn ready(recovered: Recovered, archive_time_max: Duration) -> Result<Ready, Error> {
        let Recovered { opened, archive } = recovered;
        let Opened { store, writer, checkpointing, disks, behind_bytes, recovery, .. } = opened;
        let archiving = archive.map(|archive| archive::attach(archive, &writer, archive_time_max));
        let archiving = archiving.transpose()?;
        let log = ValueLogGroups::new(writer);
        let disk = Some(OnDisk { log, checkpointing, archiving, disks, behind_bytes });
        Ok(Ready { store, disk, recovery })
    }

    /// A database in memory only: its answers do not wait for a disk, and its content is lost when it is
    /// dropped. For tests, caches and measuring the cost of durability.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Schema`].
    pub fn in_memory(self) -> Result<Database, Error> {
        let options = self.options(threads::available())?;
        let ready = self.in_memory_with(self.all_tables()?)?;
        self.start(ready, options, None)
    }

    /// A store in memory with these tables.
    pub(crate) fn in_memory_with(&self, tables: Vec<TableDef>) -> Result<Ready, Error> {
        let mut store = Product::new(self.limits());
        store.drop_log();
        for table in tables {
            store.create_table(table)?;
        }
        Ok(Ready { store, disk: None, recovery: None })
    }

    /// The declared tables and the database's own.
    pub(crate) fn all_tables(&self) -> Result<Vec<TableDef>, Error> {
        Ok(self.own_tables()?.into_iter().chain([request_table()]).collect())
    }

    /// The declared tables.
    pub(crate) fn own_tables(&self) -> Result<Vec<TableDef>, Error> {
        self.tables.iter().try_for_each(refuse_own_names)?;
        Ok(self.tables.clone())
    }

    fn limits(&self) -> Limits {
        let memory_bytes_max = self.settings.number(&settings::MEMORY_BYTES_MAX);
        let memory_bytes_max = memory_bytes_max.unwrap_or(u64::MAX);
        let usual = Limits::default();
        let structure_bytes_max = self.structure_bytes_max.unwrap_or(usual.structure_bytes_max);
        Limits { memory_bytes_max, structure_bytes_max, ..usual }
    }

    pub(crate) const fn archive_time_max(&self) -> Duration {
        self.log_archive_time_max
    }

    /// The pipeline's options, for a share of so many cores.
    pub(crate) fn options(&self, cores: usize) -> Result<Options, Error> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        let options = Options::new(&self.settings, cores);
        if options.spread == Spread::Callers {
            let what = "setting pipeline_threads: callers is for benchmarks with a single calling \
                        thread: give auto, one, two or each";
            return Err(Error::Setting(what.to_owned()));
        }
        Ok(options)
    }

    fn log_settings(&self) -> Result<LogSettings, Error> {
        let segment_bytes = self.settings.count(&settings::LOG_SEGMENT_BYTES);
        let log_bytes_max = self.settings.number(&settings::LOG_BYTES_MAX).unwrap_or(u64::MAX);
        if log_bytes_max < 2 * segment_bytes {
            return Err(Error::Setting(format!(
                "a log of at most {log_bytes_max} bytes has no room for two segments of \
                 {segment_bytes}: raise log_bytes_max or lower log_segment_bytes"
            )));
        }
        let segment_bytes = segment_bytes.next_multiple_of(LOG_BLOCK_BYTES);
        Ok(LogSettings { segment_bytes, log_bytes_max, ..LogSettings::default() })
    }

    /// Starts the pipeline; `joining` makes it one of several islands.
    pub(crate) fn start(
        &self,
        ready: Ready,
        options: Options,
        joining: Option<Box<dyn Joins>>,
    ) -> Result<Database, Error> {
        let Ready { mut store, disk, recovery } = ready;
        let clock: Arc<dyn Clock> = match &joining {
            Some(joining) => joining.clock(),
            None => Arc::new(SystemClock::new()),
        };
        let counters = Arc::new(Counters::new(store.budget().clone()));
        let kept = Kept {
            ids: self.settings.count(&settings::REQUEST_IDS_MIN),
            time_us: 1_000_000 * self.settings.count(&settings::REQUEST_IDS_S_MIN),
        };
        let cancels = Arc::new(Cancels::default());
        let reply_slots = ReplySlots::sets(REPLY_SLOT_SETS, &cancels);
        let number = joining.as_ref().map_or_else(next_number, |joining| joining.handles());
        let tables = Tables::numbered(number, store.schema(), kept, clock.clone(), cancels)?;
        let schema = tables.known();
        store.name_rows().map_err(Error::Refused)?;
        let group_bytes_max = disk.as_ref().map(|disk| disk.log.group_bytes_max());
        let in_common = joining.as_ref().and_then(|joining| joining.in_common());
        let joined = joining.map(|joining| joining.join(&mut store, &reply_slots, group_bytes_max));
        let (neighbour, on_start) = joined.transpose()?.unzip();
        let runner = Runner::new(store, tables, counters.clone(), neighbour);
        let mut builder = pipeline::Builder::new(runner, options).request_bytes(Request::bytes);
        let (mut log_bytes_max, mut disks) = (LOG_BYTES_PER_CALL, Vec::new());
        if let Some(OnDisk { log, checkpointing, archiving, disks: own, behind_bytes }) = disk {
            disks = own;
            // What a small log could never take is not asked of it.
            log_bytes_max = log_bytes_max.min(log.group_bytes_max());
            builder = builder.log(Box::new(log));
            if let Some(in_common) = in_common {
                builder = builder.in_common(in_common);
            }
            if let Some(checkpointing) = checkpointing {
                builder = builder.checkpoints(checkpointing, behind_bytes);
            }
            if let Some(archiving) = archiving {
                builder = builder.archive(archiving);
            }
        }
        let durability = self.durability;
        let pipeline = builder.start(clock.clone())?;
        let is_island = on_start.is_some();
        if let Some(on_start) = on_start {
            on_start(&pipeline);
        }
        let parts = Parts {
            is_island,
            pipeline,
            schema,
            clock,
            durability,
            log_bytes_max,
            disks,
            counters,
            reply_slots,
        };
        Ok(Database::new(parts, recovery))
    }
}
