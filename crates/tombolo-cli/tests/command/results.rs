//! What a run says of itself: every field, the same rows on every profile, counts that repeat, checks that notice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::ended::{Ended, line};
use serde_json::Value;

/// The fields of cli.md that a result of `run` has now.
const FIELDS: &str = "command version commit settings settings_hash host seed workload mix profile \
    durability islands threads clients in_flight loop rate committed aborted aborts_by_reason wall_s cpu_s \
    engine_cpu_s tps tps_per_cpu_s tps_per_execution_cpu_s by_stage raw_flush_us latency_us \
    within_1s_percent by_transaction log_bytes flushes \
    transactions_per_flush flush_us work disk_bytes load_cpu_s data_dir data_fs memory_bytes \
    raw_row_bytes raw_key_bytes miss_ns consistent checks state_hash";

/// The flags of a run that a test can wait for.
const SMALL: &str = "--warehouses 1 --transactions 3k --latency-transactions 500 --memory-limit 3GB \
     --durability none";

/// A dump of one warehouse after a small run of the standard mix, and the run's result; made once.
fn dumped() -> &'static (PathBuf, Value) {
    static DUMP: OnceLock<(PathBuf, Value)> = OnceLock::new();
    DUMP.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dump");
        let dump = directory.display();
        let ended = line(&format!("run tpcc {SMALL} --json --dump {dump}"));
        (directory, object(&ended))
    })
}

/// The objects on standard output, one a line and nothing else.
fn objects(ended: &Ended) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    ended.stdout.lines().map(parse).collect()
}

/// The only object of a command that succeeded.
fn object(ended: &Ended) -> Value {
    assert_eq!(ended.status, 0, "{ended:?}");
    let mut objects = objects(ended);
    assert_eq!(objects.len(), 1, "{ended:?}");
    objects.remove(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_run_has_every_field() {
    let (_, result) = dumped();
    for field in FIELDS.split_whitespace() {
        assert!(result.get(field).is_some(), "{field} is missing");
    }
    for field in ["cpu", "cores", "memory_bytes", "os"] {
        assert!(result["host"].get(field).is_some(), "host.{field} is missing");
    }
    for field in ["mean", "p50", "p95", "p99", "p999", "max"] {
        assert!(number(&result["latency_us"][field]) > 0.0, "latency_us.{field}");
    }
    assert_eq!(result["command"], "run");
    assert_eq!((&result["profile"], &result["mix"]), (&"memory".into(), &"standard".into()));
    assert_eq!(number(&result["committed"]) + number(&result["aborted"]), 3_000.0);
    assert_eq!(result["aborts_by_reason"]["invalid_item"], result["aborted"]);
    assert_eq!(result["latency_transactions"], 3_000, "a pipeline times every answer");
    assert_eq!((&result["disk_bytes"], &result["log_bytes"]), (&0.into(), &0.into()));
    assert!(result["data_dir"].is_null() && result["data_fs"].is_null());
    assert!(number(&result["engine_cpu_s"]) > 0.0);
    assert_eq!(result["consistent"], true);
    let checks = result["checks"].as_object().unwrap();
    assert_eq!(checks.len(), 14);
    assert!((1..=12).all(|i| checks[&format!("c{i:02}")] == true));
    assert!(checks["indexes"] == true && checks["slabs"] == true);
    let kinds = result["by_transaction"].as_object().unwrap();
    assert_eq!(kinds.len(), 5);
    let committed: f64 = kinds.values().map(|kind| number(&kind["committed"])).sum();
    assert_eq!(committed, number(&result["committed"]));
    let raw = number(&result["raw_row_bytes"]) + number(&result["raw_key_bytes"]);
    let ratio = number(&result["memory_bytes"]) / raw;
    assert!((1.0..1.35).contains(&ratio), "{ratio} bytes per byte of rows and keys");
}

#[test]
fn both_profiles_leave_the_same_rows_and_the_hash_is_recomputed_without_us() {
    let (directory, result) = dumped();
    let bare = object(&line(&format!("run tpcc {SMALL} --profile bare --json")));
    assert_eq!(bare["state_hash"], result["state_hash"]);
    assert_ne!(bare["settings_hash"], result["settings_hash"]);
    let again = object(&line(&format!("run tpcc {SMALL} --seed 2 --json")));
    assert_ne!(again["state_hash"], result["state_hash"]);
    assert_eq!(again["settings_hash"], result["settings_hash"], "a seed identifies no settings");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/verify_dump.py");
    let verified = Command::new("python3").arg(script).arg(directory).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    let verified: Value =
        serde_json::from_slice(&verified.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(verified["state_hash"], result["state_hash"]);
    let checks = verified["checks"].as_object().unwrap();
    assert!(checks.len() == 12 && checks.values().all(|holds| *holds == true), "{said}");
}

fn only_the_tampered_check_fails(number: usize) {
    let name = format!("c{number:02}");
    let ended = line(&format!("check {} --tamper {name} --json", dumped().0.display()));
    assert_eq!(ended.status, 1, "{name}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{name}: {ended:?}");
    assert!(ended.stderr.contains(&name), "{name}: {ended:?}");
    let object = &objects(&ended)[0];
    let checks = object["checks"].as_object().expect("checks are an object");
    let failed: Vec<_> = checks.iter().filter(|(_, holds)| **holds == false).collect();
    assert_eq!(failed.len(), 1, "{name}: {failed:?}");
    assert_eq!(*failed[0].0, name);
    assert_eq!(object["damage"][0]["check"], *name);
}

#[test]
fn a_dump_is_checked_and_exactly_the_tampered_check_fails() {
    let (directory, result) = dumped();
    let directory = directory.display();
    let checked = object(&line(&format!("check {directory} --json")));
    assert_eq!(checked["state_hash"], result["state_hash"]);
    assert_eq!((&checked["consistent"], &checked["command"]), (&true.into(), &"check".into()));
    assert_eq!(checked["damage"].as_array().map(Vec::len), Some(0));
    // Each is a fresh copy: two at a time.
    std::thread::scope(|scope| {
        for first in [1, 2] {
            let tampered = move || (first..=12).step_by(2).for_each(only_the_tampered_check_fails);
            scope.spawn(tampered);
        }
    });
    let ended = line(&format!("check {directory} --tamper c13"));
    assert_eq!((ended.status, ended.stderr.lines().count()), (2, 1), "{ended:?}");
}

#[test]
fn damaged_dumps_are_refused_with_file_and_line() {
    let (directory, _) = dumped();
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        fs::hard_link(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let warehouse = copy.path().join("warehouse.copy");
    let text = fs::read_to_string(&warehouse).unwrap();
    fs::remove_file(&warehouse).unwrap(); // the original keeps its own
    let refused = |expect: &str| {
        let ended = line(&format!("check {}", copy.path().display()));
        assert_eq!((ended.status, ended.stderr.lines().count()), (2, 1), "{ended:?}");
        assert!(ended.stderr.contains(expect), "{expect:?}: {ended:?}");
    };
    refused("warehouse.copy cannot be read: it does not exist");
    fs::write(&warehouse, text.trim_end()).unwrap();
    refused("its last line has no end");
    fs::write(&warehouse, format!("{text}{text}")).unwrap();
    refused("warehouse.copy line 2: a row with the same key is there already");
    fs::write(&warehouse, text.replace('\t', " ")).unwrap();
    refused("warehouse.copy line 1: ");
    fs::write(&warehouse, [b"1\t\xff".as_slice(), text.as_bytes()].concat()).unwrap();
    refused("is not UTF-8");
    let ended = line("check /nowhere");
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("/nowhere is no directory"), "{ended:?}");
}

#[test]
fn sweeps_interleave_and_summarise() {
    let flags = "--warehouses 1 --transactions 1k --latency-transactions 0 --mix paper";
    let flags = format!("{flags} --durability none");
    let ended = line(&format!("run tpcc {flags} --sweep profile=bare,memory --rounds 2 --json"));
    assert_eq!(ended.status, 0, "{ended:?}");
    let objects = objects(&ended);
    assert_eq!(objects.len(), 5);
    let places: Vec<_> = objects[..4]
        .iter()
        .map(|object| {
            (object["point"]["profile"].as_str().unwrap(), object["round"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(places, [("bare", 1), ("memory", 1), ("bare", 2), ("memory", 2)]);
    assert!(objects[0]["latency_us"].is_null());
    let summary = objects[4]["summary"].as_array().unwrap();
    assert_eq!(summary.len(), 2);
    assert_eq!(summary[0]["ratio_to_first"]["median"], 1.0);
    assert_eq!(summary[0]["tps_ratio_to_first"]["median"], 1.0);
    assert!(summary[1]["execution_ratio_to_first"].is_null(), "bare has no pipeline");
    let rate = &summary[1]["tps_per_cpu_s"];
    assert!(number(&rate["min"]) <= number(&rate["median"]));
    assert!(number(&rate["median"]) <= number(&rate["max"]));
}

#[test]
fn three_counts_are_identical_and_their_parts_add_up() {
    let flags = "--warehouses 1 --transactions 100 --latency-transactions 0 --mix paper";
    let run =
        format!("run tpcc {flags} --profile bare --counter callgrind --counted 200 --repeat 3");
    let result = object(&line(&format!("{run} --json")));
    assert_eq!(result["counter"], "callgrind");
    let counts = result["counts"].as_array().unwrap();
    assert_eq!(counts.len(), 3);
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], counts[2]);
    assert!(number(&result["sum_error_percent"]) < 1.0, "{}", result["sum_error_percent"]);
    let kind = &result["by_transaction"]["new_order"];
    let calls = kind["calls"].as_object().unwrap();
    assert_eq!(calls.len(), 8);
    let (order, payment) =
        (&kind["instructions"], &result["by_transaction"]["payment"]["instructions"]);
    assert!(number(order) > number(payment), "{order} and {payment}");
    assert!(number(&kind["cycles"]) > 0.0);
}

#[test]
fn results_for_people_have_no_colour_in_a_file_and_name_the_checks() {
    let flags = "--warehouses 1 --transactions 1k --durability none --clients 8";
    let ended = line(&format!("run tpcc {flags}"));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert!(!ended.stdout.contains('\x1b'), "{}", ended.stdout);
    for expected in
        ["✓ 14 hold: c01…c12 indexes slabs", "8 calls under way", "new_order", "CPU-second"]
    {
        assert!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
    }
    let profiles = line("run --list-profiles --json");
    let names: Vec<_> = objects(&profiles).iter().map(|p| p["profile"].clone()).collect();
    assert_eq!(names[..3], ["bare", "memory", "conventional"]);
    assert!(names.len() > 50 && names.contains(&"lattice-01010".into()), "{names:?}");
    let conventional = &objects(&profiles)[2];
    let switches = conventional["switches"].as_object().unwrap();
    assert!(switches.len() == 11 && switches.values().all(|on| *on == true), "{switches:?}");
    assert_eq!(
        (&conventional["threads_max"], &conventional["durability"][0]),
        (&256.into(), &"group".into())
    );
}

/// A kind of transaction that two workloads have is printed once, and `mix` is what it was.
#[test]
fn rows_are_updated_and_records_read() {
    let rows = "run rows --rows 1k --update 3 --skew 0.5 --transactions 500 --profile bare";
    let ended = line(rows);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.stdout.matches("\n  update ").count(), 1, "{ended:?}");
    let result = object(&line(&format!("{rows} --json")));
    assert_eq!(result["by_transaction"]["update"]["committed"], 500);
    let scale = ["rows", "read", "update", "skew", "records"].map(|name| result[name].clone());
    assert_eq!(scale, [1_000.into(), 0.into(), 3.into(), 0.5.into(), Value::Null]);
    assert_eq!((&result["mix"], &result["settings"]["mix"]), (&Value::Null, &Value::Null));
    let ycsb = object(&line("run ycsb --records 1k --transactions 500 --profile bare --json"));
    assert_eq!((&ycsb["mix"], &ycsb["settings"]["mix"]), (&"a".into(), &"a".into()));
}
