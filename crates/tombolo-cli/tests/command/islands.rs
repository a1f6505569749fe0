//! `islands` and `repartition`: databases of islands, measured and given another number of islands.

use std::path::Path;

use crate::ended::{line, object, refused};
use serde_json::Value;
use tombolo::{AtomicCommit, Database, Islands, IslandsBuilder, Table};

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
    // None of its islands is a database alone.
    let run =
        |more: &str| format!("run rows --resume {more} --rows 2000 --update 2 --transactions 10");
    refused(
        &run(&format!("--data {data}/islands-2/island-1")),
        2,
        "holds island 1 of a database of 2",
    );
    let ended = line(&format!("inspect {data}/islands-2 --json"));
    let of: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        of.len() == 2 && of.iter().all(|one| one["in_doubt"] == Value::Array(vec![])),
        "{ended:?}"
    );
    let to_three = format!("repartition {data}/islands-2 --islands 3");
    refused(&to_three, 2, "nothing says how table item_row is spread");
    let moved = object(&line(&format!("repartition {data}/islands-2 --islands 1 --json")));
    assert_eq!((&moved["islands_before"], &moved["islands"]), (&2.into(), &1.into()));
    assert_eq!(moved["rows"], 2_000);
    let again = object(&line(&format!("check {data}/islands-2 --json")));
    assert_eq!(checked["state_hash"].as_str().map(str::len), Some(32), "{checked}");
    assert_eq!(again["state_hash"], checked["state_hash"], "the rows are the same");
}

#[derive(Table)]
struct Account {
    #[key]
    id: u64,
    cents: i64,
}

#[derive(Table)]
struct Rate {
    #[key]
    id: u32,
    name: String,
}

fn builder(islands: usize) -> IslandsBuilder {
    let builder = Database::builder().define::<Account>().define::<Rate>();
    let builder = builder.set("log_segment_bytes", "1 MB").islands(islands);
    builder.spread_by(Account::ID).everywhere::<Rate>()
}

fn open(directory: &Path, islands: usize) -> Islands {
    builder(islands).open(directory).expect("a directory of islands")
}

#[test]
fn copies_of_a_table_on_each_island_are_compared_and_count_once() {
    let scratch = tempfile::tempdir().unwrap();
    let mut hashes = Vec::new();
    for islands in [1, 2, 3] {
        let place = scratch.path().join(islands.to_string());
        let db = open(&place, islands);
        let accounts = (0..500).map(|id| Account { id, cents: -7 });
        assert_eq!(db.load(&db.table().unwrap(), accounts), Ok(500));
        let rates = (0..40).map(|id| Rate { id, name: format!("rate {id}") });
        assert_eq!(db.load(&db.table().unwrap(), rates), Ok(40));
        db.close().unwrap();
        let checked = object(&line(&format!("check {} --json", place.display())));
        assert_eq!(checked["checks"]["copies"], true, "{checked}");
        hashes.push(checked["state_hash"].as_str().unwrap().to_owned());
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    // One value that differs on one island.
    let place = scratch.path().join("3");
    let db = open(&place, 3);
    let by_id = db.index::<RateKey>().unwrap();
    let last = (0u32..).find(|id| db.island_of(id).unwrap() == 2).unwrap();
    let other = Rate { id: 7, name: "another".to_owned() };
    let change = move |tx: &mut tombolo::Tx<'_>| tx.upsert_row(&by_id, &other).map(drop);
    db.at(&last).unwrap().transaction(change).unwrap();
    db.close().unwrap();
    let ended = line(&format!("check {} --json", place.display()));
    let checked: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.status, &checked["checks"]["copies"]), (1, &false.into()), "{ended:?}");
    assert_eq!(checked["state_hash"], Value::Null);
    assert!(ended.stderr.contains("table rate") && ended.stderr.contains("island-2"), "{ended:?}");
    // Islands of paged stores: the same rows have the same hash.
    let place = scratch.path().join("paged");
    let tables = Database::builder().define::<Account>().define::<Rate>();
    let paged = tables.paged().pool_bytes(8 << 20).islands(2);
    let db = paged.spread_by(Account::ID).everywhere::<Rate>().open(&place).unwrap();
    let accounts = (0..500).map(|id| Account { id, cents: -7 });
    assert_eq!(db.load(&db.table().unwrap(), accounts, |account| account.id), Ok(500));
    let rates = (0..40).map(|id| Rate { id, name: format!("rate {id}") });
    assert_eq!(db.load(&db.table().unwrap(), rates, |rate| rate.id), Ok(40));
    let check = |status: i32| {
        let ended = line(&format!("check {} --json", place.display()));
        assert_eq!(ended.status, status, "{ended:?}");
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    db.close().unwrap();
    let checked = check(0);
    assert_eq!(
        (&checked["checks"]["copies"], &checked["state_hash"]),
        (&true.into(), &hashes[0].clone().into())
    );
    let moved = object(&line(&format!("repartition {} --islands 3 --json", place.display())));
    assert_eq!((&moved["islands_before"], &moved["rows"]), (&2.into(), &(500 + 3 * 40).into()));
    assert_eq!(check(0)["state_hash"], hashes[0], "the rows are the same");
    let db = Database::builder().define::<Account>().define::<Rate>();
    let db = db.paged().pool_bytes(8 << 20).islands(3).open(&place).unwrap();
    let other = Rate { id: 7, name: "another".to_owned() };
    let by_id = db.index::<RateKey>().unwrap();
    db.at(&0u32).unwrap().transaction(|tx| tx.upsert_row(&by_id, &other).map(drop)).unwrap();
    db.close().unwrap();
    assert_eq!(check(1)["checks"]["copies"], false);
}

#[test]
fn transactions_over_islands_are_measured_in_one_call() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    let ended = line(&format!(
        "islands rows --islands 2 --rows 2000 --update 2 --multisite 0,50 --rounds 1 --time-ms 30 --per-call 4 \
         --durability group --data {data} --json"
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let points = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for (point, is_over_islands) in points.zip([false, true]) {
        assert_eq!(point["distributed"].as_u64() > Some(0), is_over_islands, "{point}");
        assert_eq!((&point["per_call"], &point["latency_us"]), (&4.into(), &Value::Null));
        let settings = &point["settings"];
        assert_eq!((&settings["per_call"], &settings["batch"]), (&4.into(), &100_000.into()));
    }
}

#[test]
fn islands_of_paged_stores_are_measured_and_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    let ended = line(&format!(
        "islands rows --store paged --islands 1,2 --rows 2000 --update 2 --multisite 0,50 --rounds 1 --time-ms 30 \
         --skew 0.75 --pool-bytes 4MB --durability group --data {data} --json"
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let points: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points.len(), 4, "{ended:?}");
    for point in &points {
        assert!(point["tps"].as_f64() > Some(0.0) && point["store"] == "paged", "{point}");
        let settings = &point["settings"];
        assert_eq!((&settings["skew"], &settings["pool_bytes"]), (&0.75.into(), &(4 << 20).into()));
        let is_over_islands = point["islands"] == 2 && point["multisite_percent"] == 50;
        assert_eq!(point["distributed"].as_u64() > Some(0), is_over_islands, "{point}");
    }
    let checked = object(&line(&format!("check {data}/paged-islands-2 --json")));
    assert_eq!(checked["consistent"], true, "{checked}");
    let checks = checked["checks"].as_object().unwrap();
    let island = format!("{data}/paged-islands-2/island-1");
    let resumed = format!(
        "run rows --resume --profile conventional --durability group --data {island} --transactions 9"
    );
    refused(&resumed, 2, "holds island 1 of a database of 2");
    let inspected = object(&line(&format!("inspect {island} --json")));
    assert_eq!(inspected["in_doubt"], Value::Array(vec![]), "{inspected}");
    assert!(
        inspected["files"].as_array().unwrap().iter().any(|of| of["file"] == "pages"),
        "{inspected}"
    );
    let both = ["island-0/", "island-1/"];
    assert_eq!(checked["state_hash"].as_str().map(str::len), Some(32), "{checked}");
    assert!(both.iter().all(|of| checks.keys().any(|name| name.starts_with(of))), "{checks:?}");
}

/// After a crash an island may have an ordered transaction that another one lacks; here its log is an older one.
#[test]
fn what_holds_of_all_islands_is_not_asked_before_ordered_transactions_are_cut_off() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("db");
    let ordered = || builder(2).atomic_commit(AtomicCommit::Ordered).open(&place).unwrap();
    ordered().close().unwrap();
    let (behind, before) = (place.join("island-1"), scratch.path().join("before"));
    copy(&behind, &before);
    let db = ordered();
    assert_eq!(db.load(&db.table().unwrap(), [Rate { id: 1, name: "one".to_owned() }]), Ok(1));
    db.close().unwrap();
    let check = || line(&format!("check {} --json", place.display()));
    let whole = object(&check());
    assert_eq!(whole["checks"]["copies"], true, "{whole}");
    std::fs::remove_dir_all(&behind).unwrap();
    copy(&before, &behind);
    let ended = check();
    let checked: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.status, &checked["checks"]["copies"]), (0, &Value::Null), "{ended:?}");
    assert_eq!(checked["state_hash"], Value::Null);
    assert!(ended.stderr.contains("opening the database cuts it off"), "{ended:?}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("files can be copied");
    for file in std::fs::read_dir(from).expect("files can be copied") {
        let file = file.expect("files can be copied");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("files can be copied");
    }
}
