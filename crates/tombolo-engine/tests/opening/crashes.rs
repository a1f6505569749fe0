//! The end of a process at any call of a life with checkpoints, then of the openings behind it.
//!
//! The oracle: the rows are those after some group, none older than the newest that was durable.

use std::io::ErrorKind;

use tombolo_storage::disk::{Fault, Operation};

use super::*;

/// The rows after each group.
type History = BTreeMap<GroupNumber, Model>;

const OPERATIONS: [Operation; 5] =
    [Operation::Write, Operation::Sync, Operation::Open, Operation::Remove, Operation::SetLen];

fn fail(disk: &MemDisk, operation: Operation, after: u64) {
    disk.set_fault(Some(Fault { operation, after, kind: ErrorKind::Other }));
}

/// A database with two complete checkpoints, and its only state.
fn base() -> (MemDisk, GroupNumber, Model) {
    let disk = MemDisk::new();
    let mut database = Database::create(from_ref(&disk), &options(1, 1)).unwrap();
    let mut random = Rng::from_seed(11);
    for _ in 0..2 {
        database.groups(&mut random, 25).unwrap();
        database.checkpoint().unwrap();
    }
    database.groups(&mut random, 10).unwrap();
    (disk, database.writer.newest(), database.model)
}

/// Opens, works, writes a checkpoint, gives log back, works on. Returns what was durable.
fn life(
    disk: &MemDisk,
    seed: u64,
    history: &mut History,
    durable: &mut GroupNumber,
) -> Result<(), Failure> {
    let mut random = Rng::from_seed(seed);
    let threads = 1 + (seed % 2) as usize;
    let mut database = Database::open(from_ref(disk), &options(threads, threads))?;
    let mut round = |database: &mut Database, durable: &mut GroupNumber| {
        for _ in 0..2 {
            database.work(&mut random);
            history.insert(database.writer.newest() + 1, database.model.clone());
            database.write()?;
            *durable = database.writer.durable();
        }
        Ok::<(), Failure>(())
    };
    round(&mut database, durable)?;
    database.install()?;
    database.begin()?;
    while !database.step()? {
        round(&mut database, durable)?;
        database.install()?;
    }
    round(&mut database, durable)
}

/// Opens what a crash left; whether it was found whole.
fn reopen(disk: &MemDisk, seed: u64, history: &History, durable: GroupNumber) -> bool {
    let threads = 1 + (seed % 3) as usize;
    let mut database = match Database::open(from_ref(disk), &options(threads, 1)) {
        Ok(database) => database,
        Err(failure) => {
            assert!(failure.is_disk(), "{failure:?}");
            return false;
        }
    };
    let found = history.range(durable..).any(|(_, model)| *model == database.model);
    assert!(found, "group {durable} was durable, other rows came back");
    // And it continues: with DB′ as it was mirrored.
    database.checkpoint().is_ok()
}

#[test]
fn the_process_may_end_at_any_call() {
    let (base, newest, model) = base();
    let mut crashed_openings = 0;
    for (at, operation) in OPERATIONS.into_iter().enumerate() {
        for after in 0.. {
            let disk = copy(&base);
            let (mut history, mut durable) = (History::from([(newest, model.clone())]), newest);
            let seed = after + at as u64;
            fail(&disk, operation, after);
            let is_over = match life(&disk, seed, &mut history, &mut durable) {
                Ok(()) => true,
                Err(failure) => {
                    assert!(failure.is_disk(), "{operation:?} {after}: {failure:?}");
                    false
                }
            };
            // Two openings that end too, then one that does not.
            for crash in [after % 7, after % 23] {
                fail(&disk, OPERATIONS[(seed + crash) as usize % OPERATIONS.len()], crash);
                crashed_openings += u32::from(!reopen(&disk, seed, &history, durable));
            }
            disk.set_fault(None);
            assert!(reopen(&disk, seed, &history, durable), "{operation:?} {after}");
            if is_over {
                break;
            }
        }
    }
    assert!(crashed_openings > 100, "{crashed_openings} openings ended early");
}
