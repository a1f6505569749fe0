//! Many rows loaded into their islands: each where its key is, those of a table on each island on all or none.

use std::path::Path;

use tombolo::{AtomicCommit, Database, Error, Islands, IslandsBuilder, LoadError, Order, Table};

use super::together::{LONG, until_one_ends};

/// A word by its text, which is the key of its island.
#[derive(Table, Clone, Debug, PartialEq)]
#[index(ByNumber(number))]
struct Word {
    number: u32,
    note: Option<String>,
    #[key]
    #[column(sql = Text)]
    text: String,
}

/// A number, which is the key of its island by ranges.
#[derive(Table, Clone, Debug, PartialEq)]
struct Number {
    #[key]
    id: i64,
    half: Option<i64>,
}

/// A rate, on each island.
#[derive(Table, Clone, Debug, PartialEq)]
struct Rate {
    #[key]
    id: u32,
    name: String,
}

/// Some are short, some longer than a batch of others.
fn word(number: u32) -> Word {
    let length = if number % 500 == 3 { 200_000 } else { number as usize % 90 };
    let note = (!number.is_multiple_of(5)).then(|| "n".repeat(length));
    Word { number, note, text: format!("word {number}") }
}

fn rate(id: u32) -> Rate {
    Rate { id, name: "r".repeat(id as usize % 300) }
}

const ISLANDS: usize = 3;

fn builder() -> IslandsBuilder {
    let builder = Database::builder().define::<Word>().define::<Number>().define::<Rate>();
    builder.set("log_segment_bytes", "1 MB").islands(ISLANDS).wait_max(LONG)
}

fn declared() -> IslandsBuilder {
    builder().spread_by(Word::TEXT).spread_by(Number::ID).everywhere::<Rate>()
}

/// The words of each island, by number.
fn words(db: &Islands) -> Vec<Vec<u32>> {
    let by_number = db.index::<ByNumber>().unwrap();
    let of_island = db.register_closure("words", move |tx, (): &()| {
        let rows = tx.iter(&by_number, .., Order::Forward)?.map(|(_, row)| row.read());
        Ok(rows.collect::<Vec<Word>>())
    });
    on_each(db, &of_island, |island, found: Vec<Word>| {
        for found in &found {
            assert_eq!(*found, word(found.number));
            assert_eq!(db.island_of(&found.text).unwrap(), island);
        }
        found.into_iter().map(|word| word.number).collect()
    })
}

/// The rates of each island.
fn rates(db: &Islands) -> Vec<Vec<Rate>> {
    let by_id = db.index::<RateKey>().unwrap();
    let of_island = db.register_closure("rates", move |tx, (): &()| {
        let rows = tx.iter(&by_id, .., Order::Forward)?.map(|(_, row)| row.read());
        Ok(rows.collect::<Vec<Rate>>())
    });
    on_each(db, &of_island, |_, found| found)
}

fn on_each<A: Send + 'static, B>(
    db: &Islands,
    procedure: &tombolo::OnIslands<(), A>,
    look: impl Fn(usize, A) -> B,
) -> Vec<B> {
    let mut across = db.across();
    let parts = across.everywhere(procedure, ());
    let mut answers = across.commit().unwrap();
    let answers = parts.into_iter().map(|part| answers.take(part));
    answers.enumerate().map(|(island, answer)| look(island, answer)).collect()
}

fn all(words: Vec<Vec<u32>>) -> Vec<u32> {
    let mut all = words.concat();
    all.sort_unstable();
    all
}

/// In memory, on disk, and again on disk by a program that declares nothing.
fn each(test: impl Fn(&Islands, u32)) {
    test(&declared().in_memory().unwrap(), 0);
    for commit in [AtomicCommit::TwoPhase, AtomicCommit::Ordered] {
        let place = tempfile::tempdir().unwrap();
        let open = |builder: IslandsBuilder, place: &Path| {
            builder.atomic_commit(commit).open(place).unwrap()
        };
        test(&open(declared(), place.path()), 0);
        let db = open(builder(), place.path());
        test(&db, 10_000);
        db.close().unwrap();
    }
}

#[test]
fn rows_are_loaded_where_their_keys_are() {
    each(|db, first| {
        let (table, before) = (db.table::<Word>().unwrap(), all(words(db)));
        assert_eq!(db.load(&table, []), Ok(0));
        assert_eq!(db.load(&table, (first..first + 4_000).map(word)), Ok(4_000));
        let there = words(db);
        assert!(there.iter().all(|island| island.len() > 1_000), "each has its share");
        assert_eq!(all(there), [before, (first..first + 4_000).collect()].concat());
    });
    let ranges = builder().ranges([100, 250]).spread_by(Number::ID).in_memory().unwrap();
    let number = |id: i64| Number { id, half: (id % 2 == 0).then_some(id / 2) };
    let table = ranges.table::<Number>().unwrap();
    assert_eq!(ranges.load(&table, (-50..400).map(number)), Ok(450));
    let by_id = ranges.index::<NumberKey>().unwrap();
    let count = ranges.register_closure("count", move |tx, (): &()| {
        let rows = tx.iter(&by_id, .., Order::Forward)?.map(|(_, row)| row.read());
        Ok(rows.filter(|found: &Number| *found == number(found.id)).count())
    });
    assert_eq!(on_each(&ranges, &count, |_, count| count), [150, 150, 150]);
}

#[test]
fn a_load_ends_with_the_first_row_that_is_refused() {
    each(|db, first| {
        let (table, before) = (db.table::<Word>().unwrap(), words(db).concat().len());
        let there = word(first + 7);
        assert_eq!(db.load(&table, [there.clone()]), Ok(1));
        let rows = (first + 100..first + 3_000).map(word).chain([there]);
        let rows = rows.chain((first + 3_000..first + 9_000).map(word));
        let LoadError { loaded, error } = db.load(&table, rows).unwrap_err();
        assert_eq!(error, Error::Duplicate { index: "word_key".to_owned() });
        let found = words(db);
        assert_eq!(found.concat().len() as u64, before as u64 + 1 + loaded);
        assert!(loaded < 8_900, "{loaded}");
        let island_of = |number| db.island_of(&word(number).text).unwrap();
        let refused_on = island_of(first + 7);
        for (island, found) in found.iter().enumerate() {
            let of_island =
                (first + 100..first + 9_000).filter(|number| island_of(*number) == island);
            let loaded = found.iter().copied().filter(|number| *number >= first + 100);
            let loaded: Vec<_> = loaded.collect();
            assert!(
                of_island.clone().take(loaded.len()).eq(loaded.iter().copied()),
                "the first ones"
            );
            // And of that with the refused row those in front of it, but for its batch of less than 500.
            let in_front = of_island.filter(|number| *number < first + 3_000).count();
            let is_first =
                island != refused_on || (in_front - 500..=in_front).contains(&loaded.len());
            assert!(is_first, "{} of {in_front}", loaded.len());
        }
        // A row that no log takes, and those in front of it.
        let large = Word { note: Some("n".repeat(3 << 20)), ..word(first + 50) };
        let LoadError { loaded, error } = db.load(&table, [word(first + 49), large]).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. } | Error::RefusedAt { .. }), "{error:?}");
        assert!(loaded <= 1 && !all(words(db)).contains(&(first + 50)));
    });
}

#[test]
fn a_table_on_each_island_is_loaded_on_all_or_on_none() {
    each(|db, first| {
        let (table, before) = (db.table::<Rate>().unwrap(), rates(db));
        assert!(before.iter().all(|island| *island == before[0]));
        assert_eq!(db.load(&table, (first..first + 2_000).map(rate)), Ok(2_000));
        let all = rates(db);
        let expected: Vec<_> = (first..first + 2_000).map(rate).collect();
        assert!(all.iter().all(|island| *island == [&*before[0], &expected].concat()));
        // The second batch is refused on the last island only, which has a row that the others lack.
        let lone = first + 3_000;
        let on_last = (0u32..).find(|key| db.island_of(key).unwrap() + 1 == ISLANDS).unwrap();
        let insert = move |tx: &mut tombolo::Tx<'_>| tx.insert_row(&table, &rate(lone)).map(drop);
        db.at(&on_last).unwrap().transaction(insert).unwrap();
        let rows = (first + 2_000..first + 5_000).map(rate);
        let LoadError { loaded, error } = db.load(&table, rows).unwrap_err();
        assert_eq!(error, Error::Duplicate { index: "rate_key".to_owned() });
        let (all, after) = (rates(db), all[0].len() + loaded as usize);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [after, after, after + 1]);
        assert!((1..1_100).contains(&loaded), "{loaded}");
        assert_eq!(all[0], all[1]);
        let by_id = db.index::<RateKey>().unwrap();
        let gone = move |tx: &mut tombolo::Tx<'_>| match tx.find_row(&by_id, lone)? {
            Some((row, _)) => tx.delete(&table, row),
            None => Ok(()),
        };
        db.at(&on_last).unwrap().transaction(gone).unwrap();
    });
}

#[test]
fn rows_without_an_island_are_refused_by_name() {
    let db = builder().in_memory().unwrap();
    let table = db.table::<Word>().unwrap();
    let LoadError { loaded, error } = db.load(&table, [word(1)]).unwrap_err();
    assert_eq!(loaded, 0);
    let says = error.to_string();
    assert!(says.contains("table word is spread") && says.contains("spread_by"), "{says}");
    // One island has them all.
    let one = Database::builder().define::<Word>().islands(1).in_memory().unwrap();
    let table = one.table::<Word>().unwrap();
    assert_eq!(one.load(&table, (0..1_000).map(word)), Ok(1_000));
    assert_eq!(words(&one), [(0..1_000).collect::<Vec<_>>()]);
    // A load waits for the database, so that a transaction cannot.
    let db = declared().in_memory().unwrap();
    let (words, rates) = (db.table::<Word>().unwrap(), db.table::<Rate>().unwrap());
    let nested = db.transaction(|_| Ok((db.load(&words, [word(1)]), db.load(&rates, [rate(1)]))));
    let refused = LoadError { loaded: 0, error: Error::Nested };
    assert_eq!(nested, Ok((Err(refused.clone()), Err(refused))));
}

/// Parts that scan the table hold it until they are decided: batches wait, and run again.
#[test]
fn a_load_goes_on_between_transactions_over_several_islands() {
    let place = tempfile::tempdir().unwrap();
    let queued = Database::builder().define::<Word>().set("log_segment_bytes", "1 MB");
    let queued = queued.set("pipeline_threads", "two").islands(ISLANDS).spread_by(Word::TEXT);
    let db = queued.wait_max(LONG).open(place.path()).unwrap();
    let table = db.table::<Word>().unwrap();
    let note = db.register_closure("note", move |tx, key: &String| {
        let count = tx.rows(&table)?.len() as u32;
        let note = Some(format!("{count}"));
        tx.insert_row(&table, &Word { number: u32::MAX, note, text: key.clone() }).map(drop)
    });
    let noted = until_one_ends([true, false], |loads, over| {
        if loads {
            assert_eq!(db.load(&table, (0..6_000).map(word)), Ok(6_000));
            return 0;
        }
        let mut noted = 0;
        while !over.is_set() || noted < 10 {
            let mut across = db.across();
            for island in 0..2 {
                let keys = (0..).map(|n| format!("note {noted} {island} {n}"));
                let key = { keys }.find(|key| db.island_of(key).unwrap() == island).unwrap();
                across.part(&note, &key, key.clone()).unwrap();
            }
            across.commit().unwrap();
            noted += 1;
        }
        noted
    })[1];
    let by_number = db.index::<ByNumber>().unwrap();
    let count = db.register_closure("count", move |tx, (): &()| {
        Ok(tx.iter(&by_number, .., Order::Forward)?.count())
    });
    let counted: usize = on_each(&db, &count, |_, count| count).into_iter().sum();
    assert_eq!(counted, 6_000 + 2 * noted);
}
