//! The store of one simulated island, after decision 0046 and as small as possible: accounts, locks of held parts, rows
//! of prepared parts and of decisions, and a log, of which a prefix survives a crash.
//!
//! Not here: which accounts a transaction uses (`requests.rs`), when the log is flushed (`world.rs`).

use std::collections::{BTreeMap, VecDeque};

use tombolo_engine::islands::commit::{Age, Event, Found, IslandId, TransactionNumber, Work};

use super::oracle::Seen;
use super::requests::{Operation, decode};

/// What an account holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) amount: i64,
    /// Which write made it: no two have the same.
    pub(super) version: u64,
}

/// A part that is executed and not decided.
#[derive(Clone, Debug, Default)]
struct Held {
    writes: Vec<(u8, Cell)>,
    /// Accounts, and whether they are locked against reads.
    locks: Vec<(u8, bool)>,
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) accounts: Vec<Cell>,
    prepared: BTreeMap<TransactionNumber, (Age, Held)>,
    decided: BTreeMap<TransactionNumber, Vec<IslandId>>,
    openings: u32,
    /// What the oracle wants to know: how often each was committed here, and which local transactions were.
    pub(super) committed: BTreeMap<TransactionNumber, u32>,
    pub(super) calls: Vec<u64>,
}

/// What a local transaction does to the rows.
#[derive(Clone, Debug)]
enum Record {
    Opened,
    Prepared(TransactionNumber, Age, Held),
    Committed { number: TransactionNumber, writes: Vec<(u8, Cell)>, participants: Vec<IslandId> },
    Released(TransactionNumber),
    Forgotten(TransactionNumber),
    Local { call: u64, writes: Vec<(u8, Cell)> },
}

/// What is said when the log is durable up to a position.
#[derive(Clone, Debug)]
pub(super) enum Promise {
    /// To the machine.
    Event(Event<'static>),
    /// To the caller of a local transaction.
    Answer(u64),
}

/// What became of a piece of work.
#[derive(Debug)]
pub(super) enum Ran {
    /// To the machine.
    Event(Event<'static>),
    /// A local transaction was refused.
    Refused(u64),
    /// It will be answered when the log is durable.
    Done,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) now: Rows,
    pub(super) durable: Rows,
    /// What of the log is not durable.
    tail: VecDeque<Record>,
    /// The log's length, and up to where it is durable.
    appended: u64,
    flushed: u64,
    held: BTreeMap<TransactionNumber, Held>,
    promises: VecDeque<(u64, Promise)>,
}

impl Rows {
    fn apply(&mut self, record: &Record) {
        match record {
            Record::Opened => self.openings += 1,
            Record::Prepared(number, age, held) => {
                self.prepared.insert(*number, (*age, held.clone()));
            }
            Record::Committed { number, writes, participants } => {
                self.write(writes);
                self.prepared.remove(number);
                *self.committed.entry(*number).or_default() += 1;
                if !participants.is_empty() {
                    self.decided.insert(*number, participants.clone());
                }
            }
            Record::Released(number) => {
                self.prepared.remove(number);
            }
            Record::Forgotten(number) => {
                self.decided.remove(number);
            }
            Record::Local { call, writes } => {
                self.write(writes);
                self.calls.push(*call);
            }
        }
    }

    fn write(&mut self, writes: &[(u8, Cell)]) {
        writes.iter().for_each(|(account, cell)| self.accounts[usize::from(*account)] = *cell);
    }
}

impl Store {
    pub(super) fn new(accounts: Vec<Cell>) -> Self {
        let rows = Rows { accounts, ..Rows::default() };
        Self {
            now: rows.clone(),
            durable: rows,
            tail: VecDeque::new(),
            appended: 0,
            flushed: 0,
            held: BTreeMap::new(),
            promises: VecDeque::new(),
        }
    }

    /// Counts an opening, durably; says what it found.
    pub(super) fn open(&mut self) -> (u32, Found) {
        self.append(Record::Opened);
        self.flush(usize::MAX);
        let prepared = self.now.prepared.iter().map(|(number, (age, _))| (*number, *age));
        let decided = self.now.decided.iter().map(|(number, left)| (*number, left.clone()));
        let found = Found { prepared: prepared.collect(), decided: decided.collect() };
        (self.now.openings, found)
    }

    /// Of what is not durable, `kept` records are; the rest is lost. Says how many are.
    pub(super) fn crash(&mut self, kept: usize) -> usize {
        self.flush(kept);
        let lost = self.tail.len();
        self.promises.clear();
        self.tail.clear();
        self.appended = self.flushed;
        self.now = self.durable.clone();
        let prepared = self.now.prepared.iter();
        self.held = prepared.map(|(number, (_, held))| (*number, held.clone())).collect();
        lost
    }

    /// Makes so many records durable, and says what was promised for then.
    pub(super) fn flush(&mut self, records: usize) -> Vec<Promise> {
        let records = records.min(self.tail.len());
        for record in self.tail.drain(..records) {
            self.durable.apply(&record);
        }
        self.flushed += records as u64;
        let kept = self.promises.iter().take_while(|(position, _)| *position <= self.flushed);
        let kept = kept.count();
        self.promises.drain(..kept).map(|(_, promise)| promise).collect()
    }

    pub(super) fn unflushed(&self) -> usize {
        self.tail.len()
    }

    /// Whether something waits for a flush.
    pub(super) fn wants_flush(&self) -> bool {
        !self.tail.is_empty() || !self.promises.is_empty()
    }

    fn append(&mut self, record: Record) {
        self.now.apply(&record);
        self.tail.push_back(record);
        self.appended += 1;
    }

    fn promise(&mut self, promise: Promise) {
        self.promises.push_back((self.appended, promise));
    }

    /// Runs `work` under the locks of the held parts; `versions` numbers what it writes.
    pub(super) fn run(&mut self, work: Work, versions: &mut u64) -> (Ran, Seen) {
        let (Work::Part { payload, .. } | Work::Local { payload, .. }) = &work;
        let operations = decode(payload);
        if let Some(by) = self.conflict(&operations) {
            return (Ran::Event(Event::Held { by, work }), Seen::default());
        }
        let mut held = Held::default();
        let mut seen = Seen::default();
        let mut result = Vec::new();
        for operation in operations {
            let (account, change) = match operation {
                Operation::Read(account) => (account, None),
                Operation::Add(account, amount) => (account, Some(amount)),
                Operation::Refuse => return (refused(work), Seen::default()),
            };
            let own = held.writes.iter().find(|(written, _)| *written == account);
            let before = own.map_or(self.now.accounts[usize::from(account)], |(_, cell)| *cell);
            held.locks.push((account, change.is_some()));
            seen.reads.push((account, before.version));
            result.extend_from_slice(&before.amount.to_le_bytes());
            let Some(change) = change else { continue };
            if before.amount + change < 0 {
                return (refused(work), Seen::default());
            }
            *versions += 1;
            let cell = Cell { amount: before.amount + change, version: *versions };
            held.writes.retain(|(written, _)| *written != account);
            held.writes.push((account, cell));
            seen.writes.push((account, before.version, cell.version));
        }
        let ran = match work {
            Work::Part { number, .. } => {
                let wrote = !held.writes.is_empty();
                self.held.insert(number, held);
                Ran::Event(Event::Executed { number, wrote, result })
            }
            Work::Local { call, .. } => {
                if !held.writes.is_empty() {
                    self.append(Record::Local { call, writes: held.writes });
                }
                self.promise(Promise::Answer(call));
                Ran::Done
            }
        };
        (ran, seen)
    }

    /// A held part that is in the way.
    fn conflict(&self, operations: &[Operation]) -> Option<TransactionNumber> {
        let wanted = |account: u8, exclusive: bool| {
            let meets = |&(locked, is_exclusive): &(u8, bool)| {
                locked == account && (exclusive || is_exclusive)
            };
            self.held.iter().find(|(_, held)| held.locks.iter().any(meets))
        };
        let holder = operations.iter().find_map(|operation| match *operation {
            Operation::Read(account) => wanted(account, false),
            Operation::Add(account, _) => wanted(account, true),
            Operation::Refuse => None,
        });
        holder.map(|(number, _)| *number)
    }

    pub(super) fn prepare(&mut self, number: TransactionNumber, age: Age) {
        let held = self.held.get(&number).cloned().unwrap_or_default();
        self.append(Record::Prepared(number, age, held));
        self.promise(Promise::Event(Event::Prepared(number)));
    }

    pub(super) fn settle(&mut self, number: TransactionNumber) {
        self.promise(Promise::Event(Event::Settled(number)));
    }

    pub(super) fn commit(
        &mut self,
        number: TransactionNumber,
        participants: Vec<IslandId>,
    ) -> Event<'static> {
        let writes = self.held.remove(&number).unwrap_or_default().writes;
        self.append(Record::Committed { number, writes, participants });
        self.promise(Promise::Event(Event::Durable(number)));
        Event::Ended(number)
    }

    pub(super) fn release(&mut self, number: TransactionNumber) -> Event<'static> {
        self.held.remove(&number);
        if self.now.prepared.contains_key(&number) {
            self.append(Record::Released(number));
        }
        Event::Ended(number)
    }

    pub(super) fn forget(&mut self, number: TransactionNumber) {
        self.append(Record::Forgotten(number));
    }

    /// What is left behind, if anything.
    pub(super) fn left(&self) -> Option<String> {
        let Rows { prepared, decided, .. } = &self.durable;
        let left =
            [("lock", self.held.len()), ("prepared", prepared.len()), ("decided", decided.len())];
        let left = left.into_iter().find(|(_, number)| *number > 0);
        left.map(|(what, number)| format!("{what}: {number} are left"))
    }
}

fn refused(work: Work) -> Ran {
    match work {
        Work::Part { number, .. } => {
            Ran::Event(Event::Refused { number, why: b"no money".to_vec() })
        }
        Work::Local { call, .. } => Ran::Refused(call),
    }
}
