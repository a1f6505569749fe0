//! Directories of profile memory after a crash: recovered, inspected, verified, refused where damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::ended::{Ended, line};
use serde_json::Value;

/// The only object on standard output.
fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A directory after a small durable run that left all to its log, and the run's result; made once.
fn ran() -> &'static (PathBuf, Value) {
    static RAN: OnceLock<(PathBuf, Value)> = OnceLock::new();
    RAN.get_or_init(|| {
        let directory = scratch("ran");
        let run = format!(
            "run tpcc --warehouses 1 --transactions 1k --durability group --data {} --volatile-ok \
             --log-segment-bytes 8MB --checkpoints off --json",
            directory.display()
        );
        let ended = line(&run);
        assert_eq!(ended.status, 0, "{ended:?}");
        let result = object(&ended);
        (directory, result)
    })
}

/// A path that nothing is at.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recovery-{name}"));
    let _ = fs::remove_dir_all(&path);
    path
}

/// The directory of the run, copied.
fn copy(name: &str) -> PathBuf {
    let to = scratch(name);
    fs::create_dir_all(&to).expect("a test's files can be read and written");
    for entry in fs::read_dir(&ran().0).expect("a test's files can be read and written") {
        let entry = entry.expect("a test's files can be read and written");
        fs::copy(entry.path(), to.join(entry.file_name()))
            .expect("a test's files can be read and written");
    }
    to
}

/// All files and what is in them.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory)
        .expect("a test's files can be read and written")
        .map(|entry| entry.expect("a test's files can be read and written").path());
    let mut files: Vec<_> = entries
        .map(|path| (path.clone(), fs::read(path).expect("a test's files can be read and written")))
        .collect();
    files.sort();
    files
}

fn call(words: &str, directory: &Path) -> Ended {
    line(&format!("{words} {} --json", directory.display()))
}

/// Changes a byte in the middle of group `group`'s segment, behind its headers.
fn spoil(directory: &Path, file: &str, offset: usize) {
    let path = directory.join(file);
    let mut bytes = fs::read(&path).expect("a test's files can be read and written");
    bytes[offset] ^= 0x20;
    fs::write(path, bytes).expect("a test's files can be read and written");
}

#[test]
fn a_closed_directory_recovers_as_it_was() {
    let directory = copy("closed");
    let before = files(&directory);
    let ended = call("check", &directory);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let checked = object(&ended);
    assert_eq!(checked["state_hash"], ran().1["state_hash"]);
    for check in ["log", "c01", "c12", "indexes", "slabs"] {
        assert_eq!(checked["checks"][check], true, "{check}");
    }
    assert!(files(&directory) == before, "a check changes nothing");
    for round in 0..2 {
        let ended = call("recover", &directory);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
        let result = object(&ended);
        assert_eq!(result["clean"], true, "round {round}");
        for (field, value) in [("image_bytes", 0), ("torn_bytes", 0), ("lost_groups", 0)] {
            assert_eq!(result[field], value, "{field}");
        }
        for field in ["log_bytes", "row_images", "replay_cpu_s", "wall_s", "last_group"] {
            assert!(result[field].as_f64().unwrap() > 0.0, "{field}");
        }
    }
    assert_eq!(object(&call("check", &directory))["state_hash"], ran().1["state_hash"]);
}

#[test]
fn what_is_in_the_files_is_shown() {
    let (directory, _) = ran();
    let before = files(directory);
    let shown = object(&call("inspect", directory));
    assert!(files(directory) == before, "nothing is changed");
    assert_eq!(shown["torn_bytes"], 0);
    assert_eq!(shown["format_version"], 4);
    let segments = shown["segments"].as_array().unwrap();
    assert!(segments.len() > 2 && segments[0]["file"] == "log-000001", "{segments:?}");
    assert_eq!(segments[0]["format_version"], 4);
    assert_eq!((&segments[0]["state"], &segments[0]["first_group"]), (&"used".into(), &1.into()));
    let tables = shown["tables"].as_array().unwrap();
    let of = |table: &str| tables.iter().find(|of| of["table"] == table).unwrap();
    assert_eq!(of("item")["inserted"], 100_000);
    assert!(of("stock")["updated"].as_u64().unwrap() > 1_000);
    let text = line(&format!("inspect {}", directory.display()));
    assert!(text.stdout.contains("log-000001") && text.stdout.contains("ends with a whole group"));
}

#[test]
fn damage_is_refused_and_its_loss_accepted_only_when_asked_to() {
    let directory = copy("damaged");
    spoil(&directory, "log-000002", 100_000);
    let before = files(&directory);
    let refused = call("recover", &directory);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    for part in ["log-000002", "at offset", "group", "accept the loss"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let checked = call("check", &directory);
    let found = object(&checked);
    assert_eq!((checked.status, &found["checks"]["log"]), (1, &false.into()), "{checked:?}");
    assert!(found["damage"][0]["file"].as_str().unwrap().ends_with("log-000002"));
    assert!(found["damage"][0]["offset"].is_u64());
    let shown = call("inspect", &directory);
    assert_eq!((shown.status, object(&shown)["damage"].as_array().unwrap().len()), (1, 1));
    assert!(files(&directory) == before, "nothing was changed so far");
    let accepted = call("recover --accept-loss", &directory);
    assert_eq!(accepted.status, 0, "{accepted:?}");
    assert!(accepted.stderr.contains("are lost, as --accept-loss says"), "{accepted:?}");
    let result = object(&accepted);
    assert_eq!(result["clean"], false);
    assert!(result["lost_groups"].as_u64().unwrap() > 0);
    assert!(result["lost_transactions"].as_u64().unwrap() > 0);
    let again = call("recover", &directory);
    assert_eq!((again.status, &object(&again)["clean"]), (0, &true.into()), "{again:?}");
}

#[test]
fn a_torn_tail_is_cut_with_a_notice() {
    let directory = copy("torn");
    // What a crash leaves: the newest group's beginning, and the groups behind it missing. The run
    // was closed, so its last two groups go: no other group vouches for the one before.
    let shown = object(&call("inspect", &directory));
    let segments = shown["segments"].as_array().unwrap();
    let last = segments.iter().rfind(|segment| segment["state"] == "used").unwrap();
    let path = directory.join(last["file"].as_str().unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let blocks = bytes.len() / 4096;
    let heads = (2..blocks).filter(|block| bytes[block * 4096..].starts_with(b"tgr3"));
    let newest: Vec<usize> = heads.collect();
    let keep = newest[newest.len() - 3] * 4096 + 70;
    bytes[keep..].fill(0);
    fs::write(&path, &bytes).unwrap();
    let checked = call("check", &directory);
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.stderr.contains("notice: the log ends in"), "{checked:?}");
    let ended = call("recover", &directory);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stderr.contains("they were cut off"), "{ended:?}");
    let result = object(&ended);
    assert_eq!((&result["clean"], &result["lost_groups"]), (&false.into(), &0.into()));
    assert!(result["torn_bytes"].as_u64().unwrap() > 0);
    assert_eq!(object(&call("recover", &directory))["clean"], true, "reported once");
}

#[test]
fn a_directory_with_an_image_is_recovered_inspected_and_checked() {
    let directory = scratch("image");
    let run = format!(
        "run tpcc --warehouses 1 --transactions 20k --latency-transactions 0 --clients 16 --data {} \
         --volatile-ok --log-segment-bytes 4MB --checkpoint-log-bytes 1MB --checkpoint-threads 2 \
         --json",
        directory.display()
    );
    let ran = object(&line(&run));
    assert_eq!(ran["settings"]["checkpoint_log_bytes"], 1 << 20);
    // Whether the run ends before one is completed is the device's matter.
    let checkpoint = &ran["checkpoint"];
    assert!(checkpoint["bytes"].as_u64().unwrap() > 0, "{checkpoint}");
    let (count, wall_s) = (&checkpoint["count"], checkpoint["wall_s"].as_f64().unwrap());
    assert_eq!(count.as_u64().unwrap() > 0, wall_s > 0.0, "{checkpoint}");
    let meanwhile = &ran["latency_in_checkpoint_us"];
    let fields = |summary: &Value| summary.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(meanwhile), fields(&ran["latency_us"]));
    assert!(ran["by_stage"]["checkpoint"]["busy_s"].as_f64().unwrap() > 0.0);
    let before = files(&directory);
    let checked = object(&call("check", &directory));
    assert_eq!(checked["state_hash"], ran["state_hash"]);
    let shown = object(&call("inspect", &directory));
    let image = &shown["image"];
    assert!(image["complete"].as_u64().unwrap() >= 2 && image["format_version"] == 4, "{image}");
    let rings = image["rings"].as_array().unwrap();
    let is_stock = |ring: &&Value| ring["table"] == "stock" && ring["live"] == 100_000;
    let stock = rings.iter().find(is_stock).unwrap();
    assert!(files(&directory) == before, "neither changes anything");
    let recovered = object(&call("recover", &directory));
    assert!(recovered["image_bytes"].as_f64().unwrap() > 5e7, "{recovered}");
    assert_eq!(object(&call("check", &directory))["state_hash"], ran["state_hash"]);
    a_loss_that_would_not_help_is_not_offered(&directory);
    // The log before the image is gone, so it is needed. Of two places of a ring one is not spare.
    assert_eq!(stock["spare_blocks"], 1);
    for place in 0..2 {
        let offset = place * stock["block_bytes"].as_u64().unwrap() as usize + 100;
        spoil(&directory, stock["file"].as_str().unwrap(), offset);
    }
    let spoilt = files(&directory);
    let refused = call("recover", &directory);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{refused:?}");
    assert!(refused.stderr.contains("image-") && refused.stderr.contains("at offset"));
    assert!(files(&directory) == spoilt, "nothing was changed");
}

/// The log of a directory with an image loses all its groups: the image holds changes of newer ones.
fn a_loss_that_would_not_help_is_not_offered(directory: &Path) {
    let rewrite = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).expect("a test's files can be read and written");
    };
    let whole = files(directory);
    let is_log = |path: &Path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-"))
    };
    for (path, bytes) in whole.iter().filter(|(path, _)| is_log(path)) {
        rewrite(path, &[&bytes[..8192], &vec![0; bytes.len() - 8192]].concat());
    }
    let spoilt = files(directory);
    for words in ["recover", "recover --accept-loss"] {
        let refused = call(words, directory);
        assert_eq!((refused.status, refused.stderr.lines().count()), (1, 1), "{refused:?}");
        for part in ["log-", "at offset", "would not help"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        // Where nothing ran while the last checkpoint was written, its image holds nothing newer.
        let why = ["the image holds changes", "is the first that is needed"];
        assert!(why.iter().any(|why| refused.stderr.contains(why)), "{refused:?}");
        assert!(!refused.stderr.contains("accept the loss"), "{refused:?}");
    }
    let checked = call("check", directory);
    assert_eq!((checked.status, &object(&checked)["checks"]["log"]), (1, &false.into()));
    assert!(!checked.stderr.contains("--accept-loss"), "{checked:?}");
    assert!(files(directory) == spoilt, "nothing was changed");
    whole.iter().for_each(|(path, bytes)| rewrite(path, bytes));
}
