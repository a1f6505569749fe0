//! Full disks, room that is kept, pages without an owner.

use super::*;
use crate::dynamic::DynamicTable;
use crate::paged::page::{PageKind, StoreId};
use crate::schema::ColumnDef;
use crate::types::{Integer, Text};
use crate::value::Value;

/// A row that became shorter has its room until its transaction ends: an abort finds it however
/// full the disk is by then.
#[test]
fn an_abort_needs_no_room() {
    let disk = MemDisk::new();
    let mut settings = settings();
    settings.log.durability = Durability::None; // the log takes no space
    let mut store = PagedStore::<Conventional>::create(&disk, &settings).unwrap();
    let columns = vec![ColumnDef::of::<Integer>("id"), ColumnDef::of::<Text>("body")];
    store.create_table(TableDef { name: "t".into(), columns, indexes: vec![] }).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    let text = "x".repeat(6_000);
    let row = |id, length: usize| [Value::Integer(id), Value::Text(&text[..length])];
    store.begin().unwrap();
    store.begin_writes();
    let first = table.insert(&mut store, &row(1, 6_000)).unwrap();
    for id in 0..3 {
        table.insert(&mut store, &row(id, 6_000)).unwrap();
    }
    store.commit().unwrap();
    let mut other = store.session().unwrap().unwrap();
    store.begin().unwrap();
    store.begin_writes();
    table.update(&mut store, first, &row(1, 0)).unwrap();
    table.update(&mut store, first, &row(1, 10)).unwrap();
    let used = disk.open(PAGES_FILE, Open::Read).unwrap().len().unwrap();
    disk.set_capacity_bytes(Some(used));
    let fill = |store: &mut PagedStore<Conventional>| {
        let mut made = 0;
        for length in [1_500, 500] {
            loop {
                store.begin().unwrap();
                store.begin_writes();
                match table.insert(store, &row(made, length)) {
                    Ok(_) => store.commit().unwrap(),
                    Err(error) => {
                        assert!(matches!(error, Error::Disk { .. }), "{error:?}");
                        store.abort().unwrap();
                        break;
                    }
                }
                made += 1;
            }
        }
        made
    };
    assert!(fill(&mut other) > 0);
    store.abort().unwrap();
    assert_eq!(store.check(), []);
    // Committed, it gives the room to others.
    store.begin().unwrap();
    store.begin_writes();
    table.update(&mut store, first, &row(1, 10)).unwrap();
    store.commit().unwrap();
    assert!(fill(&mut other) >= 4);
    assert_eq!(store.check(), []);
}

#[test]
fn a_page_without_an_owner_is_damage() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 1_000);
    assert_eq!(bank.store.check(), []);
    let pages = &bank.store.database.pages;
    let lost = pages.new_page(StoreId(1), PageKind::Leaf).unwrap();
    let id = crate::paged::pool::ReadPage::page(&lost).id();
    drop(lost);
    let found = bank.store.check();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, format!("page {} is not free and nothing leads to it", id.0));
}
