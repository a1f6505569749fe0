//! Ranges read one by one and in pages, against a map: packed keys and others, unique and not, forward
//! and backward, while rows come and go between two pages.

use std::collections::BTreeSet;
use std::time::Duration;

use tombolo::{CallOptions, Cursor, Database, DeclaredIndex, Error, Index, Order, Range, RowIndex};
use tombolo::{StoreError, Table, Tx};
use tombolo_engine::rng::Rng;

#[derive(Table, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[index(ByGroup(group, id))]
#[index(ByName(name), unique)]
struct Item {
    #[key]
    id: u16,
    group: u8,
    #[column(sql = Varchar<20>)]
    name: String,
}

fn item(id: u16) -> Item {
    Item {
        id,
        group: (id % 7) as u8,
        name: format!("{:03}", id * 7 % 1_000).repeat(1 + id as usize % 3),
    }
}

fn database() -> Database {
    Database::builder().define::<Item>().in_memory().unwrap()
}

/// Deletes or makes some items of chance, in the model, too.
fn change(db: &Database, rng: &mut Rng, model: &mut BTreeSet<Item>, count: usize) {
    let (items, by_id) = (db.table::<Item>().unwrap(), db.index::<ItemKey>().unwrap());
    let ids: Vec<u16> = (0..count).map(|_| rng.below(200) as u16).collect();
    for &id in &ids {
        let _ = model.take(&item(id)).is_some() || model.insert(item(id));
    }
    let changed = db.transaction(move |tx| {
        for id in ids {
            match tx.lookup(&by_id, id)? {
                Some(row) => tx.delete(&items, row)?,
                None => drop(tx.insert_row(&items, &item(id))?),
            }
        }
        Ok(())
    });
    changed.unwrap();
}

/// What a range of an index holds, in order, by each of the ways to read it.
fn read<I>(
    db: &Database,
    range: Range<<I as tombolo::IndexType>::Key<'static>>,
    order: Order,
) -> Vec<Item>
where
    I: DeclaredIndex<Table = Item> + Send + Sync + 'static,
    Range<<I as tombolo::IndexType>::Key<'static>>: Send,
{
    let (items, index) = (db.table::<Item>().unwrap(), db.index::<I>().unwrap());
    let read = db.transaction(move |tx| {
        let one_by_one: Vec<Item> =
            tx.iter(&index, range, order)?.map(|(_, row)| row.read()).collect();
        let ids: Vec<_> = tx.iter(&index, range, order)?.map(|(id, _)| id).collect();
        assert_eq!(ids, tx.range(&index, range, order)?);
        for (row, id) in one_by_one.iter().zip(ids) {
            assert_eq!(tx.read_row(&items, id)?, *row);
        }
        Ok(one_by_one)
    });
    read.unwrap()
}

#[test]
fn a_range_is_what_a_map_holds_there() {
    let (db, mut rng, mut model) = (database(), Rng::stream(3, &[]), BTreeSet::new());
    for round in 0..60 {
        change(&db, &mut rng, &mut model, if round == 0 { 300 } else { 20 });
        let (low, high) = (rng.below(220) as u16, rng.below(220) as u16);
        let group = rng.below(8) as u8;
        for order in [Order::Forward, Order::Backward] {
            let turned = |mut expected: Vec<Item>| {
                if matches!(order, Order::Backward) {
                    expected.reverse();
                }
                expected
            };
            let of_ids = model.iter().filter(|item| (low..=high).contains(&item.id)).cloned();
            let found = read::<ItemKey>(&db, (low..=high).into(), order);
            assert_eq!(found, turned(of_ids.collect()));
            let of_group = model.iter().filter(|item| item.group == group).cloned();
            let found = read::<ByGroup>(&db, Range::prefix((group,)), order);
            assert_eq!(found, turned(of_group.collect()));
            let mut by_name: Vec<Item> =
                model.iter().filter(|item| *item.name >= *"3").cloned().collect();
            by_name.sort_by(|a, b| a.name.cmp(&b.name));
            assert_eq!(read::<ByName>(&db, ("3"..).into(), order), turned(by_name));
        }
        let items = db.table::<Item>().unwrap();
        let all = db
            .transaction(move |tx| Ok(tx.iter_table(&items)?.map(|(_, row)| row.read()).collect()));
        let all: Vec<Item> = all.unwrap();
        assert_eq!(all.len(), model.len());
        assert_eq!(BTreeSet::from_iter(all), model);
    }
}

/// The next page of a cursor, and the cursor behind it.
fn page<I>(db: &Database, mut cursor: Cursor<I>, most: usize) -> (Vec<Item>, Cursor<I>)
where
    I: Send + 'static,
{
    let items = db.table::<Item>().unwrap();
    let page = db.transaction(move |tx| {
        let rows = tx.page(&mut cursor, most)?.into_iter().map(|row| tx.read_row(&items, row));
        Ok((rows.collect::<Result<Vec<Item>, _>>()?, cursor))
    });
    page.unwrap()
}

/// Pages through an index while rows come and go: each row that was there all the time is met once,
/// and all come in order.
fn pages<I>(order: Order, in_order: impl Fn(&Item, &Item) -> bool)
where
    I: RowIndex<Table = Item> + Send + Sync,
{
    let (db, mut rng, mut model) = (database(), Rng::stream(4, &[]), BTreeSet::new());
    change(&db, &mut rng, &mut model, 300);
    for _ in 0..20 {
        let index: Index<I> = db.index().unwrap();
        let mut cursor = db.transaction(move |tx| tx.cursor(&index, .., order)).unwrap();
        let (mut met, mut stayed) = (Vec::new(), model.clone());
        while !cursor.is_at_end() {
            let (rows, next) = page(&db, cursor, 1 + rng.below(9) as usize);
            met.extend(rows);
            cursor = next;
            change(&db, &mut rng, &mut model, 2);
            stayed.retain(|item| model.contains(item));
        }
        assert!(met.is_sorted_by(|a, b| match order {
            Order::Forward => in_order(a, b),
            Order::Backward => in_order(b, a),
        }));
        assert!(stayed.iter().all(|item| met.contains(item)), "a row that stayed was not met");
        assert_eq!(page(&db, cursor, 10).0, []);
    }
}

#[test]
fn pages_meet_each_row_that_stays_once_and_in_order() {
    for order in [Order::Forward, Order::Backward] {
        pages::<ItemKey>(order, |a, b| a.id < b.id);
        pages::<ByGroup>(order, |a, b| (a.group, a.id) < (b.group, b.id));
        pages::<ByName>(order, |a, b| a.name < b.name);
    }
}

#[test]
fn a_row_is_made_or_replaced_by_its_key() {
    let (db, mut rng, mut model) = (database(), Rng::stream(5, &[]), BTreeSet::new());
    for _ in 0..500 {
        let by_id = db.index::<ItemKey>().unwrap();
        let (id, group) = (rng.below(30) as u16, rng.below(8) as u8);
        let value = Item { group, ..item(id) };
        let was_there = model.iter().any(|item: &Item| item.id == id);
        model.retain(|item| item.id != id);
        model.insert(value.clone());
        let put = db.transaction(move |tx| Ok(tx.upsert_row(&by_id, &value)?.1));
        assert_eq!(put, Ok(!was_there));
    }
    let all = read::<ItemKey>(&db, Range::all(), Order::Forward);
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    // Another unique index refuses what two rows cannot have.
    let by_id = db.index::<ItemKey>().unwrap();
    let taken = Item { name: all[0].name.clone(), ..item(199) };
    let refused = db.transaction(move |tx| tx.upsert_row(&by_id, &taken));
    assert_eq!(refused, Err(Error::Duplicate { index: "item_by_name".to_owned() }));
}

#[test]
fn scans_and_cursors_of_another_database_are_refused() {
    let (db, other) = (database(), database());
    let (items, by_id) = (other.table::<Item>().unwrap(), other.index::<ItemKey>().unwrap());
    let mut cursor = other.transaction(move |tx| tx.cursor(&by_id, .., Order::Forward)).unwrap();
    type Use = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), tombolo::Stop> + Send>;
    let uses: [Use; 4] = [
        Box::new(move |tx| tx.iter(&by_id, .., Order::Forward).map(drop)),
        Box::new(move |tx| tx.iter_table(&items).map(drop)),
        Box::new(move |tx| tx.page(&mut cursor, 1).map(drop)),
        Box::new(move |tx| tx.upsert_row(&by_id, &item(1)).map(drop)),
    ];
    for used in uses {
        let refused = db.transaction(used);
        assert_eq!(refused, Err(Error::Refused(StoreError::OtherDatabase)));
    }
}

/// Rows that a loop does not get any more because its time is over are not missing from an answer.
#[test]
fn a_scan_that_its_deadline_ends_answers_nothing() {
    let db = database();
    let (mut rng, mut model) = (Rng::stream(6, &[]), BTreeSet::new());
    change(&db, &mut rng, &mut model, 300);
    let by_id = db.index::<ItemKey>().unwrap();
    let soon = db.with(CallOptions::new().within(Duration::from_millis(50)));
    let sum = soon.transaction(move |tx| {
        let mut sum = 0u64;
        loop {
            let rows = tx.iter(&by_id, .., Order::Forward)?;
            let before = sum;
            sum += rows.map(|(_, row)| u64::from(row.get(Item::ID))).sum::<u64>();
            if sum == before {
                return Ok(sum); // the rows have ended: an answer that is short, were it given
            }
        }
    });
    assert!(matches!(sum, Err(Error::Expired | Error::TimedOut)), "{sum:?}");
}
