//! What cannot be opened is refused by name, and left as it was.

use super::*;

/// A database whose log was given back up to its last checkpoint.
fn made() -> MemDisk {
    made_of(5)
}

fn made_of(seed: u64) -> MemDisk {
    let disk = MemDisk::new();
    let mut database = Database::create(from_ref(&disk), &options(1, 1)).unwrap();
    let mut random = Rng::from_seed(seed);
    for _ in 0..6 {
        database.groups(&mut random, 80).unwrap();
        database.checkpoint().unwrap();
    }
    database.groups(&mut random, 5).unwrap();
    assert!(database.released > 2);
    disk
}

/// Why these are not opened, in words; nothing in the first is changed by that.
fn refused(disks: &[MemDisk]) -> String {
    let before = content(&disks[0]);
    let mut said = Vec::new();
    for threads in [1, 2, 3] {
        let options = options(threads, 1);
        match Database::open(disks, &options).err() {
            Some(Failure::Open(failure)) => said.push(failure.to_string()),
            other => panic!("{other:?}"),
        }
        assert!(content(&disks[0]) == before, "{threads} threads changed something");
    }
    said.pop().unwrap()
}

fn file(disk: &MemDisk, prefix: &str) -> String {
    disk.list().unwrap().into_iter().find(|name| name.starts_with(prefix)).unwrap()
}

#[test]
fn an_image_of_another_version_is_refused() {
    let disk = made();
    let name = file(&disk, "checkpoint-");
    // Both copies of it.
    overwrite(&disk, &name, 8, &[9]);
    overwrite(&disk, &name, content(&disk)[&name].len() / 2 + 8, &[9]);
    let why = refused(from_ref(&disk));
    assert!(why.contains(&name) && why.contains("version 9"), "{why}");
}

#[test]
fn an_image_of_another_database_is_refused() {
    let (disk, other) = (made(), made_of(6));
    for name in disk.list().unwrap().into_iter().filter(|name| !name.starts_with("log-")) {
        disk.remove(&name).unwrap();
    }
    let others = content(&other).into_iter().filter(|(name, _)| !name.starts_with("log-"));
    for (name, bytes) in others {
        disk.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
    }
    let why = refused(from_ref(&disk));
    assert!(why.contains("log-") && why.contains("of another database"), "{why}");
}

/// One that has no complete checkpoint yet, so that no group ties it to the log.
#[test]
fn the_first_checkpoint_of_another_database_is_refused() {
    let begun = |seed| {
        let disk = MemDisk::new();
        let mut database = Database::create(from_ref(&disk), &options(1, 1)).unwrap();
        database.groups(&mut Rng::from_seed(seed), 40).unwrap();
        database.install().unwrap();
        database.begin().unwrap();
        database.step().unwrap();
        disk
    };
    let (disk, other) = (begun(1), begun(2));
    for (name, bytes) in content(&other) {
        if !name.starts_with("log-") {
            if disk.exists(&name).unwrap() {
                disk.remove(&name).unwrap();
            }
            disk.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
        }
    }
    let why = refused(from_ref(&disk));
    assert!(why.contains("of another database"), "{why}");
}

#[test]
fn a_directory_that_is_missing_is_said_to_be() {
    let disks = [MemDisk::new(), MemDisk::new()];
    let mut database = Database::create(&disks, &options(1, 1)).unwrap();
    database.groups(&mut Rng::from_seed(5), 30).unwrap();
    database.checkpoint().unwrap();
    drop(database);
    let why = refused(&disks[..1]);
    assert!(why.contains("lies in 2 directories, 1 were given"), "{why}");
    let why = refused(&[disks[0].clone(), MemDisk::new()]);
    assert!(why.contains("image-") && why.contains("not there"), "{why}");
    Database::open(&disks, &options(1, 1)).unwrap();
}

#[test]
fn a_damaged_block_is_refused_with_its_place() {
    let disk = made();
    let name = file(&disk, "image-");
    let bytes = content(&disk).remove(&name).unwrap();
    let newest = |at: &usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + 16 + i]));
    let blocks = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"tblk"));
    let block = blocks.max_by_key(newest).unwrap();
    overwrite(&disk, &name, block + 100, &[bytes[block + 100] ^ 1]);
    let why = refused(from_ref(&disk));
    assert!(why.contains(&format!("{name} at offset {block}")), "{why}");
}

#[test]
fn a_file_that_is_gone_or_short_is_refused() {
    let disk = made();
    let name = file(&disk, "image-");
    let bytes = content(&disk).remove(&name).unwrap();
    disk.remove(&name).unwrap();
    let why = refused(from_ref(&disk));
    assert!(why.contains(&name) && why.contains("not there"), "{why}");
    disk.open(&name, Open::New).unwrap().write_at(&bytes[..bytes.len() - 4096], 0).unwrap();
    let why = refused(from_ref(&disk));
    assert!(why.contains(&name) && why.contains("ends here"), "{why}");
}

#[test]
fn an_image_without_its_log_is_refused() {
    let disk = made();
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with("log-")) {
        disk.remove(name).unwrap();
    }
    let name = file(&disk, "checkpoint-");
    let why = refused(from_ref(&disk));
    assert!(why.contains(&name) && why.contains("log is not here"), "{why}");
    // Nor is a new database made over it.
    match Database::create(from_ref(&disk), &options(1, 1)).err() {
        Some(Failure::Open(OpenFailure::Image(ImageFailure::NoLog { file }))) => {
            assert_eq!(file, name);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_without_its_image_is_refused() {
    let disk = made();
    for name in disk.list().unwrap().iter().filter(|name| !name.starts_with("log-")) {
        disk.remove(name).unwrap();
    }
    let why = refused(from_ref(&disk));
    assert!(why.contains("log-") && why.contains("group 1"), "{why}");
}

#[test]
fn a_record_that_fits_no_table_is_refused_with_its_group() {
    let disk = made();
    let mut database = Database::open(from_ref(&disk), &options(1, 1)).unwrap();
    let mut random = Rng::from_seed(9);
    database.groups(&mut random, 3).unwrap();
    // A deletion in table 9: kind, table, row as records have them come from a store with ten.
    let mut other = MemoryStore::<MemoryLogged>::new(options(1, 1).limits);
    for name in ["0", "1", "2", "3"] {
        other.create_table(table(name)).unwrap();
    }
    let mut records = LogBuffer::new();
    other.take_log(&mut records);
    records.clear();
    other.begin().unwrap();
    other.begin_writes();
    let last = DynamicTable::new(other.schema(), 3);
    last.insert(&mut other, &[Value::Integer(1), Value::Text("")]).unwrap();
    other.commit().unwrap();
    other.take_log(&mut records);
    let group = database.writer.append_group(&[records.as_slice()], 1, None).unwrap();
    database.groups(&mut random, 3).unwrap();
    drop(database);
    let why = refused(from_ref(&disk));
    assert!(why.contains(&format!("group {group} ")) && why.contains("table 3"), "{why}");
}

#[test]
fn a_database_in_use_is_refused_before_its_image_is_read() {
    let disk = made();
    let database = Database::open(from_ref(&disk), &options(2, 1)).unwrap();
    // What it is about to write looks damaged to any other process.
    overwrite(&disk, &file(&disk, "image-"), 0, &[0; 8192]);
    let why = refused(from_ref(&disk));
    assert!(why.contains("in use"), "{why}");
    drop(database);
}

/// Two rows of one key, as a procedure leaves them that forgets its entries: they are given out when asked.
#[test]
fn rows_that_fit_no_index_are_refused_or_given_out_without_it() {
    let disks = [MemDisk::new()];
    let mut database = Database::create(&disks, &options(1, 1)).unwrap();
    let two = DynamicTable::new(database.store.schema(), 1);
    database.store.begin().unwrap();
    database.store.begin_writes();
    (0..2).for_each(|_| _ = database.store.create(two.handle(), |_| ()).unwrap());
    database.store.commit().unwrap();
    database.write().unwrap();
    database.checkpoint().unwrap();
    drop(database);
    for threads in [1, 2] {
        let open = |without_unfit_indexes| {
            let options = OpenOptions { without_unfit_indexes, ..options(threads, 1) };
            let reported = &mut |_| ();
            open::<MemoryLogged>(&doors(&disks), &options, &SystemClock::new(), reported)
        };
        let refused = open(false).unwrap_err().to_string();
        assert!(refused.contains("index two_pk: another row has the key"), "{refused}");
        let mut opened = open(true).unwrap();
        let left_out: Vec<_> = opened.store.left_out().iter().map(|(name, _)| &**name).collect();
        assert_eq!(left_out, ["two_pk"]);
        let two = DynamicTable::new(opened.store.schema(), 1);
        assert_eq!(two.row_ids(&mut opened.store).unwrap().len(), 2);
        assert_eq!(opened.store.check(), []);
    }
}
