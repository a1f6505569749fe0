//! Processes that are killed, and two that want one directory. The test starts itself again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tombolo::Error;
use tombolo_engine::threads::on_each;

use super::{adding, open, value};

/// Set for the child process only: the directory it works in.
pub(crate) const CHILD: &str = "TOMBOLO_TEST_CHILD";
const THREADS: i32 = 3;

pub(crate) fn child(test: &str, directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The acknowledgement in a line, if it is one: a counter and its value.
fn acknowledged(line: &str) -> Option<(i32, i64)> {
    let (id, value) = line.strip_prefix("ack ")?.split_once(' ')?;
    Some((id.parse().unwrap(), value.parse().unwrap()))
}

#[test]
fn what_was_answered_survives_a_kill() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let db = open(directory.as_ref()).unwrap();
        let add = adding(&db);
        on_each(0..THREADS, |id| {
            loop {
                let value = add.call(id).unwrap();
                // In one write, so that no line is torn between threads.
                let line = format!("ack {id} {value}\n");
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut last = BTreeMap::new();
    for round in 1..=3 {
        let mut child = child("kills::what_was_answered_survives_a_kill", place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledgements = lines.by_ref().filter_map(|line| acknowledged(&line));
        last.extend(acknowledgements.by_ref().take(40 * round));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        last.extend(acknowledgements); // what it had said before it was struck
        let db = open(place.path()).unwrap();
        assert!(db.recovery().is_some_and(|recovery| recovery.transactions > 0));
        for (&id, &acknowledged) in &last {
            let found = value(&db, id);
            // One call of each thread was under way.
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{id}: {found}, {last:?}");
        }
        assert!(!last.is_empty());
    }
}

#[test]
fn two_processes_do_not_share_a_directory() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let db = open(directory.as_ref()).unwrap();
        adding(&db).call(1).unwrap();
        println!("open");
        // Until the parent lets go.
        let _ = std::io::stdin().read(&mut [0]);
        db.close().unwrap();
        std::process::exit(0); // no one reads the test program's output
    }
    let place = tempfile::tempdir().unwrap();
    let mut child = child("kills::two_processes_do_not_share_a_directory", place.path());
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("open")));
    let refused = open(place.path()).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(value(&open(place.path()).unwrap(), 1), 1);
}
