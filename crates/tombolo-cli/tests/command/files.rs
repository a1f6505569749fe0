//! Databases with files: kept, verified, refused where they are damaged, in use or not closed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use crate::ended::{Ended, command, line};
use serde_json::Value;

/// The flags of a run that a test can wait for.
const SMALL: &str = "--warehouses 1 --transactions 1k --latency-transactions 100";

/// The only object on standard output.
fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A directory of conventional after a small run, and the run's result; made once.
fn saved() -> &'static (PathBuf, Value) {
    static SAVED: OnceLock<(PathBuf, Value)> = OnceLock::new();
    SAVED.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data");
        let _ = fs::remove_dir_all(&directory);
        let data = directory.display();
        let run = format!("run tpcc {SMALL} --profile conventional --data {data} --json");
        let ended = line(&format!("{run} --volatile-ok"));
        assert_eq!(ended.status, 0, "{ended:?}");
        (directory, object(&ended))
    })
}

fn check(directory: &Path) -> Ended {
    line(&format!("check {} --json", directory.display()))
}

#[test]
fn a_durable_run_says_what_it_wrote_and_where() {
    let (directory, result) = saved();
    assert_eq!(result["durability"], "group");
    assert_eq!(result["data_dir"], directory.display().to_string());
    assert!(result["data_fs"].is_string());
    let number = |field: &str| result[field].as_f64().unwrap_or_else(|| panic!("{field}"));
    assert!(number("log_bytes") > 1_000.0 && number("flushes") >= 1.0);
    assert!((0.5..=2.0).contains(&number("transactions_per_flush")), "one thread, group commit");
    assert!(
        result["flush_us"]["p50"].as_f64().unwrap() <= result["flush_us"]["p99"].as_f64().unwrap()
    );
    assert_eq!(result["consistent"], true);
    for check in ["c01", "indexes", "pages", "heaps"] {
        assert_eq!(result["checks"][check], true, "{check}");
    }
}

#[test]
fn a_directory_is_checked_again_and_again_and_never_written() {
    let (directory, result) = saved();
    let before = fs::read(directory.join("pages")).unwrap();
    for _ in 0..2 {
        let ended = check(directory);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
        let checked = object(&ended);
        assert_eq!(checked["state_hash"], result["state_hash"]);
        assert_eq!(checked["consistent"], true);
        assert_eq!(checked["checks"].as_object().map(serde_json::Map::len), Some(15));
    }
    let ended = line(&format!("check {} --tamper c05 --json", directory.display()));
    assert_eq!(ended.status, 1);
    let tampered = object(&ended);
    let checks = tampered["checks"].as_object().unwrap();
    let failed: Vec<_> = checks.iter().filter(|(_, holds)| **holds == false).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(fs::read(directory.join("pages")).unwrap() == before, "the directory was written");
}

/// `change` damages copies of the files that begin with `file`: the check finds it in one of them, at an offset
/// that `expect` accepts.
fn damaged(what: &str, file: &str, change: impl Fn(&mut Vec<u8>), expect: impl Fn(u64) -> bool) {
    let copy = tempfile::tempdir().expect("a directory is made");
    for entry in fs::read_dir(&saved().0).expect("the directory is read") {
        let name = entry.expect("the entry is read").file_name();
        let mut bytes = fs::read(saved().0.join(&name)).expect("the original is read");
        // What is copied to repair pages is no page.
        if name.to_string_lossy().starts_with(file) && name != "pages-copies" {
            change(&mut bytes);
        }
        fs::write(copy.path().join(name), bytes).expect("the copy is written");
    }
    let ended = check(copy.path());
    assert_eq!((ended.status, ended.stderr.lines().count()), (1, 1), "{what}: {ended:?}");
    let checked = object(&ended);
    assert_eq!(checked["consistent"], false, "{what}");
    let found = &checked["damage"][0];
    let path = found["file"].as_str().unwrap_or_else(|| panic!("{what}: {found}"));
    let begins = copy.path().join(file).display().to_string();
    assert!(path.starts_with(&begins), "{what}: {found}");
    let offset = found["offset"].as_u64().unwrap_or_else(|| panic!("{what}: {found}"));
    assert!(expect(offset), "{what}: {found}");
    assert!(ended.stderr.contains(&format!("{path} at offset {offset}")), "{ended:?}");
}

#[test]
fn damaged_files_are_refused_with_file_and_offset() {
    const PAGE: usize = 8 << 10;
    let in_first_page = |found| found < PAGE as u64;
    for page in [1, 7, 300, 1_001] {
        let (what, at, flipped) = (format!("page {page}"), page * PAGE, page * PAGE + 1_234);
        damaged(&what, "pages", |bytes| bytes[flipped] ^= 1, |found| found == at as u64);
    }
    // What is read before the header's checksum, and what only that covers.
    for flipped in [48, 60, 64, 68, 5_000] {
        let what = format!("header at {flipped}");
        damaged(&what, "pages", |bytes| bytes[flipped] ^= 1, in_first_page);
    }
    let cut = 500 * PAGE + 17;
    damaged("cut", "pages", |bytes| bytes.truncate(cut), |found| found <= cut as u64);
    damaged("cut to nothing", "pages", Vec::clear, |found| found == 0);
    damaged("the log, cut", "log-0", |bytes| bytes.truncate(3), |found| found == 0);
    let spoil = |bytes: &mut Vec<u8>| bytes[16..8_192].fill(0xAB);
    damaged("the log's headers", "log-0", spoil, |found| found == 0);
}

/// Starts a run without a log that continues until it is killed, and waits until its files are there.
fn start(directory: &Path) -> Child {
    let flags = "run tpcc --profile conventional --warehouses 1 --transactions 10M \
                 --durability none --pool-bytes 300MB --volatile-ok --data";
    let mut child = command()
        .args(flags.split_whitespace())
        .arg(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let written = || fs::metadata(directory.join("pages")).is_ok_and(|file| file.len() > 1 << 20);
    for _ in 0..10_000 {
        if written() {
            return child;
        }
        let _ = line("--version"); // takes a moment
    }
    let _ = child.kill();
    panic!("the run wrote nothing: {:?}", child.wait());
}

#[test]
fn what_is_in_use_or_cannot_be_restarted_is_not_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("data");
    let mut run = start(&directory);
    let ended = check(&directory);
    assert_eq!((ended.status, ended.stdout.as_str()), (3, ""), "{ended:?}");
    assert!(ended.stderr.contains("is in use"), "{ended:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    for _ in 0..2 {
        let ended = check(&directory);
        assert_eq!((ended.status, ended.stdout.as_str()), (3, ""), "{ended:?}");
        assert!(ended.stderr.contains("was not closed"), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1);
    }
}

#[test]
fn every_layout_is_recognised() {
    let scratch = tempfile::tempdir().unwrap();
    let mut states = Vec::new();
    // Small pages and large ones, typed keys and packed ones, with a log and without.
    for profile in ["alone-buffer-manager", "no-btree-keys", "no-lsn", "no-small-page"] {
        let directory = scratch.path().join(profile);
        let data = directory.display();
        let run = format!("run tpcc {SMALL} --mix paper --profile {profile} --durability none");
        let ended = line(&format!("{run} --data {data} --json"));
        assert_eq!(ended.status, 0, "{ended:?}");
        let checked = object(&check(&directory));
        assert_eq!(checked["consistent"], true, "{profile}: {checked}");
        assert_eq!(checked["state_hash"], object(&ended)["state_hash"], "{profile}");
        states.push(checked["state_hash"].clone());
    }
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
}

#[test]
fn threads_and_their_aborts_are_reported() {
    let flags = "--profile conventional --durability none --threads 2 --warehouses 1";
    let ended = line(&format!("run tpcc {flags} --transactions 10k --json"));
    assert_eq!(ended.status, 0, "{ended:?}");
    let result = object(&ended);
    assert_eq!((&result["threads"], &result["state_hash"]), (&2.into(), &Value::Null));
    assert_eq!((&result["durability"], &result["data_dir"]), (&"none".into(), &Value::Null));
    assert_eq!((&result["disk_bytes"], &result["flushes"]), (&0.into(), &0.into()));
    assert_eq!(result["consistent"], true);
    let number = |field: &Value| field.as_u64().unwrap_or_else(|| panic!("{field}"));
    let done = number(&result["committed"]) + number(&result["aborted"]);
    assert_eq!(done - number(&result["retried"]), 10_000);
    let reasons = result["aborts_by_reason"].as_object().unwrap();
    assert_eq!(reasons.values().map(number).sum::<u64>(), number(&result["aborted"]));
    assert!(result["notes"].to_string().contains("log kept in memory"));
}

#[derive(tombolo::Table)]
struct Item {
    #[key]
    id: u32,
    name: String,
}

#[test]
fn a_database_on_pages_of_any_program_is_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("data");
    let db = tombolo::Database::builder().define::<Item>().paged().open(&directory).unwrap();
    let items = db.table::<Item>().unwrap();
    db.transaction(|tx| {
        for id in 0..1_000 {
            tx.insert_row(&items, &Item { id, name: format!("the name of item {id}") })?;
        }
        Ok(())
    })
    .unwrap();
    db.close().unwrap();
    let ended = check(&directory);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let pages = directory.join("pages");
    let mut bytes = fs::read(&pages).unwrap();
    let name = b"the name of item 500";
    let at = bytes.windows(name.len()).position(|found| found == name).expect("it is in a page");
    bytes[at] ^= 1;
    fs::write(&pages, bytes).unwrap();
    assert_eq!(check(&directory).status, 1);
}
