//! Debit-credit on RocksDB, the library of Debian (docs/compare.md).
//!
//! # Rows
//! One column family for all tables. A key is table and id, its first byte first, so that bytes
//! compare like numbers. What is changed is kept in a table of hashed keys, RocksDB's for look-ups of
//! one row: finding places in its skip list took more than all else.
//!
//! A write batch is RocksDB's atomic write. What a batch has so far is looked up in it first. One thread
//! writes, so nothing comes between a look-up and its batch, and RocksDB's own transactions would only add what
//! keeps other threads away: locks, or a comparison at commit. A row that several calls of a batch change is
//! written once.
//!
//! # Durability
//! `group`: the write-ahead log, `sync`: a sync per batch. `none`: no log.

use std::fs;
use std::path::Path;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rocksdb::{
    DB, DBCompressionType, DBIterator, Error, IteratorMode, MemtableFactory, Options, ReadOptions,
    SliceTransform, WriteBatch, WriteOptions,
};

use super::Opening;
use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, Row, TABLES};
use super::values::{self, Value};
use crate::compare::made;
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// All rows in memory.
const CACHE_MB: u64 = 4 << 10;
/// What is changed in a comparison of the usual size is not moved into files meanwhile.
const WRITE_BUFFER_BYTES: usize = 256 << 20;

/// A RocksDB database.
pub(super) struct RocksDb {
    database: DB,
    options: WriteOptions,
    /// The writes of the batch under way so far.
    written: HashMap<u64, Value, FixedState>,
    version: String,
}

fn failed(error: Error) -> Failure {
    Failure::check(format!("rocksdb failed: {error}"))
}

impl RocksDb {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When RocksDB refuses.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<OneThread<Self>, Failure> {
        let directory = made(&opening.directory)?;
        let options = options(opening.rows.count());
        let database = DB::open(&options, directory).map_err(failed)?;
        let version = version(directory)?;
        let mut options = WriteOptions::default();
        options.disable_wal(!opening.plan.is_durable());
        let mut rocksdb = Self { database, options, written: HashMap::default(), version };
        rocksdb.load(opening, progress).map_err(failed)?;
        rocksdb.options.set_sync(opening.plan.is_durable());
        Ok(OneThread::new(rocksdb, opening))
    }

    fn load(&self, opening: &Opening<'_>, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        for table in 0..TABLES.len() {
            opening.rows.load_table(table, progress, |part| {
                let mut batch = WriteBatch::default();
                for row @ Row { id, .. } in part {
                    batch.put(key(table, *id as u32).to_be_bytes(), values::value(row));
                }
                self.database.write_opt(batch, &self.options)
            })?;
        }
        self.database.flush()?;
        self.database.compact_range(None::<&[u8]>, None::<&[u8]>);
        // Everything is in the cache before anything is measured.
        self.rows().try_for_each(|row| row.map(drop))
    }

    /// All rows, by key: hashed ones are put in order first.
    fn rows(&self) -> DBIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        self.database.iterator_opt(IteratorMode::Start, options)
    }

    /// The calls of one batch; how many commit.
    fn transact(&mut self, calls: &[Input]) -> Result<u64, Failure> {
        self.written.clear();
        let committed = values::execute(self, calls)?;
        if committed > 0 {
            let mut batch = WriteBatch::default();
            for (key, row) in &self.written {
                batch.put(key.to_be_bytes(), row);
            }
            self.database.write_opt(batch, &self.options).map_err(failed)?;
        }
        Ok(committed)
    }
}

/// The batch under way, and what is below it.
impl values::Transaction for RocksDb {
    fn get(&self, table: usize, id: u32) -> Result<Option<Value>, Failure> {
        let key = key(table, id);
        if let Some(written) = self.written.get(&key) {
            return Ok(Some(*written));
        }
        let found = self.database.get_pinned(key.to_be_bytes()).map_err(failed)?;
        Ok(found.and_then(|bytes| Value::try_from(&*bytes).ok()))
    }

    fn put(&mut self, table: usize, id: u32, row: &Value) -> Result<(), Failure> {
        self.written.insert(key(table, id), *row);
        Ok(())
    }
}

/// The settings of a database with as many `rows`.
fn options(rows: usize) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.optimize_for_point_lookup(CACHE_MB);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    // Hashed by the whole key; its heights are RocksDB's own, and it has one writer at a time.
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(size_of::<u64>()));
    options.set_memtable_factory(MemtableFactory::HashSkipList {
        bucket_count: rows,
        height: 4,
        branching_factor: 4,
    });
    options.set_allow_concurrent_memtable_write(false);
    // A filter in front of a hash table.
    options.set_memtable_prefix_bloom_ratio(0.0);
    options
}

/// Table by table, by id.
fn key(table: usize, id: u32) -> u64 {
    (table as u64) << 32 | u64::from(id)
}

/// The library's version, which only its files contain.
fn version(directory: &Path) -> Result<String, Failure> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut options =
        files.filter(|file| file.file_name().to_string_lossy().starts_with("OPTIONS-"));
    let text = options.next().and_then(|file| fs::read_to_string(file.path()).ok());
    let lines = text.as_deref().unwrap_or_default().lines();
    let version = lines.filter_map(|line| line.trim().strip_prefix("rocksdb_version=")).next();
    version.map(str::to_owned).ok_or_else(|| {
        let directory = directory.display();
        Failure::environment(format!(
            "rocksdb wrote no readable OPTIONS file into {directory}: see whether that disk is full"
        ))
    })
}

impl Embedded for RocksDb {
    fn version(&self) -> &str {
        &self.version
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        Ok(|calls: &[Input]| self.transact(calls))
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let mut balances = Balances::default();
        for row in self.rows() {
            let (key, bytes) = row.map_err(failed)?;
            let key = <[u8; 8]>::try_from(&*key).map(u64::from_be_bytes);
            let taken = key.ok().and_then(|key| {
                let (table, id) = ((key >> 32) as usize, key as u32);
                values::collect(&mut balances, table, id, &bytes)
            });
            taken.ok_or_else(|| Failure::check("rocksdb lost a row or part of one"))?;
        }
        Ok(balances)
    }
}
