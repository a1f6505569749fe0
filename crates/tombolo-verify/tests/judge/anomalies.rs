//! Each anomaly by hand, as the smallest history that has it, and next to it the nearest one that is allowed.

use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use Level::{ReadCommitted, RepeatableRead, Serializable, Snapshot, StrictSerializable};

fn read(key: i64, value: i64) -> Operation {
    Operation::read("t", key, Some(value.into()))
}

fn none(key: i64) -> Operation {
    Operation::read("t", key, None)
}

fn write(key: i64, value: i64) -> Operation {
    Operation::write("t", key, value)
}

fn over(key: i64, value: i64, old: i64) -> Operation {
    write(key, value).over(Some(old.into()))
}

fn delete(key: i64) -> Operation {
    Operation::delete("t", key)
}

fn scan(lo: i64, hi: i64, rows: &[(i64, i64)]) -> Operation {
    let rows = rows.iter().map(|&(key, value)| (key.into(), value.into())).collect();
    Operation::scan("t", lo, hi, rows)
}

/// Transactions that all run at once, each in a session of its own.
fn concurrent(all: Vec<Vec<Operation>>) -> Vec<Transaction> {
    let numbered = (0_i64..).zip(all);
    numbered.map(|(session, ops)| Transaction::committed(session, 0, 100, ops)).collect()
}

/// Transactions one after the other, in these sessions.
fn in_turn(all: Vec<(&str, Vec<Operation>)>) -> Vec<Transaction> {
    let numbered = (0_u64..).zip(all);
    let timed = numbered
        .map(|(i, (session, ops))| Transaction::committed(session, 10 * i + 1, 10 * i + 5, ops));
    timed.collect()
}

/// The strongest levels that hold are these, and what breaks the next stronger one has this name.
#[track_caller]
fn is(history: &[Transaction], name: &str, strongest: &[Level]) {
    let history = History::of(history).unwrap();
    let verdict = history.judge(StrictSerializable);
    assert_eq!(verdict.holds, Holds::No, "{verdict}");
    assert_eq!(verdict.anomalies[0].name(), name, "{verdict}");
    assert_eq!(verdict.strongest(), strongest, "{verdict}");
    for level in Level::ALL {
        let of_level = history.judge(level);
        assert_eq!(of_level.levels, verdict.levels);
        assert_eq!(of_level.anomalies.is_empty(), of_level.holds == Holds::Yes, "{of_level}");
    }
}

#[track_caller]
fn is_fine(history: &[Transaction]) {
    let verdict = History::of(history).unwrap().judge(StrictSerializable);
    assert_eq!(
        (verdict.holds, verdict.strongest()),
        (Holds::Yes, vec![StrictSerializable]),
        "{verdict}"
    );
    assert!(verdict.anomalies.is_empty());
}

#[test]
fn a_value_that_no_transaction_wrote() {
    is(&concurrent(vec![vec![write(1, 1)], vec![read(1, 2)]]), "garbage-read", &[]);
    is(&concurrent(vec![vec![write(1, 1)], vec![scan(1, 2, &[(1, 2)])]]), "garbage-read", &[]);
    is_fine(&concurrent(vec![vec![write(1, 1)], vec![read(1, 1)]]));
}

#[test]
fn own_writes_are_seen() {
    for wrong in [
        vec![write(1, 1), none(1)],
        vec![read(1, 1), write(1, 1)],
        vec![write(1, 1), write(1, 2), read(1, 1)],
        vec![write(1, 1), delete(1), read(1, 1)],
        vec![write(1, 1), scan(0, 5, &[])],
        vec![write(1, 1), delete(1), scan(0, 5, &[(1, 1)])],
        vec![write(1, 1), over(1, 2, 7)],
        vec![write(1, 1), scan(0, 5, &[(1, 1), (1, 1)])],
    ] {
        is(&concurrent(vec![wrong, vec![write(1, 7)]]), "internal", &[]);
    }
    is_fine(&concurrent(vec![vec![
        none(1),
        write(1, 1),
        over(1, 2, 1),
        read(1, 2),
        scan(0, 5, &[(1, 2)]),
        delete(1),
        none(1),
        scan(0, 5, &[]),
    ]]));
}

#[test]
fn g1a_what_was_taken_back_is_not_seen() {
    let mut history = concurrent(vec![vec![write(1, 1)], vec![read(1, 1)]]);
    is_fine(&history);
    history[0].outcome = Outcome::Aborted;
    is(&history, "G1a", &[]);
    history[1].outcome = Outcome::Aborted;
    is_fine(&history);
}

#[test]
fn g1b_what_was_replaced_before_the_commit_is_not_seen() {
    is(&concurrent(vec![vec![write(1, 1), write(1, 2)], vec![read(1, 1)]]), "G1b", &[]);
    is(&concurrent(vec![vec![write(1, 1), delete(1)], vec![read(1, 1)]]), "G1b", &[]);
    is_fine(&concurrent(vec![vec![write(1, 1), write(1, 2)], vec![read(1, 2)]]));
}

#[test]
fn an_unknown_outcome_counts_if_its_writes_were_seen() {
    let mut history = concurrent(vec![vec![write(1, 1), write(2, 1)], vec![read(1, 1), none(2)]]);
    history[0].outcome = Outcome::Unknown;
    is(&history, "G-single", &[RepeatableRead]);
    history[1].ops = vec![none(1), none(2)];
    is_fine(&history);
    // It may take effect after its session has given up.
    (history[0].end, history[1].begin) = (50, 60);
    is_fine(&history);
    history[1].ops = vec![read(1, 1)];
    is_fine(&history);
}

#[test]
fn an_unknown_outcome_may_take_effect_behind_its_sessions_next_transaction() {
    let first = vec![write(1, 1)];
    let mut history = in_turn(vec![("a", first), ("a", vec![none(1)]), ("b", vec![read(1, 1)])]);
    is(&history, "G-single-session", &[Serializable]);
    history[0].outcome = Outcome::Unknown;
    is_fine(&history);
}

#[test]
fn an_unknown_outcome_may_be_why_a_key_is_absent() {
    let mut history =
        in_turn(vec![("a", vec![write(1, 1)]), ("b", vec![delete(1)]), ("c", vec![none(1)])]);
    history[1].outcome = Outcome::Unknown;
    is_fine(&history);
    history[1].outcome = Outcome::Aborted;
    is(&history, "G-single-real-time", &[Serializable]);
}

#[test]
fn g0_writes_are_not_interleaved() {
    let first = vec![write(1, 1), write(2, 1)];
    let wrong = vec![
        vec![write(1, 0)],
        first.clone(),
        vec![over(1, 2, 1), write(2, 2)],
        vec![over(2, 3, 2)],
    ];
    let mut wrong = concurrent(wrong);
    is_fine(&wrong);
    // The first overwrote the second on another key.
    wrong[1].ops = vec![write(1, 1), over(2, 1, 2)];
    wrong.pop();
    is(&wrong, "G0", &[]);
    // The same by the positions of commits.
    let mut by_commit = concurrent(vec![vec![over(1, 1, 2)], vec![write(1, 2)]]);
    (by_commit[0].commit, by_commit[1].commit) = (Some(2), Some(4));
    is(&by_commit, "G0", &[]);
    (by_commit[0].commit, by_commit[1].commit) = (Some(4), Some(2));
    is_fine(&by_commit);
}

#[test]
fn g1c_no_circle_of_what_was_read() {
    is(&concurrent(vec![vec![write(1, 1), read(2, 2)], vec![write(2, 2), read(1, 1)]]), "G1c", &[]);
    is_fine(&concurrent(vec![vec![write(1, 1), none(2)], vec![write(2, 2), read(1, 1)]]));
}

#[test]
fn lost_update_two_writes_over_one_version() {
    let history = |second: Operation| {
        concurrent(vec![
            vec![write(1, 1)],
            vec![read(1, 1), write(1, 2)],
            vec![second, write(1, 3)],
        ])
    };
    is(&history(read(1, 1)), "lost-update", &[ReadCommitted]);
    is_fine(&history(read(1, 2)));
    let by_over =
        |old| concurrent(vec![vec![write(1, 1)], vec![over(1, 2, 1)], vec![over(1, 3, old)]]);
    is(&by_over(1), "lost-update", &[ReadCommitted]);
    is_fine(&by_over(2));
    // Two rows of one unique key.
    let twice = |old| concurrent(vec![vec![write(1, 1).over(None)], vec![write(1, 2).over(old)]]);
    is(&twice(None), "lost-update", &[ReadCommitted]);
    is_fine(&twice(Some(1.into())));
}

#[test]
fn g_single_a_part_of_anothers_effects() {
    let history = |second| {
        let first = vec![write(1, 1), write(2, 1)];
        concurrent(vec![first, vec![over(1, 2, 1), over(2, 2, 1)], vec![read(1, 1), second]])
    };
    is(&history(read(2, 2)), "G-single", &[ReadCommitted]);
    is_fine(&history(read(2, 1)));
}

#[test]
fn a_read_is_repeatable() {
    let history =
        |second| concurrent(vec![vec![write(1, 1)], vec![over(1, 2, 1)], vec![read(1, 1), second]]);
    is(&history(read(1, 2)), "G-single", &[ReadCommitted]);
    is_fine(&history(read(1, 1)));
}

#[test]
fn g2_item_write_skew() {
    let history = |seen: i64| {
        let start = vec![write(1, 1), write(2, 1)];
        let other = vec![read(1, seen), read(2, 1), over(2, 3, 1)];
        concurrent(vec![start, vec![read(1, 1), read(2, 1), over(1, 2, 1)], other])
    };
    is(&history(1), "G2-item", &[Snapshot]);
    is_fine(&history(2));
}

#[test]
fn snapshot_forbids_two_observers_that_disagree() {
    let history = |second: Vec<Operation>| {
        let start = vec![write(1, 1), write(2, 1)];
        let (one, other) = (vec![over(1, 2, 1)], vec![over(2, 2, 1)]);
        concurrent(vec![start, one, other, vec![read(1, 2), read(2, 1)], second])
    };
    is(&history(vec![read(1, 1), read(2, 2)]), "G2-item", &[ReadCommitted]);
    is_fine(&history(vec![read(1, 2), read(2, 2)]));
}

#[test]
fn g2_phantoms() {
    // Each inserts what the other's scan did not meet.
    let skew = |met: &[(i64, i64)]| {
        concurrent(vec![vec![scan(0, 9, &[]), write(1, 1)], vec![scan(0, 9, met), write(2, 2)]])
    };
    is(&skew(&[]), "G2", &[RepeatableRead, Snapshot]);
    is_fine(&skew(&[(1, 1)]));
    // A scan that sees one of two rows that came together.
    let half = |met: &[(i64, i64)]| {
        concurrent(vec![vec![write(1, 1), write(2, 1)], vec![scan(0, 9, met)]])
    };
    is(&half(&[(2, 1)]), "G-single", &[RepeatableRead]);
    is_fine(&half(&[(1, 1), (2, 1)]));
    is_fine(&half(&[]));
    // A second scan meets more than the first.
    let again = |met: &[(i64, i64)]| {
        concurrent(vec![vec![write(1, 1)], vec![scan(0, 9, &[]), scan(0, 9, met)]])
    };
    is(&again(&[(1, 1)]), "G-single", &[RepeatableRead]);
    is_fine(&again(&[]));
    // Outside the range nothing is promised.
    let outside =
        concurrent(vec![vec![scan(0, 9, &[]), write(11, 1)], vec![scan(0, 9, &[]), write(12, 2)]]);
    is_fine(&outside);
}

#[test]
fn a_removal_is_a_version() {
    let history = |second: Operation| {
        let start = vec![write(1, 1), write(2, 1)];
        let removed = vec![delete(1).over(Some(1.into())), over(2, 2, 1)];
        concurrent(vec![start, removed, vec![none(1), second]])
    };
    is_fine(&history(read(2, 2)));
    is(&history(read(2, 1)), "G-single", &[RepeatableRead]);
    // Absent again: by which removal is found out.
    let again = in_turn(vec![
        ("a", vec![write(1, 1)]),
        ("b", vec![delete(1)]),
        ("a", vec![write(1, 2)]),
        ("b", vec![delete(1)]),
        ("c", vec![none(1), write(1, 3)]),
        ("c", vec![read(1, 3)]),
    ]);
    is_fine(&again);
}

#[test]
fn real_time_stale_reads() {
    let history = |seen| {
        in_turn(vec![
            ("a", vec![write(1, 1)]),
            ("b", vec![over(1, 2, 1)]),
            ("c", vec![read(1, seen)]),
        ])
    };
    is(&history(1), "G-single-real-time", &[Serializable]);
    is_fine(&history(2));
    let mut overlapping = history(1);
    overlapping[2].begin = overlapping[1].end;
    is_fine(&overlapping);
}

#[test]
fn real_time_orders_writes() {
    let history = |first: u64, second: u64| {
        let mut all = in_turn(vec![("a", vec![write(1, 1)]), ("b", vec![write(1, 2)])]);
        (all[0].commit, all[1].commit) = (Some(first), Some(second));
        all
    };
    is(&history(2, 1), "G0-real-time", &[Serializable]);
    is_fine(&history(1, 2));
}

#[test]
fn sessions_see_what_they_did() {
    let mut history = in_turn(vec![("a", vec![write(1, 1)]), ("a", vec![none(1)])]);
    is(&history, "G-single-session", &[Serializable]);
    history[1].ops = vec![read(1, 1)];
    is_fine(&history);
    // Monotonic reads.
    let reads = in_turn(vec![("a", vec![read(1, 1)]), ("a", vec![none(1)])]);
    let mut history = vec![Transaction::committed("b", 0, 100, vec![write(1, 1)])];
    history.extend(reads);
    is(&history, "G-single-session", &[Serializable]);
    history.swap(1, 2);
    history[1].session = Datum::from("c");
    is(&history, "G-single-real-time", &[Serializable]);
}

#[test]
fn the_shortest_circle_is_told_line_by_line() {
    let mut history = concurrent(vec![
        vec![write(1, 1), write(2, 1)],
        vec![read(1, 1), read(2, 1), over(1, 2, 1)],
        vec![read(1, 1), read(2, 1), over(2, 3, 1)],
        vec![scan(1, 2, &[(1, 2), (2, 3)])],
    ]);
    history[1].name = Some("withdraw".to_owned());
    let verdict = History::of(&history).unwrap().judge(StrictSerializable);
    let expected = "strict-serializable: does not hold; 4 transactions count
what holds: snapshot
G2-item: write skew: each transaction read what another then replaced
  line 2 (withdraw) read t 2 = 1, which line 3 then replaced by 3
  line 3 read t 1 = 1, which line 2 (withdraw) then replaced by 2
";
    assert_eq!(verdict.to_string(), expected);
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(json["holds"], "no");
    assert_eq!(json["levels"]["snapshot"], "yes");
    assert_eq!(json["anomalies"][0]["name"], "G2-item");
    assert_eq!(json["anomalies"][0]["steps"][1]["line"], 3);
    assert_eq!(json["anomalies"][0]["steps"][1]["before"], 2);
}

#[test]
fn beyond_the_effort_a_history_is_undecided_and_says_what_is_open() {
    // Blind writes, and reads that let no order be the right one for the first few guesses.
    let mut all = Vec::new();
    for key in 0..6 {
        all.push(vec![write(key, 1)]);
        all.push(vec![write(key, 2)]);
        all.push(vec![read(key, 2), read(key + 1, 1)]);
    }
    all.push(vec![write(6, 1)]);
    let history = History::of(&concurrent(all)).unwrap();
    let verdict = history.judge_within(StrictSerializable, 1);
    assert_ne!(verdict.holds, Holds::No, "{verdict}");
    if verdict.holds == Holds::Undecided {
        assert!(verdict.open.orders > 0 && verdict.to_string().contains("undecided"), "{verdict}");
    }
    assert_eq!(history.judge(StrictSerializable).holds, Holds::Yes);
}
