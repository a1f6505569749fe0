//! Early lock release: locks go before the flush, answers come after it, those of readers too.

use super::*;
use crate::disk::{DiskError, DiskFile};
use crate::log::LOG_FILES;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

/// A disk whose syncs of the log wait while it is held, and then fail if they are to.
#[derive(Clone, Debug, Default)]
struct HeldDisk {
    disk: MemDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    is_held: Mutex<bool>,
    changed: Condvar,
    /// Syncs that have begun.
    begun: AtomicU32,
    fails: AtomicBool,
}

fn pause(time: Duration) {
    let (_sender, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(time).is_err());
}

impl Gate {
    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.changed.notify_all();
    }
}

/// Opens a gate at its end.
struct Opened<'g>(&'g Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

#[derive(Debug)]
struct HeldFile {
    file: Box<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl Disk for HeldDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = self.disk.open(name, how)?;
        match name.starts_with(LOG_FILES) {
            true => Ok(Box::new(HeldFile { file, gate: Arc::clone(&self.gate) })),
            false => Ok(file),
        }
    }

    crate::forward_disk!(disk: list exists remove rename sync_dir);
}

impl DiskFile for HeldFile {
    fn sync(&self) -> Result<(), DiskError> {
        self.gate.begun.fetch_add(1, Ordering::SeqCst);
        let held = self.gate.is_held.lock().unwrap();
        drop(self.gate.changed.wait_while(held, |is_held| *is_held).unwrap());
        match self.gate.fails.load(Ordering::SeqCst) {
            true => {
                let cause = std::io::ErrorKind::Other.into();
                Err(DiskError::new(Operation::Sync, self.name(), None, &cause))
            }
            false => self.file.sync(),
        }
    }

    crate::forward_disk!(file: name read_at write_at set_len len try_lock);
}

fn bank(accounts: i32) -> (HeldDisk, Bank<Conventional>) {
    let disk = HeldDisk::default();
    let mut store = PagedStore::create(&disk, &settings()).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..accounts).for_each(|id| bank.add(id).unwrap());
    (disk, bank)
}

impl Bank<Conventional> {
    /// Sets a balance; the commit is the caller's.
    fn set(&mut self, id: i32, balance: i64) {
        self.store.begin().unwrap();
        self.store.begin_writes();
        let row = self.store.lookup_for_update(&self.by_id, id).unwrap().unwrap();
        let set = |row: &mut RowMut<'_, Account>| row.set(Account::BALANCE, balance);
        self.store.update(&self.table, row, BALANCE, set).unwrap();
    }

    /// Reads a balance; the end of the transaction is the caller's.
    fn balance(&mut self, id: i32) -> i64 {
        self.store.begin().unwrap();
        let row = self.find(id).unwrap();
        self.store.pin(&self.table, row).unwrap().get(Account::BALANCE)
    }
}

/// How the transaction of the second session ends that saw what the first one has not flushed yet.
type End = fn(&mut Bank<Conventional>) -> Result<(), Error>;

/// The first session's flush is held; the second one gets the row's lock, and no answer before that
/// flush has ended. Returns both answers.
fn seen_before_it_is_durable(fails: bool, end: End) -> [Result<(), Error>; 2] {
    let (disk, mut first) = bank(3);
    let mut second = first.session();
    let is_released = AtomicBool::new(false);
    disk.gate.hold(true);
    disk.gate.fails.store(fails, Ordering::SeqCst);
    let begun = disk.gate.begun.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            first.set(1, 7);
            let answer = first.store.commit();
            assert!(is_released.load(Ordering::SeqCst), "the writer was answered too early");
            answer
        });
        while disk.gate.begun.load(Ordering::SeqCst) == begun {
            std::thread::yield_now();
        }
        let reader = scope.spawn(|| {
            assert_eq!(second.balance(1), 7, "its lock is free before the flush");
            let answer = end(&mut second);
            assert!(is_released.load(Ordering::SeqCst), "the reader was answered too early");
            answer
        });
        pause(Duration::from_millis(30));
        is_released.store(true, Ordering::SeqCst);
        disk.gate.hold(false);
        [writer.join().unwrap(), reader.join().unwrap()]
    })
}

const ENDS: [End; 3] = [
    |bank| bank.store.commit(),
    |bank| bank.store.abort(),
    |bank| {
        bank.store.begin_writes();
        bank.store.abort()
    },
];

#[test]
fn no_answer_precedes_the_flush_of_what_it_saw() {
    for end in ENDS {
        assert_eq!(seen_before_it_is_durable(false, end), [Ok(()), Ok(())]);
    }
}

#[test]
fn no_transaction_is_answered_when_the_flush_fails() {
    for end in ENDS {
        for answer in seen_before_it_is_durable(true, end) {
            assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
        }
    }
}

/// A transaction that met nothing new causes no flush.
#[test]
fn a_reader_of_durable_rows_flushes_nothing() {
    let (_disk, mut bank) = bank(3);
    let flushes = bank.store.log_usage().flushes;
    (0..10).for_each(|_| {
        bank.balance(1);
        bank.store.commit().unwrap();
    });
    assert_eq!(bank.store.log_usage().flushes, flushes);
}

/// All callers change one row while a flush is held: each gets its lock, and one more flush serves them all.
#[test]
fn commits_of_one_row_share_flushes() {
    const CALLERS: u64 = 8;
    let (disk, first) = bank(1);
    let mut sessions: Vec<_> = (0..CALLERS).map(|_| first.session()).collect();
    let before = first.store.log_usage();
    let begun = disk.gate.begun.load(Ordering::SeqCst);
    disk.gate.hold(true);
    let committed = || first.store.log_usage().commits - before.commits;
    let has_come = |what: &dyn Fn() -> bool| {
        let looks = (0..1_000).take_while(|_| !what()).map(|_| pause(Duration::from_millis(10)));
        assert!(looks.count() < 1_000, "{} commits while a flush is held", committed());
    };
    std::thread::scope(|scope| {
        // Opened whatever fails, or its thread would never end.
        let _opened = Opened(&disk.gate);
        for session in &mut sessions {
            scope.spawn(|| {
                session.set(0, 7);
                session.store.commit().unwrap();
            });
        }
        has_come(&|| disk.gate.begun.load(Ordering::SeqCst) > begun);
        has_come(&|| committed() == CALLERS);
    });
    let flushes = first.store.log_usage().flushes - before.flushes;
    assert!(flushes <= 2, "{flushes} flushes");
}
