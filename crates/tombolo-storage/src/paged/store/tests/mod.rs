//! The paged store as a whole: opened again, refused, full, and shared by threads. Single calls are
//! compared with a model in `tests/model.rs`.

mod answers;
mod backup;
mod checkpoint;
mod crashes;
mod isolation;
mod moves;
mod prepared;
mod restart;
mod room;
mod runs;
mod savepoints;
mod values;

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::disk::{Fault, MemDisk, Open, Operation};
use crate::error::Error;
use crate::key::Range;
use crate::log::Durability;
use crate::memory::test_random::Random;
use crate::paged::pool::{PAGES_FILE, PageAccess};
use crate::profile::{
    AloneBufferManager, Conventional, Lattice00010, NoBtreeKeys, NoDirectory, NoPageAccess,
    NoSmallPage,
};
use crate::row::{Fields, RowId, RowMut};
use crate::schema::TableDef;
use crate::store::{Index, Order, Store, Table, resolve_index, resolve_table};

crate::table! {
    /// Accounts with a balance.
    struct Account = "account" {
        ID: Integer;
        BALANCE: BigInt => hot;
        NAME: Varchar<40>;
    }
}
crate::index! { struct ById = "account_pk" on Account (ID: Integer) unique Tree; }
crate::index! { struct ByName = "account_name" on Account (NAME: Varchar<40>) multiple Tree; }

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);
const START: i64 = 1_000;

fn settings() -> PagedSettings {
    PagedSettings { pool_bytes: 1 << 20, structure_bytes_max: 64 << 20, ..PagedSettings::default() }
}

/// Waits end soon, and segments are small.
fn impatient() -> PagedSettings {
    let mut settings = settings();
    settings.log.segment_bytes = 64 << 10;
    (settings.locks.wait_interval_ms, settings.locks.wait_intervals_max) = (1, 1);
    settings
}

struct Bank<P: PagedProfile> {
    store: PagedStore<P>,
    table: Table<Account>,
    by_id: Index<ById>,
    by_name: Index<ByName>,
}

impl<P: PagedProfile> Bank<P> {
    fn with(store: PagedStore<P>) -> Self {
        let table = resolve_table(store.schema()).unwrap();
        let by_id = resolve_index(store.schema()).unwrap();
        let by_name = resolve_index(store.schema()).unwrap();
        Self { store, table, by_id, by_name }
    }

    fn create(disk: &MemDisk, accounts: i32) -> Self {
        Self::create_with(disk, &settings(), accounts)
    }

    fn create_with(disk: &MemDisk, settings: &PagedSettings, accounts: i32) -> Self {
        let mut store = PagedStore::<P>::create(disk, settings).unwrap();
        store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
        let mut bank = Self::with(store);
        for id in 0..accounts {
            bank.add(id).unwrap();
        }
        bank
    }

    /// Another session.
    fn session(&self) -> Self {
        Self::with(self.store.session().unwrap().unwrap())
    }

    /// One account in a transaction of its own.
    fn add(&mut self, id: i32) -> Result<(), Error> {
        self.store.begin()?;
        self.store.begin_writes();
        let added = self.add_row(id);
        match added {
            Ok(()) => self.store.commit(),
            Err(error) => {
                self.store.fail().unwrap();
                Err(error)
            }
        }
    }

    fn add_row(&mut self, id: i32) -> Result<(), Error> {
        let name = format!("account number {}", id % 10);
        let row = self.store.create(&self.table, |row| {
            row.set(Account::ID, id);
            row.set(Account::BALANCE, START);
            row.set(Account::NAME, name.as_bytes());
        })?;
        self.store.insert(&self.by_id, id, row)?;
        self.store.insert(&self.by_name, name.as_bytes(), row)
    }

    fn find(&mut self, id: i32) -> Result<RowId, Error> {
        Ok(self.store.lookup(&self.by_id, id)?.expect("the account is there"))
    }

    /// Moves an amount; the rows are read first, so two transfers may wait in a circle.
    fn transfer(&mut self, from: i32, to: i32, amount: i64) -> Result<(), Error> {
        self.store.begin()?;
        let moved = self.transfer_rows(from, to, amount);
        match moved {
            Ok(()) => self.store.commit(),
            Err(error) => {
                self.store.abort().unwrap();
                Err(error)
            }
        }
    }

    fn transfer_rows(&mut self, from: i32, to: i32, amount: i64) -> Result<(), Error> {
        let rows = [self.find(from)?, self.find(to)?];
        let read = |store: &PagedStore<P>, row| {
            Ok::<i64, Error>(store.pin(&self.table, row)?.get(Account::BALANCE))
        };
        let balances = [read(&self.store, rows[0])?, read(&self.store, rows[1])?];
        self.store.begin_writes();
        // So that others come in between, however short a transfer is.
        std::thread::yield_now();
        for (row, balance) in rows.into_iter().zip([balances[0] - amount, balances[1] + amount]) {
            self.store
                .update(&self.table, row, BALANCE, |row| row.set(Account::BALANCE, balance))?;
        }
        Ok(())
    }

    /// The sum of all balances, over the index by name.
    fn sum(&mut self) -> (usize, i64) {
        self.store.begin().unwrap();
        let mut rows = Vec::new();
        let visit = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        self.store.scan(&self.by_name, Range::all(), Order::Backward, visit).unwrap();
        let balance = |row| self.store.pin(&self.table, row).unwrap().get(Account::BALANCE);
        let sum = rows.iter().map(|&row| balance(row)).sum();
        self.store.commit().unwrap();
        (rows.len(), sum)
    }
}

/// A closed database is opened again by every profile that lays it out the same.
fn opens_again<P: PagedProfile, Q: PagedProfile>() {
    let disk = MemDisk::new();
    let mut bank = Bank::<P>::create(&disk, 3_000);
    bank.transfer(1, 2_999, 5).unwrap();
    let sum = bank.sum();
    assert_eq!(bank.store.check(), []);
    bank.store.close().unwrap();
    for round in 0..3 {
        let mut bank = Bank::with(PagedStore::<Q>::open(&disk, &settings()).unwrap());
        assert_eq!(bank.store.check(), []);
        assert_eq!(bank.sum(), (sum.0 + round, sum.1 + round as i64 * START));
        bank.add(3_000 + round as i32).unwrap();
        bank.store.close().unwrap();
    }
}

#[test]
fn a_closed_database_opens_again() {
    opens_again::<Conventional, Conventional>();
    opens_again::<NoBtreeKeys, NoDirectory>();
    opens_again::<NoSmallPage, Lattice00010>();
    opens_again::<AloneBufferManager, AloneBufferManager>();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let disk = MemDisk::new();
    let bank = Bank::<Conventional>::create(&disk, 10);
    let open = |disk: &MemDisk| PagedStore::<Conventional>::open(disk, &settings()).err().unwrap();
    assert!(open(&disk).to_string().contains("in use"), "{}", open(&disk));
    let again = PagedStore::<Conventional>::create(&disk, &settings()).err().unwrap();
    assert!(again.is_in_use(), "{again}");
    drop(bank);
    let again = PagedStore::<Conventional>::create(&disk, &settings()).err().unwrap();
    assert!(again.to_string().contains("a log already exists here"), "{again}");

    // Without a log there is no restart.
    let unlogged = MemDisk::new();
    let mut none = settings();
    none.log.durability = Durability::None;
    drop(PagedStore::<Conventional>::create(&unlogged, &none).unwrap());
    let error = PagedStore::<Conventional>::open(&unlogged, &none).err().unwrap();
    assert!(error.is_not_closed(), "{error}");

    let disk = MemDisk::new();
    Bank::<Conventional>::create(&disk, 10).store.close().unwrap();
    let other = PagedStore::<NoBtreeKeys>::open(&disk, &settings()).err().unwrap();
    assert!(matches!(other, OpenError::Layout { .. }), "{other}");
    let other = PagedStore::<AloneBufferManager>::open(&disk, &settings()).err().unwrap();
    assert!(other.damage().is_some(), "pages of another size: {other}");
    let none = PagedStore::<NoPageAccess>::open(&disk, &settings()).err().unwrap();
    assert_eq!(none, OpenError::CannotSave);
    let empty = PagedStore::<Conventional>::open(&MemDisk::new(), &settings()).err().unwrap();
    assert!(empty.to_string().contains("there is no log"), "{empty}");
}

fn bytes_of(disk: &MemDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Damages a closed database at each of these offsets in turn: opening or checking finds which page it is. Page 0 says
/// whether the file was closed, so it is repaired from its copy like a page that a crash tore.
fn flipped_bits_are_named(accounts: i32, offsets: impl Fn(u64) -> Vec<u64>) {
    let disk = MemDisk::new();
    let bank = Bank::<Conventional>::create(&disk, accounts);
    let bytes = u64::from(bank.store.database.pages.page_count()) * 8_192;
    bank.store.close().unwrap();
    let closed: Vec<_> =
        disk.list().unwrap().into_iter().map(|name| (bytes_of(&disk, &name), name)).collect();
    let pages_file = disk.open(PAGES_FILE, Open::Write).unwrap();
    let intact = bytes_of(&disk, PAGES_FILE);
    let offsets = offsets(bytes);
    for &offset in &offsets {
        pages_file.write_at(&[intact[offset as usize] ^ 4], offset).unwrap();
        let found = match PagedStore::<Conventional>::open(&disk, &settings()) {
            Err(error) => format!("{error}"),
            Ok(mut store) => format!("{:?}", store.check()),
        };
        let at = format!("offset {}", offset / 8_192 * 8_192);
        match offset < 8_192 {
            true => assert_eq!(found, "[]", "{offset}"),
            false => {
                assert!(found.contains(PAGES_FILE) && found.contains(&at), "{offset}: {found}")
            }
        }
        for (bytes, name) in &closed {
            disk.open(name, Open::Write).unwrap().write_at(bytes, 0).unwrap();
        }
    }
    println!("{} bytes of {bytes} damaged, each named", offsets.len());
}

#[test]
fn a_flipped_bit_is_refused_with_file_and_offset() {
    let seed = std::env::var("TOMBOLO_SEED").map(|text| text.parse().expect("a number"));
    let seed = seed.unwrap_or_else(|_| RandomState::new().hash_one(0_u64));
    // Shown if the test fails.
    println!("TOMBOLO_SEED={seed} damages the same bytes again");
    flipped_bits_are_named(2_000, |bytes| {
        let mut random = Random::new(seed);
        (0..40).map(|_| random.below(bytes)).collect()
    });
}

#[test]
#[ignore = "takes long: cargo test --profile quick -p tombolo-storage --lib -- --ignored every_byte_of_pages"]
fn every_byte_of_pages_may_be_wrong() {
    flipped_bits_are_named(10, |bytes| (0..bytes).collect());
}

#[test]
fn a_full_disk_aborts_and_the_rest_goes_on() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 100);
    let names = disk.list().unwrap();
    let used: usize = names.iter().map(|name| bytes_of(&disk, name).len()).sum();
    disk.set_capacity_bytes(Some(used as u64));
    let refused = (100..20_000).find_map(|id| Some((id, bank.add(id).err()?)));
    let (id, error) = refused.expect("the disk is full at some point");
    assert!(error.is_full(), "{error:?}");
    assert!(error.to_string().contains("make room on it"), "{error}");
    assert_eq!(bank.store.check(), []);
    assert_eq!(bank.sum(), (id as usize, i64::from(id) * START));
    disk.set_capacity_bytes(None);
    bank.add(id).unwrap();
    assert_eq!(bank.store.check(), []);
    bank.store.close().unwrap();
}

/// The code that makes or changes a row panics, and the panic is caught.
fn panics_leave_no_row<P: PagedProfile>() {
    let mut bank = Bank::<P>::create(&MemDisk::new(), 10);
    bank.store.begin().unwrap();
    let row = bank.find(3).unwrap();
    bank.store.begin_writes();
    for changes in [false, true] {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let spoil = |row: &mut RowMut<'_, Account>| {
                row.set(Account::BALANCE, -1);
                resume_unwind(Box::new("in the middle of a row"));
            };
            match changes {
                true => bank.store.update(&bank.table, row, BALANCE, spoil),
                false => bank.store.create(&bank.table, spoil).map(drop),
            }
        }));
        assert!(unwound.is_err(), "{unwound:?}");
    }
    if PagedStore::<P>::UNDO {
        assert_eq!(bank.store.pin(&bank.table, row).unwrap().get(Account::BALANCE), START);
    }
    // The room it took is there for the next one.
    bank.add_row(10).unwrap();
    bank.store.update(&bank.table, row, BALANCE, |row| row.set(Account::BALANCE, START)).unwrap();
    bank.store.commit().unwrap();
    assert_eq!(bank.store.check(), []);
    assert_eq!(bank.sum(), (11, 11 * START));
}

#[test]
fn a_panic_within_a_write_takes_that_write_back() {
    panics_leave_no_row::<Conventional>();
    panics_leave_no_row::<AloneBufferManager>();
    panics_leave_no_row::<NoPageAccess>();
}

#[test]
fn a_log_that_fails_poisons() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 10);
    let (operation, kind) = (Operation::Sync, std::io::ErrorKind::Other);
    disk.set_fault(Some(Fault { operation, after: 0, kind }));
    assert!(matches!(bank.add(10), Err(Error::Poisoned { .. })));
    disk.set_fault(None);
    for _ in 0..2 {
        assert!(matches!(bank.add(11), Err(Error::Poisoned { .. })), "there is no second try");
    }
    assert!(bank.store.close().is_err());
}

/// A session whose transaction is under way when the database is poisoned sees no part of another's.
#[test]
fn what_could_not_be_undone_stays_locked() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create_with(&disk, &impatient(), 10);
    let (mut failing, mut reader) = (bank.session(), bank.session());
    reader.store.begin().unwrap();
    failing.store.begin().unwrap();
    failing.store.begin_writes();
    let row = failing.store.lookup_for_update(&failing.by_id, 1).unwrap().unwrap();
    failing.store.update(&failing.table, row, BALANCE, |row| row.set(Account::BALANCE, 7)).unwrap();
    let (operation, kind) = (Operation::Sync, std::io::ErrorKind::Other);
    disk.set_fault(Some(Fault { operation, after: 0, kind }));
    assert!(matches!(bank.add(10), Err(Error::Poisoned { .. })));
    assert!(matches!(failing.store.abort(), Err(Error::Poisoned { .. })));
    drop(failing);
    let found = reader.store.lookup(&reader.by_id, 1);
    assert!(matches!(found, Err(Error::Poisoned { .. })), "{found:?}");
    assert!(reader.store.abort().is_err() && bank.store.close().is_err());
}

#[test]
fn a_session_that_ends_in_a_transaction_undoes_it() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 10);
    let mut other = bank.session();
    other.store.begin().unwrap();
    other.store.begin_writes();
    other.add_row(10).unwrap();
    assert_eq!(bank.store.active().len(), 1);
    drop(other);
    assert_eq!(bank.store.active().len(), 0);
    assert_eq!(bank.sum(), (10, 10 * START));
    let other = bank.session();
    assert!(matches!(bank.store.close(), Err(OpenError::SessionsOpen)));
    other.store.close().unwrap();
    assert!(PagedStore::<Conventional>::open(&disk, &settings()).is_ok());
}

/// Threads that transfer between few accounts, in both directions, add accounts and sum them up:
/// deadlocks are certain, the sum stays. One more makes checkpoints all the time.
fn threads_agree<P: PagedProfile>(durability: Durability)
where
    PagedStore<P>: Send,
{
    const THREADS: i32 = 3;
    let mut settings = settings();
    settings.log.durability = durability;
    settings.pool_bytes = 320 << 10;
    let disk = MemDisk::new();
    let mut store = PagedStore::<P>::create(&disk, &settings).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..20).for_each(|id| bank.add(id).unwrap());
    let sessions: Vec<_> = (0..THREADS).map(|_| bank.session()).collect();
    let (checkpoints, is_over) = (bank.session(), AtomicBool::new(false));
    let retried: usize = std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                checkpoints.store.checkpoint().unwrap();
            }
        });
        let work = |(thread, mut bank): (i32, Bank<P>)| {
            let mut random = Random::new(thread as u64 + 1);
            let mut retried = 0;
            for round in 0..300 {
                let [from, to] = [0; 2].map(|_| random.below(20) as i32);
                while from != to
                    && let Err(error) = bank.transfer(from, to, round)
                {
                    assert!(error.retry(), "{error:?}");
                    retried += 1;
                }
                while round % 10 == 0
                    && let Err(error) = bank.add(1_000 * (thread + 1) + round as i32)
                {
                    assert!(error.retry(), "{error:?}");
                }
            }
            retried
        };
        let threads: Vec<_> =
            (0..).zip(sessions).map(|session| scope.spawn(move || work(session))).collect();
        let retried = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        is_over.store(true, Ordering::Relaxed);
        retried
    });
    let accounts = 20 + THREADS as usize * 30;
    assert_eq!(bank.sum(), (accounts, accounts as i64 * START));
    assert_eq!(bank.store.check(), []);
    assert!(retried > 0, "no two transfers ever met");
    bank.store.close().unwrap();
    let mut bank = Bank::with(PagedStore::<P>::open(&disk, &settings).unwrap());
    assert_eq!(bank.sum(), (accounts, accounts as i64 * START));
}

#[test]
fn threads_share_a_database() {
    threads_agree::<Conventional>(Durability::Group);
    threads_agree::<AloneBufferManager>(Durability::Group);
    threads_agree::<NoBtreeKeys>(Durability::None);
}

/// What may be fixed at a time by all sessions that are let in never exceeds the pool.
#[test]
fn sessions_are_admitted_as_there_are_frames_for_them() {
    let settings = PagedSettings { pool_bytes: 1, ..settings() };
    let mut store = PagedStore::<Conventional>::create(&MemDisk::new(), &settings).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..500).for_each(|id| bank.add(id).unwrap());
    let second = bank.session();
    let refused = bank.store.session().unwrap().err().unwrap();
    assert_eq!(refused, OpenError::PoolTooSmall { sessions_max: 2 });
    assert!(refused.to_string().contains("2 sessions at a time"), "{refused}");
    drop(second);
    let mut other = bank.session();
    std::thread::scope(|scope| {
        scope.spawn(move || many_aborts(&mut other, 1));
        many_aborts(&mut bank, 2);
    });
    assert_eq!(bank.sum(), (500, 500 * START));
    assert_eq!(bank.store.check(), []);
}

/// The two sessions that a pool of sixteen frames admits go from thread to thread.
#[test]
fn aborts_of_48_threads_find_their_frames() {
    let settings = PagedSettings { pool_bytes: 1, ..settings() };
    let bank = Bank::<Conventional>::create_with(&MemDisk::new(), &settings, 500);
    assert_eq!(bank.store.pool_usage().unwrap().frames, 16);
    let idle = Mutex::new(vec![bank.session(), bank]);
    std::thread::scope(|scope| {
        for thread in 0..48 {
            let idle = &idle;
            scope.spawn(move || {
                let taken = || {
                    std::thread::yield_now();
                    idle.lock().unwrap().pop()
                };
                let mut bank = std::iter::repeat_with(taken).find_map(|bank| bank).unwrap();
                assert!(bank.store.session().unwrap().is_err(), "there are no frames for a third");
                many_aborts(&mut bank, thread);
                idle.lock().unwrap().push(bank);
            });
        }
    });
    let mut bank = idle.into_inner().unwrap().pop().unwrap();
    assert_eq!(bank.sum(), (500, 500 * START));
    assert_eq!(bank.store.check(), []);
}

/// Transactions that change more pages than there are frames, and abort.
fn many_aborts(bank: &mut Bank<Conventional>, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..20 {
        bank.store.begin().unwrap();
        bank.store.begin_writes();
        for _ in 0..30 {
            let id = random.below(500) as i32;
            let found = bank.store.lookup_for_update(&bank.by_id, id);
            let changed = found.and_then(|row| {
                let row = row.expect("the account is there");
                bank.store.update(&bank.table, row, BALANCE, |row| row.set(Account::BALANCE, 3))
            });
            if let Err(error) = changed {
                assert!(error.retry(), "{error:?}");
                break;
            }
        }
        bank.store.abort().unwrap();
    }
}
