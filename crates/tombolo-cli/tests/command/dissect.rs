//! The engine taken apart from the command line: every field of the result, the paper's rows, what
//! is refused, and a demonstration that leaves other people's files alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::ended::{Ended, line, refused};
use serde_json::Value;

/// The fields of cli.md that a result of `dissect` has.
const FIELDS: &str = "command version commit settings settings_hash host seed workload mix \
    warehouses ladder counter transactions counted rungs components matrix alone attribution \
    lattice counts if_variant sum_error_percent paper miss_ns notes";

/// The fields of a rung.
const RUNG: &str = "switch label component profile state_hash consistent durability tps \
    ns_per_transaction by_transaction";

/// A dissection that a test can wait for; its files go with the target directory.
fn dissect(arguments: &str) -> Ended {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dissect");
    line(&format!(
        "dissect tpcc --warehouses 1 --transactions 300 --memory-limit 4GB --data {} {arguments}",
        data.display()
    ))
}

fn object(ended: &Ended) -> Value {
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A figure of two rounds lies between the least and the most of them.
fn assert_in_range(of: &Value, name: &str) {
    let figures =
        ["_min", "", "_max"].map(|end| of[format!("{name}{end}")].as_f64().unwrap_or(0.0));
    assert!(figures.is_sorted() && figures[0] > 0.0, "{name}: {figures:?}");
}

#[test]
fn one_switch_has_every_field_and_its_counts() {
    let found = object(&dissect("--only locking --rounds 2 --counted 100 --volatile-ok --json"));
    for field in FIELDS.split_whitespace() {
        assert!(found.get(field).is_some(), "{field} is missing");
    }
    assert_eq!((&found["command"], &found["workload"]), (&"dissect".into(), &"tpcc".into()));
    assert_eq!((&found["mix"], &found["settings"]["mix"]), (&"paper".into(), &"paper".into()));
    assert_eq!(
        (&found["settings"]["only"], &found["settings"]["ladder"]),
        (&"S5".into(), &"paper".into())
    );
    let rungs = found["rungs"].as_array().unwrap();
    let profiles: Vec<_> = rungs.iter().map(|rung| rung["profile"].as_str().unwrap()).collect();
    assert_eq!(profiles, ["no-lsn", "no-locking"]);
    for rung in rungs {
        for field in RUNG.split_whitespace() {
            assert!(rung.get(field).is_some(), "{field} is missing");
        }
        assert_eq!(rung["state_hash"], rungs[0]["state_hash"]);
        assert_eq!(rung["state_hash"].as_str().map(str::len), Some(32));
        assert_in_range(rung, "tps");
        assert_in_range(rung, "ns_per_transaction");
    }
    assert_eq!(rungs[1]["component"], "locking");
    if found["counter"] == "none" {
        return; // nothing counts here; the message says why
    }
    let [before, after] = [0, 1].map(|i| &rungs[i]["by_transaction"]["new_order"]);
    let instructions = |cost: &Value| cost["instructions"].as_f64().unwrap();
    assert!(instructions(before) > instructions(after), "{before} {after}");
    assert_eq!(before["calls"].as_object().map(serde_json::Map::len), Some(8));
    assert_in_range(before, "cycles");
    let percent = found["components"]["locking"]["new_order"]["percent_instructions"].as_f64();
    assert!(percent.is_some_and(|percent| percent > 0.0), "{percent:?}");
    assert!(found["alone"]["locking"]["saved"]["payment"]["percent_instructions"].is_f64());
    assert!(found["if_variant"]["extra_instructions"]["new_order"].is_f64());
    assert!(found["matrix"]["payment"]["locking"]["pin"]["instructions"].is_f64());
    assert!(found["sum_error_percent"].as_f64().unwrap() < 1.0);
    assert_eq!(found["counts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_products_ladder_goes_up_and_a_page_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    let flags = format!("--ladder product --counter none --html {}", page.display());
    let ended = dissect(&flags);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stdout.contains("memory") && ended.stdout.contains("bare"), "{ended:?}");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("<html") && text.contains("memory"), "{}", text.len());
}

#[test]
fn the_papers_rows_stand_beside_ours() {
    let listed = line("paper --json");
    let ids: Vec<Value> = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    let expected =
        ["lg/fig1", "lg/table1", "lg/throughput", "lg/fig5", "lg/fig6", "lg/fig7", "lg/fig8"];
    assert_eq!(ids[..7], expected);
    let others = ["tpk/table1", "tpk/breakdown", "isl/fig2", "isl/table1", "isl/fig3", "isl/fig5"];
    assert_eq!(ids[7..13], others);
    let islands = (6..=14).map(|figure| format!("isl/fig{figure}"));
    assert!(ids[13..].iter().eq(&islands.collect::<Vec<_>>()), "{ids:?}");
    assert!(line("paper").stdout.contains("lg/fig7"));
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("paper");
    let ended = line(&format!(
        "paper lg/throughput --warehouses 1 --transactions 300 --durability none --data {} --json",
        data.display()
    ));
    let found = object(&ended);
    assert_eq!((&found["command"], &found["id"]), (&"paper".into(), &"lg/throughput".into()));
    let rows = found["rows"].as_array().unwrap();
    for row in rows {
        for field in ["name", "unit", "paper", "ours", "ratio", "source", "caveat"] {
            assert!(row.get(field).is_some(), "{field} is missing in {row}");
        }
        assert!(row["ours"].is_f64() && row["source"] == "measured", "{row}");
    }
    assert_eq!(rows[0]["paper"], 640.0);
}

/// Each part of what makes the product durable costs something, and changes no row.
#[test]
fn the_products_parts_are_counted_in_groups_and_by_stage() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display();
    let found = object(&line(&format!(
        "dissect tpcc --ladder product --warehouses 1 --transactions 600 --counted 1_200 \
         --data {data} --json"
    )));
    let rungs = found["rungs"].as_array().unwrap();
    let switches: Vec<_> = rungs.iter().map(|rung| rung["switch"].as_str().unwrap_or("")).collect();
    assert_eq!(switches, ["", "undo", "value-log", "group-commit", "pipeline"]);
    let payment = |rung: &Value| rung["by_transaction"]["payment"]["instructions"].as_f64();
    if payment(&rungs[0]).is_none() {
        return; // nothing counts on this machine
    }
    let costs: Vec<f64> = rungs.iter().map(|rung| payment(rung).unwrap()).collect();
    assert!(costs.windows(2).all(|pair| pair[0] < pair[1]), "{costs:?}");
    let by_stage = &rungs[4]["by_transaction"]["payment"]["by_stage"];
    let stage = |name: &str| by_stage[name]["instructions"].as_f64().unwrap();
    let sum = stage("execution") + stage("logging") + stage("output");
    assert!((sum / costs[4] - 1.0).abs() < 0.02, "{sum} is not {}", costs[4]);
    assert_eq!(
        (&rungs[2]["durability"], &rungs[4]["durability"]),
        (&"none".into(), &"group".into())
    );
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none(), "files were left behind");
}

/// The ladder, each component alone, the lattice, the `if`, the memory store. Few transactions here;
/// `dissect` itself compares 40,000.
#[test]
fn every_profile_leaves_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display();
    let found = object(&line(&format!(
        "dissect tpcc --warehouses 1 --transactions 300 --lattice --counter none --durability none \
         --data {data} --json"
    )));
    // It fails where rows differ or a check does not hold.
    let list = |name: &str| found[name].as_array().unwrap().iter();
    let alone = found["alone"].as_object().unwrap().values();
    let variant = std::iter::once(&found["if_variant"]);
    let all: Vec<&Value> =
        list("rungs").chain(list("lattice")).chain(alone).chain(variant).collect();
    for profile in &all {
        assert_eq!(profile["state_hash"], all[0]["state_hash"], "{profile}");
        assert!(profile["consistent"] == true && profile["tps"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(all[0]["state_hash"].as_str().map(str::len), Some(32));
    // Names that are missing mean a type that is there: the ladder's other order, and `memory`,
    // which is compared and not part of the result.
    let names: BTreeSet<&str> = all.iter().map(|one| one["profile"].as_str().unwrap()).collect();
    let listed = line("run tpcc --list-profiles --json");
    let listed = listed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed: Vec<String> = listed.map(|one| one["profile"].as_str().unwrap().into()).collect();
    let missing: Vec<&String> =
        listed.iter().filter(|name| !names.contains(name.as_str())).collect();
    assert_eq!(missing, ["memory", "swap-no-latching", "swap-no-locking"]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn what_cannot_be_taken_apart() {
    refused("dissect", 2, "tombolo dissect needs");
    refused("dissect rows", 2, "rows is not taken apart so far: use tpcc");
    refused("dissect columns", 2, "there is no workload columns: use tpcc");
    refused("dissect tpcc --ladder up", 2, "use one of paper, reverse-locks, product");
    refused("dissect tpcc --only S12", 2, "there is no switch S12: use one of S1 (btree-keys)");
    refused("dissect tpcc --only S5 --ladder product", 2, "has no switch S5");
    refused("dissect tpcc --only S5 --lattice", 2, "leave one out");
    refused("dissect tpcc --profile bare", 2, "tombolo dissect has no flag --profile");
    refused("dissect tpcc --counted 5", 2, "5 is outside its limits");
    refused("dissect tpcc --counter vtune", 2, "give one of auto, perf, callgrind, none");
    refused("dissect tpcc --warehouses 65535", 3, "would need about");
    refused("dissect tpcc --html /proc/page.html", 3, "cannot be written");
    refused("dissect tpcc --data /proc/data", 3, "cannot be written");
    refused("paper lg/fig2", 2, "there is no figure lg/fig2 in this version: use lg/fig1");
    refused("paper isl/fig4", 2, "use lg/fig1");
}

#[test]
fn a_demonstration_leaves_other_files_alone() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    refused(&format!("demo --out {}", out.display()), 2, "holds something already");
    assert_eq!(fs::read_dir(out).unwrap().count(), 1);
    refused("demo --out /proc/demo", 3, "give --out another one");
}
