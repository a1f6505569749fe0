//! Request ids on a store: bounded, one with their transaction at every point of the log, and against
//! a model.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::hints::Hints;
use tombolo_engine::rng::Rng;
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Phase, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, Transactions};

use super::super::envelope::Lone;
use super::*;
use crate::calls::Ran;
use crate::cancels::Cancels;
use crate::tx::{Guards, Tx};

tombolo_storage::table! {
    /// What calls leave behind: their id.
    struct Effect = "effect" { ID: BigInt; }
}
tombolo_storage::index! {
    /// By id.
    struct EffectById = "effect_by_id" on Effect (ID: BigInt) unique Tree;
}

/// By number alone.
fn newest(ids: u64) -> Kept {
    Kept { ids, time_us: 0 }
}

fn store(ids_max: u64) -> (Product, Tables) {
    let mut store = Product::new(Limits::default());
    store.create_table(TableDef::of::<Effect>().with::<EffectById>()).unwrap();
    store.create_table(request_table()).unwrap();
    let tables = Tables::new(
        store.schema(),
        newest(ids_max),
        Arc::new(SystemClock::new()),
        Arc::new(Cancels::default()),
    )
    .unwrap();
    (store, tables)
}

/// How a call of the test ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Commits,
    Aborts,
    Panics,
    /// It commits without a write of its own.
    Reads,
}

/// A call with an id, which leaves a row with it behind.
fn call(schema: &Schema, id: i64, end: End) -> Box<dyn Envelope> {
    let effects: Table<Effect> = resolve_table(schema).unwrap();
    let closure = move |tx: &mut Tx<'_>| {
        if !matches!(end, End::Reads) {
            tx.insert(&effects, |row| row.set(Effect::ID, id))?;
        }
        match end {
            End::Commits | End::Reads => Ok(id),
            End::Aborts => Err(Stop::Abort("as asked")),
            End::Panics => panic!("as asked"),
        }
    };
    let lone = Lone::envelope(closure, 0);
    Identified::envelope(id as u128, lone, 1 << 20)
}

fn run(store: &mut Product, tables: &mut Tables, id: i64, end: End) -> How {
    let mut call = call(&tables.known().get(), id, end);
    let how = call.run(store, tables);
    let ran = call.ran().downcast_mut::<Option<Ran<i64>>>().and_then(Option::take).unwrap();
    match (how, ran) {
        (How::Committed, Ran::Ended(Ok(answer))) => assert_eq!(answer, id),
        (How::Aborted, Ran::Ended(Err(stop))) => assert_eq!(stop, Stop::Abort("as asked")),
        (How::Panicked, Ran::Otherwise(Otherwise::Panicked(message))) => {
            assert_eq!(&*message, "as asked");
        }
        (How::Repeated, Ran::Otherwise(Otherwise::Repeated(outcome))) => {
            assert_eq!(outcome, outcome_of(store, tables, id));
        }
        (how, _) => panic!("{how:?} of another kind"),
    }
    how
}

fn outcome_of(store: &mut Product, tables: &Tables, id: i64) -> Outcome {
    store.begin().unwrap();
    let outcome = tables.requests().outcome(store, id as u128).unwrap();
    store.commit().unwrap();
    outcome
}

fn has_effect(store: &mut Product, id: i64) -> bool {
    let by_id: Index<EffectById> = resolve_index(store.schema()).unwrap();
    store.begin().unwrap();
    let found = store.lookup(&by_id, id).unwrap();
    store.commit().unwrap();
    found.is_some()
}

#[test]
fn what_is_remembered_is_what_happened_and_as_many_as_may() {
    const KEPT: usize = 7;
    let (mut store, mut tables) = store(KEPT as u64);
    let (mut model, mut rng) = (VecDeque::<(i64, Outcome)>::new(), Rng::stream(1, &[]));
    let mut repeated = 0;
    for _ in 0..1_000 {
        let id = rng.below(12) as i64;
        let ends = [End::Commits, End::Aborts, End::Panics, End::Reads];
        // What was left by a call that is forgotten would be in the way.
        let end = match has_effect(&mut store, id) {
            true => End::Reads,
            false => ends[rng.below(4) as usize],
        };
        let how = run(&mut store, &mut tables, id, end);
        if let Some((_, outcome)) = model.iter().find(|(known, _)| *known == id) {
            assert_eq!((how, outcome_of(&mut store, &tables, id)), (How::Repeated, *outcome));
            repeated += 1;
            continue;
        }
        let outcome = match end {
            End::Commits | End::Reads => Outcome::Committed,
            End::Aborts | End::Panics => Outcome::Aborted,
        };
        model.push_back((id, outcome));
        if model.len() > KEPT {
            model.pop_front();
        }
        for id in 0..12 {
            let expected = model.iter().find(|(known, _)| *known == id);
            let expected = expected.map_or(Outcome::Unknown, |(_, outcome)| *outcome);
            assert_eq!(outcome_of(&mut store, &tables, id), expected, "{id} of {model:?}");
        }
    }
    assert!(repeated > 200, "{repeated}");
    assert_eq!(store.check(), []);
    // Fewer from now on: two go for each that comes.
    let mut tables = Tables::new(
        store.schema(),
        newest(2),
        Arc::new(SystemClock::new()),
        Arc::new(Cancels::default()),
    )
    .unwrap();
    for id in 100..120 {
        assert_eq!(run(&mut store, &mut tables, id, End::Reads), How::Committed);
    }
    let known = (0..120).filter(|&id| outcome_of(&mut store, &tables, id) != Outcome::Unknown);
    assert_eq!(known.collect::<Vec<_>>(), [118, 119]);
}

#[test]
fn an_id_is_committed_exactly_where_its_effect_is_at_every_point_of_the_log() {
    let (mut logged, mut tables) = store(10);
    for id in 0..30 {
        let end = [End::Commits, End::Aborts, End::Panics][id as usize % 3];
        run(&mut logged, &mut tables, id, end);
        run(&mut logged, &mut tables, id, End::Commits); // again: not run
    }
    let mut log = LogBuffer::new();
    logged.take_log(&mut log);
    let transactions = Transactions::new(log.as_slice()).count();
    assert_eq!(transactions, 2 + 30, "tables, and one transaction for each id");
    let mut ends = vec![0];
    let mut end = 0;
    while let Some(length) = log.as_slice()[end..].first_chunk::<4>() {
        end += 4 + u32::from_le_bytes(*length) as usize;
        ends.push(end);
    }
    for &end in &ends[2..] {
        let mut part = ReplayPart::new(0, 1, Limits::default());
        part.apply(&log.as_slice()[..end]).unwrap();
        let parts = vec![part.finish().unwrap()];
        let mut store: Product = Product::from_replay(Limits::default(), parts).unwrap();
        let tables = Tables::new(
            store.schema(),
            newest(10),
            Arc::new(SystemClock::new()),
            Arc::new(Cancels::default()),
        )
        .unwrap();
        let newest =
            (0..30).rev().find(|&id| outcome_of(&mut store, &tables, id) != Outcome::Unknown);
        for id in 0..30 {
            let outcome = outcome_of(&mut store, &tables, id);
            let is_recent = newest.is_some_and(|newest| id <= newest && id + 10 > newest);
            assert_eq!(outcome != Outcome::Unknown, is_recent, "{id} of {newest:?}");
            if is_recent {
                assert_eq!(outcome == Outcome::Committed, has_effect(&mut store, id), "{id}");
            }
        }
        assert_eq!(store.check(), []);
    }
}

#[test]
fn a_call_that_never_begins_leaves_no_preface_behind() {
    let (mut store, mut tables) = store(10);
    struct Idle;
    impl crate::calls::envelope::Body for Idle {
        type Input = ();
        type Answer = ();
        fn run(&self, _: &mut Product, _: Guards<'_>, _: &Tables, (): &()) -> Result<(), Stop> {
            Err(Stop::Abort("before it began"))
        }
        fn step(
            &self,
            _: &mut Product,
            _: Guards<'_>,
            _: &Tables,
            (): &(),
            _: &Hints,
        ) -> Result<(), Stop> {
            unreachable!("it is no step")
        }
    }
    let idle = super::super::envelope::Registration::new(Idle, "idle");
    let mut call = Identified::envelope(5, idle.envelope((), 0), 1 << 20);
    assert_eq!(call.run(&mut store, &mut tables), How::Aborted);
    assert_eq!(store.phase(), Phase::Idle);
    assert_eq!(outcome_of(&mut store, &tables, 5), Outcome::Aborted);
    assert_eq!(store.check(), []);
}

#[test]
fn without_memory_nothing_runs_and_nothing_is_remembered() {
    let (mut store, mut tables) = store(1_000_000);
    let full = (0..1_000_000).find(|&id| {
        store.set_memory_bytes_max(4 << 20);
        let mut call = call(store.schema(), id, End::Reads);
        call.run(&mut store, &mut tables) != How::Committed
    });
    let full = full.expect("memory is bounded");
    assert_eq!(outcome_of(&mut store, &tables, full), Outcome::Unknown);
    assert_eq!(outcome_of(&mut store, &tables, full - 1), Outcome::Committed);
    assert_eq!(store.check(), []);
    store.set_memory_bytes_max(u64::MAX);
    assert_eq!(run(&mut store, &mut tables, full, End::Commits), How::Committed);
}
