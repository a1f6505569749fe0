//! Prepared transactions one by one: what stays locked, what survives, what is refused. At random: `crashes.rs`.

use super::*;
use crate::lock::Locking;
use crate::owner::Owner;
use crate::plant::{self, Plant};
use crate::value_log::tests::crash_disk::CrashDisk;

const ONE: Owner = Owner::new(1);
const TWO: Owner = Owner::new(2);

fn bank(disk: &CrashDisk, settings: &PagedSettings) -> Bank<Conventional> {
    let mut store = PagedStore::create(disk, settings).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..20).for_each(|id| bank.add(id).unwrap());
    bank.add(600).unwrap();
    bank
}

fn reopened(disk: &CrashDisk) -> Bank<Conventional> {
    Bank::with(PagedStore::open(disk, &impatient()).unwrap())
}

impl<P: PagedProfile> Bank<P> {
    /// A transaction that changes, deletes and makes an account, and found none between two others.
    fn prepare(&mut self, owner: Owner) {
        self.begin_writes();
        assert_eq!(self.store.lookup(&self.by_id, 500).unwrap(), None);
        let row = self.store.lookup_for_update(&self.by_id, 3).unwrap().unwrap();
        self.store.update(&self.table, row, BALANCE, |row| row.set(Account::BALANCE, 7)).unwrap();
        self.remove_row(4);
        self.add_row(21).unwrap();
        assert_eq!(self.store.prepare(owner), Ok(Vote::Prepared));
        assert_eq!(self.store.phase(), Phase::Idle);
    }

    fn balance_if(&mut self, id: i32) -> Result<Option<i64>, Error> {
        self.store.begin()?;
        let found = self.store.lookup(&self.by_id, id);
        let balance = found.and_then(|row| {
            row.map(|row| Ok(self.store.pin(&self.table, row)?.get(Account::BALANCE))).transpose()
        });
        self.store.abort()?;
        balance
    }

    /// What the transaction holds is waited for, and nothing else.
    fn is_held(&mut self) {
        for id in [3, 4, 21] {
            assert_eq!(self.balance_if(id), Err(Error::LockTimeout), "account {id}");
        }
        assert_eq!(self.add(500), Err(Error::LockTimeout), "what was not there");
        assert_eq!(self.balance_if(5), Ok(Some(START)));
        assert_eq!(self.store.check(), []);
    }

    fn is_decided(&mut self, decision: Decision) {
        let balances = [3, 4, 21].map(|id| self.balance_if(id).unwrap());
        let expected = match decision {
            Decision::Commit => [Some(7), None, Some(START)],
            Decision::Abort => [Some(START), Some(START), None],
        };
        assert_eq!(balances, expected);
        self.add(500).unwrap();
        assert_eq!(self.store.check(), []);
        assert_eq!(self.store.prepared(), []);
    }
}

#[test]
fn a_prepared_transaction_holds_what_it_has_until_it_is_decided() {
    for decision in [Decision::Commit, Decision::Abort] {
        let mut bank = bank(&CrashDisk::default(), &impatient());
        bank.prepare(ONE);
        assert_eq!(bank.store.prepared()[0].owner, ONE);
        bank.is_held();
        // From another session and another thread.
        let mut other = bank.session();
        std::thread::scope(|scope| {
            scope.spawn(|| other.store.decide(ONE, decision).unwrap());
        });
        drop(other);
        bank.is_decided(decision);
        bank.store.close().unwrap();
    }
}

#[test]
fn a_prepared_transaction_is_found_after_restarts() {
    for decision in [Decision::Commit, Decision::Abort] {
        let disk = CrashDisk::default();
        let mut bank = bank(&disk, &impatient());
        bank.prepare(ONE);
        let mut disk = disk.kill();
        for round in 0..3 {
            bank = reopened(&disk);
            let restart = bank.store.restart().unwrap();
            assert_eq!((restart.transactions_prepared, restart.transactions_undone), (1, 0));
            bank.is_held();
            // Work goes on, and the log is let go but for what the transaction needs.
            for id in 0..300 {
                bank.add(1_000 * (round + 1) + id).unwrap();
            }
            bank.store.checkpoint().unwrap().unwrap();
            let checkpoint = bank.store.checkpoint().unwrap().unwrap();
            assert_eq!(checkpoint.needed, bank.store.prepared()[0].log_since);
            disk = disk.kill();
        }
        bank = reopened(&disk);
        bank.store.decide(ONE, decision).unwrap();
        let disk = disk.kill();
        bank = reopened(&disk);
        bank.is_decided(decision);
        bank.store.checkpoint().unwrap().unwrap();
        let checkpoint = bank.store.checkpoint().unwrap().unwrap();
        assert!(
            checkpoint.needed >= checkpoint.began,
            "nothing holds the log back: {checkpoint:?}"
        );
    }
}

/// What is answered later than it is logged: a kill takes it before its position is hardened, and not after.
#[test]
fn votes_and_commits_may_be_hardened_later() {
    let disk = CrashDisk::default();
    let mut own = bank(&disk, &impatient());
    own.begin_writes();
    assert!(!own.store.has_changed());
    own.add_row(21).unwrap();
    assert!(own.store.has_changed());
    let (vote, position) = own.store.prepare_unhardened(ONE).unwrap();
    assert_eq!((vote, own.store.is_hardened(position)), (Vote::Prepared, false));
    assert_eq!(reopened(&disk.kill()).store.prepared(), []);
    own.store.harden(position).unwrap();
    assert!(own.store.is_hardened(position));
    assert_eq!(reopened(&disk.kill()).store.prepared().len(), 1);
    // A decision, whose coordinator knows it.
    let position = own.store.decide_unhardened(ONE, Decision::Commit).unwrap();
    assert_eq!((own.store.is_hardened(position), own.store.prepared()), (false, Vec::new()));
    assert_eq!(reopened(&disk.kill()).store.prepared().len(), 1);
    // The answer of a transaction that has read it waits for it.
    assert_eq!(own.balance_if(21), Ok(Some(START)));
    assert!(own.store.is_hardened(position));
    assert_eq!(reopened(&disk.kill()).store.prepared(), []);
    // A commit, and a read of what is not durable yet.
    own.begin_writes();
    own.add_row(22).unwrap();
    let wrote = own.store.commit_unhardened().unwrap();
    own.store.begin().unwrap();
    assert!(own.store.lookup(&own.by_id, 22).unwrap().is_some());
    let read = own.store.commit_unhardened().unwrap();
    assert_eq!([wrote, read].map(|position| own.store.is_hardened(position)), [false; 2]);
    assert_eq!(reopened(&disk.kill()).balance_if(22), Ok(None));
    own.store.harden(read).unwrap();
    assert!(own.store.is_hardened(wrote));
    assert_eq!(reopened(&disk.kill()).balance_if(22), Ok(Some(START)));
}

/// A session's own number of intervals, as long as it has its place.
#[test]
fn a_session_may_wait_for_locks_for_another_time() {
    let mut settings = impatient();
    settings.locks.wait_intervals_max = 1 << 30;
    let mut own = bank(&CrashDisk::default(), &settings);
    own.prepare(ONE);
    own.store.set_lock_waits(1);
    assert_eq!(own.balance_if(3), Err(Error::LockTimeout));
    let mut other = own.session();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.balance_if(3));
        own.store.decide(ONE, Decision::Commit).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(Some(7)));
    });
}

/// The entry above a gap that is locked goes, so the gap is handed on; after a crash it is locked all the same.
#[test]
fn a_gap_that_was_handed_on_is_locked_again() {
    handed_on();
    let is_noticed = || plant::with(Plant::HandedOnGapsForgotten, handed_on);
    assert!(catch_unwind(is_noticed).is_err());
}

fn handed_on() {
    let disk = CrashDisk::default();
    let mut bank = bank(&disk, &impatient());
    (30..33).for_each(|id| bank.add(id * 10).unwrap());
    bank.begin_writes();
    // Below 310.
    assert_eq!(bank.store.lookup(&bank.by_id, 305).unwrap(), None);
    bank.add_row(25).unwrap();
    assert_eq!(bank.store.prepare(ONE), Ok(Vote::Prepared));
    bank.begin_writes();
    bank.remove_row(310);
    bank.store.commit().unwrap();
    let mut disk = disk.kill();
    for _ in 0..3 {
        bank = reopened(&disk);
        for id in [305, 310, 315] {
            assert_eq!(bank.add(id), Err(Error::LockTimeout), "{id}");
        }
        bank.add(325).unwrap();
        bank.begin_writes();
        bank.remove_row(325);
        bank.store.commit().unwrap();
        disk = disk.kill();
    }
    bank = reopened(&disk);
    bank.store.decide(ONE, Decision::Abort).unwrap();
    bank.add(305).unwrap();
    assert_eq!(bank.store.check(), []);
}

#[test]
fn whole_tables_stay_locked() {
    let disk = CrashDisk::default();
    let mut bank = bank(&disk, &impatient());
    bank.begin_writes();
    bank.store.rows(&bank.table, |_| ControlFlow::Continue(())).unwrap();
    bank.add_row(30).unwrap();
    assert_eq!(bank.store.prepare(ONE), Ok(Vote::Prepared));
    let disk = disk.kill();
    bank = reopened(&disk);
    assert_eq!(bank.add(40), Err(Error::LockTimeout));
    bank.store.decide(ONE, Decision::Commit).unwrap();
    bank.add(40).unwrap();
    assert_eq!(bank.sum().0, 23);
}

/// It waits for nothing, so no circle leads through it: another that waits for it gives up when the time has passed.
#[test]
fn a_prepared_transaction_never_gives_way() {
    let mut bank = bank(&CrashDisk::default(), &impatient());
    let mut other = bank.session();
    // The other one is older, and holds what the prepared one would ask for next.
    other.begin_writes();
    let row = other.store.lookup_for_update(&other.by_id, 9).unwrap().unwrap();
    bank.prepare(ONE);
    assert_eq!(other.store.lookup(&other.by_id, 3), Err(Error::LockTimeout));
    other.store.update(&other.table, row, BALANCE, |row| row.set(Account::BALANCE, 1)).unwrap();
    other.store.commit().unwrap();
    bank.store.decide(ONE, Decision::Commit).unwrap();
    assert_eq!((bank.balance_if(3), bank.balance_if(9)), (Ok(Some(7)), Ok(Some(1))));
}

#[test]
fn what_cannot_be_prepared_or_decided_says_why() {
    let disk = CrashDisk::default();
    let settings = PagedSettings { prepared_max: 2, ..impatient() };
    let mut bank = bank(&disk, &settings);
    let unknown = bank.store.decide(TWO, Decision::Commit);
    assert_eq!(unknown, Err(Error::NotPrepared { owner: TWO }));
    bank.store.begin().unwrap();
    bank.find(1).unwrap();
    assert_eq!(bank.store.prepare(ONE), Ok(Vote::ReadOnly));
    bank.begin_writes();
    assert_eq!(bank.store.prepare(ONE), Ok(Vote::ReadOnly), "nothing was written");
    for (owner, id) in [(ONE, 100), (TWO, 200)] {
        bank.begin_writes();
        bank.add_row(id).unwrap();
        assert_eq!(bank.store.prepare(owner), Ok(Vote::Prepared));
    }
    bank.begin_writes();
    bank.remove_row(5);
    assert_eq!(bank.store.prepare(ONE), Err(Error::PreparedAlready { owner: ONE }));
    let full = bank.store.prepare(Owner::new(3)).unwrap_err();
    assert_eq!(full, Error::TooManyPrepared { max: 2 });
    assert!(full.to_string().contains("decide some"), "{full}");
    // The transaction went on.
    bank.store.commit().unwrap();
    let undecided = bank.store.close().unwrap_err();
    assert_eq!(undecided, OpenError::Undecided { owners: vec![ONE, TWO] });
    let text = undecided.to_string();
    assert!(
        text.contains("2 prepared transactions hold rows until") && text.ends_with("(1, 2)"),
        "{text}"
    );
    let mut bank = reopened(&disk);
    assert_eq!(bank.store.prepared().iter().map(|one| one.owner).collect::<Vec<_>>(), [ONE, TWO]);
    for owner in [ONE, TWO] {
        bank.store.decide(owner, Decision::Commit).unwrap();
    }
    assert_eq!(bank.sum().0, 22);
    bank.store.close().unwrap();

    let mut unlogged = impatient();
    unlogged.log.durability = Durability::None;
    let mut bank = self::bank(&CrashDisk::default(), &unlogged);
    bank.begin_writes();
    bank.add_row(100).unwrap();
    assert_eq!(bank.store.prepare(ONE), Err(Error::CannotPrepare));
    bank.store.commit().unwrap();
}

/// As many locks as several records hold; what the lock table lends them comes back.
#[test]
fn a_long_list_of_locks_is_taken_again() {
    let disk = CrashDisk::default();
    let mut settings = impatient();
    settings.locks.requests_max = 3_000;
    let mut bank = bank(&disk, &settings);
    for round in 0..3 {
        bank.begin_writes();
        (0..100).for_each(|id| bank.add_row(1_000 + 100 * round + id).unwrap());
        assert_eq!(bank.store.prepare(ONE), Ok(Vote::Prepared));
        let disk = disk.kill();
        let mut bank_after =
            Bank::with(PagedStore::<Conventional>::open(&disk, &settings).unwrap());
        for id in [0, 50, 99] {
            assert_eq!(bank_after.balance_if(1_000 + 100 * round + id), Err(Error::LockTimeout));
        }
        bank.store.decide(ONE, Decision::Commit).unwrap();
    }
    assert_eq!(bank.sum(), (321, 321 * START));
    let database = &*bank.store.database;
    let held = bank.store.session.held.borrow();
    assert_eq!(database.locks.check(&[held.as_ref().unwrap()]), []);
}

/// A row has two entries while it moves, and the gap below the new one is locked: the removal of the old one does
/// not concern that lock, after a crash either.
#[test]
fn a_gap_below_a_moved_entry_is_locked_again() {
    let disk = CrashDisk::default();
    let mut bank = bank(&disk, &impatient());
    (30..33).for_each(|id| bank.add(id * 10).unwrap());
    let mut writer = bank.session();
    writer.begin_writes();
    writer.move_row(300, 315);
    bank.begin_writes();
    assert_eq!(bank.store.lookup(&bank.by_id, 312).unwrap(), None);
    bank.add_row(25).unwrap();
    assert_eq!(bank.store.prepare(ONE), Ok(Vote::Prepared));
    writer.store.commit().unwrap();
    let disk = disk.kill();
    bank = reopened(&disk);
    assert_eq!(bank.add(313), Err(Error::LockTimeout), "what was not there");
    bank.add(305).unwrap();
    bank.store.decide(ONE, Decision::Abort).unwrap();
    bank.add(313).unwrap();
    assert_eq!(bank.store.check(), []);
}
