//! Another number of islands for a directory of paged stores: every row is where its key is then.
//!
//! Not here: what a crash leaves of the exchange (`islands_repartition.rs`), which is the same.

use std::fs;
use std::path::Path;

use tombolo::{Database, Error, PagedIslands, PagedIslandsBuilder, Table};
use tombolo_engine::rng::Rng;

/// On the island of its shop.
#[derive(Clone, Debug, PartialEq, Table)]
#[index(ByCents(cents))]
struct Order {
    #[key]
    shop: i64,
    #[key]
    number: u32,
    cents: i64,
    note: Option<String>,
}

/// On each island.
#[derive(Clone, Debug, PartialEq, Table)]
struct Rate {
    #[key]
    id: u32,
    percent: f64,
}

/// A table of which nothing says how it is spread.
#[derive(Table)]
struct Stray {
    #[key]
    id: u32,
}

fn tables(islands: usize) -> PagedIslandsBuilder {
    let tables = Database::builder().define::<Order>().define::<Rate>().define::<Stray>();
    // As few pages as there may be: rows are read from the disk.
    tables.paged().pool_bytes(12 << 20).islands(islands)
}

fn builder(islands: usize) -> PagedIslandsBuilder {
    tables(islands).spread_by(Order::SHOP).everywhere::<Rate>()
}

const SHOPS: i64 = 60;
const RATES: u32 = 20;

/// Rows of every length, among them some that need pages of their own.
fn orders(random: &mut Rng) -> Vec<Order> {
    let numbers = (0..SHOPS).flat_map(|shop| (0..100).map(move |number| (shop, number)));
    let order = |(shop, number)| {
        let letters = [0, 10, 400, 3_000][random.below(4) as usize];
        let note = (letters > 0).then(|| "ß".repeat(letters));
        Order { shop, number, cents: random.below(1_000) as i64, note }
    };
    numbers.map(order).collect()
}

fn rate(id: u32) -> Rate {
    Rate { id, percent: f64::from(id) / 3.0 }
}

fn fill(db: &PagedIslands, orders: &[Order]) {
    let rows = orders.iter().cloned();
    let loaded = db.load(&db.table::<Order>().unwrap(), rows, |order| order.shop);
    assert_eq!(loaded, Ok(orders.len() as u64));
    let rates = (0..RATES).map(rate);
    db.load(&db.table::<Rate>().unwrap(), rates, |rate| rate.id).unwrap();
}

/// Every order is found at its key, and there is no other one; each island has all rates.
fn verify(directory: &Path, islands: usize, orders: &[Order]) {
    // The declarations are kept.
    let db = tables(islands).open(directory).unwrap();
    let (by_key, by_cents) = (db.index::<OrderKey>().unwrap(), db.index::<ByCents>().unwrap());
    let (of_orders, rates) = (db.table::<Order>().unwrap(), db.table::<Rate>().unwrap());
    for order in orders {
        let found = db.at(&order.shop).unwrap().transaction(|tx| {
            Ok(tx.find_row(&by_key, (order.shop, order.number))?.map(|(_, row)| row))
        });
        assert_eq!(found.unwrap().as_ref(), Some(order));
    }
    let mut all = 0;
    for island in 0..islands {
        let shop = (0..SHOPS).find(|shop| db.island_of(shop).unwrap() == island).unwrap();
        let counted = db.at(&shop).unwrap().transaction(|tx| {
            let mut found = Vec::new();
            for row in tx.rows(&rates)? {
                found.push(tx.read_row(&rates, row)?);
            }
            found.sort_by_key(|rate| rate.id);
            assert!(found.into_iter().eq((0..RATES).map(rate)));
            let by_cents = tx.range(&by_cents, .., tombolo::Order::Forward)?.len();
            assert_eq!(tx.rows(&of_orders)?.len(), by_cents);
            Ok(by_cents)
        });
        all += counted.unwrap();
    }
    assert_eq!(all, orders.len());
    db.close().unwrap();
}

#[test]
fn rows_go_to_the_islands_of_their_keys() {
    let place = tempfile::tempdir().unwrap();
    let orders = orders(&mut Rng::from_seed(7));
    let db = builder(3).open(place.path()).unwrap();
    fill(&db, &orders);
    db.close().unwrap();
    let mut before = 3;
    for islands in [5, 1, 2] {
        // What an attempt left that did not come to its end.
        fs::create_dir_all(place.path().join("repartition").join("island-0")).unwrap();
        let mut seen = Vec::new();
        let made =
            tables(islands).repartition(place.path(), &mut |done, all| seen.push((done, all)));
        let made = made.unwrap();
        assert_eq!(made.before, before);
        assert_eq!(made.rows, orders.len() as u64 + u64::from(RATES) * islands as u64);
        assert!(seen.is_sorted() && seen.len() > 5, "{seen:?}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), islands);
        let refused = tables(before).open(place.path()).unwrap_err().to_string();
        assert!(refused.contains("tombolo repartition"), "{refused}");
        verify(place.path(), islands, &orders);
        before = islands;
    }
    // By ranges, and by a hash again.
    let ranges = tables(2).ranges([SHOPS / 2]).repartition(place.path(), &mut |_, _| ());
    assert_eq!(ranges.unwrap().before, 2);
    let refused = tables(2).open(place.path()).unwrap_err().to_string();
    assert!(refused.contains("spreads keys by ranges"), "{refused}");
    tables(3).repartition(place.path(), &mut |_, _| ()).unwrap();
    verify(place.path(), 3, &orders);
}

#[test]
fn what_cannot_be_repartitioned_is_reported_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let shop = place.path().join("shop");
    let says = |builder: PagedIslandsBuilder, directory: &Path, what: &str| {
        let text = builder.repartition(directory, &mut |_, _| ()).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
        assert!(!directory.join("repartition").exists(), "{what}");
    };
    says(tables(2), &place.path().join("nothing"), "holds no paged database of islands");
    let memory = place.path().join("memory");
    Database::builder().islands(2).open(&memory).unwrap().close().unwrap();
    says(tables(2), &memory, "holds no paged database of islands");
    let orders = orders(&mut Rng::from_seed(8));
    let db = builder(2).open(&shop).unwrap();
    fill(&db, &orders);
    let strays = db.table::<Stray>().unwrap();
    let insert = |id| {
        let at = db.at(&id).unwrap();
        at.transaction(|tx| tx.insert_row(&strays, &Stray { id }).map(drop)).unwrap();
    };
    insert(5);
    let open = tables(3).repartition(&shop, &mut |_, _| ()).unwrap_err();
    assert!(matches!(open, Error::InUse { .. }), "{open}");
    db.close().unwrap();
    says(tables(3), &shop, "nothing says how table stray is spread");
    says(tables(0), &shop, "give 1 to");
    says(tables(20).spread_by(Stray::ID), &shop, "each island has at least 1 MB");
    let db = tables(2).open(&shop).unwrap();
    assert!(db.restarts().iter().all(Option::is_none), "they were closed, and are");
    db.close().unwrap();
    verify(&shop, 2, &orders);
    let made = tables(3).spread_by(Stray::ID).repartition(&shop, &mut |_, _| ()).unwrap();
    assert_eq!(made.before, 2);
    verify(&shop, 3, &orders);
}
