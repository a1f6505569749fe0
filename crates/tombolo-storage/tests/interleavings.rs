//! Whole transactions of several sessions under shuttle: orders of their steps are drawn, and what the sessions saw
//! is judged.
//!
//! Few keys, the smallest pool and short values that grow: so that sessions wait for each other's locks, evict each
//! other's pages, move each other's rows and revive each other's entries. Each seed draws sessions, transactions and
//! every switch from one session to another; the same seed runs the same again.
//!
//! Not here: what one structure does in *every* order (loom's tests), disks that fail, restart.

#![cfg(shuttle)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tombolo_storage::sync::shuttle::rand::{Rng, thread_rng};
use tombolo_storage::sync::shuttle::scheduler::RandomScheduler;
use tombolo_storage::sync::shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use tombolo_storage::disk::MemDisk;
use tombolo_storage::error::Error;
use tombolo_storage::lock::LockSettings;
use tombolo_storage::paged::store::{PagedSettings, PagedStore};
use tombolo_storage::profile::Conventional;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};

tombolo_storage::table! {
    /// Keys with a value that no other write writes.
    struct Item = "item" {
        KEY: Integer;
        VALUE: BigInt => hot;
        TEXT: Varchar<2000>;
    }
}
tombolo_storage::index! { struct ByKey = "item_pk" on Item (KEY: Integer) unique Tree; }

const TABLE: &str = "item";
const KEYS: i32 = 6;
/// Keys behind these, whose rows take more pages than the pool has.
const KEYS_ASIDE: i32 = 120;
const SESSIONS_MAX: i64 = 3;
/// Eight pages for each session, as many as it may pin.
const POOL_BYTES: usize = (1 + SESSIONS_MAX as usize) * 8 * 8192;
/// Seeds of one run; `TOMBOLO_SEEDS` says another number, `TOMBOLO_SEED` the first.
const SEEDS: u64 = 300;
/// Switches after which a run counts as one that does not end.
const STEPS_MAX: usize = 5_000_000;

/// One session with its handles and what it saw.
struct Caller {
    store: PagedStore<Conventional>,
    table: Table<Item>,
    by_key: Index<ByKey>,
    session: i64,
    values: i64,
    clock: Arc<AtomicU64>,
    history: Arc<Mutex<Vec<Transaction>>>,
}

impl Caller {
    fn first() -> Self {
        // A wait that does not end is one of too many steps, or of a thread that nothing wakes.
        let locks = LockSettings { wait_intervals_max: u32::MAX, ..LockSettings::default() };
        let settings = PagedSettings { pool_bytes: POOL_BYTES, locks, ..PagedSettings::default() };
        let mut store = PagedStore::create(&MemDisk::new(), &settings).unwrap();
        store.create_table(TableDef::of::<Item>().with::<ByKey>()).unwrap();
        Self {
            table: resolve_table(store.schema()).unwrap(),
            by_key: resolve_index(store.schema()).unwrap(),
            store,
            session: 0,
            values: 0,
            clock: Arc::default(),
            history: Arc::default(),
        }
    }

    fn another(&self, session: i64) -> Self {
        Self {
            store: self.store.session().unwrap().unwrap(),
            table: self.table,
            by_key: self.by_key,
            session,
            values: 0,
            clock: self.clock.clone(),
            history: self.history.clone(),
        }
    }

    /// Runs a transaction and notes what it saw and what became of it.
    fn transaction(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Vec<Operation>) -> Result<bool, Error>,
    ) {
        let (begin, mut seen) = (self.clock.fetch_add(1, Ordering::Relaxed), Vec::new());
        self.store.begin().unwrap();
        let outcome = match work(self, &mut seen) {
            Ok(true) => {
                self.store.commit().unwrap();
                Outcome::Committed
            }
            Ok(false) | Err(Error::Deadlock) => {
                self.store.abort().unwrap();
                Outcome::Aborted
            }
            Err(error) => panic!("{error}"),
        };
        let end = self.clock.fetch_add(1, Ordering::Relaxed);
        let one = Transaction { outcome, ..Transaction::committed(self.session, begin, end, seen) };
        self.history.lock().unwrap().push(one);
    }

    /// A few operations on keys drawn.
    fn random(&mut self) {
        let commits = thread_rng().gen_range(0..6) > 0;
        let operations = thread_rng().gen_range(1..5);
        self.transaction(|caller, seen| {
            let mut writes = false;
            for _ in 0..operations {
                let aside = thread_rng().gen_range(KEYS..KEYS + KEYS_ASIDE);
                let key = thread_rng().gen_range(0..2 * KEYS);
                caller.operation(if key < KEYS { key } else { aside }, &mut writes, seen)?;
            }
            Ok(commits)
        });
    }

    fn operation(
        &mut self,
        key: i32,
        writes: &mut bool,
        seen: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let id = i64::from(key);
        let is_write = thread_rng().gen_range(0..3) > 0;
        if is_write && !*writes {
            self.store.begin_writes();
            *writes = true;
        }
        let row = match is_write {
            true => self.store.lookup_for_update(&self.by_key, key)?,
            false => self.store.lookup(&self.by_key, key)?,
        };
        let Some(row) = row else {
            // A look-up that finds nothing locks nothing: it may be wrong by now.
            return if is_write { self.insert(key, seen) } else { Ok(()) };
        };
        let before = self.value(row)?;
        if !is_write {
            seen.push(Operation::read(TABLE, id, Some(before)));
            return Ok(());
        }
        if thread_rng().gen_range(0..3) == 0 {
            assert!(self.store.remove(&self.by_key, key, row)?);
            self.store.delete(&self.table, row)?;
            seen.push(Operation::delete(TABLE, id).over(Some(before)));
            return Ok(());
        }
        let value = self.next_value();
        self.store.update(&self.table, row, Fields::none().with(Item::VALUE), |row| {
            row.set(Item::VALUE, value);
        })?;
        if thread_rng().gen_range(0..2) == 0 {
            let text = text(value);
            self.store.update(&self.table, row, Fields::none().with(Item::TEXT), |row| {
                row.set(Item::TEXT, text.as_slice());
            })?;
        }
        seen.push(Operation::write(TABLE, id, value).over(Some(before)));
        Ok(())
    }

    fn insert(&mut self, key: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let value = self.next_value();
        let row = self.store.create(&self.table, |row| {
            row.set(Item::KEY, key);
            row.set(Item::VALUE, value);
            row.set(Item::TEXT, text(value).as_slice());
        })?;
        match self.store.insert(&self.by_key, key, row) {
            Ok(()) => seen.push(Operation::write(TABLE, i64::from(key), value).over(None)),
            // Another session was faster.
            Err(Error::Duplicate { .. }) => self.store.delete(&self.table, row)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn value(&mut self, row: RowId) -> Result<Datum, Error> {
        let pinned = self.store.pin(&self.table, row)?;
        Ok(Datum::from(pinned.get(Item::VALUE)))
    }

    fn next_value(&mut self) -> i64 {
        self.values += 1;
        (self.session << 32) + self.values
    }
}

/// Up to two thousand bytes, so that what grows outgrows its page.
fn text(value: i64) -> Vec<u8> {
    vec![b'a' + (value % 26) as u8; [0, 20, 700, 2_000][thread_rng().gen_range(0..4)]]
}

/// One world: sessions run, then all is judged.
fn world() {
    let mut first = Caller::first();
    first.transaction(|caller, seen| {
        caller.store.begin_writes();
        (0..KEYS + KEYS_ASIDE).try_for_each(|key| caller.insert(key, seen)).map(|()| true)
    });
    let sessions = thread_rng().gen_range(2..=SESSIONS_MAX);
    let threads: Vec<_> = (1..=sessions)
        .map(|session| {
            let mut caller = first.another(session);
            thread::spawn(move || (0..6).for_each(|_| caller.random()))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    first.transaction(|caller, seen| {
        for key in 0..KEYS + KEYS_ASIDE {
            let row = caller.store.lookup(&caller.by_key, key)?;
            let value = row.map(|row| caller.value(row)).transpose()?;
            seen.push(Operation::read(TABLE, i64::from(key), value));
        }
        Ok(true)
    });
    assert_eq!(first.store.check(), []);
    let history = first.history.lock().unwrap();
    let verdict = History::of(history.iter()).unwrap().judge(Level::StrictSerializable);
    assert!(verdict.levels.of(Level::StrictSerializable) == Holds::Yes, "{verdict}");
}

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable);
    set.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn sessions_in_drawn_orders_are_serializable() {
    let first = number("TOMBOLO_SEED", 0);
    for seed in first..first + number("TOMBOLO_SEEDS", SEEDS) {
        let mut config = Config::new();
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.failure_persistence = FailurePersistence::None;
        config.silence_warnings = true;
        let scheduler = RandomScheduler::new_from_seed(seed, 1);
        let ended = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(world)));
        if let Err(panic) = ended {
            eprintln!("TOMBOLO_SEED={seed} runs it again");
            resume_unwind(panic);
        }
    }
}
