//! Upkeep: statistics, checkpoints and backups of islands that are processes.
//!
//! ```text
//!   all islands: hold checkpoints ─► hold back what is said to islands ─► how far is each log flushed? ─► go on
//!                                                                              │
//!                                     backup ◄─ copy of each island up to there ◄──┘
//! ```
//!
//! The moment of a backup is found in one question. All that an island learns passes through this process: calls, and
//! what other islands say. While that is held back, an island learns nothing that depends on what another one has
//! flushed after its answer. So what the answers name is what a crash of the machine may leave (decision 0052).
//!
//! Not here: the copy of one island and the set of copies (`crate::islands::backup`, storage `backup/`).

use std::path::{Path, absolute};
use std::time::Duration;

use tombolo_engine::islands::membership::island_directory;
use tombolo_engine::pipeline::{CheckpointHold, Pipeline};
use tombolo_engine::threads::on_each;
use tombolo_storage::backup::{self, BackupFailure};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::{LogPosition, LogSettings};

use super::super::backup::{refuse_islands, remove_copies};
use super::database::IslandProcesses;
use crate::backup::Backup;
use crate::calls::on_database_thread;
use crate::core::Core;
use crate::error::Error;
use crate::open::make_directory;
use crate::processes::own::unreadable;
use crate::processes::seat::Seat;
use crate::processes::wire::{self, In, Item};
use crate::statistics::Statistics;

/// How long an island has to answer what it need not wait for.
const ANSWER_MAX: Duration = Duration::from_secs(1);

impl IslandProcesses {
    /// The counters of each island since its process was started, as
    /// [`Islands::statistics`](crate::Islands::statistics) has them; [`Statistics::sum`] adds them up. An island that
    /// does not answer within a second has an error instead: its process is being started again, or a transaction in
    /// memory takes long.
    ///
    /// ```no_run
    /// # fn printed(db: &tombolo::IslandProcesses) {
    /// let of_each = db.statistics();
    /// let all = tombolo::Statistics::sum(of_each.iter().flatten());
    /// println!("{} committed, {} over several islands", all.committed, all.over_islands);
    /// # }
    /// ```
    pub fn statistics(&self) -> Vec<Result<Statistics, Error>> {
        let of = |island: usize, seat: &Seat| {
            let answer = seat.ask(wire::STATISTICS, ANSWER_MAX)?;
            decode_statistics(&answer).ok_or_else(|| unreadable(island))
        };
        self.supervised().seats.iter().enumerate().map(|(island, seat)| of(island, seat)).collect()
    }

    /// Writes a checkpoint of each island; see [`Database::checkpoint`](crate::Database::checkpoint).
    ///
    /// # Errors
    /// As there, of the first island that has one; [`Error::IslandRestarts`], [`Error::AnswerLost`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        let checkpoint = |call| Item::new(wire::CHECKPOINT).u64(call).end();
        of_all(&self.supervised().seats, |_, seat| seat.call(checkpoint)).map(drop)
    }

    /// Copies all islands into a new or an empty directory while they run, as
    /// [`Islands::backup`](crate::Islands::backup) does; [`Islands::restore`](crate::Islands::restore) makes a
    /// database of the copy. For a moment, in which each island answers one question, calls wait to be sent. If the
    /// process of an island ends meanwhile, there is no copy.
    ///
    /// # Errors
    /// As there; [`Error::IslandRestarts`], [`Error::AnswerLost`]; [`Error::InIsland`] when an island does not
    /// answer within a second.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<Backup>, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        if self.supervised().is_in_memory() {
            let what = "not done: a database in memory has no files to copy";
            return Err(Error::Directory(what.to_owned()));
        }
        let path = absolute(to.as_ref())
            .map_err(|cause| Error::Directory(format!("the directory's path: {cause}")))?;
        let Some(text) = path.to_str() else {
            let what = "the copy of islands in processes needs a path that is UTF-8";
            return Err(Error::Directory(format!("{}: {what}", path.display())));
        };
        let _alone = self.backs_up.lock();
        let to = make_directory(&path)?;
        refuse_islands(&path)?;
        let seats = &*self.supervised().seats;
        let _holds = Holding(seats);
        of_all(seats, |_, seat| seat.call(|call| Item::new(wire::HOLD).u64(call).end()))?;
        let moment = moment(seats)?;
        let copy = |island: usize, seat: &Seat| {
            let item = |call| Item::new(wire::COPY).u64(call).u64(moment[island]);
            let answer = seat.call(|call| item(call).rest(text.as_bytes()))?;
            decode_copy(&answer).ok_or_else(|| unreadable(island))
        };
        let mut refused = None;
        let made = backup::write_set(&to, || {
            of_all(seats, copy).map_err(|error| {
                remove_copies(&path, self.islands());
                refused = Some(error);
                // The rest of the set is removed as after any failure.
                BackupFailure::Unfinished { file: text.to_owned() }
            })
        });
        let made = made.map_err(|failure| refused.unwrap_or_else(|| failure.into()))?;
        Ok(made.into_iter().map(Backup::from).collect())
    }
}

/// The newest flushed group of each island, as a crash may leave them; see the file's head.
fn moment(seats: &[Seat]) -> Result<Vec<u64>, Error> {
    // All, before any is asked: what one learns after its answer must reach no other before that one's.
    let held = seats.iter().map(Seat::hold).collect::<Vec<_>>();
    let flushed = of_all(seats, |island, seat| {
        let answer = seat.ask(wire::FLUSHED, ANSWER_MAX)?;
        In(&answer).u64().ok_or_else(|| unreadable(island))
    });
    drop(held);
    flushed
}

/// Asks all islands concurrently.
fn of_all<T: Send>(
    seats: &[Seat],
    ask: impl Fn(usize, &Seat) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let all = on_each(seats.iter().enumerate(), |(island, seat)| ask(island, seat));
    all.into_iter().collect()
}

/// Lets islands write checkpoints again.
struct Holding<'d>(&'d [Seat]);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        for seat in self.0 {
            seat.send([Item::new(wire::RELEASE).end()]);
        }
    }
}

/// The part of an island's process.
#[derive(Default)]
pub(super) struct Upkeep {
    /// While the database backs up.
    hold: Mutex<Option<CheckpointHold>>,
}

impl Upkeep {
    /// Waits for the checkpoint that is being written, and lets no other begin before the release.
    pub(super) fn hold(&self, core: &Core) -> Result<Vec<u8>, Error> {
        core.admit_backup()?;
        let hold = core.hold_checkpoints()?;
        *self.hold.lock() = Some(hold);
        Ok(Vec::new())
    }

    pub(super) fn release(&self) {
        drop(self.hold.lock().take());
    }
}

/// Copies the island of this process up to a group, into its directory within `to`.
pub(super) fn copy(core: &Core, island: usize, group: u64, to: &str) -> Result<Vec<u8>, Error> {
    let to = OsDisk::create(&Path::new(to).join(island_directory(island)))?;
    let made = backup::write(core.disks(), &to, &LogSettings::default(), &mut || group)?;
    let LogPosition { group, checksum, transactions } = made.position;
    let item =
        Item::new(wire::COPY).u64(group).u32(checksum).u64(transactions).u64(made.files as u64);
    Ok(item.u64(made.bytes).end())
}

fn decode_copy(answer: &[u8]) -> Option<backup::Backup> {
    let mut from = In(answer);
    from.u8().filter(|kind| *kind == wire::COPY)?;
    let (group, checksum, transactions) = (from.u64()?, from.u32()?, from.u64()?);
    let position = LogPosition { group, checksum, transactions };
    Some(backup::Backup { position, files: from.u64()? as usize, bytes: from.u64()? })
}

/// The newest group that is flushed.
pub(super) fn flushed(core: &Core) -> Result<Vec<u8>, Error> {
    Ok(core.with_pipeline(Pipeline::flushed_group)?.to_le_bytes().to_vec())
}

/// Statistics as bytes: the numbers, then the texts.
pub(super) fn encode_statistics(statistics: Statistics) -> Vec<u8> {
    let mut statistics = statistics;
    let item = Item::new(u8::from(statistics.checkpoint_is_under_way));
    let mut item = statistics.numbers().into_iter().fold(item, |item, number| item.u64(*number));
    for text in [&statistics.checkpoint_failure, &statistics.archive_failure] {
        let text = text.as_ref().map(|text| [b"!", text.as_bytes()].concat());
        item = item.counted(&text.unwrap_or_default());
    }
    item.end()
}

fn decode_statistics(bytes: &[u8]) -> Option<Statistics> {
    let (mut from, mut statistics) = (In(bytes), Statistics::default());
    statistics.checkpoint_is_under_way = from.u8()? != 0;
    for number in statistics.numbers() {
        *number = from.u64()?;
    }
    let mut text = || {
        let text = from.counted()?.split_first();
        Some(text.map(|(_, words)| String::from_utf8_lossy(words).into()))
    };
    (statistics.checkpoint_failure, statistics.archive_failure) = (text()?, text()?);
    from.is_over().then_some(statistics)
}

#[cfg(test)]
mod tests {
    use tombolo_engine::link::{Link, MemoryFaults, all_counted, memory_pair};
    use tombolo_engine::threads::pause;
    use tombolo_storage::sync::{Arc, AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::processes::line::Line;

    /// An island that counts its calls, and is said to have flushed so many groups. It looks at the question only when
    /// nothing has arrived for some time, or a hundred calls later.
    fn count(seat: &Seat, link: &mut dyn Link, is_slow: bool, is_over: &dyn Fn() -> bool) {
        let (mut calls, mut asked, mut idle) = (0u64, None, 0);
        while !is_over() {
            let bundle = link.receive().unwrap().map(<[u8]>::to_vec);
            for item in bundle.iter().flat_map(|bundle| all_counted(bundle).unwrap()) {
                let mut from = In(item);
                let (kind, number) = (from.u8(), from.u64().unwrap());
                match kind {
                    Some(wire::FLUSHED) => asked = Some((number, calls)),
                    _ => {
                        calls += 1;
                        seat.answered(number, Ok(calls.to_le_bytes().to_vec()));
                    }
                }
            }
            idle = if bundle.is_some() { 0 } else { idle + 1 };
            if let Some((number, before)) = asked
                && (!is_slow || idle > 50 || calls > before + 100)
            {
                seat.answered(number, Ok(calls.to_le_bytes().to_vec()));
                asked = None;
            }
            if bundle.is_none() {
                pause(Duration::from_micros(100));
            }
        }
    }

    #[test]
    fn a_moment_has_what_led_to_anything_that_it_has() {
        let (mut seats, mut ends) = (Vec::new(), Vec::new());
        for island in 0..2 {
            let (own, other) = memory_pair(MemoryFaults::default(), island);
            let (none, _) = memory_pair(MemoryFaults::default(), island);
            let seat = Seat::new(island as usize, false);
            seat.begins(Arc::new(Line::new(Box::new(none), Box::new(own), 2)), 1);
            seat.opens();
            seats.push(seat);
            ends.push(Mutex::new(other));
        }
        let (is_over, working) = (AtomicBool::new(false), AtomicU32::new(2));
        let call = |seat: &Seat| {
            let answer = seat.call(|number| Item::new(wire::CALL).u64(number).end());
            In(&answer.unwrap()).u64().unwrap()
        };
        let moments = on_each(0..4usize, |thread| match thread {
            0 | 1 => {
                let ended = || working.load(Ordering::SeqCst) == 0;
                count(&seats[thread], &mut *ends[thread].lock(), thread == 1, &ended);
                Vec::new()
            }
            2 => {
                while !is_over.load(Ordering::SeqCst) {
                    let first = call(&seats[0]);
                    assert_eq!(call(&seats[1]), first);
                }
                working.fetch_sub(1, Ordering::SeqCst);
                Vec::new()
            }
            _ => {
                let moments = (0..20).map(|_| moment(&seats)).collect();
                is_over.store(true, Ordering::SeqCst);
                working.fetch_sub(1, Ordering::SeqCst);
                moments
            }
        });
        for flushed in moments.concat() {
            let flushed = flushed.unwrap();
            let ahead = flushed[0].checked_sub(flushed[1]);
            assert!(ahead.is_some_and(|ahead| ahead <= 1), "{flushed:?}");
        }
    }

    #[test]
    fn statistics_are_read_as_they_were_written() {
        let mut statistics = Statistics::default();
        statistics.numbers().into_iter().zip(1..).for_each(|(field, number)| *field = number);
        for (failure, is_under_way) in [(None, true), (Some(""), false), (Some("the disk"), true)] {
            statistics.checkpoint_is_under_way = is_under_way;
            statistics.archive_failure = failure.map(Into::into);
            let bytes = encode_statistics(statistics.clone());
            assert_eq!(decode_statistics(&bytes).as_ref(), Some(&statistics));
            assert_eq!(decode_statistics(&bytes[1..]), None);
            assert_eq!(decode_statistics(&bytes[..bytes.len() - 1]), None);
        }
    }
}
