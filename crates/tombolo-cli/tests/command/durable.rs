//! Durable runs of the memory store: what they say, what they leave, that they can be continued.

use std::fs;
use std::process::Stdio;

use crate::ended::{command, line, number, object, refused};
use serde_json::Value;

/// The flags of a run that a test can wait for.
const SMALL: &str = "--warehouses 1 --mix paper --transactions 2k --latency-transactions 100";

#[test]
fn a_durable_run_leaves_the_rows_of_any_other_and_goes_on_when_opened_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, acks) = (scratch.path().join("data"), scratch.path().join("acks"));
    let data = format!("--data {} --volatile-ok --json", data.display());
    let run = format!(
        "run tpcc {SMALL} --clients 4 --in-flight 4 --log-segment-bytes 16MB \
         --checkpoint-at-close no"
    );
    let durable = object(&line(&format!("{run} {data}")));
    assert_eq!((&durable["durability"], &durable["profile"]), (&"group".into(), &"memory".into()));
    assert_eq!((&durable["clients"], &durable["in_flight"]), (&4.into(), &4.into()));
    assert_eq!(
        (&durable["consistent"], &durable["latency_transactions"]),
        (&true.into(), &2_000.into())
    );
    // Sixteen calls are under way, and each flush is of this run: none of what warmed it up, none missing.
    let (committed, flushes) = (number(&durable, "committed"), number(&durable, "flushes"));
    assert!(flushes * 16.0 >= committed, "{flushes} flushes of {committed}");
    let per_flush = number(&durable, "transactions_per_flush");
    assert!((1.0..=16.0).contains(&per_flush), "{per_flush}: {durable}");
    assert!(
        number(&durable, "log_bytes") > 2_000.0 * 300.0 && number(&durable, "disk_bytes") > 1e6
    );
    assert!(
        number(&durable["raw_flush_us"], "p50") > 0.0 && number(&durable, "of_raw_percent") > 0.0
    );
    assert_eq!(number(&durable, "raw_flush_bytes") as u64 % 4_096, 0);
    let stages = durable["by_stage"].as_object().unwrap();
    // Callers carry: each reply is handed out by the stage that lets it go.
    for stage in ["execution", "logging"] {
        assert!(number(&stages[stage], "busy_s") > 0.0, "{stage}");
    }
    assert!(durable["data_fs"].is_string() && durable.get("recovery").is_none());
    // The same transactions in memory, and without a pipeline.
    for flags in ["--durability none", "--profile bare"] {
        let other =
            object(&line(&format!("run tpcc {SMALL} --clients 4 --in-flight 4 {flags} --json")));
        assert_eq!(other["state_hash"], durable["state_hash"], "{flags}");
        assert_eq!((&other["disk_bytes"], &other["flushes"]), (&0.into(), &0.into()), "{flags}");
    }
    let resumed = format!("{run} {data} --resume --durability sync --acks {}", acks.display());
    let resumed = object(&line(&resumed));
    let recovery = &resumed["recovery"];
    assert_eq!((&recovery["clean"], &recovery["epoch"]), (&true.into(), &2.into()));
    // Behind the image of the load: 2,000 to warm up, 2,000, what a run without pipeline would time,
    // and those of the last group of the load, with which the image ends.
    assert!((4_116.0..4_200.0).contains(&number(recovery, "transactions")), "{recovery}");
    assert!(number(recovery, "image_bytes") > 5e7, "{recovery}");
    assert_eq!((&resumed["consistent"], &resumed["state_hash"]), (&true.into(), &Value::Null));
    let reported = fs::read_to_string(&acks).unwrap();
    assert_eq!(reported.lines().count() as f64, number(&resumed, "committed"));
    let mut last = [0_u64; 4];
    for line in reported.lines() {
        let (client, sequence) = line.split_once(' ').unwrap();
        let last = &mut last[client.parse::<usize>().unwrap()];
        let sequence: u64 = sequence.parse().unwrap();
        assert!(sequence > *last, "{line} after {last}");
        *last = sequence;
    }
    // Each caller's numbers continue where they ended.
    let dump = scratch.path().join("rows");
    let again =
        format!("{run} {data} --resume --acks {} --dump {}", acks.display(), dump.display());
    assert_eq!(object(&line(&again))["recovery"]["epoch"], 3);
    let rows = fs::read_to_string(dump.join("client_seq.copy")).unwrap();
    for (client, last) in last.iter().enumerate() {
        let row = rows.lines().find(|row| row.starts_with(&format!("{client}\t"))).unwrap();
        let sequence: u64 = row.split('\t').nth(1).unwrap().parse().unwrap();
        assert!(sequence > *last, "{row}");
    }
}

#[test]
fn a_log_that_is_full_ends_a_run_with_the_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    let flags = "--warehouses 1 --mix paper --transactions 1M --clients 64 --in-flight 16 \
                 --checkpoints off";
    let limits = "--log-segment-bytes 4MB --log-bytes-max";
    let run = format!("run tpcc {flags} {limits} 130MB --volatile-ok --data {data}");
    refused(&run, 3, "the log is full, so nothing is written");
    let ended = line(&format!("run tpcc {flags} {limits} 32MB --volatile-ok --data {data}-2"));
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stderr.contains("the log has reached its limit of"), "{ended:?}");
    // What was answered before is there: the database opens, and reads it all.
    let open = "run tpcc --mix paper --transactions 1 --resume --volatile-ok";
    let opened = object(&line(&format!("{open} --data {data} --json")));
    assert_eq!(opened["consistent"], true);
}

#[test]
fn a_directory_in_use_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let flags = "run tpcc --warehouses 1 --mix paper --seconds 60m --volatile-ok --data";
    let mut run = command()
        .args(flags.split_whitespace())
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The second one is made immediately, with the first rows on their way; the fourth when a third is in use.
    while !data.join("log-000004").exists() {
        let _ = line("--version"); // takes a moment
        assert!(run.try_wait().unwrap().is_none(), "the run ended");
    }
    refused(&format!("run tpcc --resume --data {}", data.display()), 3, "the database is in use");
    run.kill().unwrap();
    run.wait().unwrap();
    // It was loading, or just over with it: what is there is whole or refused.
    let resumed = "run tpcc --mix paper --transactions 1 --resume --volatile-ok --data";
    let ended = line(&format!("{resumed} {}", data.display()));
    let refused = ended.status == 3 && ended.stderr.contains("loading it was broken off");
    assert!(refused || ended.status == 0, "{ended:?}");
    let checked = line(&format!("check {}", data.display()));
    let says = checked.stderr.contains("broken off") || checked.stdout.contains("broken off");
    assert_eq!(says, refused, "{checked:?}");
}

#[test]
fn a_memory_budget_refuses_transactions_and_lets_the_others_go_on() {
    let flags = "--warehouses 1 --mix paper --latency-transactions 0 --clients 4 --in-flight 16";
    let run = |limit: &str, more: &str| line(&format!("run tpcc {flags} {limit} {more} --json"));
    // How much the store holds when it is loaded, and with what was reserved for the first batch.
    let free = object(&run("", "--transactions 100 --durability none"));
    assert_eq!(free["settings"]["memory_bytes_max"], Value::Null);
    let limit = (number(&free, "memory_bytes") / 1e6) as u64 + 2;
    let limit = format!("--memory-bytes-max {limit}MB");
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data").display().to_string();
    for more in ["--durability none".to_owned(), format!("--volatile-ok --data {data}")] {
        let bound = object(&run(&limit, &format!("--transactions 40k --batch 1k {more}")));
        let refused = number(&bound["aborts_by_reason"], "no_space");
        assert!(refused > 1_000.0, "{more}: {bound}");
        // A Payment makes a row too, but few of them fill the room that is left for theirs.
        assert!(number(&bound, "committed") > 1_000.0, "{more}: {bound}");
        assert_eq!((&bound["consistent"], bound["state_hash"].is_string()), (&true.into(), true));
    }
    // What was refused left no trace in the log: the database opens, with the bound and without.
    for limit in [&*limit, ""] {
        let resume = format!("--transactions 100 --resume --volatile-ok --data {data}");
        assert_eq!(object(&run(limit, &resume))["consistent"], true);
    }
    refused(
        &format!("run tpcc {flags} --memory-bytes-max 32MB --durability none"),
        3,
        "no memory for another row or index entry",
    );
}
