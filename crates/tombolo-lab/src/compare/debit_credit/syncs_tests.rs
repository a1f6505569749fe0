//! Durable means synced: the system calls of whole comparisons, counted by strace for each engine.
//!
//! A test cannot see its own system calls, so this program runs a test of its own under strace, as
//! `tests/counters.rs` does under callgrind. `cargo xtask trace` looks closer, but only at our own side.

use std::process::Command;

use super::tests::{built_peers, ours, plan, scratch};
use super::*;

/// Calls of a run, after those that warm up, and how many of them are under way at a time.
const CALLS: usize = 1_000;
const UNDER_WAY: usize = 10;

fn names() -> Vec<String> {
    ours().into_iter().chain(built_peers()).collect()
}

fn run(durability: &str) {
    let scratch = scratch();
    let path = scratch.path().join("data").display().to_string();
    let calls = (CALLS / 2).to_string();
    let plan =
        plan(&[("durability", durability), ("data", &path), ("transactions", &calls)]).unwrap();
    let measured = compare(&plan, &names(), &mut ()).unwrap();
    assert_eq!(crate::compare::failure(&measured), None);
}

#[test]
#[ignore = "runs under strace, for the test below"]
fn traced_group() {
    run("group");
}

#[test]
#[ignore = "runs under strace, for the test below"]
fn traced_none() {
    run("none");
}

/// How often each engine synced in the test of this file called `name`.
fn syncs(name: &str) -> Vec<usize> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace");
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "--seccomp-bpf", "-e", "trace=fsync,fdatasync,msync", "-o"]);
    strace.arg(&file).arg(std::env::current_exe().unwrap());
    strace.args(["--ignored", "--exact", &format!("{module}::{name}")]);
    let output = strace.output().expect("strace is missing: apt-get install strace");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
    let trace = std::fs::read_to_string(&file).unwrap();
    let of = |engine: &String| {
        // A file's path is printed next to its number.
        let folder = format!("/data/{}/", engine.strip_prefix(OURS).unwrap_or(engine));
        trace.lines().filter(|line| line.contains("sync(") && line.contains(&folder)).count()
    };
    names().iter().map(of).collect()
}

/// No call is answered before a sync, and no sync is for more calls than are under way.
#[test]
fn every_durable_engine_syncs_before_it_answers() {
    let (durable, none) = (syncs("traced_group"), syncs("traced_none"));
    // One call in a thousand aborts, and needs none.
    let least = CALLS * 95 / 100 / UNDER_WAY;
    for (name, (durable, none)) in names().iter().zip(durable.into_iter().zip(none)) {
        assert!(durable >= least, "{name}: {durable} syncs for {CALLS} durable calls");
        assert!(none < least / 2, "{name}: {none} syncs though nothing is promised");
    }
}
