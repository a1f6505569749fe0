//! What is whole comes back, on however many threads it is loaded.

use super::*;

/// A database of two directories with some checkpoints, the last of which is behind the newest group.
fn made(disks: &[MemDisk]) -> Model {
    let mut database = Database::create(disks, &options(1, 1)).unwrap();
    let mut random = Rng::from_seed(7);
    for _ in 0..8 {
        database.groups(&mut random, 60).unwrap();
        database.checkpoint().unwrap();
    }
    assert!(database.released > 2, "{} segments were given back", database.released);
    database.groups(&mut random, 20).unwrap();
    database.model
}

#[test]
fn a_database_comes_back_whoever_loads_it() {
    let disks = [MemDisk::new(), MemDisk::new()];
    let mut expected = made(&disks);
    assert!(expected.len() > 60);
    let mut random = Rng::from_seed(3);
    for (threads, checkpoint_threads) in [(1, 1), (2, 1), (1, 3), (3, 2), (5, 4)] {
        let mut database = Database::open(&disks, &options(threads, checkpoint_threads)).unwrap();
        assert!(database.model == expected, "{threads} threads");
        assert_eq!(database.checkpointing().parts.len(), checkpoint_threads);
        let recovery = &database.recovery;
        assert!(recovery.is_clean() && recovery.image_bytes > 100_000, "{recovery:?}");
        // The log from the image on, not all of it.
        assert!((1..200).contains(&recovery.transactions), "{recovery:?}");
        assert_eq!(recovery.last_group + 1, database.writer.newest());
        let seconds = [recovery.image_s, recovery.replay_s, recovery.image_cpu_s];
        assert!(seconds.iter().all(|&part| (0.0..=60.0).contains(&part)), "{recovery:?}");
        assert!(recovery.wall_s >= recovery.image_s + recovery.replay_s);
        // DB′ is continued: the next opening has only it and what came later.
        database.groups(&mut random, 10).unwrap();
        database.checkpoint().unwrap();
        database.groups(&mut random, 5).unwrap();
        expected = database.model;
    }
    assert!(disks[1].list().unwrap().iter().any(|name| name.starts_with("image-")));
}

#[test]
fn a_checkpoint_that_was_under_way_is_gone_on_with() {
    for (threads, checkpoint_threads) in [(2, 2), (1, 3)] {
        let disks = [MemDisk::new()];
        made(&disks);
        let options = options(threads, checkpoint_threads);
        let mut database = Database::open(&disks, &options).unwrap();
        let complete = database.checkpointing().checkpoints.complete_number();
        database.begin().unwrap();
        database.step().unwrap();
        let (expected, position) =
            (database.model.clone(), database.checkpointing().checkpoints.position());
        drop(database);
        let mut database = Database::open(&disks, &options).unwrap();
        assert!(database.model == expected);
        assert_eq!(database.checkpointing().checkpoints.writing(), Some(complete + 1));
        let blocks: u64 =
            database.checkpointing().parts.iter().map(|part| part.progress().blocks).sum();
        assert!(blocks >= 2, "{blocks} blocks were found");
        while !database.step().unwrap() {}
        assert_eq!(database.checkpointing().checkpoints.position(), position);
        database.checkpoint().unwrap();
        assert!(database.checkpointing().checkpoints.position().group > position.group);
    }
}

#[test]
fn an_image_is_loaded_by_those_too_who_write_none() {
    let disks = [MemDisk::new()];
    let expected = made(&disks);
    let without = OpenOptions { image: None, ..options(2, 1) };
    let image = content(&disks[0]).into_iter().filter(|(name, _)| !name.starts_with("log-"));
    let image: Vec<_> = image.collect();
    let mut random = Rng::from_seed(1);
    let mut database = Database::open(&disks, &without).unwrap();
    assert!(database.model == expected && database.checkpointing.is_none());
    assert!(database.recovery.image_bytes > 0);
    database.groups(&mut random, 30).unwrap();
    let expected = database.model;
    drop(database.writer);
    let now = content(&disks[0]).into_iter().filter(|(name, _)| !name.starts_with("log-"));
    assert!(now.eq(image), "the image was changed");
    let mut database = Database::open(&disks, &options(1, 1)).unwrap();
    assert!(database.model == expected);
    database.checkpoint().unwrap();
}

#[test]
fn a_log_from_before_there_were_checkpoints_gets_an_image() {
    let disks = [MemDisk::new()];
    let without = OpenOptions { image: None, ..options(1, 1) };
    let mut database = Database::create(&disks, &without).unwrap();
    assert!(database.checkpointing.is_none());
    database.groups(&mut Rng::from_seed(2), 50).unwrap();
    let expected = database.model;
    drop(database.writer);
    let mut database = Database::open(&disks, &options(2, 2)).unwrap();
    assert_eq!((database.recovery.image_bytes, database.recovery.transactions), (0, 53));
    database.checkpoint().unwrap();
    drop(database);
    let database = Database::open(&disks, &options(2, 2)).unwrap();
    assert!(database.model == expected && database.recovery.image_bytes > 0);
}
