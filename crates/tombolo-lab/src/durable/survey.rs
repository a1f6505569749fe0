//! Reading what lies in a directory with a value log, and changing nothing in it; what recovery
//! says of the place where a log ends.
//!
//! Not here: opening a database to go on with it (`open.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::recovery::{OpenOptions, Replayed, Replayer};
use tombolo_storage::disk::Disk;
use tombolo_storage::value_log::{self, Cut, LogFailure, Survey};

use super::open::{Logged, tell};
use crate::progress::Progress;

/// What lies in a directory.
#[derive(Debug)]
pub struct Surveyed {
    /// The rows, up to where the log ends or is damaged.
    pub store: Logged,
    /// The log.
    pub log: Survey,
}

/// Reads the database on `disk`.
///
/// # Errors
/// As [`value_log::survey`].
pub fn survey(
    disk: &dyn Disk,
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Surveyed, LogFailure> {
    progress.begin("reading the log");
    let mut replayer = Replayer::new(options, clock);
    let log = value_log::survey(disk, &mut replayer, &mut |now| tell(now, progress));
    progress.end();
    let log = log?;
    let Replayed { store, .. } = replayer.replayed();
    Ok(Surveyed { store, log })
}

/// One line about where a log ended. `is_cut` says whether it was cut off there, or will be.
pub fn notice(cut: &Cut, is_cut: bool) -> String {
    let Cut { file, offset, group, torn_bytes, damage, lost_groups, lost_transactions } = cut;
    let tense = |past, future| if is_cut { past } else { future };
    if damage.is_none() {
        return format!(
            "the log ends in {file} at offset {offset} with {torn_bytes} bytes of group {group}, \
             which was not finished and never acknowledged: {}",
            tense("they were cut off", "opening the database will cut them off")
        );
    }
    let lost = match *lost_groups {
        0 => format!("group {group} and all later ones, of which nothing can be read"),
        1 => format!("group {group}"),
        more => format!("groups {group} to {}", group + more - 1),
    };
    let transactions = match lost_transactions {
        0 => String::new(),
        1 => ", 1 transaction".to_owned(),
        more => format!(", {more} transactions"),
    };
    format!(
        "the log is damaged in {file} at offset {offset}: {lost}{transactions} {}",
        tense("are lost, as --accept-loss says", "cannot be read")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_the_place_and_what_is_gone() {
        let mut cut = Cut {
            file: "log-000001".to_owned(),
            offset: 8192,
            group: 7,
            torn_bytes: 512,
            damage: None,
            lost_groups: 0,
            lost_transactions: 0,
        };
        let torn = notice(&cut, true);
        assert!(torn.contains("512 bytes of group 7") && torn.ends_with("were cut off"), "{torn}");
        assert!(notice(&cut, false).contains("will cut"));
        cut.damage = Some(LogFailure::NoLog);
        assert!(notice(&cut, true).contains("group 7 and all later ones"));
        (cut.lost_groups, cut.lost_transactions) = (3, 40);
        let lost = notice(&cut, true);
        assert!(lost.contains("groups 7 to 9, 40 transactions are lost"), "{lost}");
    }
}
