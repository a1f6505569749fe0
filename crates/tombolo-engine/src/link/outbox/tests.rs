//! What threads put concurrently, what is held back, and links that are full or end.

use super::*;
use crate::link::{MemoryFaults, all_counted, memory_pair};
use crate::threads::{both, give_way, on_each};

/// Appends what has arrived; returns whether that was anything.
fn receive(link: &mut dyn Link, all: &mut Vec<Vec<u8>>) -> bool {
    let Some(bundle) = link.receive().unwrap() else { return false };
    all.extend(all_counted(bundle).unwrap().into_iter().map(<[u8]>::to_vec));
    true
}

#[test]
fn what_threads_put_concurrently_arrives_once_and_in_the_order_of_each() {
    const THREADS: u8 = 4;
    const EACH: u16 = 500;
    for seed in 0..20 {
        // Full most of the time.
        let faults = MemoryFaults { capacity_bytes: 100, delays: 3, ..MemoryFaults::default() };
        let (own, mut other) = memory_pair(faults, seed);
        let outbox = Outbox::new(Box::new(own));
        let put = |thread: u8| {
            for n in 0..EACH {
                assert!(outbox.put([&[thread][..], &n.to_le_bytes()].concat()));
                while outbox.send() == Ok(false) {
                    give_way();
                }
            }
        };
        let take = || {
            let mut all = Vec::new();
            while all.len() < usize::from(THREADS) * usize::from(EACH) {
                if !receive(&mut other, &mut all) {
                    give_way();
                }
            }
            all
        };
        let (_, all) = both(|| on_each(0..THREADS, put), take);
        for thread in 0..THREADS {
            let of = all.iter().filter(|item| item[0] == thread);
            let numbers = of.map(|item| u16::from_le_bytes([item[1], item[2]]));
            assert!(numbers.eq(0..EACH), "seed {seed}");
        }
    }
}

#[test]
fn a_full_link_makes_no_thread_wait_and_is_tried_again() {
    let faults = MemoryFaults { capacity_bytes: 10, ..MemoryFaults::default() };
    let (own, mut other) = memory_pair(faults, 1);
    let (outbox, mut all) = (Outbox::new(Box::new(own)), Vec::new());
    let long = vec![7; 1_000];
    assert!(outbox.put(long.clone()));
    assert_eq!(outbox.send(), Ok(false));
    assert!(outbox.put(vec![8]));
    while outbox.send() == Ok(false) {
        receive(&mut other, &mut all);
    }
    while all.len() < 2 {
        receive(&mut other, &mut all);
    }
    assert_eq!(all, [long, vec![8]]);
}

#[test]
fn what_is_held_back_leaves_when_it_is_released_in_its_order() {
    let (own, mut other) = memory_pair(MemoryFaults::default(), 1);
    let (outbox, mut all) = (Outbox::new(Box::new(own)), Vec::new());
    assert!(outbox.put(vec![1]));
    outbox.hold();
    assert!(outbox.put(vec![4]) && outbox.put_past(vec![2]) && outbox.put(vec![5]));
    assert_eq!(outbox.send(), Ok(true));
    assert!(outbox.put_past(vec![3]));
    assert_eq!(outbox.send(), Ok(true));
    while receive(&mut other, &mut all) {}
    assert_eq!(all, [[1], [2], [3]]);
    outbox.release();
    assert_eq!(outbox.send(), Ok(true));
    while receive(&mut other, &mut all) {}
    assert_eq!(all, [[1], [2], [3], [4], [5]]);
}

#[test]
fn a_box_that_is_closed_or_whose_link_has_ended_takes_nothing() {
    let (own, other) = memory_pair(MemoryFaults::default(), 1);
    let outbox = Outbox::new(Box::new(own));
    drop(other);
    assert!(outbox.put(vec![1]));
    assert_eq!(outbox.send(), Err(LinkEnd::Gone));
    assert!(!outbox.put(vec![2]));
    assert_eq!(outbox.send(), Ok(true), "nothing is left to be sent");
}
