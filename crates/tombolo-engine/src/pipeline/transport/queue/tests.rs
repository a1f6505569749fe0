//! What goes in comes out once and in order, within bounds; a waiting thread is woken.

use super::*;

const ONE: Load = Load { transactions: 1, bytes: 10 };

fn queue(transactions: u64, bytes: u64) -> Queue<u64> {
    Queue::new(Load { transactions, bytes }, Arc::default(), Vec::new())
}

fn drained(queue: &Queue<u64>) -> Vec<u64> {
    let mut items = Vec::new();
    queue.drain(&mut items);
    items
}

#[test]
fn everything_comes_out_in_order_and_once() {
    let queue = queue(10, 1_000);
    for n in 0..5 {
        queue.try_put(n, ONE).unwrap();
    }
    assert_eq!(queue.load(), Load { transactions: 5, bytes: 50 });
    assert_eq!(drained(&queue), [0, 1, 2, 3, 4]);
    assert_eq!(drained(&queue), []);
    assert_eq!(queue.load(), Load::default());
}

#[test]
fn both_bounds_hold_and_an_empty_queue_takes_anything() {
    let by_count = queue(2, 1_000);
    by_count.try_put(0, ONE).unwrap();
    by_count.try_put(1, ONE).unwrap();
    assert_eq!(by_count.try_put(2, ONE), Err(NotPut::Full(2)));
    let by_bytes = queue(100, 25);
    by_bytes.try_put(0, ONE).unwrap();
    by_bytes.try_put(1, ONE).unwrap();
    assert_eq!(by_bytes.try_put(2, ONE), Err(NotPut::Full(2)));
    assert_eq!(drained(&by_bytes), [0, 1]);
    let huge = Load { transactions: 1, bytes: 1_000 };
    by_bytes.try_put(3, huge).unwrap();
    assert_eq!(by_bytes.try_put(4, ONE), Err(NotPut::Full(4)));
    assert_eq!(by_bytes.put_many(&mut vec![5], |_| ONE), Some(0));
}

#[test]
fn many_go_in_as_far_as_they_fit() {
    let queue = queue(3, 1_000);
    let mut items = vec![1, 2, 3, 4, 5];
    assert_eq!(queue.put_many(&mut items, |_| ONE), Some(3));
    assert_eq!(items, [4, 5]);
    assert_eq!(drained(&queue), [1, 2, 3]);
    assert_eq!(queue.put_many(&mut items, |_| ONE), Some(2));
    queue.close();
    assert_eq!(queue.put_many(&mut vec![6], |_| ONE), None);
    assert_eq!(drained(&queue), [4, 5]);
}

#[test]
fn a_closed_queue_gives_what_it_holds_and_says_that_it_is_all() {
    let queue = queue(3, 1_000);
    queue.try_put(1, ONE).unwrap();
    queue.close();
    assert_eq!(queue.try_put(2, ONE), Err(NotPut::Closed(2)));
    assert_eq!(queue.offer(2, ONE), Err(NotPut::Closed(2)));
    assert_eq!(queue.put_when_room(2, ONE), Err(2));
    let mut items = Vec::new();
    assert!(!queue.drain(&mut items) && items == [1]);
    items.clear();
    assert!(!queue.drain(&mut items) && items.is_empty());
}

#[test]
fn the_vector_that_is_drained_goes_back() {
    let queue = queue(1_000, 1_000_000);
    let mut items = Vec::with_capacity(512);
    let first = items.as_ptr();
    queue.try_put(1, ONE).unwrap();
    queue.drain(&mut items);
    assert_ne!(items.as_ptr(), first);
    items.clear();
    queue.try_put(2, ONE).unwrap();
    queue.drain(&mut items);
    assert_eq!((items.as_ptr(), &items[..]), (first, &[2][..]));
}

#[test]
fn waiting_threads_lose_nothing() {
    let queue = queue(4, 1_000);
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for from in [0, 1_000, 2_000] {
            let queue = &queue;
            scope.spawn(move || {
                (from..from + 1_000).for_each(|n| queue.put_when_room(n, ONE).unwrap());
            });
        }
        let mut items = Vec::new();
        while seen.len() < 3_000 {
            queue.drain(&mut items);
            seen.append(&mut items);
        }
    });
    for from in [0, 1_000, 2_000] {
        let of_one = seen.iter().copied().filter(|n| (from..from + 1_000).contains(n));
        assert!(of_one.eq(from..from + 1_000), "each thread's items stay in order");
    }
}

#[test]
fn a_thread_that_waits_learns_of_the_end() {
    let queue = queue(1, 1_000);
    queue.try_put(1, ONE).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.put_when_room(2, ONE));
        while queue.inner.lock().threads_waiting == 0 {
            std::thread::yield_now();
        }
        queue.close();
        assert_eq!(waiting.join().unwrap(), Err(2));
    });
}
