//! Another number of islands for a directory: every row is where its key is then, whatever ended the call before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tombolo::{Database, Error, Islands, IslandsBuilder, Order, Outcome, Table, Tx};

/// An account, on the island of its owner.
#[derive(Clone, Debug, PartialEq, Table)]
#[index(ByCents(cents))]
struct Account {
    #[key]
    owner: String,
    #[key]
    id: i64,
    cents: i64,
    note: Option<String>,
}

/// A rate, on each island.
#[derive(Clone, Debug, PartialEq, Table)]
struct Rate {
    #[key]
    id: i64,
    percent: f64,
}

/// A table of which nothing says how it is spread.
#[derive(Table)]
struct Stray {
    #[key]
    id: i64,
}

fn tables(islands: usize) -> IslandsBuilder {
    let tables = Database::builder().define::<Account>().define::<Rate>().define::<Stray>();
    tables.set("log_segment_bytes", "1 MB").islands(islands)
}

fn builder(islands: usize) -> IslandsBuilder {
    tables(islands).spread_by(Account::OWNER).everywhere::<Rate>()
}

const ACCOUNTS: i64 = 3_000;
const RATES: i64 = 20;

fn account(id: i64) -> Account {
    let note = (id % 3 == 0).then(|| "Straße ".repeat(id as usize % 90));
    Account { owner: format!("owner {}", id % 400), id, cents: id * 7 % 1_000, note }
}

fn fill(db: &Islands) {
    let (accounts, rates) = (db.table::<Account>().unwrap(), db.table::<Rate>().unwrap());
    let add = db.register_closure("add", move |tx, id: &i64| {
        tx.insert_row(&accounts, &account(*id)).map(drop)
    });
    for id in 0..ACCOUNTS {
        let on = add.at(&account(id).owner).unwrap();
        let added = if id < 50 { on.once(id as u128 + 1).submit(id) } else { on.submit(id) };
        drop(added.unwrap());
    }
    let rate = db.register_closure("rate", move |tx, (): &()| {
        (0..RATES).try_for_each(|id| {
            tx.insert_row(&rates, &Rate { id, percent: id as f64 / 3.0 }).map(drop)
        })
    });
    let mut across = db.across();
    across.everywhere(&rate, ());
    across.commit().unwrap();
}

/// Every account is found at its key, and there is no other one; each island has all rates.
fn verify(db: &Islands) {
    let (accounts, rates) = (db.table::<Account>().unwrap(), db.table::<Rate>().unwrap());
    let by_key = db.index::<AccountKey>().unwrap();
    let by_cents = db.index::<ByCents>().unwrap();
    for id in 0..ACCOUNTS {
        let expected = account(id);
        let found = db.at(&expected.owner).unwrap().transaction(move |tx| {
            Ok(tx.find_row(&by_key, (&*account(id).owner, id))?.map(|(_, row)| row))
        });
        assert_eq!(found, Ok(Some(expected)));
    }
    let count = db.register_closure("count", move |tx, (): &()| {
        let mut sum = 0;
        for row in tx.rows(&rates)? {
            sum += tx.get(&rates, row)?.get(Rate::ID);
        }
        let by_cents = tx.range(&by_cents, .., Order::Forward)?.len();
        Ok((tx.rows(&accounts)?.len(), by_cents, tx.rows(&rates)?.len(), sum))
    });
    let mut across = db.across();
    let parts = across.everywhere(&count, ());
    let mut answers = across.commit().unwrap();
    let mut all = (0, 0);
    for part in parts {
        let (accounts, by_cents, rates, sum) = answers.take(part);
        all = (all.0 + accounts, all.1 + by_cents);
        assert_eq!((rates, sum), (RATES as usize, RATES * (RATES - 1) / 2));
    }
    assert_eq!(all, (ACCOUNTS as usize, ACCOUNTS as usize));
    let again = db.register_closure("again", |_, (): &()| Ok(()));
    for id in 0..50 {
        let repeated = again.at(&account(id).owner).unwrap().once(id as u128 + 1).call(());
        assert_eq!(repeated, Err(Error::Repeated(Outcome::Committed)));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &place),
            false => _ = fs::copy(entry.path(), place).unwrap(),
        }
    }
}

#[test]
fn rows_go_to_the_islands_of_their_keys() {
    let place = tempfile::tempdir().unwrap();
    let db = builder(3).open(place.path()).unwrap();
    fill(&db);
    verify(&db);
    db.close().unwrap();
    let mut before = 3;
    for islands in [5, 1, 2] {
        let mut seen = Vec::new();
        let made =
            tables(islands).repartition(place.path(), &mut |done, all| seen.push((done, all)));
        let made = made.unwrap();
        assert_eq!(made.before, before);
        assert_eq!(made.rows as i64, ACCOUNTS + (RATES + 50) * islands as i64);
        assert!(seen.is_sorted() && seen.len() > 5, "{seen:?}");
        let names: BTreeMap<_, _> = fs::read_dir(place.path())
            .unwrap()
            .map(|one| {
                let one = one.unwrap();
                (one.file_name(), one.file_type().unwrap().is_dir())
            })
            .collect();
        assert_eq!(names.len(), islands, "{names:?}");
        // The declarations are kept.
        let refused = tables(before).open(place.path()).unwrap_err().to_string();
        assert!(refused.contains("tombolo repartition"), "{refused}");
        let db = tables(islands).open(place.path()).unwrap();
        verify(&db);
        db.close().unwrap();
        before = islands;
    }
}

#[test]
fn a_call_that_did_not_end_is_repeated() {
    let place = tempfile::tempdir().unwrap();
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    let db = builder(2).open(&old).unwrap();
    fill(&db);
    db.close().unwrap();
    copy(&old, &new);
    builder(3).repartition(&new, &mut |_, _| ()).unwrap();
    // What a crash leaves after so many of its steps.
    let rename = |from: &Path, to: &Path| fs::rename(from, to).unwrap();
    for step in 0..=10 {
        let shop = place.path().join(format!("shop {step}"));
        copy(&old, &shop);
        let made = shop.join("repartition");
        fs::create_dir(&made).unwrap();
        if step == 0 {
            copy(&new.join("island-0"), &made.join("island-0"));
        } else {
            copy(&new, &made);
            fs::write(made.join("complete"), "").unwrap();
        }
        if step >= 2 {
            fs::create_dir(made.join("before")).unwrap();
        }
        for island in 0..2 {
            if step >= 3 + island {
                let name = format!("island-{island}");
                rename(&shop.join(&name), &made.join("before").join(&name));
            }
        }
        if step >= 5 {
            fs::write(made.join("moved"), "").unwrap();
        }
        for island in 0..3 {
            if step >= 6 + island {
                // In any order.
                let name = format!("island-{}", 2 - island);
                rename(&made.join(&name), &shop.join(&name));
            }
        }
        if step >= 9 {
            fs::remove_dir_all(made.join("before")).unwrap();
        }
        if step == 0 {
            let db = tables(2).open(&shop).unwrap();
            verify(&db);
            db.close().unwrap();
        } else if step < 10 {
            for refused in [
                tables(2).open(&shop).map(drop),
                tables(3).open(&shop).map(drop),
                Database::open(&shop).map(drop),
            ] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("did not come to its end"), "step {step}: {refused}");
            }
        } else {
            fs::remove_file(made.join("complete")).unwrap();
        }
        let before = [2, 3][usize::from(step == 10)];
        let made = tables(3).repartition(&shop, &mut |_, _| ()).unwrap();
        assert_eq!(made.before, if (1..10).contains(&step) { 0 } else { before });
        let db = tables(3).open(&shop).unwrap();
        verify(&db);
        db.close().unwrap();
        fs::remove_dir_all(&shop).unwrap();
    }
}

#[test]
fn what_cannot_be_repartitioned_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let shop = place.path().join("shop");
    let says = |builder: IslandsBuilder, directory: &Path, what: &str| {
        let text = builder.repartition(directory, &mut |_, _| ()).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    says(tables(2), &place.path().join("nothing"), "is no directory");
    Database::open(place.path().join("lone")).unwrap().close().unwrap();
    says(tables(2), &place.path().join("lone"), "holds no database of islands");
    let db = builder(2).open(&shop).unwrap();
    fill(&db);
    let strays = db.table::<Stray>().unwrap();
    let insert = move |tx: &mut Tx<'_>| tx.insert_row(&strays, &Stray { id: 5 }).map(drop);
    db.at("any").unwrap().transaction(insert).unwrap();
    let open = tables(3).repartition(&shop, &mut |_, _| ()).unwrap_err();
    assert!(matches!(open, Error::InUse { .. }), "{open}");
    db.close().unwrap();
    says(tables(3), &shop, "nothing says how table stray is spread");
    says(tables(0), &shop, "give 1 to");
    says(
        tables(3).ranges([1, 2]).spread_by(Stray::ID),
        &shop,
        "account.owner is no key of islands",
    );
    let archive = Database::builder().log_archive(place.path()).islands(3);
    says(archive, &shop, "no log_archive");
    let db = tables(2).open(&shop).unwrap();
    verify(&db);
    db.close().unwrap();
    let made = tables(3).spread_by(Stray::ID).repartition(&shop, &mut |_, _| ()).unwrap();
    assert_eq!(made.before, 2);
    verify(&tables(3).open(&shop).unwrap());
}
