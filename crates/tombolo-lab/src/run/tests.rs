//! Which settings make a plan, and what is refused before anything starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tombolo_engine::threads;
use tombolo_storage::paged::store::Isolation;
use tombolo_storage::profile::PROFILES;

use super::*;
use crate::drive::Tally;
use crate::failure::Blame;
use crate::plan::Options;
use crate::settings::Source;
use crate::upkeep::check;
use crate::workload::tpcc::input::Mix;
use crate::workload::tpcc::loader::Scale;
use crate::workload::{self, Workload, WorkloadInput, for_each_workload, ycsb};

fn plan(given: &[(&str, &str)]) -> Result<Plan, Failure> {
    let mut settings = crate::settings::defaults();
    for (name, value) in given {
        settings.set(name, value, Source::Flag).unwrap();
    }
    Plan::new(&settings)
}

#[test]
fn settings_become_a_plan() {
    let plan =
        plan(&[("mix", "paper"), ("transactions", "5k"), ("clients", "10"), ("in_flight", "2")]);
    let plan = plan.unwrap();
    assert_eq!(
        (plan.scale().mix, plan.bound, plan.callers),
        (Mix::Paper, Bound::Transactions(5_000), 20)
    );
    assert_eq!(
        plan.count_arguments().join(" "),
        "--profile memory --warehouses 5 --mix paper --seed 1 --counted 2000"
    );
}

#[test]
fn what_does_not_exist_is_refused_with_the_reason() {
    let refused = |given: &[(&str, &str)], expect: &str| {
        let error = plan(given).unwrap_err();
        assert_eq!(error.blame(), Blame::Usage);
        assert!(error.to_string().contains(expect), "{error}");
    };
    refused(&[("profile", "bare"), ("durability", "group")], "profile bare has no log on disk");
    refused(&[("data", "x"), ("durability", "none")], "without a log nothing is kept");
    refused(&[("log_segment_bytes", "64MB"), ("log_bytes_max", "100MB")], "no room for two");
    refused(&[("threads", "2")], "no locks and no latches");
    refused(&[("log", "command")], "leave --log command out");
    refused(&[("profile", "no-locking"), ("threads", "2")], "has no locks, so it runs on one");
    refused(&[("profile", "alone-latching"), ("threads", "2")], "has no latches, so it runs");
    refused(&[("profile", "no-latching"), ("threads", "2")], "no locks and no latches");
    refused(&[("profile", "conventional"), ("threads", "257")], "sessions for 256 threads");
    refused(&[("profile", "no-disk-log"), ("durability", "sync")], "use --durability none");
    refused(&[("profile", "bare"), ("data", "x")], "profile bare keeps no files");
    refused(&[("profile", "no-sessions"), ("data", "x")], "no-sessions keeps no files");
    refused(&[("islands", "2")], "use --islands 1");
    refused(&[("clients", "1M"), ("in_flight", "2")], "calls under way");
}

#[test]
fn a_profile_is_as_durable_as_it_can_be_unless_asked() {
    let of = |given: &[(&str, &str)]| {
        let plan = plan(given).unwrap();
        (plan.durability_name(), plan.keeps_files())
    };
    let conventional = ("profile", "conventional");
    assert_eq!(of(&[]), ("group", true));
    assert_eq!(of(&[("durability", "none")]), ("none", false));
    assert_eq!(of(&[("durability", "sync")]), ("sync", true));
    assert_eq!(of(&[("profile", "bare")]), ("none", false));
    assert_eq!(of(&[conventional]), ("group", true));
    assert_eq!(of(&[conventional, ("durability", "async")]), ("async", true));
    assert_eq!(of(&[conventional, ("durability", "none")]), ("none", false));
    assert_eq!(of(&[("profile", "no-lsn"), ("data", "x")]), ("none", true));
    assert_eq!(plan(&[conventional, ("threads", "4")]).unwrap().callers, 4);
    let locks = plan(&[("lock_wait_max", "250ms"), ("locks_max", "5k")]).unwrap().locks;
    assert_eq!((locks.wait_interval_ms, locks.wait_intervals_max), (100, 3));
    assert_eq!(locks.requests_max, 5_000);
    let committed = plan(&[conventional, ("isolation", "read_committed")]).unwrap();
    assert_eq!(committed.options().paged.isolation, Isolation::ReadCommitted);
    let refused = plan(&[("isolation", "read_committed")]).unwrap_err().to_string();
    assert!(refused.contains("use --isolation serializable"), "{refused}");
}

#[test]
fn more_than_memory_holds_is_refused_with_its_size() {
    let verify = |given: &[(&str, &str)]| plan(given).unwrap().verify_machine();
    verify(&[("warehouses", "1")]).unwrap();
    let error = verify(&[("warehouses", "60_000")]).unwrap_err();
    assert_eq!(error.blame(), Blame::Environment);
    assert!(
        error.to_string().contains("would need about ") && error.to_string().contains("TB"),
        "{error}"
    );
    assert!(verify(&[("warehouses", "1"), ("memory_limit", "128 MB")]).is_err());
    assert!(verify(&[("transactions", "1G")]).is_err());
}

/// Committed and aborted transactions by kind, aborts by reason, retries.
type Ends<'r> = (Vec<(&'r str, u64, u64)>, &'r BTreeMap<String, u64>, u64);

/// How the transactions of a run ended.
fn ends(result: &RunResult) -> Ends<'_> {
    let kinds = result.by_transaction.iter();
    let kinds = kinds.map(|(kind, found)| (&**kind, found.committed, found.aborted));
    (kinds.collect(), &result.aborts_by_reason, result.retried)
}

/// The settings of a run that a test can wait for.
const TINY: [(&str, &str); 4] = [
    ("warehouses", "1"),
    ("transactions", "500"),
    ("latency_transactions", "50"),
    ("durability", "none"),
];

fn run_with(more: &[(&str, &str)]) -> RunResult {
    let given: Vec<_> = TINY.iter().chain(more).copied().collect();
    run(&plan(&given).unwrap(), None, &mut (), &mut |_| ()).unwrap().0
}

#[test]
fn a_tiny_run_of_the_standard_mix_is_consistent_with_the_same_state() {
    let profiles = ["memory", "bare", "conventional", "no-locking", "no-sessions"];
    let outcomes = profiles.map(|profile| run_with(&[("profile", profile)]));
    for outcome in &outcomes {
        assert!(outcome.consistent, "{:?}", outcome.checks);
        assert_eq!(outcome.state_hash, outcomes[0].state_hash, "{}", outcome.profile);
        assert_eq!(outcome.state_hash.as_ref().map(String::len), Some(32));
        assert_eq!(ends(outcome), ends(&outcomes[0]));
        assert!(outcome.memory_bytes > outcome.raw_row_bytes);
    }
    let checks = outcomes.map(|outcome| outcome.checks.len());
    assert_eq!(checks, [14, 14, 15, 15, 14]);
}

/// A short run of `workload`.
fn short<W: Deployed>(workload: W, given: &[(&str, &str)]) -> RunResult {
    let mut settings = crate::settings::defaults();
    let of = [("transactions", "1k"), ("latency_transactions", "50")];
    for (name, value) in of.iter().chain(given) {
        settings.set(name, value, Source::Flag).unwrap();
    }
    let plan = Plan::of(workload::info::<W>(), &settings).unwrap();
    let plan = Plan { workload: workload.into(), volatile_ok: true, ..plan };
    run(&plan, None, &mut (), &mut |_| ()).unwrap().0
}

/// What the three kinds of store are left like.
fn runs_on_every_kind_of_store<W: Deployed>(workload: W) {
    let on = |profile| short(workload, &[("profile", profile), ("durability", "none")]);
    let outcomes = ["memory", "bare", "conventional"].map(on);
    let inputs = workload.inputs().skip(WARM_UP).take(1_000);
    let commits = inputs.filter(|input| !input.aborts()).count() as u64;
    for outcome in &outcomes {
        assert!(outcome.consistent, "{workload:?}: {:?}", outcome.checks);
        assert_eq!(outcome.state_hash, outcomes[0].state_hash, "{workload:?}");
        assert_eq!(ends(outcome), ends(&outcomes[0]), "{workload:?}");
        assert_eq!(outcome.committed, commits, "{workload:?}");
    }
}

#[test]
fn every_workload_leaves_every_kind_of_store_alike() {
    macro_rules! tested {
        ($($name:ident => $scale:ty,)*) => {
            $(<$scale>::tested().into_iter().for_each(runs_on_every_kind_of_store);)*
        };
    }
    for_each_workload!(tested);
}

#[test]
fn ycsb_survives_in_a_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let workload = ycsb::Scale { seed: 1, records: 2_000, mix: 3 };
    let outcome = short(workload, &[("data", data.to_str().unwrap()), ("clients", "4")]);
    let checked = check::check(&[&data], None, None, &mut ()).unwrap();
    assert_eq!(checked.failure(), None);
    assert_eq!(checked.state_hash.map(|hash| hash.to_string()), outcome.state_hash);
    let tampered = check::check(&[&data], Some("values"), None, &mut ()).unwrap();
    assert!(tampered.failure().unwrap().to_string().contains("check values failed"));
}

#[test]
fn a_mix_is_of_its_workload() {
    let error = plan(&[("mix", "a")]).unwrap_err();
    assert_eq!(error.blame(), Blame::Usage);
    assert_eq!(
        error.to_string(),
        "setting mix: \"a\" is not known to tpcc: give one of paper, standard"
    );
}

/// Those that this build has; `dissect` compares all.
#[test]
fn profiles_leave_the_same_state() {
    let profiles: Vec<&'static str> = PROFILES
        .iter()
        .map(|profile| profile.name)
        .filter(|name| drive::create::<Scale>(name, &Options::default()).is_ok())
        .collect();
    assert!(profiles.len() >= 6, "{profiles:?}");
    // Less than a whole run, which measures the machine as well.
    let work = |profile: &&'static str| {
        let given = [("mix", "paper"), ("profile", *profile)];
        let given: Vec<_> = TINY.iter().chain(&given).copied().collect();
        let plan = plan(&given).unwrap();
        let mut instance = drive::create(profile, &plan.options()).unwrap();
        instance.load(plan.scale(), 1, &mut |_, _| {}).unwrap();
        let inputs: Vec<_> = plan.inputs().take(1_000).collect();
        let mut tally = Tally::default();
        instance.run(&inputs, &mut tally).unwrap();
        let verification = instance.rest().unwrap().verify().unwrap();
        assert!(verification.consistent(), "{profile}: {verification:?}");
        (*profile, tally, instance.rest().unwrap().state_hash().unwrap())
    };
    let (_, tally, state) = work(&"memory");
    assert_eq!(tally.done(), 1_000);
    threads::ordered_parallel(&profiles, 2, work, |(profile, found, hash)| {
        assert_eq!((found, hash), (tally.clone(), state), "{profile}");
    });
}

/// What is asked for ahead may be gone or elsewhere when its transaction runs: orders are delivered
/// meanwhile, leaves split.
#[test]
fn looking_ahead_changes_no_state() {
    let after = |ahead: usize| {
        let given = [("mix", "standard"), ("profile", "bare"), ("warehouses", "1")];
        let plan = plan(&given).unwrap();
        let options = Options { locate_ahead: Some(ahead), ..plan.options() };
        let mut instance = drive::create("bare", &options).unwrap();
        instance.load(plan.scale(), 1, &mut |_, _| {}).unwrap();
        let (inputs, mut tally) = (plan.inputs().take(1_500), Tally::default());
        instance.run(&inputs.collect::<Vec<_>>(), &mut tally).unwrap();
        (tally, instance.rest().unwrap().state_hash().unwrap())
    };
    let expected = after(0);
    assert_eq!(expected.0.done(), 1_500);
    for ahead in [8, 1_000] {
        assert_eq!(after(ahead), expected, "{ahead}");
    }
}

#[test]
fn threads_share_the_inputs_and_leave_a_consistent_database() {
    let outcome = run_with(&[
        ("profile", "conventional"),
        ("threads", "2"),
        ("transactions", "20k"),
        ("latency_transactions", "2k"),
    ]);
    assert!(outcome.consistent, "{:?}", outcome.checks);
    assert_eq!(outcome.state_hash, None, "their order was open");
    assert_eq!(outcome.committed + outcome.aborted - outcome.retried, 20_000);
    let aborted: u64 = outcome.aborts_by_reason.values().sum();
    assert_eq!(aborted, outcome.aborted);
    let invalid = outcome.aborts_by_reason.get("invalid_item");
    assert_eq!(invalid.map_or(0, |count| *count), aborted - outcome.retried);
    assert_eq!(outcome.latency_transactions, 2_000);
    assert!(outcome.log_bytes > 0 && outcome.flushes == 0);
}

#[test]
fn a_short_run_times_no_more_transactions_than_it_executes() {
    let timed = |given: &[_]| plan(given).unwrap().latency_transactions;
    let (few, many) = (("transactions", "500"), ("transactions", "1M"));
    let given = ("latency_transactions", "700");
    assert_eq!([timed(&[few]), timed(&[few, given])], [500, 700]);
    assert_eq!([timed(&[many]), timed(&[("seconds", "1")])], [100_000; 2]);
}

#[test]
fn the_log_of_threads_has_their_commits() {
    let given = [("profile", "conventional"), ("threads", "2"), ("transactions", "2k")];
    let plan = plan(&TINY.into_iter().chain(given).collect::<Vec<_>>()).unwrap();
    let (clock, flushes) = (SystemClock::new(), FlushTimes::default());
    let (mut instance, workload, _) =
        load(&plan, plan.scale(), None, &flushes, &clock, &mut ()).unwrap();
    let passes = measure(&plan, &workload, &clock, &flushes, &mut *instance, &mut ()).unwrap();
    // What only reads is in no log.
    let committed = passes.throughput.tally.total().committed;
    assert!((1..committed).contains(&passes.log.commits), "{} of {committed}", passes.log.commits);
    assert!(passes.log.bytes > 0 && passes.log.flushes == 0);
}

#[test]
fn files_are_kept_where_it_was_said() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let (durability, data_flag) = (("durability", "group"), ("data", data.to_str().unwrap()));
    let given = TINY.into_iter().chain([("profile", "conventional"), durability, data_flag]);
    let plan_of_it = plan(&given.collect::<Vec<_>>()).unwrap();
    let (outcome, failure) = run(&plan_of_it, None, &mut (), &mut |_| ()).unwrap();
    assert_eq!(failure, None);
    assert!(outcome.flushes > 0);
    assert!(outcome.flush_us.unwrap().count >= outcome.flushes, "each flush is timed");
    assert!(outcome.transactions_per_flush.is_some_and(|commits| commits > 0.0));
    assert_eq!(outcome.data_dir.as_deref(), data.to_str());
    let checked = check::check(&[&data], None, None, &mut ()).unwrap();
    assert_eq!(checked.failure(), None);
    assert_eq!(checked.state_hash.map(|hash| hash.to_string()), outcome.state_hash);
    let given = [("profile", "conventional"), durability, data_flag];
    let again = plan(&given).unwrap().verify_machine().unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
}

#[test]
fn sessions_number_their_calls_and_continue_where_they_ended() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, acks) = (scratch.path().join("data"), scratch.path().join("acks"));
    let data = ("data", data.to_str().unwrap());
    let given = [("profile", "conventional"), ("threads", "2"), ("durability", "group"), data];
    let given: Vec<_> = TINY.into_iter().chain(given).collect();
    for resume in [false, true] {
        let acks = Some(acks.clone());
        let plan = Plan { volatile_ok: true, resume, acks, ..plan(&given).unwrap() };
        let (outcome, failure) = run(&plan, None, &mut (), &mut |_| ()).unwrap();
        assert_eq!((failure, outcome.threads), (None, 2));
    }
    let mut last = [0; 2];
    for line in fs::read_to_string(&acks).unwrap().lines() {
        let (client, number) = line.split_once(' ').unwrap();
        let last = &mut last[client.parse::<usize>().unwrap()];
        *last += 1;
        assert_eq!(number.parse(), Ok(*last), "{line}");
    }
    assert!(last.iter().sum::<u64>() > 100, "{last:?}");
}

/// Every file of a directory but the lock, byte by byte.
fn bytes_in(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

#[test]
fn what_was_not_closed_is_checked_as_a_restart_makes_it_and_stays_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let given = TINY.into_iter().chain([("profile", "conventional"), ("durability", "group")]);
    let plan = plan(&given.collect::<Vec<_>>()).unwrap();
    let disk = Arc::new(OsDisk::open(scratch.path()).unwrap());
    let options = Options { disk, ..plan.options() };
    let mut instance = drive::create("conventional", &options).unwrap();
    instance.load(plan.scale(), 1, &mut |_, _| {}).unwrap();
    let (inputs, mut tally) = (plan.inputs().take(50), Tally::default());
    instance.run(&inputs.collect::<Vec<_>>(), &mut tally).unwrap();
    let hash = instance.rest().unwrap().state_hash().unwrap();
    drop(instance);
    let before = bytes_in(scratch.path());
    for _ in 0..2 {
        let checked = check::check(&[scratch.path()], None, None, &mut ()).unwrap();
        assert_eq!((checked.failure(), checked.state_hash), (None, Some(hash)));
        let notice = checked.notice.unwrap();
        assert!(
            notice.contains("was not closed") && notice.contains(" 0 transactions"),
            "{notice}"
        );
        assert!(before == bytes_in(scratch.path()), "something was written");
    }
    // Damage in what redo needs is a finding.
    let log = scratch.path().join("log-000001");
    let mut bytes = fs::read(&log).unwrap();
    let within = (30_000..).find(|at| bytes[*at] != 0).unwrap(); // zeros may lie behind a group
    bytes[within] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let checked = check::check(&[scratch.path()], None, None, &mut ()).unwrap();
    assert_eq!(checked.verification.damage[0].check, "log", "{:?}", checked.verification);
}

#[test]
fn checkpoints_belong_to_databases_with_a_log() {
    let of = |given: &[(&str, &str)]| plan(given).unwrap().image;
    assert!(of(&[]).is_some());
    for without in [("durability", "none"), ("checkpoints", "off"), ("profile", "bare")] {
        assert_eq!(of(&[without]), None, "{without:?}");
    }
    assert_eq!(of(&[("profile", "conventional")]), None);
    let blocks = of(&[("checkpoint_block_bytes", "8KB"), ("checkpoint_spare_blocks", "3")]);
    let blocks = blocks.unwrap();
    assert_eq!((blocks.block_bytes, blocks.spare_blocks), (8_192, 3));
    let threads = plan(&[("checkpoint_threads", "3")]).unwrap().checkpoint_threads;
    assert_eq!(threads, 3);
    // Their second copy of the rows is among what a run is refused for.
    let needs = |checkpoints| {
        let copy = ("checkpoint_copy", "memory");
        let given = [("warehouses", "10"), ("checkpoints", checkpoints), copy];
        plan(&given).unwrap().bytes(0, 1)
    };
    assert!(needs("on") > needs("off") * 3 / 2, "{} and {}", needs("on"), needs("off"));
}

/// Runs of the durable store in `data`.
fn run_in(data: &Path, more: &[(&str, &str)], resume: bool) -> RunResult {
    let data = data.to_str().unwrap();
    let mut given = vec![("warehouses", "1"), ("latency_transactions", "0"), ("data", data)];
    given.extend([("log_segment_bytes", "4MB"), ("clients", "16")]);
    given.extend(more);
    let plan = Plan { volatile_ok: true, resume, ..plan(&given).unwrap() };
    run(&plan, None, &mut (), &mut |_| ()).unwrap().0
}

#[test]
fn what_was_loaded_is_in_an_image_and_what_followed_in_checkpoints() {
    let scratch = tempfile::tempdir().unwrap();
    let small = [("transactions", "20k"), ("checkpoint_log_bytes", "1MB")];
    let data = scratch.path().join("data");
    let outcome = run_in(&data, &small, false);
    let checkpoint = outcome.checkpoint.unwrap();
    // Whether the run ends before one is completed is the device's matter. Each of them writes every
    // block, whatever was changed.
    assert_eq!(checkpoint.count > 0, checkpoint.wall_s > 0.0, "{checkpoint:?}");
    assert!(checkpoint.bytes > checkpoint.count * outcome.raw_row_bytes / 2);
    assert!(checkpoint.bytes > 0 && outcome.by_stage["checkpoint"].busy_s > 0.0, "{checkpoint:?}");
    let in_checkpoint = outcome.latency_in_checkpoint_us.unwrap();
    assert!((1..=outcome.latency_transactions).contains(&in_checkpoint.count), "{in_checkpoint:?}");
    let checked = check::check(&[&data], None, None, &mut ()).unwrap();
    assert_eq!(checked.failure(), None);
    assert_eq!(checked.state_hash.map(|hash| hash.to_string()), outcome.state_hash);

    // A last one was written when the run closed, so next to nothing is left to be replayed.
    let resumed = run_in(&data, &[("transactions", "10")], true);
    let recovery = resumed.recovery.as_ref().unwrap();
    assert!(recovery.image_bytes > outcome.raw_row_bytes / 2, "{recovery:?}");
    assert!(recovery.transactions < 100 && recovery.log_bytes < 1 << 20, "{recovery:?}");
    assert_eq!(resumed.checkpoint.unwrap().count, 0, "none is written of what an image holds");
}

#[test]
fn a_run_without_checkpoints_leaves_all_to_the_log() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let outcome = run_in(&data, &[("transactions", "500"), ("checkpoints", "off")], false);
    assert_eq!((outcome.checkpoint, outcome.latency_in_checkpoint_us), (None, None));
    // With checkpoints from then on: a first one, before anything is measured.
    let with = [("transactions", "10"), ("checkpoint_at_close", "no")];
    let resumed = run_in(&data, &with, true);
    let recovery = resumed.recovery.unwrap();
    assert!(recovery.image_bytes == 0 && recovery.log_bytes > 50 << 20, "{recovery:?}");
    assert_eq!(resumed.checkpoint.unwrap().count, 0);
    let again = run_in(&data, &with, true);
    let recovery = again.recovery.unwrap();
    assert!(recovery.image_bytes > 0 && recovery.log_bytes < 4 << 20, "{recovery:?}");
}
