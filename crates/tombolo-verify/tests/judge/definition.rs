//! The checker against the definitions, on tiny histories: all orders are tried by brute force. Nothing of the
//! checker is used here but its verdict.
//!
//! (Strict) serializability: some order of the transactions, run one after the other, in which each sees what it
//! saw. Snapshot isolation: some order of starts and commits, where each reads the state at its start and no two that
//! overlap write the same key.

use std::collections::BTreeMap;

use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use crate::random::Random;

type State = BTreeMap<Datum, Datum>;

/// Runs a transaction's operations on a state, from which it reads and to which it writes; whether it can have seen
/// what it saw.
fn runs(transaction: &Transaction, state: &mut State) -> bool {
    transaction.ops.iter().all(|op| match op {
        Operation::Read { key, value, .. } => state.get(key) == value.as_ref(),
        Operation::Write { key, value, over, .. } => {
            let old = state.insert(key.clone(), value.clone());
            over.as_ref().is_none_or(|over| *over == old)
        }
        Operation::Delete { key, over, .. } => {
            let old = state.remove(key);
            over.as_ref().is_none_or(|over| *over == old)
        }
        Operation::Scan { lo, hi, rows, .. } => {
            let (lo, hi) = (lo.clone().unwrap(), hi.clone().unwrap());
            let mut rows = rows.clone();
            rows.sort();
            state.range(lo..=hi).map(|(k, v)| (k.clone(), v.clone())).eq(rows)
        }
    })
}

fn writes(transaction: &Transaction) -> impl Iterator<Item = &Datum> {
    transaction.ops.iter().filter_map(|op| match op {
        Operation::Write { key, .. } | Operation::Delete { key, .. } => Some(key),
        _ => None,
    })
}

fn shares_a_key(a: &Transaction, b: &Transaction) -> bool {
    writes(a).any(|key| writes(b).any(|other| key == other))
}

/// Whether `a` has to come before `b` by anything but the data.
fn precedes(a: &Transaction, b: &Transaction, strict: bool) -> bool {
    let ended = a.outcome == Outcome::Committed;
    let by_clock = strict && ended && a.end < b.begin;
    let by_commit = a.commit.is_some() && a.commit < b.commit && shares_a_key(a, b);
    by_clock || by_commit
}

/// Whether the rest can be run in some order behind this state.
fn some_order(rest: &mut Vec<&Transaction>, state: &State, strict: bool) -> bool {
    if rest.is_empty() {
        return true;
    }
    for i in 0..rest.len() {
        let next = rest.remove(i);
        let mut after = state.clone();
        let found = !rest.iter().any(|other| precedes(other, next, strict))
            && runs(next, &mut after)
            && some_order(rest, &after, strict);
        rest.insert(i, next);
        if found {
            return true;
        }
    }
    false
}

/// Whether the events that are left can follow: each transaction starts, then commits.
fn some_events(
    left: &mut Vec<&Transaction>,
    running: &mut Vec<(Transaction, State, bool)>,
    state: &State,
) -> bool {
    if left.is_empty() && running.is_empty() {
        return true;
    }
    for i in 0..left.len() {
        let next = left.remove(i);
        let mut snapshot = state.clone();
        let mut found = false;
        if runs(next, &mut snapshot) {
            running.push((next.clone(), snapshot, false));
            found = some_events(left, running, state);
            running.pop();
        }
        left.insert(i, next);
        if found {
            return true;
        }
    }
    for i in 0..running.len() {
        let (committing, mine, beaten) = running[i].clone();
        let waiting = left.iter().copied().chain(running.iter().map(|other| &other.0));
        let out_of_order = waiting.into_iter().any(|other| precedes(other, &committing, false));
        if beaten || out_of_order {
            continue;
        }
        let mut after = state.clone();
        for key in writes(&committing) {
            match mine.get(key) {
                Some(value) => after.insert(key.clone(), value.clone()),
                None => after.remove(key),
            };
        }
        let before = running.clone();
        running.remove(i);
        for other in running.iter_mut() {
            other.2 |= shares_a_key(&other.0, &committing);
        }
        let found = some_events(left, running, &after);
        *running = before;
        if found {
            return true;
        }
    }
    false
}

/// Whether some set of the unknown transactions makes `explains` true.
fn some_outcome(
    history: &[Transaction],
    mut explains: impl FnMut(&mut Vec<&Transaction>) -> bool,
) -> bool {
    let unknown: Vec<_> = history.iter().filter(|t| t.outcome == Outcome::Unknown).collect();
    (0..1_usize << unknown.len()).any(|set| {
        let mut chosen: Vec<&Transaction> =
            history.iter().filter(|t| t.outcome == Outcome::Committed).collect();
        chosen
            .extend(unknown.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, t)| t));
        explains(&mut chosen)
    })
}

/// A history of up to `count` transactions whose reads are drawn from what is written anywhere, or follow from a real
/// execution of which one part was changed.
fn random_history(random: &mut Random, count: u64) -> Vec<Transaction> {
    let keys = 1 + random.below(3) as i64;
    let mut state = State::new();
    let mut history = Vec::new();
    let mut value = 0;
    let count = 1 + random.below(count);
    let (commits, overs) = (random.chance(20), random.chance(40));
    for number in 0..count {
        let mut ops = Vec::new();
        for _ in 0..1 + random.below(4) {
            let key = random.below(keys as u64) as i64;
            let datum = Datum::from(key);
            let old = state.get(&datum).cloned();
            let op = match random.below(10) {
                0..=3 => Operation::read("t", key, old),
                4..=6 => {
                    value += 1;
                    state.insert(datum, Datum::from(value));
                    let op = Operation::write("t", key, value);
                    if overs && random.chance(50) { op.over(old) } else { op }
                }
                7 => {
                    state.remove(&datum);
                    let op = Operation::delete("t", key);
                    if overs && random.chance(50) { op.over(old) } else { op }
                }
                _ => {
                    let hi = key + random.below(3) as i64;
                    let rows = state.range(datum..=Datum::from(hi));
                    let rows = rows.map(|(k, v)| (k.clone(), v.clone())).collect();
                    Operation::scan("t", key, hi, rows)
                }
            };
            ops.push(op);
        }
        let at = 10 * number + random.below(5);
        let begin = at.saturating_sub(random.below(30));
        let end = at + random.below(30);
        let outcome = match random.below(12) {
            0 => Outcome::Aborted,
            1 | 2 => Outcome::Unknown,
            _ => Outcome::Committed,
        };
        let commit = (commits && random.chance(70)).then_some(number);
        // Sessions are of one transaction each: what else they order is in other tests.
        let session = Datum::from(number as i64);
        history.push(Transaction { session, begin, end, outcome, commit, name: None, ops });
    }
    for _ in 0..random.below(4) {
        change(random, &mut history, value, keys);
    }
    history
}

/// Changes what one operation saw, or when.
fn change(random: &mut Random, history: &mut [Transaction], values: i64, keys: i64) {
    let one = random.below(history.len() as u64) as usize;
    let transaction = &mut history[one];
    let op = random.below(transaction.ops.len() as u64) as usize;
    let seen = match random.below(4) {
        0 => None,
        _ => Some(Datum::from(1 + random.below(values.max(1) as u64) as i64)),
    };
    match &mut transaction.ops[op] {
        Operation::Read { value, .. } => *value = seen,
        Operation::Write { over: Some(over), .. } | Operation::Delete { over: Some(over), .. } => {
            *over = seen;
        }
        Operation::Scan { lo, rows, .. } => {
            if random.chance(50) && !rows.is_empty() {
                rows.remove(random.below(rows.len() as u64) as usize);
            } else if let (Some(Datum::Integer(lo)), Some(seen)) = (&*lo, seen)
                && *lo < keys
                && !rows.iter().any(|row| row.0 == Datum::from(*lo))
            {
                rows.push((Datum::from(*lo), seen));
            }
        }
        _ => transaction.end = transaction.begin + random.below(20),
    }
}

fn expected(holds: bool) -> Holds {
    if holds { Holds::Yes } else { Holds::No }
}

#[test]
fn serializable_is_what_some_order_of_all_explains() {
    let mut counts = [[0_u32; 2]; 2];
    for seed in 0..20_000 {
        let history = random_history(&mut Random::new(seed), 6);
        let verdict = History::of(&history).unwrap().judge(Level::StrictSerializable);
        for (i, level) in [Level::Serializable, Level::StrictSerializable].into_iter().enumerate() {
            let strict = level == Level::StrictSerializable;
            let holds = some_outcome(&history, |chosen| some_order(chosen, &State::new(), strict));
            counts[i][usize::from(holds)] += 1;
            let found = verdict.levels.of(level);
            assert_eq!(found, expected(holds), "seed {seed}, {level}: {history:#?} {verdict}");
        }
    }
    assert!(counts.iter().flatten().all(|&count| count > 2_000), "{counts:?}");
}

#[test]
fn snapshot_is_what_some_order_of_starts_and_commits_explains() {
    let mut counts = [0_u32; 2];
    for seed in 0..10_000 {
        let history = random_history(&mut Random::new(seed), 4);
        let holds =
            some_outcome(&history, |chosen| some_events(chosen, &mut Vec::new(), &State::new()));
        counts[usize::from(holds)] += 1;
        let verdict = History::of(&history).unwrap().judge(Level::Snapshot);
        assert_eq!(verdict.holds, expected(holds), "seed {seed}: {history:#?} {verdict}");
    }
    assert!(counts.iter().all(|&count| count > 1_000), "{counts:?}");
}
