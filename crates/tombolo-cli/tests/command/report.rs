//! `report`: a page or a text of stored results, and one line about a file that holds none.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ended::{command, line, tombolo};

/// A result that the lab's own tests store.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tombolo-lab/src/report/tests").join(name)
}

#[test]
fn the_same_results_give_the_same_page() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["dissect.json", "run.jsonl", "compare.jsonl"].map(example);
    let page = |name: &str| {
        let out = directory.path().join(name);
        let mut report = command();
        report.arg("report").args(&files).arg("--out").arg(&out).arg("--json");
        let ended = report.output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let result: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!((&result["command"], &result["results"]), (&"report".into(), &10.into()));
        let page = fs::read_to_string(out).unwrap();
        assert_eq!(result["bytes"], page.len());
        page
    };
    let first = page("a.html");
    assert_eq!(first, page("b.html"));
    assert!(first.starts_with("<!DOCTYPE html>") && first.contains("Figure 8"));
}

#[test]
fn the_text_is_ascii_where_the_locale_says_so() {
    let text = |locale: &str| {
        let mut report = command();
        report.arg("report").arg(example("dissect.json")).arg("--text").env("LC_ALL", locale);
        String::from_utf8(report.output().unwrap().stdout).unwrap()
    };
    let (plain, unicode) = (text("C"), text("C.UTF-8"));
    assert!(plain.is_ascii() && plain.contains("New Order, instructions"));
    assert!(unicode.contains("▚▚▚") && unicode.contains("S11 bare"));
}

#[test]
fn what_is_no_result_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.jsonl");
    let out = directory.path().join("report.html");
    let refused = |expect: &str| {
        let ended = line(&format!("report {} --out {}", file.display(), out.display()));
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains(expect), "{expect}: {ended:?}");
        assert!(!out.exists());
    };
    refused("bad.jsonl: No such file");
    fs::write(&file, "{\"command\": \"chore\"}\nrubbish\n").unwrap();
    refused("bad.jsonl: line 2: this is no JSON");
    fs::write(&file, "").unwrap();
    refused("bad.jsonl: line 1: there is no result in it");
    fs::write(&file, "{\"command\": \"dissect\", \"rungs\": []}").unwrap();
    refused("bad.jsonl: line 1: this result of dissect cannot be read: missing field");
}

#[test]
fn results_are_not_overwritten_and_other_places_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.jsonl");
    fs::write(&file, "{\"command\": \"chore\"}\n").unwrap();
    let file = file.to_str().unwrap();
    let ended = tombolo(["report", file, "--out", file]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("is one of the results"), "{ended:?}");
    let ended = tombolo(["report", file, "--out", "/proc/report.html"]);
    assert_eq!(ended.status, 3, "{ended:?}");
    let ended = tombolo(["report", file, "--text", "--json"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert_eq!(tombolo(["report"]).status, 2);
}
