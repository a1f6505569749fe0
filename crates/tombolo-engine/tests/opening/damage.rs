//! Whatever is wrong with a file of a closed database: it opens with exactly its rows, or is refused by the
//! file's name, and then nothing has changed. A loss that is accepted is one of the log, and of no rows that
//! intact files hold.

use super::*;

/// A database that was closed with a last checkpoint, whose log was given back up to there, and its rows.
fn closed() -> (MemDisk, Model) {
    let disk = MemDisk::new();
    let mut database = Database::create(from_ref(&disk), &options(1, 1)).unwrap();
    let mut random = Rng::from_seed(5);
    for _ in 0..6 {
        database.groups(&mut random, 80).unwrap();
        database.checkpoint().unwrap();
    }
    database.groups(&mut random, 5).unwrap();
    while !database.waiting.is_empty() {
        database.install().unwrap();
    }
    database.checkpoint().unwrap();
    database.writer.seal().unwrap();
    assert!(database.released > 2);
    (disk, database.model)
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(usize),
    Zeros(usize),
    Cut(usize),
    Gone,
}

/// A file as it is then; `None` where it was so before.
fn damaged(bytes: &[u8], damage: Damage) -> Option<Vec<u8>> {
    let mut after = bytes.to_vec();
    match damage {
        Damage::Flip(at) => after[at] ^= 1 << (at % 8),
        Damage::Zeros(at) => {
            let end = bytes.len().min(at + 512);
            after[at..end].fill(0);
        }
        Damage::Cut(length) => after.truncate(length),
        Damage::Gone => {}
    }
    (after != bytes || matches!(damage, Damage::Gone)).then_some(after)
}

/// Opens the damaged database with and without a loss accepted.
fn judge(files: &BTreeMap<String, Vec<u8>>, expected: &Model, name: &str, damage: Damage) {
    let Some(after) = damaged(&files[name], damage) else { return };
    let is_log = name.starts_with("log-");
    for accept_loss in [false, true] {
        let disk = MemDisk::new();
        for (file, bytes) in files {
            let bytes = if file == name { &after } else { bytes };
            if file != name || !matches!(damage, Damage::Gone) {
                disk.open(file, Open::New).unwrap().write_at(bytes, 0).unwrap();
            }
        }
        let before = content(&disk);
        let options = OpenOptions { accept_loss, ..options(1, 1) };
        let case = || format!("{name} {damage:?}, loss accepted: {accept_loss}");
        match Database::open(from_ref(&disk), &options) {
            Ok(database) => {
                let may_differ = is_log && accept_loss;
                assert!(may_differ || database.model == *expected, "other rows: {}", case());
            }
            Err(Failure::Open(failure)) => {
                let why = failure.to_string();
                let kind = if is_log { "log-" } else { name };
                let is_named = why.contains(kind)
                    || matches!(damage, Damage::Gone) && why.contains("checkpoint-");
                assert!(is_named, "{}: {why}", case());
                assert!(content(&disk) == before, "a refusal changed something: {}", case());
            }
            Err(other) => panic!("{}: {other:?}", case()),
        }
    }
}

/// Every `stride`th byte of each file, and all that lies in its first and last bytes.
fn any_damage(stride: usize, (part, parts): (usize, usize)) {
    let (disk, expected) = closed();
    let files = content(&disk);
    assert!(
        ["log-", "image-", "checkpoint-"]
            .iter()
            .all(|kind| { files.keys().any(|name| name.starts_with(kind)) })
    );
    let cases: Vec<(&str, Damage)> =
        files.iter().flat_map(|(name, bytes)| damages(name, bytes.len(), stride)).collect();
    let cases: Vec<_> = cases.into_iter().skip(part).step_by(parts).collect();
    for (at, &(name, damage)) in cases.iter().enumerate() {
        if at > 0 && at.is_multiple_of(20_000) {
            println!("{at} of {} damages", cases.len());
        }
        judge(&files, &expected, name, damage);
    }
    println!("{} damages of {} files, each judged twice", cases.len(), files.len());
}

/// What is done to a file of this length.
fn damages(name: &str, length: usize, stride: usize) -> Vec<(&str, Damage)> {
    let is_looked_at =
        |at: &usize| at.is_multiple_of(stride) || *at < 160.min(stride) || at + 8 > length;
    let flips = (0..length).filter(is_looked_at).map(Damage::Flip);
    let sectors = (0..length).step_by(512.max(stride.next_multiple_of(512)));
    let sectors = sectors.flat_map(|at| [Damage::Zeros(at), Damage::Cut(at)]);
    let all = flips.chain(sectors).chain([Damage::Cut(length - 1), Damage::Gone]);
    all.map(|damage| (name, damage)).collect()
}

#[test]
fn any_damage_is_noticed_and_costs_nothing_that_is_intact() {
    any_damage(4_093, (0, 1));
}

/// The same for every byte, in two parts, a process for each: opening maps and unmaps memory, which two
/// threads of one process cannot do concurrently.
#[test]
#[ignore = "takes long: cargo test --release -p tombolo-engine --test opening -- --ignored --nocapture first_half"]
fn every_byte_may_be_wrong_first_half() {
    any_damage(1, (0, 2));
}

#[test]
#[ignore = "takes long: cargo test --release -p tombolo-engine --test opening -- --ignored --nocapture second_half"]
fn every_byte_may_be_wrong_second_half() {
    any_damage(1, (1, 2));
}

/// The catalogue lost as a whole: what the log lacks is not accepted as lost, and nothing goes.
#[test]
fn a_lost_catalogue_is_named_and_costs_nothing_once_it_is_back() {
    let (disk, expected) = closed();
    let name = content(&disk).into_keys().find(|name| name.starts_with("checkpoint-")).unwrap();
    let whole = content(&disk).remove(&name).unwrap();
    let zeros = vec![0; whole.len()];
    for lost in [None, Some(&zeros[..]), Some(&whole[..100])] {
        disk.remove(&name).unwrap();
        if let Some(bytes) = lost {
            disk.open(&name, Open::New).unwrap().write_at(bytes, 0).unwrap();
        }
        let before = content(&disk);
        for accept_loss in [false, true] {
            let options = OpenOptions { accept_loss, ..options(2, 1) };
            let Err(Failure::Open(OpenFailure::Image(failure))) =
                Database::open(from_ref(&disk), &options)
            else {
                panic!("it is opened, or the log is blamed");
            };
            let why = failure.to_string();
            assert!(why.contains("checkpoint-") && !why.contains("accept the loss"), "{why}");
            assert!(content(&disk) == before);
        }
        if lost.is_some() {
            disk.remove(&name).unwrap();
        }
        disk.open(&name, Open::New).unwrap().write_at(&whole, 0).unwrap();
        assert!(Database::open(from_ref(&copy(&disk)), &options(1, 1)).unwrap().model == expected);
    }
}
