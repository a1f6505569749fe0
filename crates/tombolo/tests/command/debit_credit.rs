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
    refused("dissect debit-credit", 2, "use tpcc");
    refused("run debitcredit", 2, "use tpcc, debit-credit");
}
