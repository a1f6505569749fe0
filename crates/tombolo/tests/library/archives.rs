//! The log's archive: any moment since a backup comes back; a failure is reported, and nothing waits for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tombolo::{Database, Error, Registered, Restore};
use tombolo_engine::threads::pause;

use super::{adding, builder, open, value};

/// A place with an empty directory for an archive.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.archive()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn archive(&self) -> PathBuf {
        self.path("archive")
    }

    /// Opens the database in a directory with the archive; it writes checkpoints all the time.
    fn open(&self, directory: &str) -> Result<Database, Error> {
        let builder = builder().set("checkpoint_log_bytes", "64 KB").log_archive(self.archive());
        builder.open(self.path(directory))
    }

    fn restore(&self) -> Restore {
        Restore::from(self.path("backup")).archive(self.archive())
    }
}

/// Adds 1 to the first counter, so many times.
fn count(add: &Registered<i32, i64>, times: u64) {
    for _ in 0..times {
        add.call(1).unwrap();
    }
}

/// What the first counter stands at in the database in a directory.
fn value_in(directory: &Path) -> i64 {
    let db = open(directory).unwrap();
    let value = value(&db, 1);
    db.close().unwrap();
    value
}

#[test]
fn any_moment_since_a_backup_comes_back() {
    let place = Place::new();
    let mut moments = Vec::new();
    for life in 0..3 {
        let db = place.open("own").unwrap();
        let add = adding(&db);
        for round in 0..4 {
            // Enough for some segments.
            count(&add, 399);
            let last = add.call(1).unwrap();
            if (life, round) == (0, 1) {
                db.backup(place.path("backup")).unwrap();
            }
            moments.push((db.archive_now().unwrap(), last));
        }
        let statistics = db.statistics();
        assert_eq!((statistics.archive_failures, statistics.archive_failure), (0, None));
        assert!(statistics.archived_group > 0 && statistics.archive_files > 0);
        assert!(statistics.archive_bytes > 0);
        db.close().unwrap();
    }
    let mut times = Vec::new();
    for (number, &(group, last)) in moments.iter().enumerate().skip(1) {
        let directory = place.path(&format!("group {number}"));
        let restored = place.restore().to_group(group).into(&directory).unwrap();
        assert_eq!(restored.group, group);
        assert_eq!(value_in(&directory), last);
        times.push((restored.time.unwrap(), last));
    }
    let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    assert!(times.is_sorted() && times[0].0 > first, "{times:?}");
    for (number, (time, last)) in times.into_iter().enumerate().step_by(4) {
        let directory = place.path(&format!("time {number}"));
        place.restore().to_time(time).into(&directory).unwrap();
        assert_eq!(value_in(&directory), last);
    }
    let directory = place.path("latest");
    place.restore().to_latest().into(&directory).unwrap();
    assert_eq!(value_in(&directory), moments.last().unwrap().1);
}

#[test]
fn what_was_restored_goes_its_own_way() {
    let place = Place::new();
    let db = place.open("own").unwrap();
    db.backup(place.path("backup")).unwrap();
    let add = adding(&db);
    count(&add, 50);
    let group = db.archive_now().unwrap();
    assert!(
        matches!(place.open("another"), Err(Error::Directory(what)) if what.contains("in use"))
    );
    count(&add, 50);
    db.close().unwrap();
    // To an earlier group: it may not write to this archive.
    place.restore().to_group(group).into(place.path("earlier")).unwrap();
    let refused = place.open("earlier").unwrap_err().to_string();
    assert!(refused.contains("does not continue after them"), "{refused}");
    assert_eq!(value_in(&place.path("earlier")), 50);
    // Restored to the end, it continues; the database it was restored from does not.
    place.restore().into(place.path("latest")).unwrap();
    let db = place.open("latest").unwrap();
    assert_eq!(adding(&db).call(1), Ok(101));
    db.close().unwrap();
    assert!(place.open("own").is_err() && value_in(&place.path("own")) == 100);
    place.restore().into(place.path("again")).unwrap();
    assert_eq!(value_in(&place.path("again")), 101);
    // What is in the archive is no new database's.
    let refused = place.open("new").unwrap_err().to_string();
    assert!(refused.contains("does not continue") && !place.path("new").exists(), "{refused}");
}

#[test]
fn an_archive_that_fails_is_reported_and_tried_again() {
    let place = Place::new();
    let db = place.open("own").unwrap();
    db.backup(place.path("backup")).unwrap();
    let add = adding(&db);
    add.call(1).unwrap();
    fs::rename(place.archive(), place.path("elsewhere")).unwrap();
    let refused = db.archive_now().unwrap_err();
    assert!(matches!(refused, Error::ArchiveFailed(_)) && refused.is_retryable(), "{refused}");
    let reported = db.statistics().archive_failure.unwrap();
    assert!(reported.contains("archive"), "{reported}");
    // No transaction or checkpoint waits for it; the log is kept.
    count(&add, 3_000);
    db.checkpoint().unwrap();
    fs::rename(place.path("elsewhere"), place.archive()).unwrap();
    while db.archive_now().is_err() {}
    assert_eq!(db.statistics().archive_failure, None);
    db.close().unwrap();
    place.restore().into(place.path("restored")).unwrap();
    assert_eq!(value_in(&place.path("restored")), 3_001);
}

#[test]
fn closing_archives_what_is_missing_and_opening_what_was_left() {
    let place = Place::new();
    let db = place.open("own").unwrap();
    db.backup(place.path("backup")).unwrap();
    adding(&db).call(1).unwrap();
    db.close().unwrap();
    place.restore().into(place.path("closed")).unwrap();
    assert_eq!(value_in(&place.path("closed")), 1);
    let db = place.open("own").unwrap();
    fs::rename(place.archive(), place.path("elsewhere")).unwrap();
    adding(&db).call(1).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let refused = place.open("own").unwrap_err().to_string();
    assert!(refused.contains("make the directory, or mount"), "{refused}");
    fs::rename(place.path("elsewhere"), place.archive()).unwrap();
    let db = place.open("own").unwrap();
    db.archive_now().unwrap();
    place.restore().into(place.path("opened")).unwrap();
    assert_eq!(value_in(&place.path("opened")), 2);
}

/// A checkpoint at close holds all of the log, which only its archive lacks. Nothing is new after the
/// restart, so no other checkpoint is due.
#[test]
fn a_log_that_was_full_without_its_archive_has_room_when_that_is_back() {
    let place = Place::new();
    let open = || {
        let builder = builder().set("log_segment_bytes", "256 KB").set("log_bytes_max", "1 MB");
        builder.log_archive(place.archive()).open(place.path("own")).unwrap()
    };
    let db = open();
    let add = adding(&db);
    fs::rename(place.archive(), place.path("elsewhere")).unwrap();
    let mut calls = 0;
    let refused = loop {
        match add.call(1) {
            Ok(value) => calls = value,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::LogFull), "{refused}");
    db.close().unwrap();
    fs::rename(place.path("elsewhere"), place.archive()).unwrap();
    let db = open();
    db.archive_now().unwrap();
    let add = adding(&db);
    // What was archived is released concurrently.
    let mut answered = add.call(1);
    for _ in 0..1_000 {
        if answered == Err(Error::LogFull) {
            pause(Duration::from_millis(10));
            answered = add.call(1);
        }
    }
    assert_eq!(answered, Ok(calls + 1));
}

#[test]
fn what_cannot_be_is_refused_with_what_there_is() {
    let place = Place::new();
    let db = place.open("own").unwrap();
    adding(&db).call(1).unwrap();
    let made = db.backup(place.path("backup")).unwrap();
    let last = db.archive_now().unwrap();
    db.close().unwrap();
    let reported = |restore: Restore| {
        let refused = restore.into(place.path("restored")).unwrap_err().to_string();
        assert!(!place.path("restored").join("log-000001").exists());
        refused
    };
    let what = reported(place.restore().to_group(made.group - 1));
    assert!(what.contains(&format!("the first possible group is {}", made.group)));
    let what = reported(place.restore().to_group(last + 100));
    assert!(what.contains("the last ") && what.contains(" UTC)"), "{what}");
    let hour = Duration::from_secs(3_600);
    for time in [SystemTime::UNIX_EPOCH + hour, SystemTime::UNIX_EPOCH + 4_000_000 * hour] {
        let what = reported(place.restore().to_time(time));
        assert!(what.contains("cannot restore to ") && what.contains("the first"), "{what}");
    }
    let what = reported(Restore::from(place.path("backup")).to_group(last));
    assert!(what.contains("give the log's archive"), "{what}");
    fs::write(place.archive().join("notes"), "mine").unwrap();
    let what = place.open("own").unwrap_err().to_string();
    assert!(what.contains("contains notes and is not an archive"), "{what}");
    let what = builder().log_archive(place.path("own")).open(place.path("own")).unwrap_err();
    assert!(what.to_string().contains("a directory of the database itself"), "{what}");
    let db = open(&place.path("own")).unwrap();
    assert_eq!(db.archive_now(), Err(Error::NoArchive));
    assert!(Error::NoArchive.to_string().contains("log_archive"));
}
