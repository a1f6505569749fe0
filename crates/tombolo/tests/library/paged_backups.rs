//! Backups of paged databases, made while transactions run, restored, and what is refused.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use tombolo::{
    Database, Error, Index, Order, PagedBuilder, PagedDatabase, PagedTx, Range, Stop, Table,
};
use tombolo_engine::rng::Rng;

use super::kills::{CHILD, child};
use super::together::{until, until_one_ends};

/// An account, with text that makes it long, so that few of them fit into the pool.
#[derive(Table, Clone, Debug, PartialEq)]
struct Account {
    #[key]
    id: u32,
    cents: i64,
    note: String,
}

const ACCOUNTS: u32 = 2_000;
/// Accounts that are made and deleted, and the counters of threads.
const OTHERS: u32 = 10_000;
const COUNTERS: u32 = 20_000;

fn paged() -> PagedBuilder {
    let builder = Database::builder().define::<Account>().paged().pool_bytes(1 << 20);
    builder.checkpoint_log_bytes(512 << 10)
}

struct Bank {
    db: PagedDatabase,
    table: Table<Account>,
    by_id: Index<AccountKey>,
}

impl Bank {
    fn open(directory: &Path) -> Result<Self, Error> {
        let db = paged().open(directory)?;
        let (table, by_id) = (db.table()?, db.index()?);
        Ok(Self { db, table, by_id })
    }

    fn create(directory: &Path) -> Self {
        let bank = Self::open(directory).unwrap();
        let note = "n".repeat(800);
        let accounts = (0..ACCOUNTS).map(|id| Account { id, cents: 0, note: note.clone() });
        assert_eq!(bank.db.load(&bank.table, accounts), Ok(u64::from(ACCOUNTS)));
        bank
    }

    fn add(&self, tx: &mut PagedTx<'_>, id: u32, cents: i64, note: usize) -> Result<i64, Stop> {
        let row = tx.lookup_for_update(&self.by_id, id)?;
        let before = row.map(|row| tx.read_row(&self.table, row)).transpose()?;
        let cents = before.map_or(0, |account| account.cents) + cents;
        let account = Account { id, cents, note: "m".repeat(note) };
        tx.upsert_row(&self.by_id, &account)?;
        Ok(cents)
    }

    /// Moves 1, makes or deletes a row, and counts; the counter's value.
    fn step(&self, thread: u32, rng: &mut Rng) -> i64 {
        let [from, to] = [0, 1].map(|_| rng.below(u64::from(ACCOUNTS)) as u32);
        let other = OTHERS + rng.below(300) as u32;
        let lengths = [0, 1, 2].map(|_| rng.below(1_200) as usize);
        let counted = self.db.transaction(|tx| {
            self.add(tx, from, -1, lengths[0])?;
            self.add(tx, to, 1, lengths[1])?;
            match tx.lookup_for_update(&self.by_id, other)? {
                Some(row) => tx.delete(&self.table, row)?,
                None => self.add(tx, other, 0, lengths[2]).map(drop)?,
            }
            self.add(tx, COUNTERS + thread, 1, 0)
        });
        counted.unwrap()
    }

    /// The sum of all accounts and the values of counters.
    fn balances(&self) -> (i64, [i64; 2]) {
        let read = self.db.read(|tx| {
            let (mut sum, mut counters) = (0, [0; 2]);
            for row in tx.range(&self.by_id, Range::all(), Order::Forward)? {
                let account = tx.get(&self.table, row)?;
                match account.get(Account::ID).checked_sub(COUNTERS) {
                    Some(thread) => counters[thread as usize] = account.get(Account::CENTS),
                    None => sum += account.get(Account::CENTS),
                }
            }
            Ok((sum, counters))
        });
        read.unwrap()
    }
}

#[test]
fn a_backup_under_load_has_all_that_was_answered_and_conserves_balances() {
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::create(&place.path().join("own"));
    let copy = |number: usize| place.path().join(format!("copy {number}"));
    let known = [const { AtomicI64::new(0) }; 2];
    let answered = Mutex::new(Vec::new());
    until_one_ends(0..3u32, |thread, over| {
        if thread == 2 {
            for number in 0..4 {
                let is_enough = || known[0].load(Ordering::SeqCst) >= 60 * (1 + number as i64);
                until("calls", || is_enough().then_some(()));
                let now = || known.each_ref().map(|known| known.load(Ordering::SeqCst));
                let before = now();
                let made = bank.db.backup(copy(number)).unwrap();
                answered.lock().unwrap().push((before, now().map(|counted| counted + 1), made));
            }
            return;
        }
        let mut rng = Rng::stream(8, &[thread.into()]);
        while !over.is_set() {
            let counted = bank.step(thread, &mut rng);
            known[thread as usize].store(counted, Ordering::SeqCst);
        }
    });
    assert_eq!(bank.db.statistics().checkpoint_failure, None);
    assert!(bank.db.statistics().pool_misses > 500, "{:?}", bank.db.statistics());
    drop(bank);
    for (number, (before, after, made)) in answered.into_inner().unwrap().into_iter().enumerate() {
        let refused = Bank::open(&copy(number)).err().unwrap();
        assert!(refused.to_string().contains("holds a backup"), "{refused}");
        let restored = place.path().join(format!("restored {number}"));
        assert_eq!(PagedDatabase::restore(copy(number), &restored), Ok(made));
        let bank = Bank::open(&restored).unwrap();
        assert!(bank.db.restart().is_some());
        let (sum, counted) = bank.balances();
        assert_eq!(sum, 0, "copy {number}");
        for thread in 0..2 {
            let range = before[thread]..=after[thread];
            assert!(range.contains(&counted[thread]), "copy {number}: {counted:?} {range:?}");
        }
        // It goes on, also when it is opened again.
        bank.step(0, &mut Rng::stream(9, &[]));
        bank.db.close().unwrap();
        let bank = Bank::open(&restored).unwrap();
        assert_eq!(bank.balances(), (0, [counted[0] + 1, counted[1]]));
    }
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let [own, copy, other] = ["own", "copy", "other"].map(|name| place.path().join(name));
    let bank = Bank::create(&own);
    bank.db.backup(&copy).unwrap();
    let text = |result: Result<tombolo::Backup, Error>| result.unwrap_err().to_string();
    assert!(text(bank.db.backup(&copy)).contains("holds another one"));
    assert!(text(bank.db.backup(&own)).contains("choose a new or an empty directory"));
    assert_eq!(bank.db.transaction(|_| Ok(bank.db.backup(&other))), Ok(Err(Error::Nested)));
    assert!(text(PagedDatabase::restore(&own, &other)).contains("holds no backup"));
    // Each store's backup is restored by the same call, and opened by its own.
    PagedDatabase::restore(&copy, &other).unwrap();
    let refused = super::open(&other).unwrap_err();
    assert!(matches!(refused, Error::OtherVersion(_)), "{refused:?}");
    assert_eq!(Bank::open(&other).unwrap().balances().0, 0);
    // A byte that changed in the copy, of pages and of the log.
    for (number, name) in ["pages", "log-000001"].into_iter().enumerate() {
        let mut bytes = fs::read(copy.join(name)).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(copy.join(name), &bytes).unwrap();
        let to = place.path().join(format!("damaged {number}"));
        let refused = text(PagedDatabase::restore(&copy, &to));
        assert!(
            refused.contains("the backup is damaged in") && refused.contains(name),
            "{refused}"
        );
        bytes[at] ^= 1;
        fs::write(copy.join(name), &bytes).unwrap();
    }
    // A page that is damaged where no call has met it.
    let restored = place.path().join("restored");
    PagedDatabase::restore(&copy, &restored).unwrap();
    Bank::open(&restored).unwrap().db.close().unwrap();
    let mut pages = fs::read(restored.join("pages")).unwrap();
    pages[100 * 8_192 + 4_000] ^= 1;
    fs::write(restored.join("pages"), pages).unwrap();
    let to = place.path().join("of damaged");
    let refused = Bank::open(&restored).unwrap().db.backup(&to).unwrap_err();
    assert!(matches!(refused, Error::Damaged(_)) && refused.to_string().contains("819200"));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0, "nothing is left of it");
}

#[test]
fn a_backup_that_was_killed_is_neither_opened_nor_restored() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let directory = Path::new(&directory);
        let bank = Bank::open(&directory.join("own")).unwrap();
        for number in 0.. {
            bank.db.backup(directory.join(number.to_string())).unwrap();
        }
        return;
    }
    let place = tempfile::tempdir().unwrap();
    Bank::create(&place.path().join("own")).db.close().unwrap();
    let number = |number: usize| place.path().join(number.to_string());
    let mut unfinished = 0;
    for round in 0.. {
        assert!(round < 50, "{unfinished} were killed in the middle");
        if unfinished == 4 {
            break;
        }
        let test = "paged_backups::a_backup_that_was_killed_is_neither_opened_nor_restored";
        let mut child = child(test, place.path());
        // As its first or a later copy begins, or when pages are there.
        let begun = number(round % 3).join(["", "pages"][round % 2]);
        while !begun.exists() {
            std::thread::yield_now();
        }
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        for copy in (0..).map(number).take_while(|copy| copy.exists()) {
            let restored = place.path().join("restored");
            let has = |name: &str| copy.join(name).exists();
            let refused = || Bank::open(&copy).err().unwrap().to_string();
            if has("backup-unfinished") {
                assert!(refused().contains("did not come to its end"), "{}", refused());
            }
            match (has("backup"), has("backup-unfinished")) {
                (false, true) => {
                    unfinished += 1;
                    let refused = PagedDatabase::restore(&copy, &restored).unwrap_err();
                    assert!(refused.to_string().contains("did not come to its end"), "{refused}");
                }
                (true, false) => {
                    assert!(refused().contains("holds a backup"), "{}", refused());
                    PagedDatabase::restore(&copy, &restored).unwrap();
                    assert_eq!(Bank::open(&restored).unwrap().balances().0, 0);
                    fs::remove_dir_all(restored).unwrap();
                }
                // All files are there, and it was killed before it said so.
                (true, true) => {}
                (false, false) => assert_eq!(fs::read_dir(&copy).unwrap().count(), 0),
            }
            fs::remove_dir_all(copy).unwrap();
        }
    }
}
