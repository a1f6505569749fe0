//! A paged database that is killed at work is restarted, and is consistent; as often as it happens.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::ended::{command, line, number, object, refused};

/// How much log there is, by the number of its newest segment.
fn newest_segment(data: &Path) -> u64 {
    let names = fs::read_dir(data).expect("the directory is there");
    let names =
        names.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    names.filter_map(|name| name.strip_prefix("log-")?.parse().ok()).max().unwrap_or(0)
}

#[test]
fn a_paged_database_that_was_killed_is_restarted() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let run = format!(
        "run tpcc --profile conventional --mix paper --durability group --threads 2 --volatile-ok \
         --latency-transactions 0 --pool-bytes 60MB --checkpoint-log-bytes 4MB --data {}",
        data.display()
    );
    let made = object(&line(&format!("{run} --warehouses 1 --transactions 500 --json")));
    assert_eq!(made["consistent"], true);
    for kill in 0..3 {
        let before = newest_segment(&data);
        let mut child = command()
            .args(run.split_whitespace())
            .args(["--resume", "--transactions", "10M"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let mut looks = 0;
        while newest_segment(&data) < before + 3 && looks < 10_000 {
            looks += 1;
            let _ = line("--version"); // takes a moment
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Twice: nothing is written.
        let hashes = [(); 2].map(|()| {
            let checked = line(&format!("check {} --json", data.display()));
            assert_eq!(checked.status, 0, "{checked:?}");
            assert!(checked.stderr.contains("notice: the database was not closed"), "{checked:?}");
            let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
            checked["state_hash"].clone()
        });
        assert_eq!(hashes[0], hashes[1]);
        // Recovered, or restarted by the next run.
        if kill == 1 {
            let recover = format!("recover {} --json", data.display());
            let recovered = object(&line(&recover));
            assert!(number(&recovered["restart"], "log_bytes") > 0.0, "{recovered}");
            assert_eq!(object(&line(&recover))["restart"], serde_json::Value::Null);
            let checked = object(&line(&format!("check {} --json", data.display())));
            assert_eq!(checked["state_hash"], hashes[0]);
        }
        let resumed = object(&line(&format!("{run} --resume --transactions 200 --json")));
        assert_eq!((&resumed["consistent"], &resumed["warehouses"]), (&true.into(), &1.into()));
        assert!(number(&resumed, "committed") > 150.0, "{resumed}");
        match kill {
            1 => assert!(resumed["restart"].is_null(), "{resumed}"),
            _ => assert!(number(&resumed["restart"], "records_redone") > 0.0, "{resumed}"),
        }
        // The pool begins empty, so pages are read.
        let pool = &resumed["pool"];
        assert!(number(pool, "misses") > 0.0 && number(pool, "hits") > 0.0, "{resumed}");
        assert_eq!(pool["bytes"], 60 << 20);
        assert!(number(&pool["raw_read_us"], "p50") > 0.0, "{resumed}");
    }
    assert_eq!(line(&format!("check {}", data.display())).status, 0);
    refused(&format!("recover {} --accept-loss", data.display()), 2, "leave it out");
    refused("run tpcc --profile no-lsn --durability none --resume", 2, "comes back");
}
