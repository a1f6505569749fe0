//! A crash at every call to the disk: what was answered is found, nothing follows a tear.

use super::*;
use crate::error::Error;
use crate::value_log::tests::crash_disk::CrashDisk;

/// What the log was given, and what it answered.
#[derive(Default)]
struct History {
    /// LSN and transaction of every record, in order.
    records: Vec<(u64, u64)>,
    /// The newest LSN that was answered as flushed.
    answered: u64,
    /// The LSN from which on a restart needs the log, as it was asked for last, and before that.
    released: [u64; 2],
}

impl History {
    /// Transactions of all lengths, flushed one by one and in groups, with releases in between and a disk
    /// that is full for a while.
    fn run(&mut self, disk: &CrashDisk, random: &mut Random) -> Result<(), Error> {
        let failed = |_| Error::Poisoned { reason: "the log was not made" };
        let small = LogSettings { buffer_bytes: 0, ..settings() };
        let log = DiskLog::create(small, on(disk)).map_err(failed)?;
        self.commit(&log, random, 1)?;
        for id in 2..40 {
            match id {
                10 => disk.set_capacity_bytes(Some(log.usage().file_bytes as usize + (130 << 10))),
                30 => disk.set_capacity_bytes(None),
                _ => {}
            }
            match self.commit(&log, random, id) {
                // No room: the transaction ends all the same, and is flushed.
                Err(error) if error.is_full() => {}
                committed => committed?,
            }
            if id % 7 == 0 {
                let kept = self.records[self.records.len() - 3].0;
                self.released = [kept, self.released[0]];
                match log.release_before(kept) {
                    Err(error) if !error.is_full() => return Err(error),
                    _ => {}
                }
                self.answered = self.answered.max(kept - 8);
            }
        }
        log.close().map_err(failed)
    }

    fn commit(&mut self, log: &DiskLog, random: &mut Random, id: u64) -> Result<(), Error> {
        let mut transaction = LogTransaction::default();
        log.begin(&mut transaction, id);
        let mut changes = 1 + random.below(8);
        let mut changed = Ok(());
        while changes > 0 && changed.is_ok() {
            let long = if random.below(6) == 0 { 20_000 } else { 300 };
            let (before, after) = (bytes(random, long), bytes(random, long));
            changed = log.change(&mut transaction, update(id), &before, &after).map(|lsn| {
                self.records.push((lsn.unwrap(), id));
            });
            changes -= 1;
            if changed.is_ok() && random.below(3) == 0 {
                // Its page is evicted.
                let lsn = self.records[self.records.len() - 1].0;
                log.ahead().flush_to(lsn)?;
                self.answered = self.answered.max(lsn);
            }
        }
        if let Err(Error::Poisoned { .. }) = changed {
            return changed;
        }
        let lsn = log.commit(&mut transaction)?;
        log.end_commit(&mut transaction)?;
        if lsn > 0 {
            self.records.push((lsn, id));
            log.harden(lsn)?;
            self.answered = self.answered.max(lsn);
        }
        changed
    }

    /// The log holds a part of the records without a gap, from where it is needed at the latest, up to
    /// what was answered at the least.
    fn verify(&self, disk: &CrashDisk, is_made: bool) {
        let mut found = Vec::new();
        let end = match read_log(disk, 0, |lsn, record| found.push((lsn, record.transaction))) {
            Ok(end) => end,
            Err(error) => panic!("made {is_made}, answered {}: {error}", self.answered),
        };
        assert!(end.lsn > self.answered || self.answered == 0, "{end:?}, {}", self.answered);
        assert!(end.base == end.lsn || end.base <= self.released[0].max(8), "{end:?}");
        let first = self.records.partition_point(|record| record.0 < end.base);
        assert!(self.records[first..].starts_with(&found), "{end:?}");
        assert!(self.records.get(first + found.len()).is_none_or(|next| next.0 == end.lsn));
        let log = match DiskLog::open(settings(), on(disk)) {
            Ok(log) => log,
            Err(error) => panic!("{error}"),
        };
        let is_closed = log.unread().is_some_and(|(needed, end)| needed == end);
        assert_eq!(is_closed, found.is_empty());
        assert!(commit_one(&log, 1).unwrap() >= end.lsn, "numbers go on");
        let mut again = Vec::new();
        read_log(disk, 0, |lsn, record| again.push((lsn, record.transaction))).unwrap();
        assert!(again.starts_with(&found), "what is needed is not written over");
    }
}

#[test]
fn what_was_answered_survives_a_crash_at_every_call() {
    for seed in 0..2 {
        let mut calls = 0;
        loop {
            let disk = CrashDisk::default();
            disk.fail_after(Some(calls));
            let mut history = History::default();
            let result = history.run(&disk, &mut Random::new(seed));
            disk.fail_after(None);
            let is_made = !history.records.is_empty();
            for power in 0..if is_made { 2 } else { 0 } {
                let random = &mut Random::new(calls << 8 | power);
                history.verify(&disk.crash(random), is_made);
            }
            if is_made {
                history.verify(&disk.kill(), is_made);
            }
            if result.is_ok() {
                break;
            }
            calls += 1 + calls / 400;
        }
        assert!(calls > 400, "{calls} calls");
    }
}
