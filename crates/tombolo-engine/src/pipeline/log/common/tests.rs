//! Logs that flush in every order.

use super::*;

/// The order of so many logs, with the bug planted that is asked for: `TOMBOLO_PLANT=one-log-suffices` in a build with
/// `--cfg tombolo_plants`. Tests here then fail.
fn order_of(logs: usize) -> CommonOrder {
    if let Ok(name) = std::env::var("TOMBOLO_PLANT") {
        plant::choose(Plant::named(&name).unwrap());
    }
    CommonOrder::new(logs)
}

fn flushed(order: &CommonOrder, log: usize, epoch: u64) -> Together {
    order.close(log, epoch, || ());
    order.flushed(log, epoch)
}

#[test]
fn a_group_waits_for_the_other_logs_of_its_transactions() {
    let order = order_of(3);
    let epoch = order.put([0, 1].into_iter(), |epoch| epoch);
    assert_eq!(flushed(&order, 0, epoch), Together::Waits);
    assert_eq!(order.look(0), Together::Waits);
    // What follows is of a later epoch in both, so the first group need not wait for it.
    let next = order.put([1, 0].into_iter(), |epoch| epoch);
    assert!(next > epoch);
    assert_eq!(flushed(&order, 1, epoch), Together::Durable);
    assert_eq!(order.look(0), Together::Durable);
    assert_eq!(flushed(&order, 1, next), Together::Waits);
    assert_eq!(flushed(&order, 0, next), Together::Durable);
    assert_eq!(order.look(1), Together::Durable);
}

#[test]
fn a_group_waits_for_what_the_groups_that_it_waits_for_depend_on() {
    let order = order_of(3);
    let first = order.put([0, 1].into_iter(), |epoch| epoch);
    let second = order.put([1, 2].into_iter(), |epoch| epoch);
    assert_eq!(first, second, "one group of log 1 has both");
    assert_eq!(flushed(&order, 1, first), Together::Waits);
    assert_eq!(flushed(&order, 0, first), Together::Waits, "log 1 may be cut off before both");
    assert_eq!(flushed(&order, 2, first), Together::Durable);
    assert_eq!([order.look(0), order.look(1)], [Together::Durable, Together::Durable]);
}

#[test]
fn a_log_that_fails_ends_those_that_wait_for_it() {
    let order = Arc::new(order_of(3));
    let epoch = order.put([0, 1].into_iter(), |epoch| epoch);
    assert_eq!(flushed(&order, 0, epoch), Together::Waits);
    let other = InCommon::new(order.clone(), 1);
    other.fail(&"broken".into());
    assert_eq!(order.look(0), Together::Never("broken".into()));
    assert_eq!(order.look(0), Together::Never("broken".into()), "it never will be");
    // What has nothing in common with it goes on.
    let epoch = order.put([2].into_iter(), |epoch| epoch);
    assert_eq!(flushed(&order, 2, epoch), Together::Durable);
}

#[test]
fn a_log_that_has_failed_before_ends_those_that_flush_what_depends_on_it() {
    let never = || Together::Never("broken".into());
    let order = Arc::new(order_of(3));
    let epoch = order.put([0, 1].into_iter(), |epoch| epoch);
    order.put([1, 2].into_iter(), |_| ());
    InCommon::new(order.clone(), 0).fail(&"broken".into());
    assert_eq!(flushed(&order, 1, epoch), never());
    assert_eq!(order.look(1), never(), "the stage looks again, and acts on that");
    assert_eq!(flushed(&order, 2, epoch), never(), "log 1 may be cut off before both");
}

/// Any transactions over any logs, flushed in any order: whenever a group counts as durable, so does all that it
/// depends on, and when nothing more is put, all groups become durable.
#[test]
fn no_group_is_durable_before_those_it_depends_on_and_none_waits_for_ever() {
    for seed in 0..200 {
        let mut rng = crate::rng::Rng::stream(55, &[seed]);
        let logs = 2 + rng.below(3) as usize;
        let order = order_of(logs);
        // Of each log: what was put and not taken, the flushed groups, and how many of them are durable.
        let mut queues: Vec<VecDeque<(u64, u64)>> = vec![VecDeque::new(); logs];
        let mut groups: Vec<Vec<Vec<u64>>> = vec![Vec::new(); logs];
        let mut durable = vec![0; logs];
        let mut of: Vec<Vec<usize>> = Vec::new();
        for step in 0..200 {
            let log = rng.below(logs as u64) as usize;
            if step < 150 && rng.below(2) == 0 {
                let other = (log + 1 + rng.below(logs as u64 - 1) as usize) % logs;
                let number = of.len() as u64;
                of.push(vec![log, other]);
                order.put([log, other].into_iter(), |epoch| {
                    queues[log].push_back((epoch, number));
                    queues[other].push_back((epoch, number));
                });
            } else if durable[log] < groups[log].len() {
                durable[log] += usize::from(order.look(log) == Together::Durable);
            } else if let Some(&(epoch, _)) = queues[log].front() {
                let queue = &mut queues[log];
                let group = order.close(log, epoch, || {
                    std::iter::from_fn(|| queue.pop_front_if(|(other, _)| *other == epoch))
                        .collect::<Vec<_>>()
                });
                groups[log].push(group.into_iter().map(|(_, number)| number).collect());
                durable[log] += usize::from(order.flushed(log, epoch) == Together::Durable);
            }
            assert_durable_is_closed(&groups, &durable, &of);
        }
        for _ in 0..4 * 200 {
            for log in 0..logs {
                if durable[log] < groups[log].len() {
                    durable[log] += usize::from(order.look(log) == Together::Durable);
                } else if let Some(&(epoch, _)) = queues[log].front() {
                    let queue = &mut queues[log];
                    let group = order.close(log, epoch, || {
                        std::iter::from_fn(|| queue.pop_front_if(|(other, _)| *other == epoch))
                            .collect::<Vec<_>>()
                    });
                    groups[log].push(group.into_iter().map(|(_, number)| number).collect());
                    durable[log] += usize::from(order.flushed(log, epoch) == Together::Durable);
                }
            }
        }
        assert!(queues.iter().all(VecDeque::is_empty), "seed {seed}: {order:?}");
        assert!(groups.iter().zip(&durable).all(|(groups, durable)| groups.len() == *durable));
    }
}

/// A recovery of what is flushed now cuts no group off that counts as durable.
fn assert_durable_is_closed(groups: &[Vec<Vec<u64>>], durable: &[usize], of: &[Vec<usize>]) {
    let mut kept: Vec<usize> = groups.iter().map(Vec::len).collect();
    loop {
        let has = |log: usize, number: u64| {
            groups[log][..kept[log]].iter().any(|group| group.contains(&number))
        };
        let is_whole = |number: &u64| of[*number as usize].iter().all(|log| has(*log, *number));
        let cut = (0..groups.len()).find_map(|log| {
            let cut =
                groups[log][..kept[log]].iter().position(|group| !group.iter().all(&is_whole));
            cut.map(|cut| (log, cut))
        });
        let Some((log, cut)) = cut else { break };
        kept[log] = cut;
    }
    assert!(
        kept.iter().zip(durable).all(|(kept, durable)| kept >= durable),
        "{groups:?} {durable:?}"
    );
}
