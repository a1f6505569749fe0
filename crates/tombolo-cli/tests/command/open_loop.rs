//! `run --loop open`: calls at their times, how far behind they were, refusals.

use crate::ended::{line, number, object, refused};
use serde_json::Value;

const SMALL: &str =
    "--branches 2 --accounts-per-branch 2k --latency-transactions 0 --durability none --json";

#[test]
fn calls_begin_at_their_times() {
    let run = |flags: &str| object(&line(&format!("run debit-credit {SMALL} {flags}")));
    let open = run("--loop open --rate 2_000 --transactions 1k");
    assert_eq!((&open["loop"], &open["rate"]), (&"open".into(), &2_000.into()));
    assert_eq!((&open["consistent"], &open["not_begun"]), (&true.into(), &0.into()));
    assert_eq!(number(&open, "committed") + number(&open, "aborted"), 1_000.0);
    assert_eq!(open["latency_transactions"], 1_000);
    // A thousand calls, two thousand a second: 0.5 s, give or take what is drawn; and no less,
    // however fast they are.
    assert!(number(&open, "wall_s") > 0.4, "{}", open["wall_s"]);
    assert!(number(&open["latency_us"], "max") >= number(&open, "behind_us_max"));
    let closed = run("--transactions 1k");
    assert_eq!((&closed["loop"], &closed["rate"]), (&"closed".into(), &Value::Null));
    assert_eq!((&closed["behind_us_max"], &closed["not_begun"]), (&Value::Null, &Value::Null));
    assert_eq!(closed["state_hash"], open["state_hash"], "the same calls in the same order");
}

/// No system keeps up with a call each nanosecond: latencies show it, and nothing grows without bound.
#[test]
fn a_system_that_is_behind_says_so() {
    let flags = "--loop open --rate 1G --seconds 50ms";
    let open = object(&line(&format!("run debit-credit {SMALL} {flags}")));
    assert!(number(&open, "not_begun") > 1e5, "{}", open["not_begun"]);
    assert!(number(&open, "tps") < 0.5e9, "{}", open["tps"]);
    let (late, p50) = (number(&open, "behind_us_max"), number(&open["latency_us"], "p50"));
    assert!(late > 20_000.0, "half of the calls that begin do so tens of ms late: {late}");
    assert!(p50 > 1_000.0, "which is in the latencies: {p50}");
    assert_eq!(open["consistent"], true);
}

#[test]
fn rates_are_swept() {
    let sweep = "--loop open --sweep rate=2k,4k --transactions 400";
    let ended = line(&format!("run debit-credit {SMALL} {sweep}"));
    assert_eq!(ended.status, 0, "{ended:?}");
    let rates: Vec<Value> = ended
        .stdout
        .lines()
        .filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?.get("rate")?.clone()))
        .collect();
    assert_eq!(rates, [2_000, 4_000]);
}

#[test]
fn what_has_no_open_loop() {
    refused("run tpcc --loop open", 2, "say with --rate how many a second");
    refused("run tpcc --rate 5k", 2, "use --loop open");
    refused("run tpcc --loop open --rate 1k --profile bare", 2, "use --loop closed");
    refused("run tpcc --loop open --rate 1k --clients 4", 2, "leave --clients out");
    refused("run tpcc --loop open --rate 1k --acks file", 2, "an open loop has no clients");
}
