//! Tables of paged islands that are spread by a column, or are on each island.
//!
//! Not here: which columns may serve (`islands_spread.rs`).

use tombolo::{Database, Error, PagedIslands, PagedIslandsBuilder, PagedTx, StoreError, Table};

use super::islands_spread::{Insert, Post, PostKey, is_elsewhere, post};

/// A word on the island of its hash.
#[derive(Clone, Table)]
struct Word {
    #[key]
    text: String,
    rank: u32,
}

/// A rate, on each island.
#[derive(Clone, Debug, PartialEq, Table)]
struct Rate {
    #[key]
    currency: u32,
    rate: i64,
}

fn builder() -> PagedIslandsBuilder {
    let tables = Database::builder().define::<Post>().define::<Word>().define::<Rate>();
    tables.paged().pool_bytes(8 << 20).islands(2)
}

fn ranges() -> PagedIslandsBuilder {
    builder().ranges([100])
}

#[test]
fn a_row_of_a_paged_island_is_written_on_the_island_of_its_key_only() {
    let place = tempfile::tempdir().unwrap();
    let db = ranges().spread_by(Post::ACCOUNT).open(place.path()).unwrap();
    rows_are_refused_elsewhere(&db);
    db.close().unwrap();
    // What was recorded holds without the program's declaration.
    let db = ranges().open(place.path()).unwrap();
    rows_are_refused_elsewhere(&db);
    db.close().unwrap();
    let refused = ranges().spread_by(Post::NUMBER).open(place.path()).unwrap_err();
    assert!(refused.to_string().contains("is spread by account, not by number"), "{refused}");
}

fn rows_are_refused_elsewhere(db: &PagedIslands) {
    let (posts, by_key) = (db.table::<Post>().unwrap(), db.index::<PostKey>().unwrap());
    let put = |at: i64, account: i64| {
        let put = |tx: &mut PagedTx<'_>| tx.upsert_row(&by_key, &post(account)).map(drop);
        db.at(&at)?.transaction(put)
    };
    put(7, 7).unwrap();
    put(200, 200).unwrap();
    is_elsewhere(put(7, 200));
    is_elsewhere(put(200, 99));
    // A procedure that calls the store itself.
    let insert = db.procedure::<Insert>().unwrap();
    let call = |account: i64| db.at(&7i64)?.transaction(|tx| tx.run(&insert, &account));
    call(70).unwrap();
    is_elsewhere(call(100));
    // Over both islands: on both, or on none.
    let both = |first: i64, last: i64| {
        db.transaction(|tx| {
            tx.at(&7i64, |tx| tx.upsert_row(&by_key, &post(first)).map(drop))?;
            tx.at(&200i64, |tx| tx.upsert_row(&by_key, &post(last)).map(drop))
        })
    };
    both(8, 201).unwrap();
    is_elsewhere(both(9, 9));
    is_elsewhere(both(202, 202));
    // The column is changed: within the island, or not at all.
    let change = |from: i64, to: i64| {
        db.at(&from)?.transaction(|tx| {
            let (row, _) = tx.find_row(&by_key, (from, 1))?.unwrap();
            tx.update_row(&posts, row, &post(to))
        })
    };
    change(8, 10).unwrap();
    is_elsewhere(change(10, 203));
    // A row that is made and removed, or undone, leaves nothing.
    let undone = db.at(&7i64).unwrap().transaction(|tx| {
        let (row, _) = tx.upsert_row(&by_key, &post(999))?;
        tx.delete(&posts, row)?;
        let part = tx.savepoint(|tx| {
            tx.upsert_row(&by_key, &post(998))?;
            Err::<(), _>(tombolo::Stop::Abort("not this"))
        });
        assert!(part.is_err());
        Ok(())
    });
    undone.unwrap();
    let clear = |tx: &mut PagedTx<'_>| {
        let rows = tx.rows(&posts)?;
        let count = rows.len();
        rows.into_iter().try_for_each(|row| tx.delete(&posts, row)).map(|()| count)
    };
    assert_eq!(db.transaction(|tx| tx.everywhere(clear)).unwrap(), [3, 2]);
}

/// Its key is a text, which is set after the row was made.
#[test]
fn a_text_is_on_the_island_of_its_hash() {
    let place = tempfile::tempdir().unwrap();
    let db = builder().spread_by(Word::TEXT).open(place.path()).unwrap();
    let words = db.table::<Word>().unwrap();
    let text = |n: u32| format!("word {n}");
    let rows = (0..200).map(|rank| Word { text: text(rank), rank });
    assert_eq!(db.load(&words, rows.clone(), |word| word.text.clone()).unwrap(), 200);
    let insert = |at: &str, word: Word| db.at(at)?.transaction(|tx| tx.insert_row(&words, &word));
    let elsewhere = |rank: &u32| {
        let inserted = insert(&text(*rank), Word { text: text(rank + 1_000), rank: *rank });
        matches!(inserted, Err(Error::RefusedAt { error: StoreError::Elsewhere { .. }, .. }))
    };
    let refused = (0..100).filter(elsewhere).count();
    assert!((20..80).contains(&refused), "one of two keys is elsewhere: {refused}");
    // Rows of a load that says another key.
    assert!(db.load(&words, rows.map(|word| Word { rank: 0, ..word }), |_| 0u32).is_err());
}

#[test]
fn a_table_on_each_island_is_loaded_and_changed_on_all() {
    let place = tempfile::tempdir().unwrap();
    let db = builder().everywhere::<Rate>().open(place.path()).unwrap();
    let (rates, by_currency) = (db.table::<Rate>().unwrap(), db.index::<RateKey>().unwrap());
    let rate = |currency: u32| Rate { currency, rate: i64::from(currency) * 3 };
    assert_eq!(db.load(&rates, (0..5_000).map(rate), |rate| rate.currency).unwrap(), 5_000);
    let set = |cents: i64, fails: bool| {
        db.transaction(|tx| {
            tx.everywhere(|tx| {
                tx.upsert_row(&by_currency, &Rate { currency: 978, rate: cents }).map(drop)
            })?;
            if fails { Err(tombolo::Stop::Abort("not now")) } else { Ok(()) }
        })
    };
    set(1_080, false).unwrap();
    assert_eq!(set(1_090, true), Err(Error::Aborted("not now")));
    let read = |tx: &mut PagedTx<'_>| {
        let euro = tx.find_row(&by_currency, 978)?.map(|(_, rate)| rate.rate);
        Ok((tx.rows(&rates)?.len(), euro))
    };
    let all = db.read(|tx| tx.everywhere(read)).unwrap();
    assert_eq!(all, [(5_000, Some(1_080)); 2]);
    // A row that exists already ends the load on both.
    let again = db.load(&rates, [rate(6_000), rate(17)], |rate| rate.currency).unwrap_err();
    assert_eq!(again.loaded, 0);
    assert_eq!(db.read(|tx| tx.everywhere(read)).unwrap(), all);
}

#[test]
fn rows_of_paged_islands_that_are_elsewhere_already_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let db = ranges().open(place.path()).unwrap();
    let by_key = db.index::<PostKey>().unwrap();
    for account in [1, 2, 3, 100] {
        let put = |tx: &mut PagedTx<'_>| tx.upsert_row(&by_key, &post(account)).map(drop);
        db.at(&100i64).unwrap().transaction(put).unwrap();
    }
    db.close().unwrap();
    let refused = ranges().spread_by(Post::ACCOUNT).open(place.path()).unwrap_err();
    let says = "3 rows of table post on island 1 have keys of other islands";
    assert!(refused.to_string().contains(says), "{refused}");
    ranges().open(place.path()).unwrap().close().unwrap();
}
