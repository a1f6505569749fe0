//! Random databases with checkpoints on a disk that forgets, crashed at every moment.
//!
//! The oracle: image and log together are the rows after the newest group that was found, and no group
//! is missing that a sync confirmed.

use super::*;
use crate::value_log::tests::crash_disk::CrashDisk;

/// How a run is laid out.
#[derive(Clone, Copy)]
struct LifePlan {
    seed: u64,
    spare: u32,
    parts: usize,
    /// One disk, or two.
    disks: usize,
    copy: Where,
}

/// Where DB′ lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Memory,
    None,
    /// Each time somewhere else.
    Either,
}

impl LifePlan {
    /// The image's numbers when it is opened for the `opened`th time.
    fn settings(self, opened: u64) -> ImageSettings {
        let is_none = self.copy == Where::None || (self.seed + opened / 2).is_multiple_of(2);
        match is_none && self.copy != Where::Memory {
            true => in_place(self.spare),
            false => image_settings(self.spare),
        }
    }
}

/// What is known from outside.
#[derive(Default)]
struct Known {
    history: History,
    durable: GroupNumber,
    completed: u64,
    /// How often it was opened.
    opened: u64,
    /// Whether an opening failed since the last one that did not.
    is_cut: bool,
}

fn doors(disks: &[CrashDisk]) -> Vec<Arc<dyn Disk>> {
    disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect()
}

/// Opens, and compares with what is known.
fn open(disks: &[CrashDisk], plan: LifePlan, known: &mut Known) -> Result<Database, Failure> {
    let LifePlan { seed, .. } = plan;
    known.opened += 1;
    let settings = plan.settings(known.opened);
    let mut database = Database::open_with(&doors(disks), settings, plan.parts, None)?;
    let end = database.writer.newest();
    assert!(known.durable < end, "seed {seed}: group {} of {} is gone", end, known.durable);
    assert_eq!(database.store.check(), [], "seed {seed}");
    let found = state(&mut database.store);
    // An opening that failed may have cut a group off and given its number to another one: then any
    // state from the durable one on will do.
    let oldest = if known.is_cut { known.durable } else { end - 1 };
    let at_least = known.history.range(..=oldest).next_back().map_or(0, |(&group, _)| group);
    let is_known = at_least == 0 && found.is_empty();
    let mut states = known.history.range(at_least..end);
    let state = states.rfind(|(_, rows)| **rows == found).map(|(&group, _)| group);
    assert!(state.is_some() || is_known, "seed {seed}: other rows, group {end}");
    known.history.split_off(&(state.unwrap_or(0) + 1));
    known.is_cut = false;
    known.durable = end;
    Ok(database)
}

/// Works until the disk fails or the work is done.
fn work(database: &mut Database, known: &mut Known, random: &mut Random) -> Result<(), Failure> {
    for _ in 0..20 + random.below(120) {
        let part = random.below(database.parts.len() as u64) as usize;
        match random.below(32) {
            0 => match random.below(4) {
                0 | 1 => database.create_table(),
                2 => database.add_column(random),
                _ => database.drop_one(random),
            },
            1..=8 if database.store.schema().live_tables().next().is_some() => {
                let transactions = 1 + random.below(4);
                database.work(random, transactions);
                let now = state(&mut database.store);
                // Its number is known before it is: a crash may leave it behind.
                known.history.insert(database.writer.newest() + 1, now);
                database.write()?;
            }
            9..=13 => known.durable = database.sync()?,
            14..=19 => database.install(part)?,
            20 | 21 => database.begin()?,
            22..=30 => known.completed += u64::from(database.step(part)?),
            _ => _ = database.writer.seal()?,
        }
    }
    Ok(())
}

/// The number of checkpoints that were completed.
fn run(plan: LifePlan) -> u64 {
    let LifePlan { seed, .. } = plan;
    let mut random = Random::new(seed);
    let mut disks: Vec<CrashDisk> = (0..plan.disks).map(|_| CrashDisk::default()).collect();
    let mut known = Known::default();
    for _ in 0..5 {
        let calls = (random.below(3) > 0).then(|| random.below(500));
        disks.iter().for_each(|disk| disk.fail_after(calls));
        let failed = match open(&disks, plan, &mut known) {
            Ok(mut database) => work(&mut database, &mut known, &mut random).err(),
            Err(failure) => {
                known.is_cut = true;
                Some(failure)
            }
        };
        if let Some(failure) = failed.filter(|failure| !failure.is_disk()) {
            assert!(
                matches!(failure, Failure::Log(LogFailure::NoLog)) && known.durable == 0,
                "seed {seed}: {failure:?}"
            );
        }
        let is_kill = random.below(5) == 0;
        disks = disks
            .iter()
            .map(|disk| if is_kill { disk.kill() } else { disk.crash(&mut random) })
            .collect();
    }
    let again = open(&disks, plan, &mut known);
    let mut database = again.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
    database.check_mirror();
    // What was copied from the rows is examined by opening it once more, when all of it is there.
    let written = database.checkpoint();
    written.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
    drop(database);
    open(&disks, plan, &mut known).unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
    known.completed
}

/// Checkpoints one behind the other, groups that take the log's segments again, and a crash.
fn run_dense(plan: LifePlan) {
    let mut random = Random::new(plan.seed);
    let disks = [CrashDisk::default()];
    let plan = LifePlan { disks: 1, ..plan };
    let mut known = Known::default();
    let mut database = open(&disks, plan, &mut known).unwrap();
    (0..3).for_each(|_| database.create_table());
    let (rounds, after) = (8 + random.below(5), 1 + random.below(8));
    for round in 0..rounds + after {
        match round % 6 {
            2 => database.drop_one(&mut random),
            3 => database.add_column(&mut random),
            4 => database.create_table(),
            _ => {}
        }
        database.work(&mut random, 4);
        known.history.insert(database.writer.newest() + 1, state(&mut database.store));
        database.write().unwrap();
        known.durable = database.sync().unwrap();
        if round < rounds {
            database.checkpoint().unwrap();
        }
    }
    let disks = [disks[0].crash(&mut random)];
    drop(database);
    open(&disks, plan, &mut known).unwrap_or_else(|failure| panic!("{failure:?}"));
}

/// A crash on the way through a checkpoint of rings with several batches, between any two writes.
fn run_interrupted(plan: LifePlan) {
    let mut random = Random::new(plan.seed);
    let disks = [CrashDisk::default()];
    let plan = LifePlan { disks: 1, ..plan };
    let mut known = Known::default();
    let mut database = open(&disks, plan, &mut known).unwrap();
    (0..3).for_each(|_| database.create_table());
    for is_complete in [true, false] {
        database.work(&mut random, 60);
        let group = database.write().unwrap().unwrap();
        known.history.insert(group, state(&mut database.store));
        known.durable = database.sync().unwrap();
        if is_complete {
            database.checkpoint().unwrap();
        }
    }
    (0..plan.parts).for_each(|part| database.install(part).unwrap());
    database.begin().unwrap();
    for _ in 0..random.below(60) {
        let part = random.below(plan.parts as u64) as usize;
        if database.step(part).unwrap() {
            break;
        }
    }
    let disks = [disks[0].crash(&mut random)];
    drop(database);
    open(&disks, plan, &mut known).unwrap_or_else(|failure| panic!("{failure:?}"));
}

fn plan(seed: u64, copy: Where) -> LifePlan {
    LifePlan {
        seed,
        spare: 1 + (seed % 4) as u32,
        parts: 1 + (seed / 4 % 3) as usize,
        disks: 1 + (seed / 12 % 2) as usize,
        copy,
    }
}

fn crashes_lose_nothing(copy: Where) {
    let completed: u64 = (0..72).map(|seed| run(plan(seed, copy))).sum();
    (0..12).for_each(|seed| run_dense(plan(seed, copy)));
    (0..12).for_each(|seed| run_interrupted(plan(seed, copy)));
    assert!(completed > 50, "{completed} checkpoints were completed");
}

#[test]
fn crashes_lose_nothing_that_was_durable() {
    crashes_lose_nothing(Where::Memory);
}

#[test]
fn crashes_lose_nothing_without_a_second_copy() {
    crashes_lose_nothing(Where::None);
}

#[test]
fn crashes_lose_nothing_wherever_the_second_copy_is_each_time() {
    crashes_lose_nothing(Where::Either);
}

/// A crash at each call of a life with checkpoints, and one at each call of the opening behind it.
#[test]
fn a_checkpoint_and_an_opening_can_crash_anywhere() {
    for (spare, parts, copy) in [
        (1, 2, Where::Memory),
        (3, 1, Where::Memory),
        (1, 1, Where::None),
        (3, 2, Where::None),
        (1, 2, Where::Either),
    ] {
        let plan = LifePlan { seed: 77, spare, parts, disks: 1, copy };
        let mut random = Random::new(plan.seed);
        let base = [CrashDisk::default()];
        let mut known = Known::default();
        let mut database = open(&base, plan, &mut known).unwrap();
        (0..3).for_each(|_| database.create_table());
        for _ in 0..3 {
            database.work(&mut random, 12);
            let group = database.write().unwrap().unwrap();
            known.history.insert(group, state(&mut database.store));
            database.checkpoint().unwrap();
        }
        known.durable = database.writer.durable();
        drop(database);
        for calls in (0..).step_by(3) {
            let disks = [base[0].kill()];
            let mut known = Known { history: known.history.clone(), ..known };
            disks[0].fail_after(Some(calls));
            let mut random = Random::new(calls);
            let life = |known: &mut Known, random: &mut Random| -> Result<(), Failure> {
                let mut database = open(&disks, plan, known)?;
                database.add_column(random);
                database.drop_one(random);
                database.create_table();
                database.work(random, 6);
                known.history.insert(database.writer.newest() + 1, state(&mut database.store));
                database.write()?;
                database.checkpoint()
            };
            known.is_cut = true;
            let crashed = life(&mut known, &mut random).is_err();
            let disks = [disks[0].crash(&mut random)];
            // Some of the next opening, then all of it.
            disks[0].fail_after(Some(random.below(150)));
            known.is_cut = true;
            if open(&disks, plan, &mut known).is_err() {
                known.is_cut = true;
            }
            let disks = [disks[0].crash(&mut random)];
            let opened = open(&disks, plan, &mut known);
            opened.unwrap_or_else(|failure| panic!("call {calls}: {failure:?}"));
            if !crashed {
                break;
            }
        }
    }
}

/// The model notices each of these bugs.
#[cfg(not(tombolo_plants))]
#[test]
fn planted_bugs_are_noticed() {
    for (plant, copy) in [
        (Plant::ImageSyncSkipped, Where::None),
        (Plant::BlockWrittenEarly, Where::None),
        (Plant::BlockHalfCopied, Where::None),
        (Plant::SurveyTooOld, Where::None),
        (Plant::ImageSyncSkipped, Where::Memory),
        (Plant::LogReleasedEarly, Where::Memory),
        (Plant::BlocksDescending, Where::Memory),
        (Plant::RingNotInCatalogueFirst, Where::Memory),
        (Plant::StaleBlockAccepted, Where::Memory),
    ] {
        let is_noticed = |seed| {
            let both = || {
                run_dense(plan(seed, copy));
                run_interrupted(plan(seed, copy));
                run(plan(seed, copy));
            };
            std::panic::catch_unwind(|| plant::with(plant, both)).is_err()
        };
        assert!((0..400).any(is_noticed), "{} is not noticed", plant.name());
        println!("{} is noticed", plant.name());
    }
}
