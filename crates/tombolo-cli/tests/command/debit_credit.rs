//! `run debit-credit`: the same rows on every profile and durability, opened again, checked, refused.

use crate::ended::{line, number, object, refused};
use serde_json::Value;

/// The flags of a run that a test can wait for.
const SMALL: &str = "--branches 3 --tellers-per-branch 5 --accounts-per-branch 4k \
    --transactions 6k --latency-transactions 500 --clients 8 --in-flight 8";

#[test]
fn every_profile_and_durability_leaves_the_same_rows() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let logged = format!("--data {} --volatile-ok --log-segment-bytes 16MB", data.display());
    let run = |flags: &str| object(&line(&format!("run debit-credit {SMALL} {flags} --json")));
    let durable = run(&logged);
    for (field, expected) in
        [("workload", "debit-credit"), ("profile", "memory"), ("durability", "group")]
    {
        assert_eq!(durable[field], expected);
    }
    for (field, expected) in
        [("branches", 3), ("tellers_per_branch", 5), ("accounts_per_branch", 4_000)]
    {
        assert_eq!(durable[field], expected);
    }
    assert_eq!((&durable["mix"], &durable["warehouses"]), (&Value::Null, &Value::Null));
    assert_eq!(number(&durable, "committed") + number(&durable, "aborted"), 6_000.0);
    assert!(number(&durable["aborts_by_reason"], "permission") >= 1.0);
    let kinds: Vec<_> = durable["by_transaction"].as_object().unwrap().keys().collect();
    assert_eq!(kinds, ["debit_credit"]);
    let (second, millisecond) =
        (number(&durable, "within_1s_percent"), number(&durable, "within_1ms_percent"));
    assert!((0.0..=second).contains(&millisecond) && second <= 100.0);
    // What changed, and no whole row.
    let bytes = number(&durable, "log_bytes") / number(&durable, "committed");
    assert!((50.0..100.0).contains(&bytes), "{bytes} bytes of log each");
    for check in ["tellers", "branches", "overdrafts", "indexes", "slabs"] {
        assert_eq!(durable["checks"][check], true, "{check}");
    }
    for flags in ["--durability none", "--durability none --locate-ahead 16", "--profile bare"] {
        let other = run(flags);
        assert_eq!(other["state_hash"], durable["state_hash"], "{flags}");
        assert_eq!(other["disk_bytes"], 0, "{flags}");
    }
    let paged = run("--profile conventional --durability none");
    assert_eq!(paged["state_hash"], durable["state_hash"]);
    // The directory says how large it is.
    let resumed = object(&line(&format!(
        "run debit-credit --transactions 1k --latency-transactions 0 {logged} --resume --json"
    )));
    assert_eq!(
        (&resumed["accounts_per_branch"], &resumed["consistent"]),
        (&4_000.into(), &true.into())
    );
    let check = object(&line(&format!("check {} --json", data.display())));
    assert_eq!(
        (&check["state_hash"], &check["consistent"]),
        (&resumed["state_hash"], &true.into())
    );
    let rows = scratch.path().join("rows");
    let dumped = format!("dump {} --out {} --json", data.display(), rows.display());
    let dumped = object(&line(&dumped));
    assert_eq!((&dumped["command"], &dumped["state_hash"]), (&"dump".into(), &check["state_hash"]));
    let read = object(&line(&format!("check {} --json", rows.display())));
    assert_eq!(read["state_hash"], dumped["state_hash"]);
    refused(&format!("run tpcc {logged} --resume --transactions 1k"), 2, "no database of tpcc");
}

#[test]
fn exactly_the_condition_that_is_broken_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let dump = scratch.path().join("rows");
    let run = format!("run debit-credit {SMALL} --profile bare --dump {}", dump.display());
    let ran = object(&line(&format!("{run} --json")));
    let sound = object(&line(&format!("check {} --json", dump.display())));
    assert_eq!(sound["state_hash"], ran["state_hash"]);
    for tampered in ["tellers", "branches", "overdrafts"] {
        let ended = line(&format!("check {} --tamper {tampered} --json", dump.display()));
        assert_eq!(ended.status, 1, "{ended:?}");
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let checks = result["checks"].as_object().unwrap();
        let failed = checks.iter().filter(|(_, holds)| *holds == false).map(|(name, _)| name);
        assert_eq!(failed.collect::<Vec<_>>(), [tampered]);
    }
    refused(&format!("check {} --tamper c01", dump.display()), 2, "use tellers, branches");
}

#[test]
fn groups_are_swept_by_their_short_names() {
    let ended = line(
        "run debit-credit --accounts-per-branch 1k --transactions 2k --latency-transactions 0 \
         --clients 64 --sweep group-transactions=1,128 --group-time 5ms --volatile-ok --json",
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let results: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 3);
    // There are never 128 calls under way: such a group waits for its time.
    let p50_us = |at: usize| number(&results[at]["latency_us"], "p50");
    assert!(p50_us(1) >= 5_000.0 && p50_us(0) < p50_us(1), "{} and {}", p50_us(0), p50_us(1));
    let of_group = |at: usize| number(&results[at]["settings"], "transactions_per_group");
    assert_eq!((of_group(0), of_group(1)), (1.0, 128.0));
    assert_eq!(results[0]["settings"]["time_per_group"], results[1]["settings"]["time_per_group"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let ids = "run debit-credit --branches 100k --accounts-per-branch 100k";
    refused(ids, 2, "lower --branches or --accounts-per-branch");
    refused("run debit-credit --profile no-lsn", 2, "does not run debit-credit");
    refused("run debit-credit --warehouses 2", 2, "debit-credit has no --warehouses");
    refused("dissect debit-credit", 2, "is not taken apart so far: use tpcc");
    refused("run debitcredit", 2, "use tpcc, debit-credit");
}

#[test]
fn a_configuration_says_which_stage_has_which_thread() {
    let run = |flags: &str| {
        let flags = format!("{SMALL} --volatile-ok --log-segment-bytes 4MB {flags}");
        object(&line(&format!("run debit-credit {flags} --json")))
    };
    let scratch = tempfile::tempdir().unwrap();
    let data = |name: &str| format!("--data {}", scratch.path().join(name).display());
    let coalesced = run(&format!("--config A {}", data("a")));
    assert_eq!(coalesced["config"], "A");
    assert_eq!(coalesced["settings"]["pipeline_threads"], "coalesced");
    // One thread has what three stages take.
    let stages = &coalesced["by_stage"];
    assert!(stages["execution"]["cpu_s"].is_f64() && stages["logging"]["cpu_s"].is_null());
    let apart = run(&format!("--config B {}", data("b")));
    assert_eq!((&apart["config"], &apart["state_hash"]), (&"B".into(), &coalesced["state_hash"]));
    assert!(apart["by_stage"]["output"]["cpu_s"].is_f64());
    refused("run debit-credit --config A --profile bare", 2, "profile bare has no stages");
    // Anything else is a file.
    refused("run debit-credit --config ./A", 2, "give a TOML file of settings");
    refused("run tpcc --config A", 2, "give a TOML file of settings");
}

#[test]
fn table_1_stands_beside_ours() {
    let scratch = tempfile::tempdir().unwrap();
    let ended = line(&format!(
        "paper tpk/table1 tpk/breakdown --transactions 300 --terminal-us 20 --volatile-ok --data {} \
         --json",
        scratch.path().join("data").display()
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let results: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&results[0]["id"], &results[1]["id"]),
        (&"tpk/table1".into(), &"tpk/breakdown".into())
    );
    assert_eq!(results[0]["settings"]["terminal_us"], 20);
    let rows: Vec<&Value> =
        results.iter().flat_map(|result| result["rows"].as_array().unwrap()).collect();
    for row in &rows {
        for field in ["name", "unit", "paper", "ours", "ratio", "source", "caveat"] {
            assert!(row.get(field).is_some(), "{field} is missing in {row}");
        }
        assert!(row["ours"].is_f64(), "{row}");
    }
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&of("B / A")["paper"], &of("C / A")["paper"]), (&5.83.into(), &16.6.into()));
    assert_eq!(
        (&of("A · checkpoints")["ours"], &of("C · checkpoints")["ours"]),
        (&5.0.into(), &5.0.into())
    );
    let direction = results[0]["notes"].as_array().unwrap().iter().any(|note| {
        let note = note.as_str().unwrap();
        note.starts_with("B is ") || note.starts_with("This machine does not show")
    });
    assert!(direction, "{}", results[0]["notes"]);
    refused("paper lg/fig1 --terminal-us 5", 2, "--terminal-us is for tpk/table1");
    refused("paper tpk/table1 --durability none", 2, "leave --durability none out");
}
