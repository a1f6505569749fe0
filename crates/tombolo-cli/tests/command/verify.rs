//! Histories judged by the command: exit statuses, the text, the object.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ended::{line, object};

/// A file with these transactions, one a line.
fn history(name: &str, transactions: &[(&str, u64, &str)]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let lines = transactions.iter().map(|(session, begin, ops)| {
        let end = begin + 5;
        format!("{{\"session\":\"{session}\",\"begin\":{begin},\"end\":{end},\"ops\":[{ops}]}}\n")
    });
    fs::write(&path, lines.collect::<String>()).expect("the file is written");
    path
}

const WRITE: &str = r#"{"op":"write","table":"account","key":7,"value":100}"#;
const STALE: &str = r#"{"op":"read","table":"account","key":7,"value":null}"#;
const FRESH: &str = r#"{"op":"read","table":"account","key":7,"value":100}"#;

#[test]
fn a_history_that_holds() {
    let path = history("fresh.jsonl", &[("a", 10, WRITE), ("b", 20, FRESH)]);
    let ended = line(&format!("verify {}", path.display()));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.stdout, "strict-serializable: holds; 2 transactions count\n");
    let found = object(&line(&format!("verify {} --json", path.display())));
    assert_eq!(found["command"], "verify");
    assert_eq!(found["settings"]["level"], "strict-serializable");
    assert_eq!((&found["holds"], &found["transactions"]), (&"yes".into(), &2.into()));
}

#[test]
fn an_anomaly_is_reported_and_ends_with_status_1() {
    let path = history("stale.jsonl", &[("a", 10, WRITE), ("b", 20, STALE)]);
    let ended = line(&format!("verify {}", path.display()));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(
        ended.stdout.contains("line 1 had ended (at 15) before line 2 began (at 20)"),
        "{ended:?}"
    );
    assert!(
        ended.stderr.ends_with("not strict-serializable: G-single-real-time on line 1\n"),
        "{ended:?}"
    );
    let weaker = line(&format!("verify {} --level serializable", path.display()));
    assert_eq!(weaker.status, 0, "{weaker:?}");
}
