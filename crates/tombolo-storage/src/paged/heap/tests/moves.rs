//! Rows that move keep their ids; what is logged suffices to follow them.

use super::*;

fn replace(file: &HeapFile<Small>, pool: &Small, row: RowId, after: &[u8]) -> Vec<String> {
    let mut reported = Vec::new();
    let log = |change: HeapChange<'_>| -> Result<Stamp> {
        let debug = format!("{change:?}");
        reported.push(debug.split_once(' ').unwrap().0.to_owned());
        Ok(Some(reported.len() as u64))
    };
    assert!(file.replace(pool, 0, row, after, log).unwrap());
    assert_eq!(read(file, pool, row).as_deref(), Some(after));
    reported
}

#[test]
fn a_row_moves_once_twice_and_shrinks() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, 8).unwrap();
    let row = create(&file, &pool, 0, &[1; 3]);
    for n in 0..8 {
        create(&file, &pool, 0, &[n; 1_000]);
    }
    assert_eq!(replace(&file, &pool, row, &[2; 2_000]), ["Arrived", "Forwarded"]);
    assert_eq!(replace(&file, &pool, row, &[3; 2_500]), ["Replaced"]);
    for n in 0..20 {
        create(&file, &pool, 0, &[n; 1_000]);
    }
    assert_eq!(replace(&file, &pool, row, &[4; 7_000]), ["Arrived", "Replaced", "Left"]);
    assert_eq!(replace(&file, &pool, row, &[5; 1]), ["Replaced"]);
    assert!(update(&file, &pool, row, 6));
    assert_eq!(&*file.pin(&pool, row).unwrap().unwrap(), [6]);
    assert_eq!(scan(&file, &pool).len(), 29);
    assert_eq!(file.check(&pool), []);
    assert!(file.delete(&pool, row, unlogged).unwrap());
    assert!(!update(&file, &pool, row, 7), "deleted where its home is");
    assert!(file.purge(&pool, row, unlogged).unwrap());
    assert!(file.read(&pool, row, |_| ()).unwrap().is_none());
    assert_eq!(scan(&file, &pool).len(), 28);
    assert_eq!(file.check(&pool), []);
}

#[test]
fn a_pinned_row_keeps_its_page_from_being_compacted() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, 1_000).unwrap();
    let rows: Vec<RowId> = (0..8).map(|n| create(&file, &pool, 0, &[n; 1_000])).collect();
    for &row in &rows[1..4] {
        file.purge(&pool, row, unlogged).unwrap();
    }
    let pin = file.pin(&pool, rows[7]).unwrap().unwrap();
    // Three holes of 1,000 bytes: enough together, but rows would have to move.
    let away = create(&file, &pool, 1, &[9; 2_500]);
    assert_ne!(Place::home(away).page, Place::home(rows[7]).page);
    assert_eq!(replace(&file, &pool, rows[0], &[8; 2_500]), ["Arrived", "Forwarded"]);
    assert_eq!(*pin, [7; 1_000]);
    drop(pin);
    assert_eq!(replace(&file, &pool, rows[4], &[8; 2_500]), ["Replaced"]);
    assert_eq!(file.check(&pool), []);
}

#[test]
fn an_address_that_leads_nowhere_is_damage() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, 8).unwrap();
    let row = create(&file, &pool, 0, &[1; 100]);
    for n in 0..8 {
        create(&file, &pool, 0, &[n; 1_000]);
    }
    replace(&file, &pool, row, &[2; 2_000]);
    let home = Place::home(row);
    {
        let wrong = Place { slot: 1, ..home }.row().location();
        let mut page = pool.fix_exclusive(home.page).unwrap();
        page.page_mut().record_mut(home.slot).unwrap().copy_from_slice(&wrong.to_le_bytes());
    }
    let error = file.read(&pool, row, |_| ()).unwrap_err();
    assert!(error.to_string().contains("leads to a row that is not there"), "{error}");
    assert_eq!(file.check(&pool).len(), 2, "seen from both ends");
}

/// An address that is out of date leads back to the home, which is not held twice.
#[test]
fn a_row_that_came_home_is_found() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, 100).unwrap();
    let (row, other) = (create(&file, &pool, 0, &[1; 100]), create(&file, &pool, 0, &[2; 100]));
    let fix = |id| pool.fix_exclusive(id);
    let found = file.find_moved(&pool, Place::home(row), Place::home(other), fix).unwrap();
    assert_eq!(found.unwrap().place, Place::home(row));
}
