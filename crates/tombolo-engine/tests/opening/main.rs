//! A database with checkpoints is opened after any end of its last process: image and log together are
//! what was durable, on however many threads they are loaded.
//!
//! Here: a database as the stages run one, on one thread and by hand, with a model to compare. Not here:
//! power that goes (storage `memory/image/tests/model.rs` and the simulator): these disks forget nothing.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod crashes;
mod damage;
mod refusals;
mod whole;

use std::collections::{BTreeMap, VecDeque};
use std::slice::from_ref;
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::clock::SystemClock;
use tombolo_engine::recovery::{Created, OpenFailure, OpenOptions, Opened, Recovery, create, open};
use tombolo_engine::rng::Rng;
use tombolo_storage::disk::{Disk, MemDisk, Open};
use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::{CheckpointPart, ImageFailure, ImageSettings, Step};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;
use tombolo_storage::value_log::{
    GroupNumber, LogBuffer, LogFailure, LogPosition, LogSettings, LogWriter,
};

const TABLES: usize = 3;

/// Rows by table and id.
type Model = BTreeMap<(usize, i64), String>;

fn table(name: &'static str) -> TableDef {
    let column = |name: &'static str, sql| ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range: None,
        hot: false,
        added: false,
        default: None,
    };
    let index = IndexDef {
        name: format!("{name}_pk").into(),
        columns: vec![0],
        unique: true,
        kind: IndexKind::Tree,
    };
    let columns = vec![column("id", SqlType::BigInt), column("text", SqlType::Text)];
    TableDef { name: name.into(), columns, indexes: vec![index] }
}

/// Tiny segments and blocks, so that there are many of each.
fn options(threads: usize, checkpoint_threads: usize) -> OpenOptions {
    let log = LogSettings {
        segment_bytes: 64 << 10,
        block_bytes: 512,
        direct: false,
        ..LogSettings::default()
    };
    let image = ImageSettings { block_bytes: 4096, spare_blocks: 2, ..ImageSettings::default() };
    OpenOptions { log, image: Some(image), threads, checkpoint_threads, ..OpenOptions::default() }
}

fn doors(disks: &[MemDisk]) -> Vec<Arc<dyn Disk>> {
    disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect()
}

/// Every file with its bytes, but the lock's.
fn content(disk: &MemDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list().unwrap().into_iter().filter(|name| name != "lock");
    let bytes = |name: &str| {
        let file = disk.open(name, Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    names.map(|name| (name.clone(), bytes(&name))).collect()
}

/// Another disk with the same files.
fn copy(disk: &MemDisk) -> MemDisk {
    let other = MemDisk::new();
    for (name, bytes) in content(disk) {
        other.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
    }
    other
}

fn overwrite(disk: &MemDisk, name: &str, offset: usize, bytes: &[u8]) {
    disk.open(name, Open::Write).unwrap().write_at(bytes, offset as u64).unwrap();
}

#[derive(Debug)]
enum Failure {
    Open(OpenFailure),
    Log(LogFailure),
    Image(ImageFailure),
}

impl Failure {
    /// Whether the disk refused something, and nothing worse is wrong.
    fn is_disk(&self) -> bool {
        let (Self::Log(LogFailure::Disk(_)) | Self::Open(OpenFailure::Log(LogFailure::Disk(_)))) =
            self
        else {
            return matches!(
                self,
                Self::Image(ImageFailure::Disk(_))
                    | Self::Open(OpenFailure::Image(ImageFailure::Disk(_)))
            );
        };
        true
    }
}

impl From<OpenFailure> for Failure {
    fn from(failure: OpenFailure) -> Self {
        Self::Open(failure)
    }
}

impl From<LogFailure> for Failure {
    fn from(failure: LogFailure) -> Self {
        Self::Log(failure)
    }
}

impl From<ImageFailure> for Failure {
    fn from(failure: ImageFailure) -> Self {
        Self::Image(failure)
    }
}

/// A database that is open.
struct Database {
    store: MemoryStore<MemoryLogged>,
    writer: LogWriter,
    checkpointing: Option<Checkpointing>,
    recovery: Recovery,
    /// What the store has to hold, and where.
    model: Model,
    rows: BTreeMap<(usize, i64), RowId>,
    /// Durable groups that the parts did not install.
    waiting: VecDeque<(LogPosition, Vec<u8>)>,
    released: usize,
}

impl Database {
    /// A new one with its tables, in one durable group.
    fn create(disks: &[MemDisk], options: &OpenOptions) -> Result<Self, Failure> {
        let Created { mut store, writer, checkpointing } = create(&doors(disks), options)?;
        for name in ["one", "two", "three"] {
            store.create_table(table(name)).unwrap();
        }
        let recovery = Recovery::default();
        let mut database = Self::new(store, writer, checkpointing, recovery);
        database.write()?;
        Ok(database)
    }

    fn open(disks: &[MemDisk], options: &OpenOptions) -> Result<Self, Failure> {
        let mut last = 0.0;
        let opened = open(&doors(disks), options, &SystemClock::new(), &mut |now| {
            assert!((last..=1.0).contains(&now.part()), "{last} {now:?}");
            last = now.part();
        });
        let Opened { store, writer, checkpointing, recovery } = opened?;
        let mut database = Self::new(store, writer, checkpointing, recovery);
        assert_eq!(database.store.check(), []);
        database.find_rows();
        Ok(database)
    }

    fn new(
        store: MemoryStore<MemoryLogged>,
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
        recovery: Recovery,
    ) -> Self {
        let (model, rows, waiting) = (Model::new(), BTreeMap::new(), VecDeque::new());
        Self { store, writer, checkpointing, recovery, model, rows, waiting, released: 0 }
    }

    fn find_rows(&mut self) {
        for position in 0..self.store.schema().tables.len() {
            let table = DynamicTable::new(self.store.schema(), position);
            for row in table.row_ids(&mut self.store).unwrap() {
                let read = table.read(&self.store, row, |values| match values {
                    [Value::Integer(id), Value::Text(text)] => (*id, (*text).to_owned()),
                    other => panic!("{other:?}"),
                });
                let (id, text) = read.unwrap();
                let key = (position, id);
                assert!(
                    self.model.insert(key, text).is_none() && self.rows.insert(key, row).is_none()
                );
            }
        }
    }

    /// One transaction of a few random changes.
    fn work(&mut self, random: &mut Rng) {
        self.store.begin().unwrap();
        self.store.begin_writes();
        for _ in 0..1 + random.below(4) {
            let key = (random.below(TABLES as u64) as usize, random.below(60) as i64);
            let table = DynamicTable::new(self.store.schema(), key.0);
            let found = self.rows.get(&key).copied();
            if let Some(row) = found.filter(|_| random.below(3) == 0) {
                table.delete(&mut self.store, row).unwrap();
                self.rows.remove(&key);
                self.model.remove(&key);
                continue;
            }
            let text = format!("{} ", random.below(1000)).repeat(random.below(60) as usize);
            let values = [Value::Integer(key.1), Value::Text(&text)];
            match found {
                Some(row) => table.update(&mut self.store, row, &values).unwrap(),
                None => {
                    let row = table.insert(&mut self.store, &values).unwrap();
                    self.rows.insert(key, row);
                }
            }
            self.model.insert(key, text);
        }
        self.store.commit().unwrap();
    }

    /// What was logged becomes a durable group, if there was anything.
    fn write(&mut self) -> Result<(), Failure> {
        let mut records = LogBuffer::new();
        self.store.take_log(&mut records);
        if !records.is_empty() {
            let records = (records.as_slice().to_vec(), records.transactions());
            self.writer.append_group(&[&records.0], records.1, None)?;
            self.writer.sync()?;
            self.waiting.push_back((self.writer.position(), records.0));
        }
        Ok(())
    }

    /// Some transactions in groups of their own.
    fn groups(&mut self, random: &mut Rng, groups: u64) -> Result<(), Failure> {
        (0..groups).try_for_each(|_| {
            self.work(random);
            self.write()
        })
    }

    fn checkpointing(&mut self) -> &mut Checkpointing {
        self.checkpointing.as_mut().unwrap()
    }

    /// Every part installs the oldest group that waits.
    fn install(&mut self) -> Result<(), Failure> {
        let Some((position, records)) = self.waiting.pop_front() else { return Ok(()) };
        let parts = &mut self.checkpointing().parts;
        Ok(parts.iter_mut().try_for_each(|part| part.install(position, &records))?)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let Checkpointing { checkpoints, parts } = self.checkpointing();
        if checkpoints.writing().is_none() {
            let needs = parts.iter_mut().map(CheckpointPart::needs);
            let needs = needs.collect::<Result<Option<Vec<_>>, _>>()?;
            let needs = needs.expect("there is a second copy");
            let begun = checkpoints.begin(&needs)?;
            parts.iter_mut().for_each(|part| part.begin(&begun));
        }
        Ok(())
    }

    /// Each part writes a batch; whether all had written everything and the checkpoint is complete.
    fn step(&mut self) -> Result<bool, Failure> {
        let Checkpointing { checkpoints, parts } = self.checkpointing();
        let mut done = Vec::new();
        for part in &mut *parts {
            if let Step::Complete(completed) = part.step()? {
                done.push(completed);
            }
        }
        if done.len() < parts.len() {
            return Ok(false);
        }
        let position = checkpoints.complete(&done)?;
        self.released += self.writer.release_before(position.group);
        Ok(true)
    }

    /// A whole checkpoint, groups being installed on the way.
    fn checkpoint(&mut self) -> Result<(), Failure> {
        for _ in 0..self.waiting.len() / 2 {
            self.install()?;
        }
        self.begin()?;
        while !self.step()? {
            self.install()?;
        }
        Ok(())
    }
}
