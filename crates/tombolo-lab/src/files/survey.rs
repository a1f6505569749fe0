//! Reading what lies in a directory with a value log, and changing nothing in it; what recovery
//! says of the place where a log ends.
//!
//! Not here: opening a database to continue it (`open.rs`).

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::recovery::{self, OpenFailure, OpenOptions, Replayed, Replayer, Reporter};
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::image::{Image, ImageSettings};
use tombolo_storage::value_log::{self, Cut, DirectoryLock, Survey};

use super::open::{Logged, show};
use crate::progress::Progress;

/// The content of a directory.
#[derive(Debug)]
pub struct Surveyed {
    /// The rows, up to where the log ends or is damaged.
    pub store: Logged,
    /// The log.
    pub log: Survey,
    /// Bytes of the image before it; 0 where there is none.
    pub image_bytes: u64,
}

/// Reads the database on `disks`, in the order they were given when it was made.
///
/// # Errors
/// As [`value_log::survey`], [`Image::find`] and [`Image::load`].
pub fn survey(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Surveyed, OpenFailure> {
    progress.begin("reading image and log");
    let surveyed = survey_quietly(disks, options, clock, &mut |now| show(now, progress));
    progress.end();
    surveyed
}

fn survey_quietly(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    clock: &dyn Clock,
    report: &mut dyn FnMut(recovery::Progress),
) -> Result<Surveyed, OpenFailure> {
    let mut reporter = Reporter::begin(clock, report);
    let (lock, image, now) = find(disks)?;
    reporter.now = now;
    let mut replayer =
        Replayer::load(&image, options, clock, &mut |bytes| reporter.read_image(bytes))?;
    let first = replayer.log_start();
    let log = value_log::survey_locked(&lock, &*disks[0], first, &mut replayer, &mut |log| {
        reporter.read_log(log);
    });
    let log = log.map_err(|failure| recovery::blame(&image, failure))?;
    let Replayed { store, .. } = replayer.replayed();
    Ok(Surveyed { store, log, image_bytes: reporter.now.image_bytes })
}

/// What lies on `disks`, to be looked at under the lock; nothing is read yet.
pub(crate) fn find(
    disks: &[Arc<dyn Disk>],
) -> Result<(DirectoryLock, Image, recovery::Progress), OpenFailure> {
    let lock = DirectoryLock::take_to_look(&*disks[0])?;
    let image = Image::find(disks.to_vec(), ImageSettings::default())?;
    let now = recovery::Progress {
        image_bytes_max: image.image_bytes(),
        log_bytes_max: value_log::log_bytes(&*disks[0])?,
        ..recovery::Progress::default()
    };
    Ok((lock, image, now))
}

/// One line about where a log ended. `is_cut` says whether it was cut off there, or will be.
pub fn notice(cut: &Cut, is_cut: bool) -> String {
    let Cut { file, offset, group, torn_bytes, damage, lost, kept } = cut;
    let tense = |past, future| if is_cut { past } else { future };
    if damage.is_none() {
        return format!(
            "the log ends in {file} at offset {offset} with {torn_bytes} bytes of group {group}, \
             which was not finished and never acknowledged: {}",
            tense("they were cut off", "opening the database will cut them off")
        );
    }
    let lost = match lost.groups {
        0 => format!("group {group} and all later ones, of which nothing can be read,"),
        _ => format!("{lost} from group {group} on"),
    };
    let kept = match &kept[..] {
        [] => String::new(),
        [file] => format!("; what was there is kept in {file}"),
        [first, .., last] => format!("; what was there is kept in {first} to {last}"),
    };
    format!(
        "the log is damaged in {file} at offset {offset}: {lost} {}{kept}",
        tense("are lost, as --accept-loss says", "cannot be read")
    )
}

#[cfg(test)]
mod tests {
    use tombolo_storage::value_log::{LogFailure, Lost};

    use super::*;

    #[test]
    fn a_notice_names_the_place_and_what_is_gone() {
        let mut cut = Cut {
            file: "log-000001".to_owned(),
            offset: 8192,
            group: 7,
            torn_bytes: 512,
            damage: None,
            lost: Lost::default(),
            kept: Vec::new(),
        };
        let torn = notice(&cut, true);
        assert!(torn.contains("512 bytes of group 7") && torn.ends_with("were cut off"), "{torn}");
        assert!(notice(&cut, false).contains("will cut"));
        cut.damage = Some(LogFailure::NoLog);
        assert!(notice(&cut, true).contains("group 7 and all later ones"));
        cut.lost = Lost { groups: 3, transactions: 40, row_changes: 90 };
        cut.kept = vec!["lost-000001-log-000003".to_owned()];
        let lost = notice(&cut, true);
        assert!(lost.contains("3 groups, 40 transactions, at least 90 row changes from group 7"));
        assert!(lost.ends_with("is kept in lost-000001-log-000003"), "{lost}");
    }
}
