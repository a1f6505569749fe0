//! Many rows into paged databases and their islands: in the order they come, up to the first that is refused.

use tombolo::{Database, Error, LoadError, Order, PagedBuilder, PagedDatabase, Range, StoreError};

use super::loads::{Word, WordKey, load_up_to_a_duplicate};

/// The longest fill most of a page.
fn word(id: u32) -> Word {
    Word::of(id, 7_000)
}

fn paged() -> PagedBuilder {
    Database::builder().define::<Word>().paged().pool_bytes(4 << 20)
}

fn ids(db: &PagedDatabase) -> Vec<u32> {
    let (words, by_id) = (db.table::<Word>().unwrap(), db.index::<WordKey>().unwrap());
    let ids = db.read(|tx| {
        let mut ids = Vec::new();
        for row in tx.range(&by_id, Range::all(), Order::Forward)? {
            let found = tx.read_row(&words, row)?;
            assert_eq!(found, word(found.id));
            ids.push(found.id);
        }
        Ok(ids)
    });
    ids.unwrap()
}

#[test]
fn rows_are_loaded_up_to_the_first_that_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let db = paged().open(place.path()).unwrap();
    load_up_to_a_duplicate!(db, word, ids);
    let words = db.table::<Word>().unwrap();
    // A row that no page holds, and what came before it.
    let large = Word { id: 100_000, text: Some("w".repeat(9_000)) };
    let LoadError { loaded, error } = db.load(&words, [word(50_000), large]).unwrap_err();
    assert!(matches!(error, Error::Refused(StoreError::RowTooLong { .. })), "{error:?}");
    assert_eq!(loaded, 0, "both were one batch");
    let nested = db.transaction(|_| Ok(db.load(&words, [word(1)])));
    assert_eq!(nested, Ok(Err(LoadError { loaded: 0, error: Error::Nested })));
    // Commits of calls wait again.
    let before = db.statistics().flushes;
    db.transaction(|tx| tx.insert_row(&words, &word(60_000))).unwrap();
    assert_eq!(db.statistics().flushes, before + 1);
    let there = ids(&db);
    db.close().unwrap();
    assert_eq!(ids(&paged().open(place.path()).unwrap()), there);
}

/// When a load returns its rows are durable; the directory is copied as it is then.
#[test]
fn what_was_loaded_survives_a_crash() {
    let place = tempfile::tempdir().unwrap();
    let [own, left] = ["own", "left"].map(|name| place.path().join(name));
    let db = paged().sessions_max(1).open(&own).unwrap();
    let words = db.table::<Word>().unwrap();
    assert_eq!(db.load(&words, (0..3_000).map(word)), Ok(3_000));
    std::fs::create_dir(&left).unwrap();
    for file in std::fs::read_dir(&own).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), left.join(file.file_name())).unwrap();
    }
    let found = paged().open(&left).unwrap();
    assert!(found.restart().is_some());
    assert_eq!(ids(&found).len(), 3_000);
}

#[test]
fn rows_are_loaded_where_their_keys_are() {
    let place = tempfile::tempdir().unwrap();
    let db = paged().pool_bytes(8 << 20).islands(3).open(place.path()).unwrap();
    let words = db.table::<Word>().unwrap();
    assert_eq!(db.load(&words, (0..9_000).map(word), |row| row.id), Ok(9_000));
    let keys = |island: usize| {
        let of = |key: &u32| db.island_of(key).unwrap() == island;
        (0u32..9_000).filter(of).collect::<Vec<_>>()
    };
    for island in 0..3 {
        assert!(keys(island).len() > 2_000);
        assert_eq!(ids(db.at(&keys(island)[0]).unwrap()), keys(island));
    }
    // A row that is there ends the load.
    let rows = (9_000..12_000).chain([5]).chain(12_000..30_000).map(word);
    let LoadError { loaded, error } = db.load(&words, rows, |row| row.id).unwrap_err();
    assert_eq!(error, Error::Duplicate { index: "word_key".to_owned() });
    assert!((1_000..13_000).contains(&loaded), "{loaded}");
    let there = |island: usize| ids(db.at(&keys(island)[0]).unwrap()).len() as u64;
    assert_eq!((0..3).map(there).sum::<u64>(), 9_000 + loaded);
    db.close().unwrap();
    // A key that is on no island, too.
    let place = tempfile::tempdir().unwrap();
    let db = paged().islands(2).ranges([100]).open(place.path()).unwrap();
    let words = db.table::<Word>().unwrap();
    let name = |row: &Word| row.text.clone().unwrap_or_default();
    let LoadError { loaded, error } = db.load(&words, [word(1)], name).unwrap_err();
    assert!(loaded == 0 && matches!(error, Error::Schema(_)), "{error:?}");
    assert_eq!(db.load(&words, (50..150).map(word), |row| row.id), Ok(100));
    assert_eq!(ids(db.at(&0u32).unwrap()), (50..100).collect::<Vec<_>>());
}
