//! Loom: a slot has one taker, and is found as the last one left it.

use tombolo_storage::sync::loom::{self, thread};
use tombolo_storage::sync::{Arc, AtomicU32, Ordering};

use crate::pipeline::transport::slots::Slots;

/// Something that only its taker touches.
#[derive(Default)]
struct Own {
    taken: AtomicU32,
    touched: AtomicU32,
}

/// Takes a slot.
fn take(slots: &Slots<Own>) -> u32 {
    let number = slots.take();
    let own = slots.get(number);
    assert_eq!(own.taken.swap(1, Ordering::Relaxed), 0, "another thread has it");
    // Not one step: a taker that did not see what the last one did would lose it.
    let before = own.touched.load(Ordering::Relaxed);
    own.touched.store(before + 1, Ordering::Relaxed);
    number
}

/// Gives it back.
fn give(slots: &Slots<Own>, number: u32) {
    assert_eq!(slots.get(number).taken.swap(0, Ordering::Relaxed), 1);
    slots.give(number);
}

/// Takes two slots and gives back the one that was the first of the list, so that it is again, with
/// another one behind it.
fn use_two(slots: &Slots<Own>) {
    let (first, other) = (take(slots), take(slots));
    give(slots, first);
    give(slots, other);
}

#[test]
fn a_slot_has_one_taker() {
    loom::model(|| {
        let slots = Arc::new(Slots::<Own>::default());
        use_two(&slots);
        let other = {
            let slots = slots.clone();
            thread::spawn(move || use_two(&slots))
        };
        use_two(&slots);
        other.join().unwrap();
        let mut touched = 0;
        slots.each(|slot| touched += slot.touched.load(Ordering::Relaxed));
        assert_eq!(touched, 6);
    });
}

#[test]
fn a_thread_that_takes_an_unused_slot_was_reported_or_is_seen() {
    loom::model(|| {
        let slots = Arc::new(Slots::<AtomicU32>::default());
        let word = Arc::new(AtomicU32::new(0));
        let other = {
            let (slots, word) = (slots.clone(), word.clone());
            thread::spawn(move || {
                word.store(1, Ordering::Relaxed);
                slots.each(|slot| slot.store(1, Ordering::Relaxed));
            })
        };
        let number = slots.take();
        let was_reported = word.load(Ordering::Relaxed) == 1;
        other.join().unwrap();
        let was_seen = slots.get(number).load(Ordering::Relaxed) == 1;
        assert!(was_reported || was_seen, "neither reported nor seen");
    });
}
