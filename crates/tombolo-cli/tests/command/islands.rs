//! `islands` and `repartition`: databases of islands, measured and given another number of islands.

use crate::ended::{line, object, refused};
use serde_json::Value;

#[test]
fn a_measured_database_of_two_islands_becomes_one() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    let ended = line(&format!(
        "islands rows --islands 2 --rows 2000 --update 2 --multisite 0,50 --rounds 1 --time-ms 20 \
         --durability group --data {data} --json"
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let points: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points.len(), 2, "{ended:?}");
    assert!(points.iter().all(|point| point["tps"].as_f64() > Some(0.0)), "{points:?}");

    let ordered = object(&line(&format!(
        "islands rows --islands 2 --rows 2000 --update 2 --multisite 50 --rounds 1 --time-ms 20 \
         --durability group --commit ordered --data {data}/ordered --json"
    )));
    assert_eq!(
        (&ordered["atomic_commit"], &ordered["commit"]),
        (&"ordered".into(), &points[0]["commit"])
    );

    let ended = line(
        "islands rows --islands 2 --rows 2000 --update 2 --multisite-callers 0,2 --rounds 1 --time-ms 20 --json",
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let points: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name| [&points[0][name], &points[1][name]];
    assert_eq!(of("multisite_percent"), [&0.into(), &Value::Null]);
    assert_eq!(of("multisite_callers"), [&Value::Null, &2.into()]);
    let local = points[1]["local_tps"].as_f64();
    assert!(local > Some(0.0) && local < points[1]["tps"].as_f64(), "{points:?}");

    let checked = object(&line(&format!("check {data}/islands-2 --json")));
    assert_eq!(checked["consistent"], true, "{checked}");
    let to_three = format!("repartition {data}/islands-2 --islands 3");
    refused(&to_three, 2, "nothing says how table item_row is spread");
    let moved = object(&line(&format!("repartition {data}/islands-2 --islands 1 --json")));
    assert_eq!((&moved["islands_before"], &moved["islands"]), (&2.into(), &1.into()));
    assert_eq!(moved["rows"], 2_000);
}

#[test]
fn islands_of_paged_stores_are_measured_and_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    let ended = line(&format!(
        "islands rows --store paged --islands 1,2 --rows 2000 --update 2 --multisite 0,50 --rounds 1 --time-ms 30 \
         --durability group --data {data} --json"
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let points: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points.len(), 4, "{ended:?}");
    for point in &points {
        assert!(point["tps"].as_f64() > Some(0.0) && point["store"] == "paged", "{point}");
        let is_over_islands = point["islands"] == 2 && point["multisite_percent"] == 50;
        assert_eq!(point["distributed"].as_u64() > Some(0), is_over_islands, "{point}");
    }
    let checked = object(&line(&format!("check {data}/paged-islands-2 --json")));
    assert_eq!(checked["consistent"], true, "{checked}");
    let checks = checked["checks"].as_object().unwrap();
    let both = ["island-0/", "island-1/"];
    assert!(both.iter().all(|of| checks.keys().any(|name| name.starts_with(of))), "{checks:?}");
}
