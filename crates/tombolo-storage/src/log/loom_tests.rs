//! The ring and the flush under loom: publish against drain, leader against followers.
//!
//! The ring's memory is watched (`Ring::watch`): loom fails when a byte is overwritten that is being
//! written to the file, and when all threads sleep. What the file holds is read back at the end.

use loom::thread;

use super::LogSettings;
use super::buffer::{Claim, Ring};
use super::file::LogFile;
use super::flush::Flusher;
use super::read::Reader;
use super::record::{Content, HEADER_BYTES, Record};
use super::session::Core;
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};
use crate::latch::Latched;
use crate::sync::Arc;

/// A file whose every call is one step to loom: its mutex is the standard library's.
#[derive(Clone, Debug, Default)]
struct OneStepFile {
    bytes: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    /// Whether syncs fail after the first, which is the header's.
    fails: bool,
    syncs: std::sync::Arc<std::sync::Mutex<u32>>,
}

impl Disk for OneStepFile {
    fn open(&self, _: &str, _: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(Box::new(self.clone()))
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(Vec::new())
    }
    fn exists(&self, _: &str) -> Result<bool, DiskError> {
        Ok(true)
    }
    fn remove(&self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
    fn rename(&self, _: &str, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
    fn sync_dir(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl DiskFile for OneStepFile {
    fn name(&self) -> &str {
        "log"
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let from = offset as usize;
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[from..from + bytes.len()]);
        Ok(())
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let from = offset as usize;
        self.bytes.lock().unwrap()[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> Result<(), DiskError> {
        let mut syncs = self.syncs.lock().unwrap();
        *syncs += 1;
        match self.fails && *syncs > 1 {
            true => {
                Err(DiskError::new(Operation::Sync, "log", None, &std::io::ErrorKind::Other.into()))
            }
            false => Ok(()),
        }
    }
    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.bytes.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }
    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn try_lock(&self) -> Result<bool, DiskError> {
        Ok(true)
    }
}

/// Room for two records without images.
const RING_BYTES: usize = 2 * HEADER_BYTES;

type SmallCore = Core<Latched>;

fn core(disk: &OneStepFile) -> Arc<SmallCore> {
    let settings = LogSettings { extent_bytes: 0, ..LogSettings::default() };
    let file = LogFile::create(disk, &settings).unwrap();
    let ring = Ring::new(RING_BYTES, file.base(), Some(file.limit()));
    Arc::new(Core { ring, flusher: Some(Flusher::new(file)) })
}

/// Publishes a record that carries `transaction`.
fn publish(core: &SmallCore, transaction: u64) -> Result<u64, crate::error::Error> {
    let content = Content::Committed { durable: 0 };
    let record = Record { is_redo_only: true, transaction, previous: 0, undo_next: 0, content };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    core.publish(&mut bytes, &[], Claim::default())
}

/// Publishes a record and returns when it is durable.
fn commit(core: &SmallCore, transaction: u64) -> Result<(), crate::error::Error> {
    let lsn = publish(core, transaction)?;
    core.flush_to(lsn, u64::MAX)?;
    assert!(core.flusher.as_ref().unwrap().durable() > lsn, "reported too early");
    Ok(())
}

/// The transactions in the file.
fn found(disk: &OneStepFile, core: &SmallCore) -> Vec<u64> {
    let base = core.flusher.as_ref().unwrap().file().base();
    let mut reader = Reader::new(disk, base).unwrap();
    let mut found = Vec::new();
    reader.end(|_, record| found.push(record.transaction)).unwrap();
    found.sort_unstable();
    found
}

fn explore(fails: bool, works: &'static [fn(&SmallCore)], expected: &'static [u64]) {
    let mut model = loom::model::Builder::new();
    let asked = std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|text| text.parse().ok());
    model.preemption_bound = asked.or(Some(2));
    model.max_branches = 20_000;
    model.check(move || {
        let disk = OneStepFile { fails, ..OneStepFile::default() };
        let core = core(&disk);
        let (last, others) = works.split_last().unwrap();
        let threads: Vec<_> = others
            .iter()
            .map(|work| {
                let core = Arc::clone(&core);
                thread::spawn(move || work(&core))
            })
            .collect();
        last(&core);
        for thread in threads {
            thread.join().unwrap();
        }
        if !fails {
            core.flush_to(core.ring.tail() - 1, u64::MAX).unwrap();
            assert_eq!(found(&disk, &core), expected);
        }
    });
}

/// The third record waits for room that only a flush makes.
#[test]
fn a_full_ring_is_drained_while_others_publish() {
    explore(
        false,
        &[
            |core| {
                publish(core, 1).unwrap();
                publish(core, 2).unwrap();
            },
            |core| {
                publish(core, 3).unwrap();
            },
        ],
        &[1, 2, 3],
    );
}

#[test]
fn a_leader_and_a_follower() {
    explore(false, &[|core| commit(core, 1).unwrap(), |core| commit(core, 2).unwrap()], &[1, 2]);
}

#[test]
fn a_leader_flushes_while_another_publishes() {
    explore(
        false,
        &[
            |core| commit(core, 1).unwrap(),
            |core| {
                publish(core, 2).unwrap();
                publish(core, 3).unwrap();
            },
        ],
        &[1, 2, 3],
    );
}

/// No session is acknowledged and none waits for ever.
#[test]
fn a_leader_that_fails_tells_its_follower() {
    explore(
        true,
        &[|core| assert!(commit(core, 1).is_err()), |core| assert!(commit(core, 2).is_err())],
        &[],
    );
}
