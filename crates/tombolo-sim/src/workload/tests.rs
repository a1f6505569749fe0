//! Store and model agree on thousands of requests, in answers and rows.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_engine::rng::Rng;
use tombolo_storage::memory::online::Built;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Memory;
use tombolo_storage::store::Store;

use super::additions::{Addition, begin};
use super::model::{
    ItemRow, Later, Outcome, Remembered, State, TABLES, account_number, client_number, item_number,
};
use super::request::{Kinds, Request, Text, Work};
use super::store::{Handles, contents, hide_planned_panics, outcome};
use super::tables::definition;

fn opened() -> (MemoryStore<Memory>, Handles, State) {
    let mut store =
        MemoryStore::<Memory>::new(Limits { structure_bytes_max: 1 << 20, ..Limits::default() });
    let mut state = State::default();
    for table in 0..=TABLES {
        store.create_table(definition(table)).unwrap();
        state.create_table();
        assert_eq!(contents(&mut store).unwrap(), state);
    }
    let handles = Handles::of(store.schema()).unwrap();
    let open = Request { client: 0, number: 1, work: Work::Open, sent_before: None };
    assert_eq!(handles.run(&mut store, &open), Ok(0));
    assert_eq!(state.apply(&open), (Outcome::Committed(0), true));
    (store, handles, state)
}

#[test]
fn the_store_does_what_the_model_does() {
    hide_planned_panics();
    let (mut store, mut handles, mut state) = opened();
    let mut rng = Rng::from_seed(1);
    let mut ends = [0; 4];
    let mut later = 0;
    for number in 2..3_000 {
        if number == 500 || number == 1_000 {
            let begun = begin(&mut store, Addition::Column).unwrap();
            while begun.slice(&mut store, 5).unwrap() != Built::Done {}
            begun.finish(&mut store).unwrap();
            handles.follow(store.schema()).unwrap();
            state.added.columns += 1;
        }
        let kinds = Kinds { panics: true, columns: true, ids: true, long_texts: number % 2 == 0 };
        let work = Work::draw(&mut rng, kinds);
        // Some come again under an id that is known, or was.
        let sent_before = (rng.below(3) == 0).then_some(0);
        let number = number - sent_before.map_or(0, |_| rng.below(8) as i64);
        let work = match rng.below(20) {
            0 => Work::Outcome { client: rng.below(5) as i32, number: number - 3 },
            _ => work,
        };
        let request = Request { client: rng.below(5) as i32, number, work, sent_before };
        let before = (state.hash(), state.clone());
        let (expected, wrote) = state.apply(&request);
        let run = catch_unwind(AssertUnwindSafe(|| handles.run(&mut store, &request)));
        let found = run.map_or(Outcome::Panicked, |ended| outcome(&ended).unwrap());
        assert_eq!(found, expected, "{request:?}");
        assert_eq!(wrote, before.0 != state.hash());
        assert_eq!(wrote, before.1.difference(&state).is_some());
        ends[match found {
            Outcome::Committed(_) => 0,
            Outcome::Aborted => 1,
            Outcome::Panicked => 2,
            Outcome::Repeated(_) => 3,
        }] += 1;
        if number % 100 == 0 {
            later += state.items.values().filter(|row| row.later != Later::default()).count();
            assert_eq!(contents(&mut store).unwrap(), state);
            assert_eq!(store.check(), []);
        }
    }
    assert!(ends[0] > 1_500 && ends[1] > 300 && ends[2] > 20 && ends[3] > 20, "{ends:?}");
    assert!(later > 100, "{later} items with something in added columns");
}

#[test]
fn a_difference_names_the_row() {
    let (_, _, state) = opened();
    let mut other = state.clone();
    assert_eq!(other.difference(&state), None);
    other.accounts.get_mut(&3).unwrap().balance -= 1;
    let text = other.difference(&state).unwrap();
    assert!(text.starts_with("account 3 is ") && text.contains("999"), "{text}");
    other.clients.clear();
    assert_eq!(other.difference(&state).unwrap(), "client 0 is none instead of 1");
}

/// Of 300,000 seeds none had met the row of a request whose number was 0, and 3 of the next 12,000
/// did: what had come back looked as if it held that row.
#[test]
fn rows_of_small_numbers_differ_from_each_other_and_from_none() {
    let mut numbers = BTreeSet::from([0]);
    let mut differ = |number| assert!(numbers.insert(number), "two rows are {number}");
    for id in 0..8_i32 {
        for small in 0..8_i64 {
            differ(client_number(id, small));
            for flag in [false, true] {
                let request = Remembered { id: id as u128, has_committed: flag };
                differ(request.number(small));
                differ(account_number(id, small, i32::from(flag), None));
                let row = ItemRow::new(u8::from(flag), Vec::new());
                differ(item_number((id as i16, small as i32), &row));
            }
        }
    }
}

#[test]
fn texts_differ_by_their_description() {
    let mut texts = BTreeSet::new();
    for fill in 0..90 {
        texts.insert(Text { bytes: 40, fill }.to_vec());
    }
    assert_eq!(texts.len(), 90);
    assert!(Text { bytes: 0, fill: 3 }.to_vec().is_empty());
}
