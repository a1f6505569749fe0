//! Random logs on a disk that forgets, crashed at every moment, recovered, recovered again.
//!
//! The oracle: what is found is a prefix of what was written, it holds everything that a sync
//! confirmed, and a second recovery finds the same.

use super::*;

/// What is known of a log.
#[derive(Default)]
struct Known {
    /// Groups written, in order.
    written: Groups,
    /// How many of them a sync confirmed.
    durable: usize,
    /// Groups before this one may be gone.
    first: GroupNumber,
}

/// Writes until the disk fails or the work is done.
fn work(writer: &mut LogWriter, known: &mut Known, random: &mut Random) -> Result<(), LogFailure> {
    for _ in 0..random.below(25) {
        match random.below(20) {
            0..=10 => {
                let length = match random.below(12) {
                    0 => 8_000 + random.below(20_000),
                    _ => 1 + random.below(1_500),
                };
                let bytes = records(random, length as usize);
                let (head, tail) = bytes.split_at(length as usize / 2);
                // Its number is known before it is: a crash may leave it behind.
                known.written.push((0, bytes.clone()));
                let number = writer.append_group(&[head, tail], 1, None)?;
                known.written.last_mut().unwrap().0 = number;
            }
            11..=15 => {
                writer.sync()?;
                known.durable = known.written.len();
            }
            16 => {
                writer.seal()?;
                known.durable = known.written.len();
            }
            17 => _ = writer.preparer().prepare()?,
            18 if known.durable > 0 => {
                // A checkpoint that holds all but the last durable groups.
                let keep = random.below(4) as usize;
                let first = known.written[known.durable.saturating_sub(1 + keep)].0;
                known.first = known.first.max(first);
                writer.release_before(known.first);
                if random.below(2) == 0 {
                    writer.trim()?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What was found is what is known; what is not durable any more is forgotten.
fn judge(known: &mut Known, found: &Groups, seed: u64) {
    let needed = known.first;
    let expected: Vec<_> =
        known.written.iter().filter(|(number, _)| *number >= needed || *number == 0).collect();
    let durable =
        known.written[..known.durable].iter().filter(|(number, _)| *number >= needed).count();
    assert!(found.len() >= durable, "seed {seed}: {} of {durable} durable groups", found.len());
    assert!(found.len() <= expected.len(), "seed {seed}: more groups than were written");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.1 == expected.1, "seed {seed}: group {} is another", found.0);
    }
    known.written = found.clone();
    known.durable = found.len();
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = CrashDisk::default();
    let mut known = Known { first: 1, ..Known::default() };
    let mut epoch = 0;
    let mut is_made = false;
    for _ in 0..6 {
        disk.fail_after((random.below(3) > 0).then(|| random.below(120)));
        let options = RecoverOptions {
            first: known.first.into(),
            accept_loss: false,
            keep: None,
            last: None,
        };
        let opened = match is_made {
            true => recover_with(&disk, options).map(|(recovered, found)| {
                judge(&mut known, &found, seed);
                recovered.writer
            }),
            false => LogWriter::create(Arc::new(disk.clone()), SETTINGS),
        };
        match opened {
            Ok(mut writer) => {
                assert!(writer.epoch() > epoch, "seed {seed}: epoch {} again", writer.epoch());
                epoch = writer.epoch();
                _ = work(&mut writer, &mut known, &mut random);
            }
            Err(LogFailure::Disk(_)) => {}
            Err(LogFailure::NoLog) if !is_made => {}
            Err(other) => panic!("seed {seed}: {other}"),
        }
        disk = if random.below(5) == 0 { disk.kill() } else { disk.crash(&mut random) };
        is_made = disk.list().unwrap().iter().any(|name| name.starts_with("log-"));
        if !is_made {
            assert_eq!(known.durable, 0, "seed {seed}: a log has gone");
            known.written.clear();
            continue;
        }
        // Found once more after the end of that process, and again after a loss of power.
        let (first, found) = recover_with(&disk, options_of(&known)).unwrap();
        judge(&mut known, &found, seed);
        epoch = first.writer.epoch();
        let calls = disk.calls();
        assert!(calls > 0);
        drop(first);
        disk = disk.crash(&mut random);
        let (second, same) = recover_with(&disk, options_of(&known)).unwrap();
        assert!(same == found, "seed {seed}: a second recovery finds something else");
        assert_eq!(second.cut, None, "seed {seed}: the tail was not cut durably");
        epoch = epoch.max(second.writer.epoch());
        drop(second);
    }
}

fn options_of(known: &Known) -> RecoverOptions {
    RecoverOptions { first: known.first.into(), accept_loss: false, keep: None, last: None }
}

#[test]
fn crashes_lose_nothing_that_was_synced() {
    (0..600).for_each(run);
}

/// The crash of a recovery, at each of its calls, is as good as none.
#[test]
fn a_recovery_can_crash_anywhere() {
    let mut random = Random::new(5);
    for round in 0..12 {
        let disk = CrashDisk::default();
        let mut known = Known { first: 1, ..Known::default() };
        let mut writer = create(&disk);
        work(&mut writer, &mut known, &mut random).unwrap();
        let found_disk = disk.crash(&mut random);
        drop(writer);
        let (_, expected) = recover_with(&found_disk.kill(), options_of(&known)).unwrap();
        for calls in 0.. {
            let disk = found_disk.kill();
            disk.fail_after(Some(calls));
            let crashed = recover_with(&disk, options_of(&known)).is_err();
            let disk = disk.crash(&mut random);
            let (_, found) = recover_with(&disk, options_of(&known)).unwrap();
            assert!(found == expected, "round {round}, crash at call {calls}");
            if !crashed {
                break;
            }
        }
    }
}
