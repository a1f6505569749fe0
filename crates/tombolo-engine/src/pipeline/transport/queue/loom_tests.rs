//! The queue and its signals under loom: nothing is lost, no thread sleeps forever.
//!
//! A consumer that slept through a put, or a producer that slept through a drain, would leave all
//! threads asleep, which loom reports.

use tombolo_storage::sync::loom::{self, thread};

use super::*;

const ONE: Load = Load { transactions: 1, bytes: 1 };

/// Takes items as a stage's thread does: looks, announces, looks again, sleeps.
fn consume(queue: &Queue<u32>, signal: &Signal, until: usize) -> Vec<u32> {
    let (mut seen, mut items) = (Vec::new(), Vec::new());
    while seen.len() < until {
        signal.announce();
        let is_open = queue.drain(&mut items);
        if !items.is_empty() || !is_open {
            signal.retract();
            seen.append(&mut items);
            if !is_open {
                break;
            }
            continue;
        }
        signal.sleep(None);
    }
    seen
}

#[test]
fn a_sleeping_consumer_is_woken() {
    loom::model(|| {
        let signal = Arc::new(Signal::new());
        let bound = Load { transactions: 8, bytes: 8 };
        let queue = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
        let producers: Vec<_> = (0..2)
            .map(|n| {
                let queue = queue.clone();
                thread::spawn(move || queue.try_put(n, ONE).unwrap())
            })
            .collect();
        let mut seen = consume(&queue, &signal, 2);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}

#[test]
fn threads_that_wait_for_room_get_it() {
    loom::model(|| {
        let signal = Arc::new(Signal::new());
        let bound = Load { transactions: 1, bytes: 8 };
        let queue = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                (0..3).for_each(|n| queue.put_when_room(n, ONE).unwrap());
            })
        };
        assert_eq!(consume(&queue, &signal, 3), [0, 1, 2]);
        producer.join().unwrap();
    });
}

#[test]
fn a_refused_stage_is_woken() {
    loom::model(|| {
        let (behind, before) = (Arc::new(Signal::new()), Arc::new(Signal::new()));
        let bound = Load { transactions: 1, bytes: 8 };
        let queue = Arc::new(Queue::new(bound, behind.clone(), vec![before.clone()]));
        let stage = {
            let queue = queue.clone();
            thread::spawn(move || {
                for n in 0..2 {
                    let mut held = n;
                    loop {
                        before.announce();
                        match queue.offer(held, ONE) {
                            Ok(()) => break before.retract(),
                            Err(NotPut::Full(item)) => held = item,
                            Err(NotPut::Closed(_)) => unreachable!("no thread closes it"),
                        }
                        before.sleep(None);
                    }
                }
            })
        };
        assert_eq!(consume(&queue, &behind, 2), [0, 1]);
        stage.join().unwrap();
    });
}

#[test]
fn closing_ends_everybody() {
    loom::model(|| {
        let signal = Arc::new(Signal::new());
        let bound = Load { transactions: 1, bytes: 8 };
        let queue = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                (0..2).take_while(|&n| queue.put_when_room(n, ONE).is_ok()).count()
            })
        };
        let closer = {
            let queue = queue.clone();
            thread::spawn(move || queue.close())
        };
        let seen = consume(&queue, &signal, usize::MAX);
        assert_eq!(producer.join().unwrap(), seen.len());
        closer.join().unwrap();
    });
}
