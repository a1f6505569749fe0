//! Bad input of every kind: the exit status, and one line that says what to do.

use std::fs;

use crate::ended::{command, refused, tombolo};

#[test]
fn commands_and_flags_that_do_not_exist() {
    refused(
        "serve",
        2,
        "there is no command serve: did you mean recover? use run, check, dump, inspect, verify, recover, \
         repartition, settings, compare, demo, dissect, paper, report",
    );
    refused("", 2, "a command is missing: use run, check");
    refused("rum tpcc", 2, "did you mean dump, run? use run");
    refused("--fast", 2, "tombolo has no flag --fast");
    refused("run tpcc --ack file", 2, "tombolo run has no flag --ack: ");
    refused("run tpcc --warehuoses 2", 2, "did you mean --warehouses?");
    refused("run tpcc again", 2, "has no argument again");
    refused("run", 2, "tombolo run needs");
    refused("check", 2, "tombolo check needs");
    refused("recover", 2, "tombolo recover needs");
    refused("inspect", 2, "tombolo inspect needs");
    refused("verify no-such-file", 2, "no-such-file cannot be read");
    refused("verify src/main.rs", 2, "src/main.rs: line 1: ");
    refused("recover no-such-directory", 2, "no-such-directory");
    refused("inspect src", 2, "holds no database of profile memory");
    refused("run tpcc --islands 2", 2, "use --islands 1, or tombolo islands");
    refused("islands tpcc --multisite 5", 2, "--multisite is not for tpcc: leave it out");
    refused("islands tpcc --skew 0.5", 2, "--skew is not for tpcc: leave it out");
    refused("islands rows --pool-bytes 64MB", 2, "--pool-bytes is for rows in pages");
    refused("advise trace src/main.rs --skew 0.5", 2, "--skew is not for trace: leave it out");
    refused("islands rows --mix paper", 2, "--mix is not for rows: leave it out");
    refused("islands tpcc --mix rows", 2, "give one of paper, standard, payment");
    refused("islands tpcc --remote 101", 2, "give a share from 0 to 100, or default");
    refused("islands tpcc --warehouses 1", 2, "2 islands need a warehouse each");
    refused("islands tpcc --store paged", 2, "give --durability group and --data DIR");
    refused("islands rows --store paged", 2, "give --durability group and --data DIR");
    let paged = "islands rows --store paged --durability group --data no-such-one --per-call 2";
    refused(paged, 2, "one transaction at a time: leave --per-call out");
    refused("islands tpcc --per-call 2", 2, "--per-call is not for tpcc: leave it out");
    refused("repartition src --islands 2", 2, "src holds no database of islands");
    refused("repartition src", 2, "--islands");
    refused("repartition src --islands 0", 2, "--islands");
    refused("repartition src --islands 3 --ranges 1", 2, "3 islands have 2 bounds");
    refused("recover src", 2, "holds no database of profile memory");
    refused("compare tpcc", 2, "tombolo compare needs");
    refused("run tpcc --warehouses", 2, "see tombolo run --help");
    refused("run tpcc --json=yes", 2, "see tombolo run --help");
    refused("demo tpcc", 2, "tombolo demo has no argument tpcc");
}

#[test]
fn workloads_profiles_and_values_that_do_not_exist() {
    refused("run columns", 2, "there is no workload columns: use tpcc, debit-credit");
    refused("run rows --read 1 --update 2", 2, "give --read 1 or --update 2");
    refused("run rows --skew 0.123", 2, "two decimal places");
    refused("run tpcc --profile fast", 2, "give one of bare, memory, conventional");
    refused("run tpcc --mix none", 2, "give one of paper, standard");
    refused("run tpcc --warehouses 0", 2, "0 is outside its limits: give 1 to 65535");
    refused("run tpcc --warehouses five", 2, "\"five\" is not a whole number");
    refused("run tpcc --warehouses 99999999999999999999", 2, "outside its limits");
    refused("run tpcc --warehouses -1", 2, "tombolo run");
    refused("run tpcc --seconds 0", 2, "setting seconds: 0 is outside its limits");
    refused("run tpcc --seconds 5h", 2, "is not a time");
    refused("run tpcc --memory-limit 1KB", 2, "setting memory_limit");
    refused("run tpcc --sweep depth=1", 2, "--sweep depth=1: there is no such setting");
    refused("run tpcc --sweep warehouses=1,0", 2, "outside its limits");
    refused("run tpcc --sweep profile=bare,memory --dump d", 2, "--dump keeps the rows of one run");
    refused("run tpcc --profile no-lsn --data d --rounds 2", 2, "--data keeps the rows of one run");
    refused("run tpcc --pool-bytes 1KB", 2, "setting pool_bytes");
    refused("run tpcc --lock-wait-max 0", 2, "setting lock_wait_max");
}

#[test]
fn what_no_profile_can_do_yet() {
    refused("run tpcc --profile bare --durability group", 2, "profile bare has no log on disk");
    refused("run tpcc --profile bare --durability group", 2, "use --durability none");
    refused("run tpcc --durability none --acks file", 2, "--acks needs a database that comes back");
    let closed = "run tpcc --profile conventional --durability none --resume --data d";
    refused(closed, 2, "d is no directory: give --data the one of an earlier run");
    refused("run tpcc --resume", 2, "say which with --data DIR");
    refused("run tpcc --resume --data /nowhere", 2, "/nowhere is no directory");
    refused("run tpcc --durability none --data d", 2, "without a log nothing is kept");
    refused("run tpcc --acks file --rounds 2", 2, "--acks keeps the rows of one run");
    refused("run tpcc --profile no-disk-log --durability sync", 2, "use --durability none");
    refused("run tpcc --threads 2", 2, "no locks and no latches");
    refused("run tpcc --threads 2 --profile no-locking", 2, "has no locks, so it runs on one");
    refused("run tpcc --threads 2 --profile alone-latching", 2, "has no latches, so it runs on");
    refused("run tpcc --threads 257 --profile conventional", 2, "sessions for 256 threads");
    refused("run tpcc --profile bare --data d", 2, "profile bare keeps no files");
    refused("run tpcc --profile no-page-access --data d", 2, "keeps no files that could be opened");
    refused("run tpcc --islands 2 --profile bare", 2, "use --islands 1");
    refused("run tpcc --clients 1M --in-flight 1k", 2, "calls under way");
}

#[test]
fn engines_that_are_not_there() {
    refused("compare tpcc --with oracle", 2, "there is no engine oracle: use sqlite");
    refused("compare tpcc --with sqlite,sqlite", 2, "named twice");
    refused("compare columns --with sqlite", 2, "there is no workload columns");
    refused("compare rows --with sqlite", 2, "rows is not compared so far");
    refused("compare tpcc --with sqlite --profiles fast", 2, "profile fast is not known");
    let not_built = "--features compare-redb -- compare debit-credit --with redb";
    if !cfg!(feature = "compare-redb") {
        refused("compare debit-credit --with redb", 2, not_built);
    }
    if !cfg!(feature = "compare-rocksdb") {
        let install = "sudo apt-get install librocksdb-dev clang && cargo run --release";
        refused("compare debit-credit --with rocksdb", 2, install);
    }
    let known = "use sqlite, lmdb, rocksdb, redb, redis, postgres";
    refused("compare debit-credit --with oracle", 2, known);
    refused("compare tpcc --with sqlite --clients 9", 2, "leave --clients out");
    if cfg!(feature = "compare-redis") {
        let with = "compare debit-credit --with redis";
        refused(&format!("{with} --profiles bare"), 2, "profile bare has no pipeline");
        refused(&format!("{with} --durability sync"), 2, "use --durability none or group");
    }
    if !cfg!(feature = "compare-sqlite") {
        let cargo = "cargo run --release --features compare-sqlite -- compare tpcc --with sqlite";
        refused("compare tpcc --with sqlite", 2, cargo);
    }
}

#[test]
fn what_the_machine_cannot_do() {
    refused("run tpcc --warehouses 65535", 3, "would need about");
    refused("run tpcc --warehouses 5 --memory-limit 64MB", 3, "64.0 MB are available");
    refused("run tpcc --transactions 100G --warehouses 1", 3, "would need about");
    refused("run tpcc --warehouses 1 --durability none --dump /proc/dump", 3, "cannot be written");
    refused("demo --out /proc/demo", 3, "give --out another one");
    refused("run tpcc --sweep warehouses=1,65535", 3, "would need about");
}

#[test]
fn directories_that_cannot_be_used() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "x").unwrap();
    let run = |data: &str, status, expect| {
        let flags = "--profile conventional --warehouses 1 --transactions 1";
        refused(&format!("run tpcc {flags} --data {data}"), status, expect);
    };
    run(&scratch.path().display().to_string(), 2, "is not empty: give --data a new or an empty");
    run(&file.display().to_string(), 2, "it is not a directory");
    run("/proc/data", 3, "cannot be written");
    let memory = std::path::Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if memory.is_dir() && mounts.contains(" /dev/shm ") {
        run("/dev/shm/tombolo-usage-test", 3, "is on tmpfs, which keeps nothing");
        let default = "run tpcc --warehouses 1 --data /dev/shm/tombolo-usage-test";
        refused(default, 3, "is on tmpfs, which keeps nothing");
    }
    let resumed = format!("run tpcc --resume --data {}", scratch.path().display());
    refused(&resumed, 2, "holds no database of profile memory");
    refused(&format!("check {}", scratch.path().display()), 2, "run --dump wrote");
    for command in ["recover", "inspect"] {
        refused(&format!("{command} src --checkpoint-directory no-such"), 2, "no-such");
    }
    refused("check src --checkpoint-directory src", 2, "leave --checkpoint-directory out");
}

#[test]
fn no_valgrind_is_said_before_anything_runs() {
    let run = |counter: &str| {
        let mut command = command();
        command.env("PATH", "/nowhere");
        let flags = ["run", "tpcc", "--counter", counter, "--warehouses", "65535"];
        let output = command.args(flags).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = run("callgrind");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("apt-get install valgrind"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // With auto it is no error: what is refused is the size.
    let (status, said) = run("auto");
    assert_eq!(status, Some(3));
    assert!(said.contains("would need about"), "{said}");
}

#[test]
fn configuration_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bench.toml");
    let refused_file = |text: &str, expect: &str| {
        fs::write(&file, text).unwrap();
        refused(&format!("settings --config {}", file.display()), 2, expect);
    };
    refused_file("werehouses = 5\n", "setting werehouses: there is no such setting");
    refused_file("warehouses = 0\n", "setting warehouses: 0 is outside its limits");
    refused_file("warehouses = [5]\n", "warehouses is a array");
    refused_file("mix = \"paper\"\nwarehouses 5\n", "line 2");
    refused("settings --config /nowhere/bench.toml", 2, "/nowhere/bench.toml");
    fs::write(&file, "warehouses = 7\nmix = \"paper\"\nseconds = \"250ms\"\n").unwrap();
    let config = file.to_str().unwrap();
    let mut with_environment = command();
    with_environment.env("TOMBOLO_MIX", "standard").env("TOMBOLO_SEED", "9");
    with_environment.args(["settings", "--json", "--config", config, "--seed", "3"]);
    let output = with_environment.output().unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings["settings"]["warehouses"], 7, "from the file");
    assert_eq!(settings["settings"]["mix"], "standard", "the environment is stronger");
    assert_eq!(settings["settings"]["seed"], 3, "a flag is strongest");
    assert_eq!(settings["settings"]["seconds"], 0.25);
    assert_eq!(settings["registry"][0]["name"], "profile");
    let mut bad = command();
    bad.env("TOMBOLO_WAREHOUSES", "many").arg("settings");
    let output = bad.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("variable TOMBOLO_WAREHOUSES"), "{said}");
}

#[test]
fn help_of_every_command_ends_with_an_example() {
    for command in ["run", "check", "settings", "compare", "demo", "dissect", "paper", "report"] {
        let help = tombolo([command, "--help"]);
        assert_eq!(help.status, 0);
        let examples = help.stdout.split("Examples:\n").nth(1).unwrap_or_default();
        assert!(examples.contains(&format!("tombolo {command}")) || examples.contains(command));
    }
    assert!(tombolo(["--help"]).stdout.contains("Examples:"));
    let help = tombolo(["run", "--help"]).stdout;
    for part in [
        "[WORKLOAD]  The workload: tpcc, debit-credit, ycsb or rows\n",
        "Examples:\n  tombolo run tpcc --warehouses 5 --seconds 5\n  tombolo run tpcc --mix paper ",
        "200\n  tombolo run ycsb --mix a --records 100k --seconds 2\n  tombolo run rows --update 10 ",
        "--threads 2 --data data/ && tombolo check data/\n",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(tombolo(["--version"]).stdout.starts_with("tombolo "));
    let nothing: [&str; 0] = [];
    assert_eq!(tombolo(nothing).status, 2);
}
