//! A paged database that is killed at work is restarted, and is consistent; as often as it happens.

use std::fs;
use std::path::{Path, PathBuf};
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
    refused("run tpcc --durability none --resume", 2, "comes back");
}

/// Copies a directory's files.
fn copy(from: &Path, to: &Path) -> PathBuf {
    fs::create_dir(to).expect("a directory is made");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy is made");
    }
    to.to_owned()
}

/// The run that makes a small database in `data`, and closes it.
fn small(data: &Path, durability: &str) -> String {
    format!(
        "run rows --rows 1000 --update 3 --profile conventional --durability {durability} --volatile-ok \
         --latency-transactions 0 --data {} --transactions",
        data.display()
    )
}

fn in_files(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(data).expect("it is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("it is read"));
    let mut files: Vec<_> = paths.map(read).collect();
    files.sort();
    files
}

#[test]
fn a_page_that_a_copy_repairs_is_put_back_by_recover_too() {
    let scratch = tempfile::tempdir().unwrap();
    let closed = scratch.path().join("closed");
    let run = small(&closed, "group");
    assert_eq!(line(&format!("{run} 200")).status, 0);
    let killed = copy(&closed, &scratch.path().join("killed"));
    let mut child = command()
        .args(format!("{} 10M --resume", small(&killed, "group")).split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut looks = 0;
    while newest_segment(&killed) < newest_segment(&closed) + 1 && looks < 10_000 {
        looks += 1;
        let _ = line("--version"); // takes a moment
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let cut = |len: usize| move |bytes: &mut Vec<u8>| bytes.truncate(len);
    type Damages = (&'static str, Box<dyn Fn(&mut Vec<u8>)>);
    let flip = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let damages: [Damages; 4] = [
        ("killed", Box::new(flip)),
        ("closed", Box::new(cut(0))),
        ("closed", Box::new(cut(100))),
        ("closed", Box::new(cut(50_000))),
    ];
    for (at, (of, damage)) in damages.iter().enumerate() {
        let data = copy(&scratch.path().join(of), &scratch.path().join(at.to_string()));
        let mut bytes = fs::read(data.join("pages")).unwrap();
        damage(&mut bytes);
        fs::write(data.join("pages"), bytes).unwrap();
        let before = in_files(&data);
        let checked = line(&format!("check {}", data.display()));
        assert_eq!(checked.status, 1, "{checked:?}");
        assert!(checked.stderr.contains("tombolo recover, or opening"), "{checked:?}");
        assert!(before == in_files(&data), "a check writes nothing");
        let recovered = line(&format!("recover {}", data.display()));
        assert_eq!(recovered.status, 0, "{recovered:?}");
        assert_eq!(line(&format!("check {}", data.display())).status, 0);
    }
}

#[test]
fn files_that_are_missing_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    assert_eq!(line(&format!("{} 200", small(&data, "group"))).status, 0);
    let names = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("log-");
    let (logs, others): (Vec<PathBuf>, Vec<PathBuf>) = names.partition(is_log);
    assert!(!logs.is_empty() && others.contains(&data.join("pages")), "{others:?}");
    let without_log = copy(&data, &scratch.path().join("without-log"));
    for log in logs {
        fs::remove_file(without_log.join(log.file_name().unwrap())).unwrap();
    }
    let before = in_files(&without_log);
    for command in ["check", "recover"] {
        let command = format!("{command} {}", without_log.display());
        refused(&command, 1, "the log's files are missing (log-000001 and so on)");
    }
    let resume = format!("{} 10 --resume", small(&without_log, "group"));
    refused(&resume, 3, "the log's files are missing");
    let pages = |files: &[(PathBuf, Vec<u8>)]| {
        files.iter().find(|(path, _)| path.ends_with("pages")).cloned()
    };
    assert!(pages(&before) == pages(&in_files(&without_log)), "the pages were written");
    fs::remove_file(data.join("pages")).unwrap();
    for command in ["check", "recover", "inspect"] {
        let command = format!("{command} {}", data.display());
        refused(&command, 1, "whose file pages is missing: restore a copy of the directory");
    }
}

#[test]
fn a_paged_database_without_a_log_is_resumed_if_it_was_closed() {
    let scratch = tempfile::tempdir().unwrap();
    let [unlogged, logged] = ["unlogged", "logged"].map(|name| scratch.path().join(name));
    assert_eq!(line(&format!("{} 200", small(&unlogged, "none"))).status, 0);
    for _ in 0..2 {
        let resumed = line(&format!("{} 500 --resume --json", small(&unlogged, "none")));
        assert_eq!(
            (resumed.status, &object(&resumed)["consistent"]),
            (0, &true.into()),
            "{resumed:?}"
        );
        assert_eq!(line(&format!("check {}", unlogged.display())).status, 0);
    }
    // What is refused then is closed as it was, or it could not be opened any more.
    let tpcc = "run tpcc --profile conventional --durability none --volatile-ok --resume --data";
    refused(&format!("{tpcc} {}", unlogged.display()), 2, "holds no database of tpcc");
    assert_eq!(line(&format!("check {}", unlogged.display())).status, 0);
    let with_log = format!("{} 10 --resume", small(&unlogged, "group"));
    refused(&with_log, 2, "without a log, as --durability none makes it: use --durability none");
    assert_eq!(line(&format!("{} 200", small(&logged, "group"))).status, 0);
    let without_log = format!("{} 10 --resume", small(&logged, "none"));
    refused(&without_log, 2, "with a log, which is not written without it");
}
