//! `topology`, `counters`, `links`: the machine's results, and the papers' figures made of them.

use serde_json::Value;

use super::{command, line};

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
