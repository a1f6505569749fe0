//! Arguments as bytes; a log of commands run again, and what of it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_storage::command_log::ProcedureNumber;
use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogFailure, LogKind, LogSettings, LogWriter};

use super::*;
use crate::procedure::Procedure;
use crate::rng::Rng;
use crate::transaction::{Committed, Reading, Stop};

tombolo_storage::table! {
    struct Account = "account" {
        ID: Integer [0..=999_999];
        BALANCE: BigInt => hot;
        MOVES: BigInt => hot;
    }
}
tombolo_storage::index! {
    struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}

const MOVED: Fields<Account> = Fields::none().with(Account::BALANCE).with(Account::MOVES);

/// Takes an amount from an account, which must have it, and gives it to another, which is made if it
/// is not there.
struct Transfer {
    table: Table<Account>,
    key: Index<AccountKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TransferInput {
    from: i32,
    to: i32,
    amount: i64,
}

impl Arguments for TransferInput {
    fn bytes_max(&self) -> usize {
        3 * Encoder::NUMBER_BYTES_MAX
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.number(self.from as u64);
        out.number(self.to as u64);
        out.signed(self.amount);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        Ok(Self { from: from.number()?, to: from.number()?, amount: from.signed()? })
    }
}

impl Procedure for Transfer {
    type Input = TransferInput;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { table: resolve_table(schema)?, key: resolve_index(schema)? })
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &TransferInput,
    ) -> Result<Committed<i64>, Stop> {
        let Some(from) = tx.lookup(&self.key, input.from)? else { return tx.abort("no account") };
        let left = tx.pin(&self.table, from)?.get(Account::BALANCE) - input.amount;
        if left < 0 {
            return tx.abort("not so much");
        }
        if input.amount == 0 {
            return tx.commit(left);
        }
        let to = tx.lookup(&self.key, input.to)?;
        let mut tx = tx.write();
        for (row, amount) in [(Some(from), -input.amount), (to, input.amount)] {
            match row {
                Some(row) => tx.update(&self.table, row, MOVED, |row| {
                    row.set(Account::BALANCE, row.get(Account::BALANCE) + amount);
                    row.set(Account::MOVES, row.get(Account::MOVES) + 1);
                })?,
                None => {
                    let row = tx.create(&self.table, |row| {
                        row.set(Account::ID, input.to);
                        row.set(Account::BALANCE, amount);
                        row.set(Account::MOVES, 1);
                    })?;
                    tx.insert(&self.key, input.to, row)?;
                }
            }
        }
        tx.commit(left)
    }
}

/// What `Moody` does instead of what it did.
static ABORTS: AtomicBool = AtomicBool::new(false);
static PANICS: AtomicBool = AtomicBool::new(false);
static READS: AtomicBool = AtomicBool::new(false);

/// A procedure that depends on more than its input and the rows.
struct Moody(Transfer);

impl Procedure for Moody {
    type Input = TransferInput;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Transfer::bind(schema).map(Self)
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &TransferInput,
    ) -> Result<Committed<i64>, Stop> {
        if ABORTS.load(Ordering::Relaxed) {
            return tx.abort("not today");
        }
        assert!(!PANICS.load(Ordering::Relaxed), "not today");
        if READS.load(Ordering::Relaxed) {
            return tx.commit(0);
        }
        self.0.run(tx, input)
    }
}

const SETTINGS: LogSettings = LogSettings {
    kind: LogKind::Command,
    salt: 77,
    segment_bytes: 64 << 10,
    segment_bytes_first: u64::MAX,
    block_bytes: 4096,
    segments_ahead: 1,
    log_bytes_max: u64::MAX,
    direct: false,
};

fn transfers() -> Procedures {
    let mut procedures = Procedures::new();
    procedures.register::<Transfer>("transfer", 1);
    procedures
}

/// A database of two rich accounts, and its log.
struct Bank {
    store: CommandStore,
    writer: LogWriter,
    numbers: ProcedureNumbers,
    transfer: Transfer,
}

impl Bank {
    /// A new one: loaded with after-images, then run by commands.
    fn create(disk: &Arc<dyn Disk>, procedures: &Procedures) -> Self {
        let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
        store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
        let transfer = Transfer::bind(store.schema()).unwrap();
        for id in [0, 1] {
            store.begin().unwrap();
            store.begin_writes();
            let made = store.create(&transfer.table, |row| {
                row.set(Account::ID, id);
                row.set(Account::BALANCE, 1_000_000);
            });
            store.insert(&transfer.key, id, made.unwrap()).unwrap();
            store.commit().unwrap();
        }
        let mut writer = LogWriter::create(Arc::clone(disk), SETTINGS).unwrap();
        let mut loaded = LogBuffer::new();
        store.take_log(&mut loaded);
        writer.append_group(&[loaded.as_slice()], loaded.transactions(), None).unwrap();
        let mut store = store.with_profile().unwrap();
        let numbers = procedures.define(&mut store).unwrap();
        Self { store, writer, numbers, transfer }
    }

    fn open(disk: &Arc<dyn Disk>, procedures: &Procedures) -> Result<Self, LogFailure> {
        let limits = Limits::default();
        let found = recover(Arc::clone(disk), SETTINGS, false, limits, procedures, &mut |_| {})?;
        let Recovered { store, writer, numbers, .. } = found;
        let transfer = Transfer::bind(store.schema()).unwrap();
        Ok(Self { store, writer, numbers, transfer })
    }

    fn transfer(&mut self, from: i32, to: i32, amount: i64) -> Result<i64, Stop> {
        let number = self.numbers.of("transfer", 1).unwrap();
        call(&self.transfer, number, &mut self.store, &TransferInput { from, to, amount })
    }

    /// Writes what was logged as a group.
    fn flush(&mut self) {
        let mut buffer = LogBuffer::new();
        self.store.take_log(&mut buffer);
        if !buffer.is_empty() {
            self.writer.append_group(&[buffer.as_slice()], buffer.transactions(), None).unwrap();
            self.writer.sync().unwrap();
        }
    }

    fn accounts(&mut self) -> BTreeMap<i32, (i64, i64)> {
        let mut found = BTreeMap::new();
        let mut rows = Vec::new();
        self.store
            .rows(&self.transfer.table, |row| {
                rows.push(row);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        for row in rows {
            let row = self.store.pin(&self.transfer.table, row).unwrap();
            let account = (row.get(Account::BALANCE), row.get(Account::MOVES));
            found.insert(row.get(Account::ID), account);
        }
        found
    }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemDisk::new())
}

/// Many runs and restarts: after each, the accounts are those that were left.
#[test]
fn commands_run_again_leave_what_they_left() {
    for seed in 0..20 {
        let mut rng = Rng::stream(seed, &[1]);
        let disk = disk();
        let mut bank = Bank::create(&disk, &transfers());
        let mut aborted = 0;
        for _ in 0..4 {
            for _ in 0..rng.below(300) {
                let (from, to) = (rng.below(12) as i32, rng.below(12) as i32);
                let amount = rng.below(400_000) as i64;
                aborted += u32::from(bank.transfer(from, to, amount).is_err());
                if rng.below(20) == 0 {
                    bank.flush();
                }
            }
            bank.flush();
            let expected = bank.accounts();
            drop(bank);
            bank = Bank::open(&disk, &transfers()).unwrap();
            assert_eq!(bank.accounts(), expected, "seed {seed}");
            assert_eq!(bank.store.check(), []);
            assert_eq!(bank.store.log_bytes(), 0, "nothing is logged twice");
        }
        assert!(aborted > 10, "seed {seed}: {aborted}");
    }
}

/// A process that ends between two groups loses what came behind the last one that was written.
#[test]
fn what_was_not_flushed_is_not_there() {
    let disk = disk();
    let mut bank = Bank::create(&disk, &transfers());
    bank.transfer(0, 1, 10).unwrap();
    bank.flush();
    let expected = bank.accounts();
    bank.transfer(0, 1, 20).unwrap();
    drop(bank);
    assert_eq!(Bank::open(&disk, &transfers()).unwrap().accounts(), expected);
}

/// A log without one command is one too: procedures are defined when there is something to define.
#[test]
fn a_log_without_commands_is_opened() {
    let disk = disk();
    drop(Bank::create(&disk, &transfers()));
    let mut bank = Bank::open(&disk, &transfers()).unwrap();
    assert!(bank.store.log_bytes() > 0, "the procedure is defined now");
    bank.transfer(1, 5, 10).unwrap();
    bank.flush();
    drop(bank);
    let mut bank = Bank::open(&disk, &transfers()).unwrap();
    assert_eq!(bank.accounts()[&5], (10, 1));
    assert_eq!(bank.store.log_bytes(), 0);
}

/// A table that is made between commands is there when the next one runs again.
#[test]
fn tables_are_made_between_commands() {
    let disk = disk();
    let mut bank = Bank::create(&disk, &transfers());
    bank.transfer(0, 1, 10).unwrap();
    let other = TableDef { name: "other".into(), indexes: vec![], ..TableDef::of::<Account>() };
    bank.store.create_table(other).unwrap();
    bank.transfer(1, 2, 10).unwrap();
    bank.flush();
    let (schema, expected) = (bank.store.schema().clone(), bank.accounts());
    drop(bank);
    let mut bank = Bank::open(&disk, &transfers()).unwrap();
    assert_eq!(bank.store.schema(), &schema);
    assert_eq!(bank.accounts(), expected);
}

fn refusal(disk: &Arc<dyn Disk>, procedures: &Procedures) -> String {
    match Bank::open(disk, procedures) {
        Err(failure) => failure.to_string(),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_procedure_that_is_not_registered_is_named() {
    let disk = disk();
    let mut bank = Bank::create(&disk, &transfers());
    bank.transfer(0, 1, 10).unwrap();
    bank.flush();
    let expected = bank.accounts();
    drop(bank);
    let said = refusal(&disk, &Procedures::new());
    assert!(said.contains("procedure transfer, version 1, which is not registered"), "{said}");
    assert!(said.contains("group 3"), "{said}");
    let mut newer = Procedures::new();
    newer.register::<Transfer>("transfer", 2);
    let said = refusal(&disk, &newer);
    assert!(said.contains("version 2 is: register the old one too"), "{said}");
    // With both, the log continues, and numbers stay what they are.
    newer.register::<Transfer>("transfer", 1);
    let mut bank = Bank::open(&disk, &newer).unwrap();
    assert_eq!(bank.accounts(), expected);
    assert_eq!(bank.numbers.of("transfer", 1), ProcedureNumber::new(0));
    assert_eq!(bank.numbers.of("transfer", 2), ProcedureNumber::new(1));
    assert_eq!(bank.numbers.of("transfer", 3), None);
    bank.transfer(0, 1, 10).unwrap();
    bank.flush();
    let expected = bank.accounts();
    drop(bank);
    assert_eq!(Bank::open(&disk, &newer).unwrap().accounts(), expected);
    assert!(refusal(&disk, &transfers()).contains("transfer, version 2"));
}

#[test]
fn a_procedure_that_ends_otherwise_is_found_out() {
    let mut procedures = Procedures::new();
    procedures.register::<Moody>("moody", 3);
    let disk = disk();
    let mut bank = Bank::create(&disk, &procedures);
    let moody = Moody::bind(bank.store.schema()).unwrap();
    let number = bank.numbers.of("moody", 3).unwrap();
    let input = TransferInput { from: 0, to: 1, amount: 5 };
    call(&moody, number, &mut bank.store, &input).unwrap();
    bank.flush();
    let expected = bank.accounts();
    drop(bank);
    for (mood, said) in [
        (&ABORTS, "ends: aborted: not today"),
        (&PANICS, "panics: not today"),
        (&READS, "writes nothing"),
    ] {
        mood.store(true, Ordering::Relaxed);
        let refused = refusal(&disk, &procedures);
        mood.store(false, Ordering::Relaxed);
        assert!(refused.contains("group 3"), "{refused}");
        assert!(
            refused.contains("procedure moody, version 3: it wrote and committed"),
            "{refused}"
        );
        assert!(refused.contains(said) && refused.contains("not deterministic"), "{refused}");
    }
    // Nothing was changed by that.
    assert_eq!(Bank::open(&disk, &procedures).unwrap().accounts(), expected);
}

/// Takes other arguments than [`Transfer`] under the same name.
struct Other;

impl Procedure for Other {
    type Input = ();
    type Answer = ();

    fn bind(_: &Schema) -> Result<Self, SchemaError> {
        Ok(Self)
    }

    fn run<S: Store>(&self, tx: Reading<'_, S>, (): &()) -> Result<Committed<()>, Stop> {
        tx.commit(())
    }
}

#[test]
fn arguments_of_another_procedure_are_refused() {
    let disk = disk();
    let mut bank = Bank::create(&disk, &transfers());
    bank.transfer(0, 1, 10).unwrap();
    bank.flush();
    drop(bank);
    let mut procedures = Procedures::new();
    procedures.register::<Other>("transfer", 1);
    let said = refusal(&disk, &procedures);
    assert!(said.contains("transfer, version 1: the arguments cannot be read"), "{said}");
}

#[test]
fn a_log_of_values_is_refused() {
    let disk = disk();
    let settings = LogSettings { kind: LogKind::Value, ..SETTINGS };
    drop(LogWriter::create(Arc::clone(&disk), settings).unwrap());
    assert!(refusal(&disk, &transfers()).contains("is of a value log: open the database without"));
}

#[test]
#[should_panic(expected = "transfer, version 1, twice")]
fn a_name_and_version_are_registered_once() {
    let mut procedures = transfers();
    procedures.register::<Other>("transfer", 1);
}

#[test]
fn numbers_come_back_and_have_one_encoding() {
    let mut room = [0; 32];
    let mut rng = Rng::stream(7, &[2]);
    let edges = (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).chain([u64::MAX]);
    let random = (0..2_000).map(|_| rng.next_u64() >> rng.below(64));
    for number in edges.chain(random.collect::<Vec<_>>()) {
        let mut out = Encoder::new(&mut room);
        out.number(number);
        out.signed(number as i64);
        let length = out.len();
        let mut from = Decoder::new(&room[..length]);
        assert_eq!(from.number(), Ok(number));
        assert_eq!(from.signed(), Ok(number as i64));
        assert_eq!(from.end(), Ok(()));
        for cut in 0..length {
            let mut from = Decoder::new(&room[..cut]);
            assert!(from.number::<u64>().and_then(|_| from.signed()).is_err());
        }
    }
    for refused in [&[0x80, 0][..], &[0xff; 11], &[0x80; 10], &[]] {
        assert!(Decoder::new(refused).number::<u64>().is_err(), "{refused:?}");
    }
    assert!(Decoder::new(&[0x80, 2]).number::<u8>().is_err());
    assert!(Decoder::new(&[1]).end().is_err());
    assert_eq!(Decoder::new(&[1, 2, 3]).bytes(2), Ok(&[1, 2][..]));
    assert!(Decoder::new(&[1]).bytes(2).is_err());
}
