//! `topology`, `counters`, `links`: the machine's results, and the papers' figures made of them.

use serde_json::Value;
use tempfile::TempDir;
use tombolo_lab::model::Machine;

use crate::ended::{command, line};

fn results(arguments: &str) -> Vec<Value> {
    let ended = line(arguments);
    assert_eq!(ended.status, 0, "{ended:?}");
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn the_machine_says_what_its_cores_share() {
    let found = results("topology --json");
    let cores = found[0]["cores"].as_array().expect("cores").len();
    let islands = found[0]["islands"].as_array().expect("islands");
    let in_islands: usize =
        islands.iter().map(|island| island.as_array().expect("cores").len()).sum();
    assert_eq!((in_islands, found.len()), (cores, 1));
    let drawn = line("topology").stdout;
    assert!(drawn.contains("island 0") && drawn.contains("L1"), "{drawn}");
}

#[test]
fn every_kind_of_link_carries_messages_to_another_process() {
    let found = results("links --bytes 100 --time-ms 10 --json");
    let mut links: Vec<&str> =
        found.iter().map(|row| row["link"].as_str().expect("a kind")).collect();
    links.dedup();
    assert_eq!(links, ["ring", "unix", "tcp", "pipe", "fifo", "message_queue"]);
    for row in &found {
        assert!(row["messages_per_s"].as_f64() > Some(1_000.0), "{row}");
        assert!(row["round_trip_us"]["p50"].as_f64() > Some(0.0), "{row}");
    }
    let counters = results("counters --time-ms 5 --repeat 2 --json");
    assert_eq!(
        (&counters[0]["sharing"], &counters[0]["times_single"]),
        (&"single".into(), &1.0.into())
    );
    let own = command().arg("link-end").args(["0", "0"]).output().expect("it starts");
    assert_eq!(own.status.code(), Some(2));
    let refused = String::from_utf8_lossy(&own.stderr);
    assert!(refused.contains("started by `tombolo links`"), "{refused}");
}

#[test]
fn the_islands_papers_table_stands_beside_ours() {
    let found = results("paper isl/table1 --json");
    let rows = found[0]["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[0]["paper"]), (9, &18.4.into()));
    assert!(rows.iter().all(|row| row["ours"].as_f64() >= Some(0.0)), "{rows:?}");
}

/// TPC-C on one island and on two, which ends with its conditions asked of all rows.
#[test]
fn tpcc_runs_on_islands() {
    let run = "islands tpcc --warehouses 2 --time-ms 30 --rounds 1";
    let found = results(&format!("{run} --remote 0,default --json"));
    let of = |at: usize, field: &str| found[at][field].clone();
    assert_eq!(found.len(), 4);
    for (at, islands, remote) in [(0, 1, 0), (1, 1, 15), (2, 2, 0), (3, 2, 15)] {
        assert_eq!((of(at, "workload"), of(at, "kind")), ("tpcc".into(), "standard".into()));
        assert_eq!((of(at, "islands"), of(at, "warehouses")), (islands.into(), 2.into()));
        assert_eq!(of(at, "remote_payments_percent"), remote);
        assert!(of(at, "committed").as_u64() > Some(0) && of(at, "aborted").is_u64());
        assert_eq!(of(at, "distributed").as_u64() > Some(0), islands == 2 && remote > 0);
    }
    let found = results(
        "islands tpcc --mix payment --islands 2 --warehouses 2 --time-ms 30 --rounds 1 --json",
    );
    assert_eq!((&found[0]["kind"], &found[0]["aborted"]), (&"payment".into(), &0.into()));
}

/// The same rows on islands of one process and on islands that are processes, which are this command again: of either
/// store.
#[test]
fn rows_run_on_islands_and_on_processes() {
    let run = "islands rows --processes --islands 2 --rows 2000 --update 2 --multisite 0,100";
    let files = TempDir::new().unwrap();
    let data = files.path().join("data");
    let on_pages =
        format!("--store paged --pool-bytes 4MB --durability group --data {}", data.display());
    for (store, of_store) in [(Value::Null, ""), ("paged".into(), &*on_pages)] {
        let ended = line(&format!("{run} {of_store} --time-ms 30 --rounds 1 --json"));
        // That of the islands' processes, too.
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
        let found: Vec<Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |at: usize, field: &str| found[at][field].clone();
        let points: Vec<_> = (0..4)
            .map(|at| (of(at, "store"), of(at, "processes"), of(at, "multisite_percent")))
            .collect();
        let one = |is_of_processes: bool, multisite: u64| match is_of_processes {
            true => (store.clone(), true.into(), multisite.into()),
            false => (store.clone(), Value::Null, multisite.into()),
        };
        assert_eq!(points, [one(false, 0), one(false, 100), one(true, 0), one(true, 100)]);
        assert!((0..4).all(|at| of(at, "committed").as_u64() > Some(0)), "{found:?}");
    }
}

/// Closures over both islands, which leave the counters that they answered.
#[test]
fn rows_run_as_closures_over_islands() {
    let run = "islands rows --undeclared --islands 2 --rows 2000 --update 2 --multisite 100";
    let found = &results(&format!("{run} --time-ms 30 --rounds 1 --json"))[0];
    assert_eq!(found["undeclared"], true, "{found}");
    assert!(found["distributed"].as_u64() > Some(0), "{found}");
}

/// More islands than the machine has cores run, and are reported.
#[test]
fn more_islands_than_cores_are_allowed_and_reported() {
    let cores = std::thread::available_parallelism().expect("cores").get();
    let run = |islands: usize| {
        let run = "islands rows --rows 2000 --multisite 0 --time-ms 10 --rounds 1 --json";
        line(&format!("{run} --islands {islands}"))
    };
    let more = run(cores + 1);
    let notice = format!("{} islands share {cores} cores", cores + 1);
    assert!(more.status == 0 && more.stderr.contains(&notice), "{more:?}");
    assert!(!run(1).stderr.contains("notice"), "one island has a core");
}

/// Every modelled figure of the islands paper: rows that say they are modelled, and constants with their sources.
#[test]
fn modelled_figures_say_so() {
    let found = results("paper isl/fig3 isl/fig5 isl/fig7 isl/fig8 isl/fig11 isl/fig12 --json");
    assert_eq!(found.len(), 6);
    for figure in &found {
        let rows = figure["rows"].as_array().expect("rows");
        let constants = figure["notes"].to_string().contains("message_us");
        if figure["id"] == "isl/fig8" {
            assert!(rows.iter().all(|row| row["ours"].is_null()), "{rows:?}");
            assert!(rows[0]["caveat"].to_string().contains("not measurable here"), "{rows:?}");
            continue;
        }
        assert!(constants, "{}", figure["notes"]);
        for row in rows.iter().filter(|row| !row["ours"].is_null()) {
            let is_here = row["name"].as_str().is_some_and(|name| name.starts_with("here, "));
            assert!(!is_here || figure["id"] == "isl/fig7", "{row}");
            assert_eq!(row["source"], if is_here { "measured" } else { "modelled" }, "{row}");
            assert!(row["ours"].as_f64() >= Some(0.0), "{row}");
        }
    }
    let lead = &found[2]["rows"][2];
    assert_eq!((&lead["name"], &lead["paper"]), (&"24ISL ÷ 1ISL".into(), &4.5.into()));
    assert!(lead["ours"].as_f64() > Some(2.0), "{lead}");
}

#[test]
fn advice_is_for_this_machine_or_for_a_described_one() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quad-socket.toml");
    let text = std::fs::read_to_string(example).expect("an example");
    let machine: Machine = toml::from_str(&text).expect("a machine");
    for (of, paper) in machine.costs.listed().iter().zip(Machine::quad_socket().costs.listed()) {
        assert!((of.value - paper.value).abs() < 0.0006, "{} {}", of.name, paper.value);
    }
    let found =
        &results(&format!("advise rows --update 10 --multisite 0 --machine {example} --json"))[0];
    assert_eq!(
        (&found["chosen"]["islands"], &found["source"], &found["machine"]),
        (&24.into(), &"modelled".into(), &"quad-socket".into())
    );
    assert!(found["prediction_error_percent"].is_null(), "{found}");
    let text = line(&format!("advise rows --update 10 --multisite 0 --machine {example}")).stdout;
    let first = "update-10 rows, 0 % multisite, on quad-socket (modelled)\n   1 islands ×  24 threads  predicted ";
    assert!(text.starts_with(first) && text.contains("\nuse 24 islands × 1 threads: "), "{text}");
    let here =
        &results("advise rows --read 2 --rows 2000 --time-ms 20 --rounds 1 --verify --json")[0];
    assert_eq!(here["source"], "measured");
    let points = here["points"].as_array().expect("points");
    assert!(points.iter().any(|point| point["used_for_fit"] == true), "{points:?}");
    assert!(points.iter().all(|point| point["predicted_tps"].as_f64() > Some(0.0)), "{points:?}");
    assert!(here["within_best_percent"].as_f64() >= Some(0.0), "{here}");
    assert_eq!(here["chosen"]["commit"], Value::Null);
    let placed = |of: &Value| of["placement"] == here["chosen"]["placement"];
    assert!(here["placements"].as_array().expect("placements").iter().any(placed), "{here}");
}

/// On disk either way to commit is measured, and the files are gone afterwards.
#[test]
fn advice_for_a_disk_names_a_way_to_commit() {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let run = format!(
        "advise rows --update 2 --rows 2000 --skew 0.5 --durability group --data {} --threads 4",
        data.path().display()
    );
    let found = &results(&format!("{run} --time-ms 20 --rounds 1 --verify --json"))[0];
    let of = |islands: u64, commit: Value| {
        let points = found["points"].as_array().expect("points").iter();
        points.filter(|of| of["islands"] == islands && of["commit"] == commit).count()
    };
    let shares = of(1, Value::Null);
    assert!(shares > 2, "{found}");
    assert_eq!((of(2, "two-phase".into()), of(2, "ordered".into())), (shares, shares), "{found}");
    assert_eq!(of(2, Value::Null), 0, "{found}");
    assert_eq!(std::fs::read_dir(data.path()).expect("it is there").count(), 0);
    let ended = line(&format!("{run} --time-ms 20 --rounds 1"));
    assert!(ended.status == 0 && ended.stdout.contains("threads  ordered"), "{ended:?}");
}

#[test]
fn advice_refuses_what_it_does_not_know() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quad-socket.toml");
    let example = std::fs::read_to_string(path).expect("an example");
    let refused = |text: String, expect: &str| {
        let file = directory.path().join("machine.toml");
        std::fs::write(&file, text).expect("written");
        let ended = line(&format!("advise rows --machine {}", file.display()));
        assert_eq!((ended.status, ended.stderr.lines().count()), (2, 1), "{ended:?}");
        assert!(ended.stderr.contains(expect), "{expect:?}: {ended:?}");
    };
    refused(example.replace("message_us = 14.286\n", ""), "missing field `message_us`");
    refused(example.replace("sockets = 4", "sockets = 0"), "sockets must be from 1 to 64");
    refused(example.replace("sockets = 4", "sockets = \"four\""), "line 4: invalid type");
    refused(format!("{example}\nwarp = 9\n"), "unknown field `warp`");
    let small = format!("advise rows --rows 1000 --update 100 --machine {path}");
    for arguments in [
        "advise tpcc",
        "advise rows --multisite 101",
        "advise rows --machine /nowhere",
        &small,
        "advise rows --data /nowhere",
        &format!("advise rows --durability group --machine {path}"),
    ] {
        let ended = line(arguments);
        assert_eq!((ended.status, ended.stderr.lines().count()), (2, 1), "{arguments}: {ended:?}");
    }
}

/// Accounts of an application that is traced.
fn traced(file: &std::path::Path) {
    tombolo::table! {
        /// Accounts by number.
        struct Account = "account" { ID: Integer; CENTS: BigInt; }
    }
    tombolo::index! {
        /// By number.
        struct ById = "account_by_id" on Account (ID: Integer) unique Tree;
    }
    let builder = tombolo::Database::builder();
    let builder = builder.table(tombolo::TableDef::of::<Account>().with::<ById>());
    let db = builder.in_memory().expect("a database");
    let accounts = db.table::<Account>().expect("a table");
    let by_id = db.index::<ById>().expect("an index");
    let book = db.register_closure("book", move |tx, ids: &Vec<i32>| {
        for &id in ids {
            let Some(row) = tx.lookup(&by_id, id)? else {
                tx.insert(&accounts, |row| row.set(Account::ID, id))?;
                continue;
            };
            tx.set(&accounts, row, Account::CENTS, 1)?;
        }
        Ok(())
    });
    for id in 0..200 {
        book.call(vec![id]).expect("a call");
    }
    let trace = db.record_trace(file).expect("a trace");
    for id in 0..400 {
        let both = vec![id % 200, (id * 7 + 1) % 200];
        let ids = if id % 4 == 0 { both } else { vec![id % 200] };
        book.call(ids).expect("a call");
    }
    book.call(vec![1_000]).expect("a call");
    assert_eq!(trace.end().calls, 401);
}

#[test]
fn advice_on_a_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("book.trace");
    traced(&path);
    let file = path.display();
    let found =
        &results(&format!("advise trace {file} --time-ms 20 --rounds 1 --verify --json"))[0];
    assert_eq!((&found["workload"], &found["multisite_percent"]), (&"trace".into(), &25.into()));
    let trace = &found["trace"];
    assert_eq!((&trace["calls"], &trace["lost"]), (&401.into(), &0.into()), "{trace}");
    assert_eq!(trace["procedures"][0]["procedure"], "book");
    assert_eq!(trace["tables"][0]["place"], "spread");
    let points = found["points"].as_array().expect("points");
    assert!(points.iter().all(|point| point["measured_tps"].as_f64() > Some(0.0)), "{points:?}");
    assert!(found["prediction_error_percent"].as_f64() >= Some(0.0), "{found}");
    // What is printed is read again, and shown.
    let printed = directory.path().join("advice.json");
    std::fs::write(&printed, found.to_string()).expect("written");
    let page = directory.path().join("page.html");
    let ended = line(&format!("report {} --out {}", printed.display(), page.display()));
    assert_eq!(ended.status, 0, "{ended:?}");
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quad-socket.toml");
    let found = &results(&format!("advise trace {file} --machine {machine} --json"))[0];
    assert_eq!((&found["source"], &found["kind"]), (&"modelled".into(), &"update-1".into()));
    for refused in [
        format!("advise trace {file} --multisite 20"),
        format!("advise trace {file} --update 3"),
        format!("advise rows {file}"),
        "advise trace".to_owned(),
        format!("advise trace {machine}"),
    ] {
        let ended = line(&refused);
        assert_eq!(ended.status, 2, "{refused}: {ended:?}");
    }
    // A damaged file is refused, or read up to the damage.
    let whole = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &whole[..20]).expect("written");
    assert_eq!(line(&format!("advise trace {file}")).status, 2);
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("written");
    let ended = line(&format!("advise trace {file} --time-ms 10 --rounds 1"));
    assert!(ended.stdout.contains("401 calls") && ended.stdout.contains("damaged or incomplete"));
}
