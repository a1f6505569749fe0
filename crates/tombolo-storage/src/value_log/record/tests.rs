//! What is written is read; what is aborted is not; nothing that is cut or changed makes a panic.

use super::*;

fn all(buffer: &LogBuffer) -> Vec<Vec<Record<'_>>> {
    let transactions = Transactions::new(buffer.as_slice());
    transactions.map(|records| records.unwrap().map(Result::unwrap).collect()).collect()
}

#[test]
fn records_of_every_form_come_back() {
    let mut writer = RecordWriter::default();
    let long = vec![7; 40_000];
    let updates: &[(u32, u32, usize, &[u8])] = &[
        (0, 0, 0, b"a"),
        (255, u32::MAX, 4_095, &long[..1_023]),
        (256, 1, 0, b"table"),
        (0, 1, 4_096, b"offset"),
        (0, 1, 0, &long[..1_024]),
        (1, 2, 3, b""),
    ];
    for &(table, row, offset, bytes) in updates {
        writer.updated(table, row, offset, bytes);
    }
    writer.commit();
    writer.inserted(3, 4, &long);
    writer.deleted(TABLE_LIMIT - 1, 5);
    writer.deleted(9, 6);
    writer.value_set(1, 2, 8, &long);
    let changes = SCHEMA_CHANGES.into_iter().zip(0..).map(|(kind, at)| SchemaRecord {
        number: (at % 3 > 0).then_some(at * 70_000),
        kind,
        table: at * 300,
        position: (at % 2 > 0).then_some(at * 1_000),
        bytes: &long[..at as usize],
    });
    let changes: Vec<_> = changes.collect();
    changes.iter().for_each(|change| writer.schema_changed(change));
    writer.commit();
    let mut buffer = LogBuffer::new();
    writer.take(&mut buffer);
    let found = all(&buffer);
    assert_eq!((found.len(), buffer.transactions()), (2, 2));
    let expected: Vec<_> = updates
        .iter()
        .map(|&(table, row, offset, bytes)| Record::Updated { table, row, offset, bytes })
        .collect();
    assert_eq!(found[0], expected);
    let rows = [
        Record::Inserted { table: 3, row: 4, fixed: &long },
        Record::Deleted { table: TABLE_LIMIT - 1, row: 5 },
        Record::Deleted { table: 9, row: 6 },
        Record::ValueSet { table: 1, row: 2, offset: 8, value: &long },
    ];
    let expected: Vec<_> =
        rows.into_iter().chain(changes.into_iter().map(Record::Schema)).collect();
    assert_eq!(found[1], expected);
}

/// Three updates of eight bytes: what debit-credit does, whose records are to take at most 120.
#[test]
fn a_short_record_takes_eight_bytes_beside_its_own() {
    let mut writer = RecordWriter::default();
    for table in 0..3 {
        writer.updated(table, 17, 16, &[0; 8]);
    }
    writer.commit();
    assert_eq!(writer.ended_bytes(), LENGTH_BYTES + 3 * (8 + 8));
}

#[test]
fn what_is_aborted_or_only_read_leaves_nothing() {
    let mut writer = RecordWriter::default();
    let mut buffer = LogBuffer::new();
    writer.commit();
    writer.updated(0, 1, 0, &[1; 100_000]);
    writer.abort();
    writer.commit();
    writer.take(&mut buffer);
    assert!(buffer.is_empty() && buffer.transactions() == 0);
    writer.deleted(1, 1);
    writer.commit();
    writer.deleted(1, 2);
    writer.abort();
    writer.deleted(1, 3);
    writer.commit();
    writer.take(&mut buffer);
    let deleted = |row| vec![Record::Deleted { table: 1, row }];
    assert_eq!(all(&buffer), [deleted(1), deleted(3)]);
    buffer.clear();
    writer.take(&mut buffer);
    assert!(all(&buffer).is_empty(), "what was taken came back");
}

#[test]
fn the_bytes_are_those_the_format_states() {
    let mut writer = RecordWriter::default();
    writer.updated(2, 0x0102_0304, 5, b"ab");
    writer.value_set(3, 9, 16, b"c");
    writer.commit();
    let mut buffer = LogBuffer::new();
    writer.take(&mut buffer);
    let expected: &[&[u8]] = &[
        &[27, 0, 0, 0],
        &[2 << 2, 5 << 4, 0, 2, 4, 3, 2, 1],
        b"ab",
        &[3 | 3 << 2, 3, 0, 0, 9, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0],
        b"c",
    ];
    assert_eq!(buffer.as_slice(), expected.concat());
}

#[test]
fn cut_and_changed_records_are_refused_or_read_but_never_panic() {
    let mut writer = RecordWriter::default();
    writer.updated(0, 1, 2, b"abc");
    writer.value_set(0, 1, 8, b"text");
    writer.commit();
    writer.deleted(0, 1);
    writer.commit();
    let mut buffer = LogBuffer::new();
    writer.take(&mut buffer);
    let whole = buffer.as_slice();
    let boundaries = [0, whole.len() - LENGTH_BYTES - 8, whole.len()];
    for length in 0..=whole.len() {
        let cut = Transactions::new(&whole[..length]);
        let refused = cut.map(|records| records.and_then(|mut r| r.try_for_each(|r| r.map(drop))));
        assert_eq!(refused.clone().all(|r| r.is_ok()), boundaries.contains(&length), "{length}");
    }
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        for records in Transactions::new(&changed).flatten() {
            assert!(records.count() <= changed.len());
        }
    }
}
