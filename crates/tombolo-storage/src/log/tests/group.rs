//! Several threads: groups are shared, the ring fills up, no commit is reported too early.

use super::*;
use crate::disk::{DiskError, DiskFile, Open};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A disk whose sync takes as long as others need to commit, and that knows what was synced.
#[derive(Clone, Debug)]
struct SlowDisk {
    disk: MemDisk,
    /// Transactions that reached `harden`, to wait for company.
    arrived: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SlowFile {
    file: Box<dyn DiskFile>,
    arrived: Arc<AtomicU64>,
    order: Mutex<()>,
}

impl Disk for SlowDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = self.disk.open(name, how)?;
        Ok(Box::new(SlowFile { file, arrived: Arc::clone(&self.arrived), order: Mutex::new(()) }))
    }

    crate::forward_disk!(disk: list exists remove rename sync_dir);
}

impl DiskFile for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let _one = self.order.try_lock().expect("two flushers at once");
        self.file.write_at(bytes, offset)
    }
    fn sync(&self) -> Result<(), DiskError> {
        let _one = self.order.try_lock().expect("two flushers at once");
        let before = self.arrived.load(Ordering::SeqCst);
        for _ in 0..2_000 {
            if self.arrived.load(Ordering::SeqCst) > before + 1 {
                break;
            }
            std::hint::spin_loop();
            std::thread::yield_now();
        }
        self.file.sync()
    }

    crate::forward_disk!(file: name read_at set_len len try_lock);
}

const THREADS: u64 = 4;

fn slow(durability: Durability) -> (SlowDisk, DiskLog) {
    let disk = SlowDisk { disk: MemDisk::new(), arrived: Arc::default() };
    // Room for all that a test writes.
    let settings = LogSettings { durability, segment_bytes: 4 << 20, ..settings_small() };
    let log = DiskLog::create(settings, on(&disk)).unwrap();
    (disk, log)
}

/// Commits `count` transactions on each thread.
fn in_threads(count: u64, work: impl Fn(&mut LogTransaction, u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || {
                let mut transaction = LogTransaction::default();
                (0..count).for_each(|turn| work(&mut transaction, 1 + thread * count + turn));
            });
        }
    });
}

#[test]
fn commits_share_flushes() {
    let (disk, log) = slow(Durability::Group);
    in_threads(100, |transaction, id| {
        log.begin(transaction, id);
        log.change(transaction, update(id), &[1; 60], &[2; 60]).unwrap();
        let lsn = log.commit(transaction).unwrap();
        disk.arrived.fetch_add(1, Ordering::SeqCst);
        log.harden(lsn).unwrap();
        assert!(log.core.flusher.as_ref().unwrap().durable() > lsn);
    });
    let usage = log.usage();
    assert_eq!(usage.commits, 100 * THREADS);
    assert!(usage.flushes < usage.commits / 3 * 2, "{usage:?}");
    let mut found = committed(&disk).unwrap();
    found.sort_unstable();
    assert_eq!(found, (1..=100 * THREADS).collect::<Vec<_>>());
}

/// One flush for each commit when one session at a time commits.
#[test]
fn one_session_flushes_for_itself() {
    for durability in [Durability::Group, Durability::Sync] {
        let (disk, log) = slow(durability);
        commit_all(&log, 1..=20);
        assert_eq!((log.usage().flushes, committed(&disk).unwrap().len()), (20, 20));
    }
}

/// With `sync` a flush ends with the record that asked for it.
#[test]
fn sync_shares_with_nobody_that_commits_later() {
    let (disk, log) = slow(Durability::Sync);
    let mut sessions = [(); 2].map(|()| LogTransaction::default());
    let lsns = [0, 1].map(|at: usize| {
        log.begin(&mut sessions[at], at as u64 + 1);
        log.change(&mut sessions[at], update(1), b"a", b"b").unwrap();
        log.commit(&mut sessions[at]).unwrap()
    });
    log.harden(lsns[0]).unwrap();
    assert_eq!(committed(&disk).unwrap(), [1]);
    log.harden(lsns[1]).unwrap();
    assert_eq!((committed(&disk).unwrap(), log.usage().flushes), (vec![1, 2], 2));
}

/// Sessions that outrun the ring flush it themselves, whatever they hold.
#[test]
fn a_full_ring_is_flushed_by_who_needs_room() {
    let (disk, log) = slow(Durability::Async);
    let ahead = log.ahead();
    in_threads(60, |transaction, id| {
        log.begin(transaction, id);
        for _ in 0..3 {
            let lsn = log.change(transaction, update(id), &[1; 4_000], &[id as u8; 4_000]);
            if id % 16 == 0 {
                ahead.clone().flush_to(lsn.unwrap().unwrap()).unwrap();
            }
        }
        log.commit(transaction).unwrap();
    });
    log.flush().unwrap();
    let usage = log.usage();
    assert!(usage.buffer_full > 0 && usage.bytes > 4 * usage.buffer_bytes, "{usage:?}");
    assert_eq!(usage.flushed_bytes, usage.bytes);
    let mut records = 0;
    read_log(&disk, 0, |_, record| {
        records += 1;
        if let Content::Change { after, .. } = record.content {
            assert!(after.iter().all(|byte| *byte == record.transaction as u8));
        }
    })
    .unwrap();
    assert_eq!(records, usage.records);
    assert_eq!(log.check(), []);
}

#[test]
fn followers_of_a_leader_that_fails_are_reported() {
    use crate::disk::{Fault, Operation};
    let (disk, log) = slow(Durability::Group);
    commit_one(&log, 1_000).unwrap();
    let kind = std::io::ErrorKind::Other;
    disk.disk.set_fault(Some(Fault { operation: Operation::Sync, after: 5, kind }));
    let acknowledged = Mutex::new(Vec::new());
    in_threads(30, |transaction, id| {
        disk.arrived.fetch_add(1, Ordering::SeqCst);
        if log.core.flusher.as_ref().unwrap().poisoned().is_some() {
            return;
        }
        log.begin(transaction, id);
        let changed = log.change(transaction, update(id), b"a", b"b");
        let hardened =
            changed.and_then(|_| log.commit(transaction)).and_then(|lsn| log.harden(lsn));
        match hardened {
            Ok(()) => acknowledged.lock().unwrap().push(id),
            // The session is as poisoned as its log.
            Err(_) => *transaction = LogTransaction::default(),
        }
    });
    let found = committed(&disk).unwrap();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.iter().all(|id| found.contains(id)));
    assert_eq!(log.usage().flushes, 1 + 5);
    assert!(acknowledged.len() < 30 * THREADS as usize);
}
