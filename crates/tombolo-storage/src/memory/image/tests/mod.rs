//! The image on a disk: with the log it is the store, whatever was lost between any two calls.
//!
//! Here: a database as the engine will run one, on one thread: store, log, parts, checkpoints.

mod archive;
mod backup;
mod courses;
mod damage;
mod model;
mod pieces;
mod survey;

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::disk::Disk;
use crate::memory::online::Built;
use crate::memory::recovery::tests::{change, rows, tables};
use crate::memory::test_random::Random;
use crate::memory::{Limits, MemoryStore};
use crate::plant::{self, Plant};
use crate::profile::MemoryLogged;
use crate::schema::ColumnDef;
use crate::sync::Arc;
use crate::types::SqlType;
use crate::value_log::{
    GroupNumber, LogBuffer, LogFailure, LogKind, LogPosition, LogSettings, LogWriter, Transactions,
    recover,
};
use crate::{dynamic::DynamicTable, store::Store};

type Logged = MemoryStore<MemoryLogged>;

/// What distinguishes a restored database from the one that was backed up.
const MARK: u64 = 0xd;

const LOG: LogSettings = LogSettings {
    kind: LogKind::Value,
    segment_bytes: 32 << 10,
    segment_bytes_first: u64::MAX,
    block_bytes: 512,
    segments_ahead: 1,
    log_bytes_max: u64::MAX,
    direct: true,
    salt: 0x5eed_5a17,
};

fn image_settings(spare_blocks: u32) -> ImageSettings {
    ImageSettings { block_bytes: 4096, spare_blocks, direct: true, copy: SecondCopy::Memory }
}

/// The same without a second copy.
fn in_place(spare_blocks: u32) -> ImageSettings {
    ImageSettings { copy: SecondCopy::None, ..image_settings(spare_blocks) }
}

/// Why a database was not opened or does not continue.
#[derive(Clone, Debug)]
enum Failure {
    Log(LogFailure),
    Image(ImageFailure),
    #[expect(dead_code, reason = "printed in the message of a failing test")]
    Rows(String),
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

impl Failure {
    /// Whether the disk said so, and nothing worse is wrong.
    fn is_disk(&self) -> bool {
        matches!(self, Self::Log(LogFailure::Disk(_)) | Self::Image(ImageFailure::Disk(_)))
    }
}

/// A database that is open.
struct Database {
    store: Logged,
    writer: LogWriter,
    checkpoints: Checkpoints,
    parts: Vec<CheckpointPart>,
    done: Vec<Option<Completed>>,
    /// What each part's thread for writing was given.
    under_way: Vec<Option<Batch>>,
    /// What each part has asked for, and the newest group that what was copied may be of, if
    /// that is written.
    asked: Vec<Option<(Request, Option<GroupNumber>)>>,
    /// Groups that are not durable yet, then those that are, for each part those it did not install.
    written: Vec<(LogPosition, Arc<Vec<u8>>)>,
    waiting: Vec<VecDeque<(LogPosition, Arc<Vec<u8>>)>>,
    buffer: LogBuffer,
    /// What parts need of the checkpoint that is to begin.
    needs: Vec<Option<Needs>>,
    turns: usize,
    /// Segments of the log that were given back.
    released: usize,
}

impl Database {
    /// Opens what is there, or makes it. It is loaded in another number of parts than it has.
    fn open(disks: &[Arc<dyn Disk>], spare: u32, parts: usize) -> Result<Self, Failure> {
        Self::open_with(disks, image_settings(spare), parts, None)
    }

    /// The same; what of the log is behind `keep` is not given away.
    fn open_with(
        disks: &[Arc<dyn Disk>],
        settings: ImageSettings,
        parts: usize,
        keep: Option<GroupNumber>,
    ) -> Result<Self, Failure> {
        let image = Image::find(disks.to_vec(), settings)?;
        let limits = Limits::default();
        let loading = parts % 3 + 1;
        let mut loaded = (0..loading)
            .map(|part| image.load(part, loading, limits, &mut |_| {}))
            .collect::<Result<Vec<_>, _>>()?;
        let known = loaded.iter().map(LoadedPart::known).max().unwrap_or(0);
        let options = image.recover_options(known, false, keep);
        let mut replay = |group, records: &[u8]| {
            // As threads do it: by transactions, each part all of them.
            loaded.iter_mut().try_for_each(|part| {
                part.replay.begin_group(group)?;
                Transactions::new(records)
                    .try_for_each(|found| part.replay.apply_transaction(found.unwrap()))
            })
        };
        let recovered = recover(disks[0].clone(), LOG, options, &mut replay, &mut |_| {});
        let writer = match recovered {
            Err(LogFailure::NoLog) if image.any_file().is_none() => {
                LogWriter::create(disks[0].clone(), LOG)?
            }
            recovered => {
                let blame = |failure| match image.blamed_for(&failure) {
                    Some(why) => Failure::Image(why),
                    None => Failure::Log(failure),
                };
                recovered.map_err(blame)?.writer
            }
        };
        let (mut mirrored, mut rebuilt) = (Vec::new(), Vec::new());
        for mut part in loaded {
            mirrored.push(part.mirror()?);
            rebuilt.push(part.replay.finish().map_err(Failure::Rows)?);
        }
        let checkpoints = Checkpoints::start(image, &mirrored, writer.salt(), writer.epoch())?;
        let position = writer.position();
        let to_part = |mirrored| CheckpointPart::new(mirrored, &checkpoints, position);
        let divided = MirroredPart::divide(mirrored, parts).into_iter();
        let checkpoint_parts: Vec<CheckpointPart> = divided.map(to_part).collect();
        let store = Logged::from_replay(limits, rebuilt).map_err(Failure::Rows)?;
        Ok(Self {
            store,
            writer,
            checkpoints,
            parts: checkpoint_parts,
            done: vec![None; parts],
            under_way: (0..parts).map(|_| None).collect(),
            written: Vec::new(),
            asked: (0..parts).map(|_| None).collect(),
            waiting: vec![VecDeque::new(); parts],
            buffer: LogBuffer::new(),
            needs: (0..parts).map(|_| None).collect(),
            turns: 0,
            released: 0,
        })
    }

    /// Makes the next table that is not there, if there is one.
    fn create_table(&mut self) {
        let schema = self.store.schema();
        let missing = tables().into_iter().find(|table| schema.table(&table.name).is_none());
        if let Some(table) = missing {
            self.store.create_table(table).unwrap();
        }
    }

    /// Drops a table or an index, if there is one, and frees some of the values that are left of tables.
    fn drop_one(&mut self, random: &mut Random) {
        let tables: Vec<_> = self.store.schema().live_tables().map(|(_, table)| table).collect();
        let Some(table) = tables.get(random.below(tables.len().max(1) as u64) as usize) else {
            return;
        };
        let secondary = table.indexes.iter().skip(1).map(|index| index.name.to_string());
        let (name, secondary) = (table.name.to_string(), secondary.collect::<Vec<_>>());
        let mut columns = table.columns.iter().filter(|column| !column.is_dropped());
        let column = columns.next_back().map(|column| column.name.to_string()).unwrap();
        match random.below(2 + secondary.len() as u64) as usize {
            0 => drop(self.store.drop_table(&name).unwrap()),
            // The last one that is left stays, and one in a key does.
            1 => drop(self.store.drop_column(&name, &column)),
            number => drop(self.store.drop_index(&secondary[number - 2]).unwrap()),
        }
        for _ in 0..random.below(3) {
            self.store.values_slice(20);
        }
    }

    /// Adds a column to a table, if there is one that has few; nothing is written yet.
    fn add_column(&mut self, random: &mut Random) {
        let tables: Vec<_> = self.store.schema().live_tables().map(|(_, table)| table).collect();
        let Some(table) = tables.get(random.below(tables.len().max(1) as u64) as usize) else {
            return;
        };
        let (name, number) = (table.name.to_string(), table.columns.len());
        if number > 8 {
            return;
        }
        let types = [SqlType::Text, SqlType::BigInt, SqlType::Varchar(90), SqlType::Boolean];
        let sql = types[random.below(4) as usize];
        let column = ColumnDef {
            name: format!("added_{number}").into(),
            sql,
            nullable: random.below(2) == 0,
            range: None,
            hot: false,
            added: true,
            default: sql.integer_range().map(|(_, most)| most).filter(|_| number % 2 == 0),
        };
        while self.store.values_slice(50) != Built::Done {}
        let build = self.store.begin_column(&name, column).unwrap();
        while self.store.column_slice(&build, 50).unwrap() != Built::Done {}
        drop(self.store.finish_column(build).unwrap());
    }

    /// Some transactions; nothing is written yet.
    fn work(&mut self, random: &mut Random, transactions: u64) {
        let schema = self.store.schema();
        let handles = schema.live_tables().map(|(at, _)| DynamicTable::new(schema, at));
        let handles: Vec<_> = handles.collect();
        let tables = handles.len();
        if tables == 0 {
            return;
        }
        for _ in 0..transactions {
            self.store.begin().unwrap();
            self.store.begin_writes();
            for _ in 0..random.below(6) {
                change(&mut self.store, &handles[random.below(tables as u64) as usize], random);
            }
            if random.below(6) == 0 {
                self.store.abort().unwrap();
            } else {
                self.store.commit().unwrap();
            }
        }
    }

    /// Some durable groups, each shorter than a segment.
    fn groups(&mut self, random: &mut Random, groups: u64) {
        for _ in 0..groups {
            self.work(random, 3);
            self.write().unwrap();
            self.sync().unwrap();
        }
    }

    /// Writes what was logged as a group; its number, if there was anything.
    fn write(&mut self) -> Result<Option<GroupNumber>, Failure> {
        self.store.take_log(&mut self.buffer);
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let records = Arc::new(self.buffer.as_slice().to_vec());
        let transactions = self.buffer.transactions();
        self.buffer.clear();
        let group = self.writer.append_group(&[&records], transactions, None)?;
        for (_, newest) in self.asked.iter_mut().flatten() {
            newest.get_or_insert(group);
        }
        self.written.push((self.writer.position(), records));
        Ok(Some(group))
    }

    fn sync(&mut self) -> Result<GroupNumber, Failure> {
        let durable = self.writer.sync()?;
        for group in self.written.drain(..) {
            self.waiting.iter_mut().for_each(|part| part.push_back(group.clone()));
        }
        Ok(durable)
    }

    /// Lets a part install the next durable group.
    fn install(&mut self, part: usize) -> Result<(), Failure> {
        if let Some((position, records)) = self.waiting[part].pop_front() {
            self.parts[part].install(position, &records)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        if self.checkpoints.writing().is_some() || !self.parts.iter().all(CheckpointPart::may_begin)
        {
            return Ok(());
        }
        for part in 0..self.parts.len() {
            if self.needs[part].is_none() {
                self.needs[part] = self.parts[part].needs()?;
                self.serve(part, usize::MAX);
            }
            if self.needs[part].is_none() && !self.parts[part].is_asking() {
                self.needs[part] = self.parts[part].needs()?;
            }
        }
        if self.needs.iter().any(Option::is_none) {
            return Ok(());
        }
        let needs: Vec<_> = self.needs.iter_mut().filter_map(Option::take).collect();
        let begun = self.checkpoints.begin(&needs)?;
        self.parts.iter_mut().for_each(|part| part.begin(&begun));
        Ok(())
    }

    /// Serves what a part asks for, a piece of it; gives it back when the log is durable up to there.
    fn serve(&mut self, part: usize, bytes_max: usize) {
        let asked = &mut self.asked[part];
        if asked.is_none() {
            *asked = self.parts[part].request().map(|request| (request, None));
        }
        let Some((request, newest)) = asked else { return };
        if !request.is_served() {
            request.serve(self.store.rows_in_place().unwrap(), bytes_max);
            *newest = Some(self.writer.newest()).filter(|_| self.store.log_bytes() == 0);
        }
        let is_durable = newest.is_some_and(|newest| newest <= self.writer.durable())
            || plant::is(Plant::BlockWrittenEarly);
        if is_durable
            && let Some((request, newest)) = asked.take_if(|(request, _)| request.is_served())
        {
            self.parts[part].served(request, newest.unwrap_or(self.writer.durable()));
        }
    }

    /// One step of a part: a batch is prepared while the one before it is being written. Completes the
    /// checkpoint when all parts have; whether it did.
    fn step(&mut self, part: usize) -> Result<bool, Failure> {
        if self.checkpoints.writing().is_none() {
            return Ok(false);
        }
        self.parts[part].prepare()?;
        self.turns += 1;
        self.serve(part, [1, 300, 3_000, usize::MAX][self.turns % 4]);
        let (of, under_way) = (&mut self.parts[part], &mut self.under_way[part]);
        match under_way.take() {
            Some(batch) => {
                of.wrote(batch.write())?;
            }
            None => *under_way = of.next_batch(),
        }
        self.done[part] = of.completed();
        let Some(done) = self.done.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let position = self.checkpoints.complete(&done)?;
        self.done.fill(None);
        self.released += self.writer.release_before(position.group);
        Ok(true)
    }

    /// Installs all that is durable and writes a whole checkpoint; as many as it takes, where not all of
    /// it fits into one.
    fn checkpoint(&mut self) -> Result<(), Failure> {
        if !self.parts[0].installs() {
            self.write()?; // what is copied is to become durable
        }
        self.sync()?;
        loop {
            for part in 0..self.parts.len() {
                while !self.waiting[part].is_empty() {
                    self.install(part)?;
                }
            }
            while self.checkpoints.writing().is_none() {
                self.begin()?;
            }
            let mut part = 0;
            while !self.step(part)? {
                part = (part + usize::from(self.done[part].is_some())) % self.parts.len();
            }
            if self.waiting.iter().all(VecDeque::is_empty) {
                return Ok(());
            }
        }
    }

    /// DB′ is the store, once everything is installed; if it is in memory.
    fn check_mirror(&mut self) {
        let in_memory: Option<Vec<_>> =
            self.parts.iter_mut().map(CheckpointPart::replay_for_test).collect();
        let Some(in_memory) = in_memory else { return };
        let rebuilt = in_memory.into_iter().map(|part| part.mirror().unwrap().finish().unwrap());
        let rebuilt = rebuilt.collect();
        let mut mirrored = Logged::from_replay(Limits::default(), rebuilt).unwrap();
        assert_eq!(mirrored.check(), []);
        assert!(rows(&mut mirrored) == rows(&mut self.store), "DB′ is another");
    }
}

/// Tables, indexes and rows.
fn state(store: &mut Logged) -> Vec<String> {
    let tables = store.schema().live_tables().map(|(position, table)| {
        let indexes: Vec<_> = table.indexes.iter().map(|index| &index.name).collect();
        let columns: Vec<_> = table.columns.iter().map(|column| &column.name).collect();
        format!("{position} {}: {columns:?} {indexes:?}", table.name)
    });
    let mut state: Vec<_> = tables.collect();
    state.extend(rows(store));
    state
}

/// The state after each group.
type History = BTreeMap<GroupNumber, Vec<String>>;
