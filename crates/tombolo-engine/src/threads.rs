//! The door to threads: the only place that starts one.
//!
//! Threads are scoped: nobody outlives the data it borrows, and a panic in one reaches whoever
//! waits for it.

/// Runs `work` once per element of `parts` on up to `threads` threads and hands each result to
/// `consume` on the calling thread, in the order of `parts`, whatever the schedule was. At most a
/// few results wait at any time.
///
/// # Panics
/// When `threads` is 0, or with the panic of a worker.
pub fn ordered_parallel<P: Sync, T: Send>(
    parts: &[P],
    threads: usize,
    work: impl Fn(&P) -> T + Sync,
    mut consume: impl FnMut(T),
) {
    assert!(threads > 0, "at least one thread does the work");
    std::thread::scope(|scope| {
        // Worker t makes parts t, t + threads, …; its channel holds one result while it makes the
        // next.
        let channels: Vec<_> = (0..threads)
            .map(|first| {
                let (send, receive) = std::sync::mpsc::sync_channel(1);
                let work = &work;
                scope.spawn(move || {
                    for part in parts.iter().skip(first).step_by(threads) {
                        if send.send(work(part)).is_err() {
                            return; // the consumer panicked and takes no more
                        }
                    }
                });
                receive
            })
            .collect();
        for position in 0..parts.len() {
            match channels[position % threads].recv() {
                Ok(result) => consume(result),
                Err(_) => return, // the worker panicked; the scope passes its panic on
            }
        }
    });
}

/// Runs `work` once per worker, each on a thread of its own; the results in the workers' order. One
/// worker works on the calling thread.
///
/// # Panics
/// With the panic of a worker, once all others have ended.
pub fn on_each<W: Send, T: Send>(
    workers: impl IntoIterator<Item = W>,
    work: impl Fn(W) -> T + Sync,
) -> Vec<T> {
    let mut workers: Vec<W> = workers.into_iter().collect();
    if workers.len() <= 1 {
        return workers.pop().map(&work).into_iter().collect();
    }
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || work(worker))).collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Lets another thread run, for instance the one that this one gave way to.
pub fn give_way() {
    std::thread::yield_now();
}

/// How many threads the machine runs at once.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_in_order() {
        let parts: Vec<u64> = (0..1_000).collect();
        for threads in [1, 2, 3] {
            let mut seen = Vec::new();
            ordered_parallel(&parts, threads, |part| part * part, |square| seen.push(square));
            assert_eq!(seen, parts.iter().map(|part| part * part).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_worker_works_once_on_its_own_thread() {
        let mut counts = [0, 10, 20];
        let threads = on_each(&mut counts, |count| {
            *count += 1;
            std::thread::current().id()
        });
        assert_eq!(counts, [1, 11, 21]);
        let here = std::thread::current().id();
        assert!(threads.len() == 3 && threads.iter().all(|&thread| thread != here));
        assert_eq!(on_each([()], |()| std::thread::current().id()), [here]);
        assert_eq!(on_each([0u8; 0], |_| ()), []);
        let caught = std::panic::catch_unwind(|| on_each([1, 2], |n| assert!(n != 2)));
        assert!(caught.is_err());
    }

    #[test]
    fn a_workers_panic_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            ordered_parallel(&[1, 2, 3], 2, |&part| assert!(part != 2), |()| {});
        });
        assert!(caught.is_err());
    }
}
