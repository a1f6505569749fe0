//! Prepared parts through log and recovery: what is in doubt at every point of the log, and what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::held::{Guard, Guarded};
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::Fields;
use tombolo_storage::value_log::{
    LogBuffer, LogSettings, LogWriter, RecoverOptions, Transactions, recover,
};

use super::*;
use crate::rng::Rng;

tombolo_storage::table! {
    struct Account = "account" { ID: Integer; BALANCE: BigInt => hot; MEMO: Text; }
}
tombolo_storage::index! { struct ById = "account_by_id" on Account (ID: Integer) unique Tree; }

pub(in super::super) type Island = MemoryStore<MemoryLogged>;

const ACCOUNTS: i32 = 12;

/// A booking: an account that is opened, if it is not there, or changed.
pub(in super::super) type Booking = (i32, i64);

/// What is there at one moment: accounts, parts in doubt with their bookings, decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Moment {
    accounts: BTreeMap<i32, i64>,
    in_doubt: BTreeMap<TransactionNumber, Vec<Booking>>,
    decided: BTreeMap<TransactionNumber, Vec<IslandId>>,
}

impl Moment {
    fn book(&mut self, bookings: &[Booking]) {
        for &(account, amount) in bookings {
            *self.accounts.entry(account).or_default() += amount;
        }
    }
}

/// A transaction that an island coordinates.
fn numbered(island: u16, counter: u64) -> TransactionNumber {
    TransactionNumber { island: IslandId(island), opening: 7, counter }
}

/// Of a transaction that ran twice before.
fn age_of(number: TransactionNumber) -> Age {
    let first = TransactionNumber { counter: number.counter.saturating_sub(2), ..number };
    Age { at: u64::MAX - number.counter, first }
}

pub(in super::super) fn empty() -> Island {
    let mut store = Island::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<ById>()).unwrap();
    for table in prepared_tables() {
        store.create_table(table).unwrap();
    }
    store
}

fn memo(balance: i64) -> Vec<u8> {
    vec![b'm'; balance.unsigned_abs() as usize % 300]
}

/// Runs one transaction on an island, or on one that is guarded.
pub(in super::super) fn book<S: Store>(store: &mut S, bookings: &[Booking]) -> Result<()> {
    let (table, by_id): (Table<Account>, Index<ById>) =
        (resolve_table(store.schema()).unwrap(), resolve_index(store.schema()).unwrap());
    store.begin()?;
    store.begin_writes();
    let mut book_one = |&(account, amount): &Booking| {
        let row = match store.lookup(&by_id, account)? {
            Some(row) => row,
            None => {
                let row = store.create(&table, |row| row.set(Account::ID, account))?;
                store.insert(&by_id, account, row)?;
                row
            }
        };
        let balance = store.pin(&table, row)?.get(Account::BALANCE) + amount;
        let fields = Fields::none().with(Account::BALANCE);
        store.update(&table, row, fields, |row| row.set(Account::BALANCE, balance))?;
        store.set_variable(&table, row, Account::MEMO.offset(), &memo(balance))
    };
    let booked = bookings.iter().try_for_each(&mut book_one);
    match booked {
        Ok(()) => store.commit(),
        Err(error) => store.abort().and(Err(error)),
    }
}

pub(in super::super) fn accounts(store: &mut Island) -> BTreeMap<i32, i64> {
    let table: Table<Account> = resolve_table(store.schema()).unwrap();
    let rows = store.live_rows(&table).map(|(_, row)| {
        let balance = row.get(Account::BALANCE);
        assert_eq!(row.get(Account::MEMO), memo(balance));
        (row.get(Account::ID), balance)
    });
    rows.collect()
}

/// An island with a model of it, and each moment at which its log ended with a whole transaction.
struct Bank {
    store: Island,
    locks: Locks,
    parts: PreparedParts,
    now: Moment,
    moments: Vec<Moment>,
    random: Rng,
    numbers: u64,
}

impl Bank {
    fn new(seed: u64) -> Self {
        let store = empty();
        let parts = PreparedParts::new(store.schema()).unwrap();
        let (locks, now) = (Locks::new().unwrap(), Moment::default());
        let (moments, random) = (Vec::new(), Rng::from_seed(seed));
        Self { store, locks, parts, now, moments, random, numbers: 0 }
    }

    fn bookings(&mut self) -> Vec<Booking> {
        let mut booking = |_| {
            let account = self.random.below(ACCOUNTS as u64) as i32;
            (account, 1 + self.random.below(1_000) as i64)
        };
        (0..2).map(&mut booking).collect()
    }

    fn logged(&mut self) {
        self.moments.push(self.now.clone());
    }

    fn go_on(&mut self) {
        let undecided = self.now.in_doubt.keys().copied().collect::<Vec<_>>();
        let any =
            |random: &mut Rng, of: &[TransactionNumber]| of[random.below(of.len() as u64) as usize];
        match self.random.below(8) {
            0 | 1 => {
                let bookings = self.bookings();
                let guard = Guard::local(&self.locks);
                match book(&mut guard.over(&mut self.store), &bookings) {
                    Ok(()) => self.now.book(&bookings),
                    Err(Error::Held { .. }) => return,
                    Err(error) => panic!("{error}"),
                }
                self.logged();
            }
            2 | 3 => self.run_part(false),
            4 => self.run_part(true),
            5 | 6 if !undecided.is_empty() => {
                let number = any(&mut self.random, &undecided);
                let commits = self.random.below(2) == 0;
                self.settle(number, commits);
                self.logged();
            }
            _ => {
                let decided = self.now.decided.keys().copied().collect::<Vec<_>>();
                if decided.is_empty() {
                    return;
                }
                let number = any(&mut self.random, &decided);
                assert_eq!(self.parts.is_committed(&mut self.store, number), Ok(true));
                assert_eq!(self.parts.forget(&mut self.store, number), Ok(true));
                assert_eq!(self.parts.forget(&mut self.store, number), Ok(false));
                assert_eq!(self.parts.is_committed(&mut self.store, number), Ok(false));
                self.now.decided.remove(&number);
                self.logged();
            }
        }
    }

    /// Executes a part, which another island decides, or this one.
    fn run_part(&mut self, is_own: bool) {
        let bookings = self.bookings();
        let guard = Guard::part(&self.locks);
        let booked = book(&mut guard.over(&mut self.store), &bookings);
        let part = guard.into_part();
        match booked {
            Ok(()) => {}
            Err(Error::Held { .. }) => return,
            Err(error) => panic!("{error}"),
        }
        let part = part.unwrap();
        self.numbers += 1;
        let number = numbered(if is_own { 0 } else { 3 }, self.numbers);
        if is_own {
            self.locks.acquire(number.owner(), part.locks).unwrap();
            let participants = [IslandId(2), IslandId(5)];
            let own = (number, Some(&part.changes));
            self.parts.decide(&mut self.store, &mut self.locks, own, &participants).unwrap();
            self.now.book(&bookings);
            self.now.decided.insert(number, participants.to_vec());
        } else {
            let aged = (number, age_of(number));
            self.locks.acquire(number.owner(), part.locks).unwrap();
            self.parts.prepare(&mut self.store, &self.locks, aged, &part.changes).unwrap();
            self.now.in_doubt.insert(number, bookings);
        }
        self.logged();
    }

    /// Decides a part that is held.
    fn settle(&mut self, number: TransactionNumber, commits: bool) {
        let locks = &mut self.locks;
        for is_first in [true, false] {
            let settled = match commits {
                true => self.parts.commit(&mut self.store, locks, number),
                false => self.parts.abort(&mut self.store, locks, number),
            };
            assert_eq!(settled, Ok(is_first), "a decision that is repeated finds nothing");
        }
        let bookings = self.now.in_doubt.remove(&number).unwrap();
        if commits {
            self.now.book(&bookings);
        }
    }

    /// The same island after its process has ended.
    fn reopened(store: Island, now: Moment, (random, numbers): (Rng, u64)) -> Self {
        let parts = PreparedParts::new(store.schema()).unwrap();
        let (locks, moments) = (Locks::new().unwrap(), Vec::new());
        let mut bank = Self { store, locks, parts, now, moments, random, numbers };
        let found = bank.parts.open(&mut bank.store, &mut bank.locks).unwrap();
        let in_doubt: BTreeMap<_, _> = found.prepared.into_iter().collect();
        assert!(in_doubt.keys().eq(bank.now.in_doubt.keys()));
        assert!(in_doubt.iter().all(|(&number, &age)| age == age_of(number)));
        assert_eq!(found.decided.into_iter().collect::<BTreeMap<_, _>>(), bank.now.decided);
        assert_eq!(bank.locks.owners().count(), bank.now.in_doubt.len());
        bank
    }

    /// What a part in doubt writes is locked; decided in any order, all is as it should be.
    fn resolve(mut self) {
        for bookings in self.now.in_doubt.clone().values() {
            let guard = Guard::local(&self.locks);
            let refused = book(&mut guard.over(&mut self.store), &bookings[..1]);
            assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        }
        while let Some((&number, _)) = self.now.in_doubt.iter().next_back() {
            let commits = self.random.below(2) == 0;
            self.settle(number, commits);
        }
        assert_eq!(accounts(&mut self.store), self.now.accounts);
        assert!(self.locks.is_empty());
        assert_eq!(self.locks.check(), Ok(()));
        assert_eq!(self.store.check(), []);
    }
}

#[test]
fn what_is_in_doubt_is_held_again_at_every_point_of_the_log() {
    for seed in 0..4 {
        let mut bank = Bank::new(seed);
        for _ in 0..150 {
            bank.go_on();
        }
        let mut log = LogBuffer::new();
        bank.store.take_log(&mut log);
        let transactions = Transactions::new(log.as_slice()).count();
        assert_eq!(transactions, 3 + bank.moments.len(), "tables, and one for each step");
        let (mut end, mut ends) = (0, vec![0]);
        while let Some(length) = log.as_slice()[end..].first_chunk::<4>() {
            end += 4 + u32::from_le_bytes(*length) as usize;
            ends.push(end);
        }
        assert!(bank.moments.iter().any(|moment| moment.in_doubt.len() > 2), "seed {seed}");
        for (moment, &end) in bank.moments.iter().zip(&ends[4..]) {
            let mut part = ReplayPart::new(0, 1, Limits::default());
            part.apply(&log.as_slice()[..end]).unwrap();
            let parts = vec![part.finish().unwrap()];
            let mut store = Island::from_replay(Limits::default(), parts).unwrap();
            assert_eq!(accounts(&mut store), moment.accounts);
            let numbers = (Rng::from_seed(seed), bank.numbers);
            Bank::reopened(store, moment.clone(), numbers).resolve();
        }
    }
}

/// The whole way, again and again: store, log, disk, recovery, store.
#[test]
fn an_island_goes_on_with_what_its_disk_has_in_doubt() {
    let settings = LogSettings { segment_bytes: 64 << 10, ..LogSettings::default() };
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let mut bank = Bank::new(11);
    let mut writer = LogWriter::create(Arc::clone(&disk), settings).unwrap();
    let mut log = LogBuffer::new();
    for round in 0..8 {
        for _ in 0..40 {
            bank.go_on();
            bank.store.take_log(&mut log);
            if log.as_slice().is_empty() {
                continue;
            }
            let transactions = log.transactions();
            writer.append_group(&[log.as_slice()], transactions, None).unwrap();
            log.clear();
        }
        writer.sync().unwrap();
        drop(writer);
        let mut part = ReplayPart::new(0, 1, Limits::default());
        let (disk, options) = (Arc::clone(&disk), RecoverOptions::default());
        let found = recover(disk, settings, options, &mut part, &mut |_| {}).unwrap();
        let parts = vec![part.finish().unwrap()];
        let mut store = Island::from_replay(Limits::default(), parts).unwrap();
        assert_eq!(accounts(&mut store), bank.now.accounts, "round {round}");
        bank = Bank::reopened(store, bank.now, (bank.random, bank.numbers));
        writer = found.writer;
    }
    bank.resolve();
}

/// A part that only read has locks and no row; one that is too long for a row is refused, and holds nothing.
#[test]
fn parts_without_a_row() {
    let mut bank = Bank::new(1);
    book(&mut bank.store, &[(1, 5)]).unwrap();
    let part = |bank: &mut Bank, work: &dyn Fn(&mut Guarded<'_, MemoryLogged>)| {
        let guard = Guard::part(&bank.locks);
        let mut guarded = guard.over(&mut bank.store);
        guarded.begin().unwrap();
        guarded.begin_writes();
        work(&mut guarded);
        guarded.commit().unwrap();
        guard.into_part().unwrap()
    };
    let table: Table<Account> = resolve_table(bank.store.schema()).unwrap();
    let by_id: Index<ById> = resolve_index(bank.store.schema()).unwrap();
    let only_read = part(&mut bank, &|guarded| {
        assert_eq!(guarded.lookup(&by_id, 2), Ok(None));
    });
    let (number, bytes) = (numbered(0, 1), bank.store.log_bytes());
    let Bank { store, locks, parts, .. } = &mut bank;
    locks.acquire(number.owner(), only_read.locks).unwrap();
    let refused = book(&mut Guard::local(locks).over(store), &[(2, 1)]);
    assert_eq!(refused, Err(Error::Held { owner: number.owner() }));
    assert_eq!(parts.commit(store, locks, number), Ok(true));
    assert_eq!(store.log_bytes(), bytes, "it logs nothing");

    let long = part(&mut bank, &|guarded| {
        for id in 10..12 {
            let row = guarded.create(&table, |row| row.set(Account::ID, id)).unwrap();
            let memo = vec![1; 600_000];
            guarded.set_variable(&table, row, Account::MEMO.offset(), &memo).unwrap();
            guarded.insert(&by_id, id, row).unwrap();
        }
    });
    let Bank { store, locks, parts, .. } = &mut bank;
    locks.acquire(number.owner(), long.locks).unwrap();
    let refused = parts.prepare(store, locks, (number, age_of(number)), &long.changes);
    assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{refused:?}");
    assert_eq!(parts.abort(store, locks, number), Ok(true));
    assert!(locks.is_empty());
    assert_eq!(store.check(), []);
}
