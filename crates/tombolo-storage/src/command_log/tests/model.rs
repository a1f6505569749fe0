//! Random commands on a loaded store, logged to a disk that crashes: what is found is a beginning of
//! what was logged, holds all that was synced, and leaves the store that was there then.
//!
//! A command's arguments are a seed: its transaction changes rows of three tables as the seed and
//! what it finds say, and may abort at its end. States are compared with the slots rows lie in.

use crate::command_log::*;
use crate::dynamic::DynamicTable;
use crate::memory::recovery::ReplayPart;
use crate::memory::recovery::tests::{change, rows, tables};
use crate::memory::test_random::Random;
use crate::memory::{Limits, MemoryStore};
use crate::profile::{MemoryCommandLogged, MemoryLogged, MemoryProfile};
use crate::store::Store;
use crate::sync::Arc;
use crate::value_log::record::LogBuffer;
use crate::value_log::tests::crash_disk::CrashDisk;
use crate::value_log::{LogFailure, LogKind, LogSettings, LogWriter, RecoverOptions, recover};

type Commanded = MemoryStore<MemoryCommandLogged>;

const SETTINGS: LogSettings = LogSettings {
    kind: LogKind::Command,
    salt: 0x5eed_5a17,
    segment_bytes: 64 << 10,
    segment_bytes_first: u64::MAX,
    block_bytes: 512,
    segments_ahead: 1,
    log_bytes_max: u64::MAX,
    direct: true,
};

/// One transaction, as its seed says; whether it committed.
fn transaction<P: MemoryProfile>(store: &mut MemoryStore<P>, seed: u64) -> bool {
    let mut random = Random::new(seed);
    store.begin().unwrap();
    store.begin_writes();
    for _ in 0..random.below(6) {
        let table = DynamicTable::new(store.schema(), random.below(3) as usize);
        change(store, &table, &mut random);
    }
    let commits = random.below(4) > 0;
    if commits {
        store.commit().unwrap()
    } else {
        store.abort().unwrap()
    }
    commits
}

fn command(store: &mut Commanded, seed: u64) -> bool {
    let number = ProcedureNumber::new(seed as usize % PROCEDURES_MAX).unwrap();
    let encode = |room: &mut [u8]| {
        room[..8].copy_from_slice(&seed.to_le_bytes());
        8
    };
    store.command(number, 8, encode).unwrap();
    transaction(store, seed)
}

/// A store that was loaded before there were commands, and what that logged.
fn loaded(random: &mut Random) -> (Commanded, LogBuffer) {
    let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
    for table in tables() {
        store.create_table(table).unwrap();
    }
    for _ in 0..20 {
        transaction(&mut store, random.next());
    }
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    (store.with_profile().unwrap(), buffer)
}

/// A log that is run again.
enum Again {
    Loading(Box<ReplayPart>),
    Running(Box<Commanded>),
    Nowhere,
}

impl Again {
    fn run(&mut self, records: &[u8]) -> Result<(), String> {
        for entry in Entries::new(records) {
            match entry.map_err(|error| error.to_string())? {
                Entry::Values(records) => match self {
                    Self::Loading(part) => part.apply_transaction(records)?,
                    _ => return Err("values behind commands".to_owned()),
                },
                Entry::Command { arguments, .. } => {
                    let seed = u64::from_le_bytes(arguments.try_into().unwrap());
                    if let Self::Loading(_) = self {
                        let store = std::mem::replace(self, Self::Nowhere).store();
                        *self = Self::Running(Box::new(store));
                    }
                    let Self::Running(store) = self else { unreachable!() };
                    let bytes = store.log_bytes();
                    assert!(command(store, seed), "it committed before");
                    assert_eq!(store.log_bytes(), bytes + 12, "it wrote before");
                }
                Entry::Procedure { .. } => return Err("there is none".to_owned()),
            }
        }
        Ok(())
    }

    fn store(self) -> Commanded {
        match self {
            Self::Loading(part) => {
                MemoryStore::from_replay(Limits::default(), vec![part.finish().unwrap()]).unwrap()
            }
            Self::Running(store) => *store,
            Self::Nowhere => unreachable!(),
        }
    }
}

fn recovered(disk: &CrashDisk) -> Result<(LogWriter, Commanded), LogFailure> {
    let mut again = Again::Loading(Box::new(ReplayPart::new(0, 1, Limits::default())));
    let mut replay = |_, records: &[u8]| again.run(records);
    let (disk, options) = (Arc::new(disk.clone()), RecoverOptions::default());
    let found = recover(disk, SETTINGS, options, &mut replay, &mut |_| {})?;
    let mut store = again.store();
    store.take_log(&mut LogBuffer::new());
    Ok((found.writer, store))
}

/// The states that may be found: after each group that was written, from the newest that is durable
/// on.
struct Known(Vec<Vec<String>>);

impl Known {
    /// Groups of commands until the disk fails or there have been enough.
    fn work(
        &mut self,
        store: &mut Commanded,
        writer: &mut LogWriter,
        random: &mut Random,
    ) -> Result<(), LogFailure> {
        let mut buffer = LogBuffer::new();
        for _ in 0..random.below(12) {
            for _ in 0..1 + random.below(8) {
                command(store, random.next());
            }
            store.take_log(&mut buffer);
            if !buffer.is_empty() {
                self.0.push(rows(store));
                writer.append_group(&[buffer.as_slice()], buffer.transactions(), None)?;
            }
            buffer.clear();
            if random.below(3) == 0 {
                writer.sync()?;
                self.0.drain(..self.0.len() - 1);
            }
        }
        Ok(())
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = CrashDisk::default();
    let (mut store, load) = loaded(&mut random);
    let mut writer = LogWriter::create(Arc::new(disk.clone()), SETTINGS).unwrap();
    writer.append_group(&[load.as_slice()], load.transactions(), None).unwrap();
    writer.sync().unwrap();
    let mut known = Known(vec![rows(&mut store)]);
    for _ in 0..4 {
        disk.fail_after((random.below(4) > 0).then(|| random.below(60)));
        _ = known.work(&mut store, &mut writer, &mut random);
        drop(writer);
        disk = if random.below(5) == 0 { disk.kill() } else { disk.crash(&mut random) };
        // A recovery may crash too.
        disk.fail_after((random.below(2) > 0).then(|| random.below(40)));
        if recovered(&disk).is_err() {
            disk = disk.crash(&mut random);
        }
        disk.fail_after(None);
        (writer, store) = recovered(&disk).unwrap();
        let found = rows(&mut store);
        let at = known.0.iter().position(|state| *state == found);
        let Some(at) = at else { panic!("seed {seed}: a state that never was") };
        known.0.drain(..at);
        known.0.truncate(1);
        assert_eq!(store.check(), [], "seed {seed}");
    }
}

#[test]
fn crashes_lose_no_command_that_was_synced() {
    (0..60).for_each(run);
}

/// A second execution leaves the rows in the same slots, aborted transactions or not.
#[test]
fn running_again_leaves_the_same_slots() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let (mut store, load) = loaded(&mut random);
        let mut again = Again::Loading(Box::new(ReplayPart::new(0, 1, Limits::default())));
        again.run(load.as_slice()).unwrap();
        let mut buffer = LogBuffer::new();
        let committed = (0..100).filter(|_| command(&mut store, random.next())).count();
        assert!((50..95).contains(&committed), "{committed}");
        store.take_log(&mut buffer);
        again.run(buffer.as_slice()).unwrap();
        let mut again = again.store();
        assert!(rows(&mut again) == rows(&mut store), "seed {seed}");
    }
}
