//! Checkpoints that another process writes: that process is killed, and its database, and what was
//! answered is there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::ended::{command, line, number, object, refused};
use serde_json::Value;

const SMALL: &str = "--branches 3 --tellers-per-branch 5 --accounts-per-branch 4k --clients 8 \
    --in-flight 8 --volatile-ok --log-segment-bytes 16MB --checkpoint-log-bytes 1MB";

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{of}/task")) else { return Vec::new() };
    let texts = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let of_thread = |text: String| -> Vec<u32> {
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    texts.flat_map(of_thread).collect()
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(killed.expect("kill is there").success());
}

fn pause() {
    tombolo_engine::threads::pause(Duration::from_millis(5));
}

/// The first process that this one has started, other than `but`.
fn other_process(of: u32, but: Option<u32>) -> u32 {
    for _ in 0..12_000 {
        if let Some(other) = children(of).into_iter().find(|&other| Some(other) != but) {
            return other;
        }
        pause();
    }
    panic!("no process was started");
}

fn checked(data: &Path) -> Value {
    let check = object(&line(&format!("check {} --json", data.display())));
    assert_eq!(check["consistent"], true);
    check
}

#[test]
fn another_process_leaves_what_the_own_one_does() {
    let scratch = tempfile::tempdir().unwrap();
    let run = |name: &str, flags: &str| {
        let data = scratch.path().join(name);
        let run = format!(
            "run debit-credit {SMALL} --transactions 20k --latency-transactions 0 {flags} --data {} --json",
            data.display()
        );
        let ran = object(&line(&run));
        assert_eq!(checked(&data)["state_hash"], ran["state_hash"]);
        ran
    };
    let own = run("own", "--config B");
    let other = run("other", "--config C");
    assert_eq!((&other["config"], &other["state_hash"]), (&"C".into(), &own["state_hash"]));
    assert_eq!(own["checkpoint"]["processes"], Value::Null);
    assert_eq!(other["checkpoint"]["processes"], 1);
    assert!(other["checkpoint"]["process_cpu_s"].is_f64());
    // A setting of its own, too, and two threads.
    let other = run("set", "--checkpoint-process other --checkpoint-threads 2");
    assert_eq!(other["checkpoint"]["processes"], 1);
    // At the end of each run a checkpoint was written: nothing is replayed.
    let data = scratch.path().join("set");
    let opened = object(&line(&format!("recover {} --json", data.display())));
    assert_eq!(number(&opened, "transactions"), 0.0);
}

#[test]
fn a_process_that_is_killed_is_started_again() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let run = format!(
        "run debit-credit {SMALL} --config C --seconds 4 --latency-transactions 0 --data {} --json",
        data.display()
    );
    let mut running = command();
    running.args(run.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = running.spawn().expect("the command starts");
    let first = other_process(running.id(), None);
    // The first checkpoint, of what was loaded, or one later: whichever is under way.
    pause();
    kill(first);
    let second = other_process(running.id(), Some(first));
    for _ in 0..100 {
        pause();
    }
    kill(second);
    let ended = running.wait_with_output().expect("it ends");
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{text}{}", String::from_utf8_lossy(&ended.stderr));
    let ran: Value = serde_json::from_str(&text).unwrap();
    assert!(number(&ran["checkpoint"], "processes") >= 3.0, "{ran}");
    assert!(number(&ran["checkpoint"], "count") >= 1.0, "{ran}");
    assert_eq!(checked(&data)["state_hash"], ran["state_hash"]);
}

#[test]
fn a_database_that_is_killed_leaves_no_process_that_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let run = format!(
        "run debit-credit {SMALL} --config C --seconds 60 --data {} --json",
        data.display()
    );
    let mut running = command();
    running.args(run.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().expect("the command starts");
    let other = other_process(running.id(), None);
    for _ in 0..200 {
        pause();
    }
    kill(running.id());
    running.wait().expect("it was killed");
    // Opening waits for the other process, which ends by itself.
    let opened = object(&line(&format!("recover {} --json", data.display())));
    assert!(number(&opened, "last_group") > 0.0);
    for _ in 0..2_000 {
        if !Path::new(&format!("/proc/{other}")).exists() {
            break;
        }
        pause();
    }
    assert!(!Path::new(&format!("/proc/{other}")).exists(), "it outlives its database");
    checked(&data);
}

#[test]
fn nobody_starts_that_process_by_hand() {
    refused("checkpoint-process somewhere", 2, "is started by a database");
    assert!(!line("--help").stdout.contains("checkpoint-process"));
}
