//! Legal histories made by running transactions one after the other and giving them overlapping times: never judged
//! anomalous. The same with an anomaly planted: always caught, under its name.

use std::collections::BTreeMap;

use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use crate::random::Random;

use Level::{ReadCommitted, RepeatableRead, Serializable, Snapshot, StrictSerializable};

/// What a generated history is like.
#[derive(Clone, Copy, Debug)]
struct Like {
    transactions: u64,
    operations: u64,
    keys: u64,
    /// How many run at once.
    width: u64,
    /// How many writes of a hundred know what they replace; the others are blind.
    know: u64,
    commits: bool,
    /// Whether some outcomes are unknown.
    unknown: bool,
}

impl Like {
    /// One of many kinds.
    fn any(random: &mut Random) -> Self {
        Self {
            transactions: 1 + random.below(60),
            operations: 1 + random.below(6),
            keys: 1 + random.below(12),
            width: 1 + random.below(6),
            know: *random.pick(&[0, 50, 100]),
            commits: random.chance(20),
            unknown: random.chance(50),
        }
    }
}

type State = BTreeMap<i64, i64>;

/// Runs an operation on the state.
fn operation(random: &mut Random, like: Like, state: &mut State, value: &mut i64) -> Operation {
    let key = random.below(like.keys) as i64;
    let old = state.get(&key).copied();
    let knows = random.chance(like.know);
    let over = |op: Operation| if knows { op.over(old.map(Datum::from)) } else { op };
    match random.below(10) {
        0..=3 => Operation::read("t", key, old.map(Datum::from)),
        4..=6 => {
            *value += 1;
            state.insert(key, *value);
            over(Operation::write("t", key, *value))
        }
        7 if old.is_some() => {
            state.remove(&key);
            over(Operation::delete("t", key))
        }
        _ => {
            let hi = key + random.below(like.keys) as i64;
            let rows = state.range(key..=hi).map(|(&k, &v)| (k.into(), v.into())).collect();
            Operation::scan("t", key, hi, rows)
        }
    }
}

/// A legal history, its lines shuffled.
fn legal(random: &mut Random, like: Like) -> Vec<Transaction> {
    let (mut state, mut value) = (State::new(), 0);
    let mut free_at = vec![0; like.width as usize];
    let mut history = Vec::new();
    for number in 0..like.transactions {
        let mut after = state.clone();
        let count = 1 + random.below(like.operations);
        let ops = (0..count).map(|_| operation(random, like, &mut after, &mut value)).collect();
        // It takes effect at this moment, somewhere between its begin and its end.
        let at = 100 * number + 50;
        let session = random.below(like.width) as usize;
        let begin: u64 = (at - random.below(50)).max(free_at[session].min(at));
        let end = at + random.below(100 * like.width);
        // Then the session's next one begins; where that would be too late, another session goes on.
        let session = if free_at[session] > at {
            free_at.push(0);
            free_at.len() - 1
        } else {
            session
        };
        free_at[session] = end;
        let (outcome, effective) = match random.below(20) {
            0 => (Outcome::Aborted, false),
            1 if like.unknown => (Outcome::Unknown, true),
            2 if like.unknown => (Outcome::Unknown, false),
            _ => (Outcome::Committed, true),
        };
        if effective {
            state = after;
        }
        let commit = (like.commits && outcome == Outcome::Committed).then_some(number);
        let session = Datum::from(session as i64);
        history.push(Transaction { session, begin, end, outcome, commit, name: None, ops });
    }
    for i in (1..history.len()).rev() {
        history.swap(i, random.below(i as u64 + 1) as usize);
    }
    history
}

#[test]
fn legal_histories_are_never_anomalous() {
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let like = Like::any(&mut random);
        let history = legal(&mut random, like);
        let verdict = History::of(&history).unwrap().judge(StrictSerializable);
        assert_eq!(verdict.strongest(), [StrictSerializable], "seed {seed}, {like:?}: {verdict}");
    }
}

#[test]
fn long_legal_histories_are_decided_without_help() {
    for (know, seed) in [(100, 1), (50, 2)] {
        let (commits, unknown) = (false, false);
        let like = Like {
            transactions: 1_500,
            operations: 10,
            keys: 50,
            width: 4,
            know,
            commits,
            unknown,
        };
        let history = legal(&mut Random::new(seed), like);
        let verdict = History::of(&history).unwrap().judge(StrictSerializable);
        assert_eq!(verdict.holds, Holds::Yes, "{know}: {verdict}");
    }
}

/// Keys that legal histories do not have.
const X: i64 = 1_000;
const Y: i64 = 1_001;

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

fn scan(rows: Vec<(Datum, Datum)>) -> Operation {
    Operation::scan("t", X, Y, rows)
}

/// An anomaly to plant: its name, what holds in spite of it, and what its transactions do.
struct Planted {
    name: &'static str,
    holds: &'static [Level],
    parts: Vec<Vec<Operation>>,
}

fn planted() -> Vec<Planted> {
    let start = || vec![write(X, 1), write(Y, 1)];
    let plant = |name, holds, parts| Planted { name, holds, parts };
    vec![
        plant("garbage-read", &[], vec![vec![read(X, 9)]]),
        plant("internal", &[], vec![vec![write(X, 1), none(X)]]),
        plant("G1b", &[], vec![vec![write(X, 1), write(X, 2)], vec![read(X, 1)]]),
        plant("G0", &[], vec![vec![write(X, 1), over(Y, 1, 2)], vec![over(X, 2, 1), write(Y, 2)]]),
        plant("G1c", &[], vec![vec![write(X, 1), read(Y, 2)], vec![write(Y, 2), read(X, 1)]]),
        plant(
            "lost-update",
            &[ReadCommitted],
            vec![start(), vec![over(X, 2, 1)], vec![over(X, 3, 1)]],
        ),
        plant(
            "G-single",
            &[ReadCommitted],
            vec![start(), vec![over(X, 2, 1), over(Y, 2, 1)], vec![read(X, 2), read(Y, 1)]],
        ),
        plant(
            "G2-item",
            &[Snapshot],
            vec![start(), vec![read(X, 1), over(Y, 2, 1)], vec![over(X, 2, 1), read(Y, 1)]],
        ),
        plant(
            "G2",
            &[RepeatableRead, Snapshot],
            vec![vec![scan(Vec::new()), write(X, 1)], vec![scan(Vec::new()), write(Y, 1)]],
        ),
    ]
}

/// Puts these transactions anywhere among the others; they run all the time.
fn plant(random: &mut Random, history: &mut Vec<Transaction>, parts: Vec<Vec<Operation>>) {
    for (number, ops) in (1_000..).zip(parts) {
        let at = random.below(history.len() as u64 + 1) as usize;
        history.insert(at, Transaction::committed(number, 0, 1_000_000, ops));
    }
}

#[track_caller]
fn is_caught(seed: u64, history: &[Transaction], name: &str, holds: &[Level]) {
    let verdict = History::of(history).unwrap().judge(StrictSerializable);
    assert_eq!(verdict.holds, Holds::No, "seed {seed}, {name}: {verdict}");
    assert!(!verdict.anomalies[0].steps.is_empty(), "seed {seed}: {verdict}");
    // Where no order of the other transactions is proved, another circle may be the one that is reported.
    if !verdict.anomalies[0].by_exclusion {
        assert_eq!(verdict.anomalies[0].name(), name, "seed {seed}: {verdict}");
    }
    for level in Level::ALL {
        let found = verdict.levels.of(level);
        if holds.iter().any(|held| held.implies(level)) {
            // Without the clock a level may need more orders than are tried.
            assert_ne!(found, Holds::No, "seed {seed}, {name}, {level}: {verdict}");
        } else {
            assert_eq!(found, Holds::No, "seed {seed}, {name}, {level}: {verdict}");
        }
    }
}

#[test]
fn planted_anomalies_are_caught_under_their_names() {
    for seed in 0..200 {
        for Planted { name, holds, parts } in planted() {
            let mut random = Random::new(seed);
            let proved = seed % 2 == 0;
            let mut like = Like { unknown: false, ..Like::any(&mut random) };
            // Then only the planted circle is left.
            like.commits |= proved;
            let mut history = legal(&mut random, like);
            plant(&mut random, &mut history, parts);
            is_caught(seed, &history, name, holds);
            let verdict = History::of(&history).unwrap().judge(StrictSerializable);
            let found = verdict.anomalies[0].name();
            assert!(!proved || found == name, "seed {seed}: {found} {verdict}");
        }
    }
}

#[test]
fn an_aborted_write_that_is_seen_is_caught() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let like = Like { unknown: false, ..Like::any(&mut random) };
        let mut history = legal(&mut random, like);
        plant(&mut random, &mut history, vec![vec![write(X, 1)], vec![read(X, 1)]]);
        let writer = history.iter_mut().find(|t| t.ops == [write(X, 1)]).unwrap();
        writer.outcome = Outcome::Aborted;
        is_caught(seed, &history, "G1a", &[]);
    }
}

/// Two committed transactions one of which had ended before the other began; in one session or in two.
fn one_before_another(history: &[Transaction], in_one_session: bool) -> Option<(usize, usize)> {
    let committed = |i: &usize| history[*i].outcome == Outcome::Committed;
    let all = || (0..history.len()).filter(committed);
    let mut pairs = all().flat_map(|a| all().map(move |b| (a, b)));
    pairs.find(|&(a, b)| {
        let same = history[a].session == history[b].session;
        history[a].end < history[b].begin && same == in_one_session
    })
}

#[test]
fn what_the_clock_or_a_session_contradicts_is_caught() {
    let mut planted = [0, 0];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let like = Like { width: 2, transactions: 40, ..Like::any(&mut random) };
        let legal = legal(&mut random, like);
        for in_one_session in [false, true] {
            let mut history = legal.clone();
            let Some((first, second)) = one_before_another(&history, in_one_session) else {
                continue;
            };
            // Alone on their keys, so that nothing but the order of the two is wrong.
            history[first].ops = vec![write(X, 1)];
            history[second].ops = vec![none(X)];
            let others = |t: &Transaction| t.ops == [write(X, 1)] || t.ops == [none(X)];
            history.retain(|t| others(t));
            let name = if in_one_session { "G-single-session" } else { "G-single-real-time" };
            is_caught(seed, &history, name, &[Serializable]);
            planted[usize::from(in_one_session)] += 1;
        }
    }
    assert!(planted.iter().all(|&count| count > 100), "{planted:?}");
}

/// A read of an older version than the one that was current, anywhere in a legal history.
#[test]
fn changed_reads_are_caught_wherever_they_are() {
    let mut caught = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let like =
            Like { know: 100, transactions: 60, keys: 3, unknown: false, ..Like::any(&mut random) };
        let mut history = legal(&mut random, like);
        history.sort_by_key(|t| t.begin);
        // An early version, and a late read of it: by then it has been replaced, and long ago.
        let early = history.iter().filter(|t| t.outcome == Outcome::Committed && t.end < 2_000);
        let old = early.flat_map(|t| &t.ops).find_map(|op| match op {
            Operation::Write { key, over: Some(Some(old)), .. } => Some((key.clone(), old.clone())),
            _ => None,
        });
        let Some((key, old)) = old else { continue };
        let read = Operation::Read { table: "t".to_owned(), key, value: Some(old) };
        history.push(Transaction::committed(-1, 1_000_000, 1_000_001, vec![read]));
        let verdict = History::of(&history).unwrap().judge(StrictSerializable);
        assert_eq!(verdict.holds, Holds::No, "seed {seed}: {verdict}");
        caught += 1;
    }
    assert!(caught > 80, "{caught}");
}
