//! `compare calls`: the library next to a hash table and the device, small; every field, all money, refusals.

use std::path::Path;

use crate::ended::{Ended, line, number, refused};
use serde_json::Value;

/// The fields of cli.md that a result has.
const FIELDS: &str = "command version commit settings settings_hash host seed engine what durability \
    callers wall_us cpu_us p50_us p99_us p999_us consistent";

fn objects(ended: &Ended) -> Vec<Value> {
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    ended.stdout.lines().map(parse).collect()
}

#[test]
fn every_engine_is_called_and_no_money_is_lost() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls");
    let ended = line(&format!(
        "compare calls --with mutex-hashmap --callers 1,3 --rounds 2 --transactions 120 --json --data {}",
        directory.display()
    ));
    if ended.status == 3 && ended.stderr.contains("keeps nothing") {
        return; // nothing can be durable where this is built
    }
    assert!(!directory.exists(), "what was made for the comparison goes with it");
    let mut objects = objects(&ended);
    let ratios = objects.pop().unwrap();
    let at = |it: &Value| {
        let text = |field: &str| it[field].as_str().unwrap().to_owned();
        format!("{} {} {} {}", text("engine"), text("what"), text("durability"), it["callers"])
    };
    let mut expected = Vec::new();
    for (durability, what, engines) in [
        ("none", "transfer", &["tombolo/memory", "mutex-hashmap"][..]),
        ("none", "read", &["tombolo/memory", "mutex-hashmap"]),
        ("group", "transfer", &["tombolo/memory", "raw-device"]),
        ("group", "read", &["tombolo/memory"]),
    ] {
        for callers in [1, 3] {
            for engine in engines {
                expected.push(format!("{engine} {what} {durability} {callers}"));
            }
        }
    }
    assert_eq!(objects.iter().map(at).collect::<Vec<_>>(), expected);
    for object in &objects {
        for field in FIELDS.split_whitespace() {
            assert!(object.get(field).is_some(), "{field} is missing: {}", at(object));
        }
        assert_eq!(number(object, "calls"), 240.0, "{}", at(object));
        let is_device = object["engine"] == "raw-device";
        assert_eq!(object["consistent"], if is_device { Value::Null } else { true.into() });
        assert_eq!(object.get("bytes").is_some(), is_device);
        let figure = |field| number(object, field);
        assert!(figure("wall_us") > 0.0 && figure("cpu_us") > 0.0, "{object}");
        let (p50, p99, p999) = (figure("p50_us"), figure("p99_us"), figure("p999_us"));
        assert!(p50 <= p99 && p99 <= p999 && p999 > 0.0, "{object}");
    }
    for name in
        ["mutex-hashmap:tombolo/memory read none 3", "raw-device:tombolo/memory transfer group 1"]
    {
        for ratios in [&ratios["ratios"], &ratios["wall_ratios"]] {
            assert!(number(&ratios[name], "min") > 0.0, "{name}");
        }
    }
}

#[test]
fn what_is_no_comparison_of_calls() {
    let with = "compare calls --with mutex-hashmap";
    refused("compare calls --with oracle", 2, "there is no engine oracle: use sqlite, redb, lmdb");
    refused(&format!("{with} --what write"), 2, "use --what transfer, read or both");
    refused(&format!("{with} --callers 0"), 2, "give --callers numbers from 1");
    refused(&format!("{with} --clients 4"), 2, "set the number of threads with --callers");
    refused(&format!("{with} --profiles bare"), 2, "leave --profiles out");
    refused(&format!("{with} --durability sync"), 2, "use --durability none or group");
    refused(&format!("{with} --counter perf"), 2, "use --counter callgrind");
    refused("compare tpcc --with sqlite --callers 4", 2, "--callers is for calls");
    refused(
        "count-calls-under-callgrind --engine mutex-hashmap --durability none --what read --counted 1 \
             --directory d",
        2,
        "use compare calls --counter callgrind",
    );
    if !cfg!(feature = "compare-redb") {
        let build = "cargo run --release --features compare-redb -- compare calls --with redb";
        refused("compare calls --with redb", 2, build);
    }
}
