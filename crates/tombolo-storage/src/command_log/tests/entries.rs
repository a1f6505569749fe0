//! Entries as bytes, and which transactions leave one.

use crate::command_log::*;
use crate::error::Error;
use crate::memory::recovery::tests::tables;
use crate::memory::test_random::Random;
use crate::memory::{Limits, MemoryStore};
use crate::profile::MemoryCommandLogged;
use crate::schema::TableDef;
use crate::store::Store;
use crate::value::Value;
use crate::value_log::record::{LogBuffer, Record};
use crate::value_log::{Malformed, definition};

type Commanded = MemoryStore<MemoryCommandLogged>;

fn number(n: usize) -> ProcedureNumber {
    ProcedureNumber::new(n).unwrap()
}

/// What an entry says, without borrowing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Table(String),
    Command(usize, Vec<u8>),
    Procedure(usize, u32, String),
}

fn read(bytes: &[u8]) -> Result<Vec<Said>, Malformed> {
    let mut said = Vec::new();
    for entry in Entries::new(bytes) {
        match entry? {
            Entry::Values(records) => {
                for record in records {
                    if let Record::Schema(change) = record? {
                        let table = definition::decode(change.bytes).unwrap();
                        said.push(Said::Table(table.name.into_owned()));
                    }
                }
            }
            Entry::Command { procedure, arguments } => {
                said.push(Said::Command(procedure.get(), arguments.to_vec()));
            }
            Entry::Procedure { number, version, name } => {
                said.push(Said::Procedure(number.get(), version, name.to_owned()));
            }
        }
    }
    Ok(said)
}

fn plain() -> TableDef {
    let [_, plain, _] = tables();
    plain
}

fn name_command(store: &mut Commanded, n: usize, arguments: &[u8]) -> crate::error::Result<()> {
    store.command(number(n), arguments.len() + 9, |room| {
        room[..arguments.len()].copy_from_slice(arguments);
        arguments.len()
    })
}

/// Makes a row in the table `plain`.
fn insert(store: &mut Commanded, n: i64) {
    let table = crate::dynamic::DynamicTable::new(store.schema(), 0);
    store.begin_writes();
    table.insert(store, &[Value::Integer(n)]).unwrap();
}

fn taken(store: &mut Commanded) -> LogBuffer {
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    buffer
}

fn store() -> Commanded {
    let mut store = Commanded::new(Limits::default());
    store.create_table(plain()).unwrap();
    assert_eq!(read(taken(&mut store).as_slice()), Ok(vec![Said::Table("plain".to_owned())]));
    store
}

#[test]
fn the_bytes_are_those_the_format_states() {
    let mut store = store();
    store.define_procedure(number(3), 7, "pay");
    name_command(&mut store, 3, b"abc").unwrap();
    store.begin().unwrap();
    insert(&mut store, 1);
    store.commit().unwrap();
    let expected: &[&[u8]] =
        &[&[7, 0, 0x30, 0x80], &[7, 0, 0, 0], b"pay", &[3, 0, 0x30, 0x40], b"abc"];
    let buffer = taken(&mut store);
    assert_eq!(buffer.as_slice(), expected.concat());
    assert_eq!(buffer.transactions(), 2);
}

#[test]
fn only_what_wrote_and_committed_leaves_a_command() {
    let mut store = store();
    let run = |store: &mut Commanded, argument: u8, writes: bool, commits: bool| {
        name_command(store, 0, &[argument]).unwrap();
        store.begin().unwrap();
        if writes {
            insert(store, argument.into());
        }
        if commits { store.commit().unwrap() } else { store.abort().unwrap() }
    };
    run(&mut store, 1, true, false);
    run(&mut store, 2, false, true);
    run(&mut store, 3, false, false);
    assert_eq!(store.log_bytes(), 0);
    run(&mut store, 4, true, true);
    let bytes = store.log_bytes();
    run(&mut store, 5, false, true);
    assert_eq!(store.log_bytes(), bytes);
    // Named, but never begun.
    name_command(&mut store, 0, &[6]).unwrap();
    name_command(&mut store, 0, &[7]).unwrap();
    assert_eq!(read(taken(&mut store).as_slice()), Ok(vec![Said::Command(0, vec![4])]));
    assert_eq!(taken(&mut store).as_slice(), b"");
}

#[test]
fn a_transaction_that_was_not_named_cannot_commit() {
    let mut store = store();
    name_command(&mut store, 0, b"x").unwrap();
    store.begin().unwrap();
    store.commit().unwrap();
    // The name was used up by the reader.
    store.begin().unwrap();
    insert(&mut store, 1);
    assert_eq!(store.commit(), Err(Error::NoCommand));
    store.abort().unwrap();
    assert_eq!((store.log_bytes(), store.check()), (0, vec![]));
    store.begin().unwrap();
    store.commit().unwrap();
}

#[test]
fn arguments_have_an_upper_limit_and_may_be_none() {
    let mut store = store();
    for bytes in [0, 1, ARGUMENTS_BYTES_MAX] {
        name_command(&mut store, PROCEDURES_MAX - 1, &vec![5; bytes]).unwrap();
        store.begin().unwrap();
        insert(&mut store, bytes as i64);
        store.commit().unwrap();
        let said = read(taken(&mut store).as_slice()).unwrap();
        assert_eq!(said, [Said::Command(PROCEDURES_MAX - 1, vec![5; bytes])]);
    }
    let refused = name_command(&mut store, 0, &vec![5; ARGUMENTS_BYTES_MAX + 1]);
    assert_eq!(refused, Err(Error::LogTooLong { bytes_max: ARGUMENTS_BYTES_MAX as u64 }));
    assert_eq!(ProcedureNumber::new(PROCEDURES_MAX), None);
}

/// A panic while arguments are encoded leaves nothing behind.
#[test]
fn an_encoder_may_panic() {
    let mut store = store();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.command(number(0), 100, |_| panic!("as asked")).unwrap();
    }));
    assert!(panicked.is_err());
    assert_eq!(taken(&mut store).as_slice(), b"");
}

#[test]
fn damaged_bytes_are_refused_or_say_something_else() {
    let mut random = Random::new(11);
    let mut store = store();
    store.define_procedure(number(9), 2, "transfer ä");
    store.create_table(TableDef { name: "other".into(), indexes: vec![], ..plain() }).unwrap();
    for n in 0..20 {
        let arguments: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        name_command(&mut store, random.below(1_024) as usize, &arguments).unwrap();
        store.begin().unwrap();
        insert(&mut store, n);
        store.commit().unwrap();
    }
    let buffer = taken(&mut store);
    let bytes = buffer.as_slice();
    let said = read(bytes).unwrap();
    assert_eq!(said.len(), 22);
    let mut ends = vec![0];
    for entry in &said {
        // A word of eight and two of four bytes stand before a table's definition.
        let behind = match entry {
            Said::Table(_) => 16 + definition::encode(&store.schema().tables[1]).len(),
            Said::Command(_, arguments) => arguments.len(),
            Said::Procedure(_, _, name) => 4 + name.len(),
        };
        ends.push(ends[ends.len() - 1] + 4 + behind);
    }
    for length in 0..bytes.len() {
        let whole = ends.iter().position(|&end| end == length);
        assert_eq!(read(&bytes[..length]).is_ok(), whole.is_some(), "{length} bytes");
        if let Some(whole) = whole {
            assert_eq!(read(&bytes[..length]).unwrap(), said[..whole]);
        }
    }
    for bit in 0..ends[1] * 8 {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(read(&changed), Ok(said.clone()), "bit {bit}");
    }
    for nothing in [&[0, 0, 0, 0][..], &[1, 0, 0, 0xc0, 0], &[4, 0, 0, 0x80, 1, 0, 0, 0]] {
        assert_eq!(read(nothing), Err(Malformed { at: 0 }));
    }
}
