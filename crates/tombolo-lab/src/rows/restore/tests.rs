//! What is dumped comes back, what is not a row is refused by line.

use super::*;

use std::borrow::Cow;

use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Memory;
use tombolo_storage::schema::{IndexDef, IndexKind, TableDef};

use crate::rows::{dump, state_hash};

/// Gives these rows, one after the other.
fn rows(lines: &[&'static str]) -> impl FnMut(&str, &mut String) -> Result<bool, String> {
    let mut lines = lines.iter().copied();
    move |_, line| {
        line.clear();
        let next = lines.next();
        line.push_str(next.unwrap_or_default());
        Ok(next.is_some())
    }
}

fn column(name: &'static str, sql: SqlType, nullable: bool) -> ColumnDef {
    ColumnDef {
        name: Cow::Borrowed(name),
        sql,
        nullable,
        range: None,
        hot: false,
        added: false,
        default: None,
    }
}

fn store() -> MemoryStore<Memory> {
    let mut store = MemoryStore::new(Limits::default());
    let columns = vec![
        column("id", SqlType::Integer, false),
        column("name", SqlType::Varchar(20), false),
        column("price", SqlType::Decimal { precision: 6, scale: 2 }, true),
        column("at", SqlType::Timestamp, true),
        column("open", SqlType::Boolean, true),
    ];
    let index = IndexDef {
        name: Cow::Borrowed("thing_pk"),
        columns: vec![0],
        unique: true,
        kind: IndexKind::Tree,
    };
    let table = TableDef { name: Cow::Borrowed("thing"), columns, indexes: vec![index] };
    store.create_table(table).unwrap();
    store
}

#[test]
fn what_is_restored_dumps_to_the_same_text() {
    let lines = vec![
        "1\ta\\tb\\\\c\t-0.05\t2000-02-29 23:59:59.001\tt",
        "-2\t\t\\N\t1999-12-31 00:00:00\t\\N",
        "2147483647\tBARBARBAR\t9999.99\t2100-03-01 12:00:00.123456\tf",
    ];
    let mut store = store();
    restore(&mut store, &mut rows(&lines)).unwrap();
    assert_eq!(store.check(), []);
    let (send, written) = std::sync::mpsc::channel();
    struct Sink(std::sync::mpsc::Sender<Vec<u8>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let sent = self.0.send(bytes.to_vec());
            sent.map(|()| bytes.len()).map_err(std::io::Error::other)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let hash = dump(&mut store, |_| Ok(Sink(send.clone()))).unwrap();
    drop(send);
    let text = String::from_utf8(written.iter().flatten().collect()).unwrap();
    let mut dumped: Vec<_> = text.lines().collect();
    let mut expected = lines;
    dumped.sort_unstable();
    expected.sort_unstable();
    assert_eq!(dumped, expected);
    assert_eq!(hash, state_hash(&mut store).unwrap());
}

#[test]
fn a_line_that_is_no_row_is_named() {
    let refused = |line: &'static str, expect: &str| {
        let good = "1\ta\t1.00\t\\N\tt";
        let error = restore(&mut store(), &mut rows(&[good, line])).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("thing.copy line 2: "), "{message}");
        assert!(message.contains(expect), "{line:?}: {message}");
    };
    refused("2\ta\t1.00\t\\N", "4 columns instead of 5");
    refused("2\ta\t1.00\t\\N\tt\t", "more than 5 columns");
    refused("2\ta\t1.0\t\\N\tt", "\"1.0\" is no Decimal");
    refused("2\ta\t1.00\tnever\tt", "column at");
    refused("2\ta\t1.00\t2001-02-29 00:00:00\tt", "column at");
    refused("2\ta\t1.00\t2001-02-28 00:00:00.10\tt", "column at");
    refused("+2\ta\t1.00\t\\N\tt", "column id");
    refused("\\N\ta\t1.00\t\\N\tt", "column id");
    refused("3000000000\ta\t1.00\t\\N\tt", "column id");
    refused("2\ta name longer than it may be\t1.00\t\\N\tt", "column name");
    refused("2\ta\\q\t1.00\t\\N\tt", "column name");
    refused("1\tb\t1.00\t\\N\tt", "a row with the same key");
    refused("", "\"\" is no Integer of column id");
}
