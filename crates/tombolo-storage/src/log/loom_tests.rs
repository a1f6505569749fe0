//! The ring and the flush under loom: publish against drain, leader against followers.
//!
//! The ring's memory is watched (`Ring::watch`): loom fails when a byte is overwritten that is being
//! written to the file, and when all threads sleep. What the file holds is read back at the end.

use loom::thread;

use std::collections::BTreeMap;

use super::buffer::{Claim, Ring};
use super::file::{LEFT_FOR_IMAGES, LogFile};
use super::flush::Flusher;
use super::record::{Content, Record};
use super::session::Core;
use super::{LogSettings, read_log};
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation, share};
use crate::sync::Arc;

/// A disk whose every call is one step to loom: its mutexes are the standard library's.
#[derive(Clone, Debug, Default)]
struct OneStepDisk {
    files: std::sync::Arc<std::sync::Mutex<BTreeMap<String, Bytes>>>,
    /// Whether syncs fail from now on.
    fails: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

type Bytes = std::sync::Arc<std::sync::Mutex<Vec<u8>>>;

#[derive(Clone, Debug)]
struct OneStepFile {
    name: String,
    bytes: Bytes,
    fails: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Disk for OneStepDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let mut files = self.files.lock().unwrap();
        if how != Open::New && !files.contains_key(name) {
            let cause = std::io::ErrorKind::NotFound.into();
            return Err(DiskError::new(Operation::Open, name, None, &cause));
        }
        let bytes = files.entry(name.to_owned()).or_default().clone();
        Ok(Box::new(OneStepFile { name: name.to_owned(), bytes, fails: self.fails.clone() }))
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }
    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        Ok(self.files.lock().unwrap().contains_key(name))
    }
    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.files.lock().unwrap().remove(name);
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
        &self.name
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let from = offset as usize;
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[from..from + bytes.len()]);
        Ok(())
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        let mut content = self.bytes.lock().unwrap();
        let length = content.len().max(to);
        content.resize(length, 0);
        content[from..to].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> Result<(), DiskError> {
        match self.fails.load(std::sync::atomic::Ordering::Relaxed) {
            true => {
                let cause = std::io::ErrorKind::Other.into();
                Err(DiskError::new(Operation::Sync, &self.name, None, &cause))
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

/// Room for two records of [`publish`].
const RING_BYTES: usize = 128;

type SmallCore = Core;

/// A log with room for all records of a test, so that no segment is made while it runs.
fn core(disk: &OneStepDisk) -> Arc<SmallCore> {
    let settings = LogSettings { segment_bytes: 1 << 20, ..LogSettings::default() };
    let file = LogFile::create(share(disk.clone()), &settings).unwrap();
    file.take_space(file.base() + 2 * LEFT_FOR_IMAGES).unwrap();
    let ring = Ring::new(RING_BYTES, file.base(), Some(file.limit()));
    Arc::new(Core { ring, flusher: Some(Flusher::new(file)) })
}

/// Publishes a record that carries `transaction`.
fn publish(core: &SmallCore, transaction: u64) -> Result<u64, crate::error::Error> {
    let content = Content::Prepared { since: 0, following: 0, bytes: &[0; 24] };
    let record = Record { is_redo_only: true, transaction, previous: 0, content };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    assert_eq!(bytes.len(), RING_BYTES / 2);
    core.publish(&mut core.ring.publisher(), &bytes, &[], Claim::default())
}

/// Publishes a record and returns when it is durable.
fn commit(core: &SmallCore, transaction: u64) -> Result<(), crate::error::Error> {
    let lsn = publish(core, transaction)?;
    core.flush_to(lsn, u64::MAX)?;
    assert!(core.flusher.as_ref().unwrap().durable() > lsn, "reported too early");
    Ok(())
}

/// The transactions in the file.
fn found(disk: &OneStepDisk) -> Vec<u64> {
    let mut found = Vec::new();
    read_log(disk, 0, |_, record| found.push(record.transaction)).unwrap();
    found.sort_unstable();
    found
}

fn explore(fails: bool, works: &'static [fn(&SmallCore)], expected: &'static [u64]) {
    let mut model = loom::model::Builder::new();
    let asked = std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|text| text.parse().ok());
    model.preemption_bound = asked.or(Some(2));
    model.max_branches = 20_000;
    model.check(move || {
        let disk = OneStepDisk::default();
        let core = core(&disk);
        disk.fails.store(fails, std::sync::atomic::Ordering::Relaxed);
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
            assert_eq!(found(&disk), expected);
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
