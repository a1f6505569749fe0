//! Which ids are remembered, against a model: the newest ones, and all young ones.

use std::collections::VecDeque;

use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;

use super::*;
use crate::rng::Rng;

fn store() -> MemoryStore<MemoryLogged> {
    let mut store = MemoryStore::new(Limits::default());
    store.create_table(request_table()).unwrap();
    store
}

/// Runs a request that does nothing; whether it ran.
fn ran(
    requests: &Requests,
    store: &mut MemoryStore<MemoryLogged>,
    request: (u128, u64),
    outcome: Outcome,
) -> bool {
    let run = |store: &mut MemoryStore<MemoryLogged>| {
        store.begin().unwrap();
        match outcome {
            Outcome::Committed => store.commit().unwrap(),
            _ => store.abort().unwrap(),
        }
    };
    matches!(requests.run_once(store, request, run, |()| outcome), Once::Ran(()))
}

fn outcome(requests: &Requests, store: &mut MemoryStore<MemoryLogged>, id: u128) -> Outcome {
    store.begin().unwrap();
    let outcome = requests.outcome(store, id).unwrap();
    store.commit().unwrap();
    outcome
}

#[test]
fn the_newest_are_remembered_and_all_young_ones() {
    for seed in 0..20 {
        let mut random = Rng::from_seed(seed);
        let kept =
            Kept { ids: 1 + random.below(20), time_us: [0, 1_000, 50_000][seed as usize % 3] };
        let (mut store, mut now_us) = (store(), 1_700_000_000_000_000);
        let requests = Requests::new(store.schema(), kept).unwrap();
        // By id: when it was made, and what became of it; the oldest first.
        let mut model: VecDeque<(u128, u64, Outcome)> = VecDeque::new();
        for id in 0..300 {
            // Sometimes a pause, in which all grow old; often no time at all.
            now_us += [0, 0, 7, 900, 60_000][random.below(5) as usize];
            let ends = match random.below(4) {
                0 => Outcome::Aborted,
                1 => Outcome::Unknown,
                _ => Outcome::Committed,
            };
            assert!(ran(&requests, &mut store, (id, now_us), ends));
            if ends != Outcome::Unknown {
                for _ in 0..FORGOTTEN_MAX {
                    let is_old =
                        model.front().is_some_and(|old| now_us.abs_diff(old.1) >= kept.time_us);
                    if is_old && model.len() as u64 >= kept.ids {
                        model.pop_front();
                    }
                }
                let made_us = model.back().map_or(0, |newest| newest.1 + 1).max(now_us);
                model.push_back((id, made_us, ends));
            }
            let again = u128::from(random.below(id as u64 + 1));
            let known = model.iter().find(|known| known.0 == again).map(|known| known.2);
            let expected = known.unwrap_or(Outcome::Unknown);
            assert_eq!(outcome(&requests, &mut store, again), expected, "seed {seed}, id {again}");
            if known.is_some() {
                assert!(!ran(&requests, &mut store, (again, now_us), Outcome::Committed));
            }
        }
        let requests_table: Table<Request> = resolve_table(store.schema()).unwrap();
        assert_eq!(store.rows_number(&requests_table), model.len() as u64, "seed {seed}");
        assert_eq!(store.check(), []);
    }
}

/// A clock that was years ahead once, and is right again: what it dated goes by number, and new ids are
/// forgotten as ever.
#[test]
fn a_clock_that_was_ahead_keeps_nothing_for_ever() {
    let mut store = store();
    let requests = Requests::new(store.schema(), Kept { ids: 5, time_us: 1_000 }).unwrap();
    let year_us = 365 * 86_400_000_000;
    for id in 0..50 {
        assert!(ran(&requests, &mut store, (id, 40 * year_us), Outcome::Committed));
    }
    for id in 50..150 {
        assert!(ran(&requests, &mut store, (id, 30 * year_us + id as u64), Outcome::Committed));
    }
    let known = (0..150).filter(|&id| outcome(&requests, &mut store, id) != Outcome::Unknown);
    assert_eq!(known.collect::<Vec<_>>(), (145..150).collect::<Vec<_>>());
}
