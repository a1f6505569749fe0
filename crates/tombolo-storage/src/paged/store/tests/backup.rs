//! Backups of paged databases: what is in them, and disks that are full. Under load: the library's tests.

use super::*;
use crate::backup::{self, BackupFailure};

/// What is made of a backup.
fn restored(copy: &MemDisk) -> Bank<Conventional> {
    let disk = MemDisk::new();
    backup::restore(copy, &disk, 7).unwrap();
    Bank::with(PagedStore::open(&disk, &settings()).unwrap())
}

fn has(bank: &mut Bank<Conventional>, id: i32) -> bool {
    bank.store.begin().unwrap();
    let found = bank.store.lookup(&bank.by_id, id).unwrap();
    bank.store.commit().unwrap();
    found.is_some()
}

#[test]
fn a_backup_holds_what_had_committed() {
    let (disk, copy) = (MemDisk::new(), MemDisk::new());
    let bank = Bank::<Conventional>::create(&disk, 500);
    let mut other = bank.session();
    other.begin_writes();
    other.add_row(500).unwrap();
    other.remove_row(7);
    let savepoint = other.store.savepoint();
    other.remove_row(8);
    other.store.back_to(savepoint).unwrap();
    let made = bank.store.backup(&copy).unwrap();
    assert!(made.files >= 3 && made.bytes > 500 * 80, "{made:?}");
    let mut found = restored(&copy);
    assert_eq!(found.store.restart().map(|restart| restart.transactions_undone), Some(1));
    assert_eq!(found.sum(), (500, 500 * START));
    assert_eq!(found.store.check(), []);
    found.add(500).unwrap();
    found.store.close().unwrap();
    // A second one, of what has committed since. What was copied first has not changed.
    other.store.commit().unwrap();
    let later = MemDisk::new();
    bank.store.backup(&later).unwrap();
    assert_eq!(restored(&later).sum(), (500, 500 * START));
    assert_eq!([&copy, &later].map(|copy| has(&mut restored(copy), 7)), [true, false]);
    let refused = bank.store.backup(&later).unwrap_err();
    assert!(matches!(refused, BackupFailure::NotEmpty { is_copy: true, .. }), "{refused}");
    let refused = PagedStore::<Conventional>::open(&copy, &settings()).err().unwrap();
    assert!(refused.to_string().contains("holds a backup"), "{refused}");
}

/// While the pages are copied the disk of the database is filled, so that the log's end is set aside.
#[test]
fn what_was_set_aside_is_copied() {
    let (disk, copy) = (MemDisk::new(), MemDisk::new());
    let bank = Bank::<Conventional>::create_with(&disk, &impatient(), 10);
    let mut other = bank.session();
    let mut accounts = 10;
    let made = bank.store.backup_until(&copy, || {
        let used: usize = disk.list().unwrap().iter().map(|name| bytes_of(&disk, name).len()).sum();
        disk.set_capacity_bytes(Some(used as u64));
        while other.add(accounts).is_ok() {
            accounts += 1;
        }
        let kept = other.store.kept_log()?;
        assert!(kept.aside.iter().any(|byte| *byte != 0), "after {accounts}");
        Ok(kept)
    });
    made.unwrap();
    let mut found = restored(&copy);
    assert_eq!(found.sum(), (accounts as usize, i64::from(accounts) * START));
    assert_eq!(found.store.check(), []);
}

#[test]
fn a_copy_for_which_there_is_no_room_leaves_nothing() {
    let (disk, copy) = (MemDisk::new(), MemDisk::new());
    let mut bank = Bank::<Conventional>::create(&disk, 500);
    for capacity in [0, 100, 100_000, 2_000_000] {
        copy.set_capacity_bytes(Some(capacity));
        let refused = bank.store.backup(&copy).unwrap_err();
        assert!(refused.is_full(), "{refused}");
        assert_eq!(copy.list().unwrap(), [""; 0], "{capacity}");
    }
    copy.set_capacity_bytes(None);
    bank.add(500).unwrap();
    bank.store.backup(&copy).unwrap();
    assert_eq!(restored(&copy).sum(), (501, 501 * START));
    // Where pages stay in memory there is nothing to be copied.
    let alone = Bank::<AloneBufferManager>::create(&MemDisk::new(), 10);
    let refused = alone.store.backup(&MemDisk::new()).unwrap_err();
    assert_eq!(refused, BackupFailure::Paged(OpenError::CannotSave));
}
