//! When answers leave, and what they say.

use super::*;
use Durability::{Async, Group, Sync};
use StageKind::{Execution, Logging};

const MS: u64 = 1_000_000;

/// Groups that are flushed after a long time only.
fn slow() -> Options {
    let mut options = options();
    options.group.time_ns = Some(1_000 * MS);
    options.group.async_loss_ns_max = 4_000 * MS;
    options.group.seal_ns_max = 10_000 * MS;
    options
}

#[test]
fn no_answer_leaves_before_the_sync_that_covers_it() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 5), Group);
    world.submit(2, Ask::Add(7, 5), Group);
    assert_eq!(world.replies(), []);
    world.execute();
    assert_eq!((world.replies(), world.log.syncs()), (vec![], 0));
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.log.syncs(), 1, "one sync for both");
    assert_eq!(world.replies(), [durable(1, 5), durable(2, 10)]);
    assert_eq!(replayed(&world.log.durable()), [(7, 10)].into());
}

#[test]
fn what_comes_during_a_flush_shares_the_next() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(1, 1), Group);
    world.execute();
    world.step(Logging);
    for tag in 2..100 {
        world.submit(tag, Ask::Add(tag, 1), Group);
        world.execute();
    }
    world.step(Logging);
    assert_eq!((world.log.syncs(), world.replies().len()), (2, 99));
    let statistics = world.pipeline().statistics();
    assert_eq!((statistics.flushes, statistics.flushed_transactions), (2, 99));
    assert!((statistics.transactions_per_flush() - 49.5).abs() < 1e-9);
}

/// A caller that has the last answer of a run takes the figures of its flushes: none may come later.
#[test]
fn a_flush_is_reported_before_its_answers_leave() {
    let options = Options { spread: Spread::Carried, ..options() };
    let second: Arc<Mutex<Option<Caller<Ask, u64>>>> = Arc::default();
    let flushed = Arc::new(Mutex::new(Vec::new()));
    let (caller, seen) = (second.clone(), flushed.clone());
    let mut world = World::with(options, move |builder| {
        builder.on_flush(Box::new(move |flush| {
            let mut replies = Vec::new();
            caller.lock().unwrap().as_mut().unwrap().take(&mut replies);
            seen.lock().unwrap().push((flush.transactions, replies.len()));
        }))
    });
    *second.lock().unwrap() = Some(world.pipeline().caller(10));
    for tag in 1..=2 {
        let mut caller = second.lock().unwrap();
        caller.as_mut().unwrap().try_submit(Ask::Add(tag, 1), tag, Group).unwrap();
    }
    world.execute();
    world.step(Logging);
    assert_eq!(*flushed.lock().unwrap(), [(2, 0)], "two transactions, neither of them answered");
    let mut replies = Vec::new();
    second.lock().unwrap().as_mut().unwrap().take(&mut replies);
    assert_eq!(replies, [durable(1, 1), durable(2, 1)]);
}

#[test]
fn a_group_that_waits_for_its_time_has_a_bound() {
    let mut options = slow();
    options.queue_max.transactions = 100;
    let mut world = World::new(options);
    world.submit(1, Ask::Add(7, 5), Group);
    for tag in 2..=100 {
        assert!(matches!(world.step(Logging), Step::IdleUntil(_)), "{tag}");
        world.submit(tag, Ask::Read(7), Group); // it logs nothing, and waits for what it read
        world.execute();
    }
    assert_eq!(world.step(Logging), Step::Progress, "as many as a queue holds");
    assert_eq!((world.log.syncs(), world.replies().len()), (1, 100));
}

#[test]
fn a_read_waits_for_what_it_read_and_for_no_more() {
    let mut world = World::new(slow());
    world.submit(1, Ask::Read(7), Group);
    world.execute();
    assert_eq!(world.replies(), [durable(1, 0)], "all it read is durable");
    world.submit(2, Ask::Add(7, 5), Group);
    world.submit(3, Ask::Read(7), Group);
    world.execute();
    world.submit(4, Ask::Read(8), Group);
    world.execute();
    world.step(Logging);
    assert_eq!(world.replies(), [], "what a reader saw is not durable");
    world.clock.set(1_000 * MS);
    world.step(Logging);
    assert_eq!(world.replies(), [durable(2, 5), durable(3, 5), durable(4, 0)]);
    // A read before the first write of its batch saw only what is durable.
    world.submit(5, Ask::Read(7), Group);
    world.submit(6, Ask::Add(7, 1), Group);
    world.execute();
    assert_eq!(world.replies(), [durable(5, 5)]);
}

#[test]
fn a_read_executed_before_and_drained_after_a_flush_leaves_without_another() {
    let mut world = World::new(slow());
    world.submit(1, Ask::Add(7, 5), Sync);
    world.execute();
    world.submit(2, Ask::Read(7), Group);
    world.execute();
    // Both are in the log queue; the flush of the first covers what the second read.
    world.step(Logging);
    assert_eq!(world.replies(), [durable(1, 5), durable(2, 5)]);
    assert_eq!(world.log.syncs(), 1);
}

#[test]
fn aborts_and_panics_wait_like_reads() {
    let mut world = World::new(slow());
    world.submit(1, Ask::Add(7, 5), Group);
    world.submit(2, Ask::Abort, Group);
    world.execute();
    world.step(Logging);
    assert_eq!(world.replies(), [], "an abort reports what it read");
    world.clock.set(1_000 * MS);
    world.step(Logging);
    let abort = Reply::Durable(Err(Failure::Stopped(Stop::Abort("asked to"))));
    assert_eq!(world.replies(), [durable(1, 5), (2, abort)]);
}

#[test]
fn async_answers_leave_at_pre_commit_and_say_so() {
    let mut options = slow();
    options.group.time_ns = None;
    let mut world = World::new(options);
    world.submit(1, Ask::Add(7, 5), Async);
    world.submit(2, Ask::Read(7), Async);
    world.execute();
    assert_eq!(world.replies(), [early(1, 5), early(2, 5)]);
    // No caller waits, so the flush may wait: half of what may be lost.
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(2_000 * MS)));
    world.clock.set(2_000 * MS);
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.log.syncs(), 1);
    // What an async call reads and everybody can rely on is durable.
    world.submit(3, Ask::Read(7), Async);
    world.execute();
    assert_eq!(world.replies(), [durable(3, 5)]);
}

#[test]
fn one_that_waits_hurries_those_that_do_not() {
    let mut options = slow();
    options.group.time_ns = None;
    let mut world = World::new(options);
    world.submit(1, Ask::Add(7, 5), Async);
    world.execute();
    assert!(matches!(world.step(Logging), Step::IdleUntil(Some(_))));
    world.submit(2, Ask::Add(7, 5), Group);
    world.execute();
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.replies(), [early(1, 5), durable(2, 10)]);
}

#[test]
fn sync_asks_for_a_flush_now() {
    let mut world = World::new(slow());
    world.submit(1, Ask::Add(7, 5), Group);
    world.execute();
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(1_000 * MS)));
    world.submit(2, Ask::Add(7, 5), Sync);
    world.execute();
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.replies(), [durable(1, 5), durable(2, 10)]);
}

#[test]
fn a_group_closes_by_number_or_time_whichever_is_first() {
    let mut options = slow();
    options.group.transactions = 3;
    let mut world = World::new(options);
    for tag in 1..=2 {
        world.submit(tag, Ask::Add(tag, 1), Group);
        world.execute();
        world.step(Logging);
    }
    assert_eq!(world.log.syncs(), 0);
    world.submit(3, Ask::Add(3, 1), Group);
    world.execute();
    world.step(Logging);
    assert_eq!((world.log.syncs(), world.replies().len()), (1, 3), "by number");
    world.clock.set(5 * MS);
    world.submit(4, Ask::Add(4, 1), Group);
    world.execute();
    world.clock.set(900 * MS);
    world.submit(5, Ask::Add(5, 1), Group);
    world.execute();
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(1_005 * MS)), "from the first on");
    world.clock.set(1_005 * MS);
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!((world.log.syncs(), world.replies().len()), (2, 2), "by time");
}

/// What a crash may lose of early answers hurries a group that has some, and no other.
#[test]
fn only_early_answers_hurry_a_group_whose_time_is_longer_than_they_may_be_lost() {
    let mut options = slow();
    options.group.async_loss_ns_max = 100 * MS;
    let mut world = World::new(options);
    world.submit(1, Ask::Add(7, 5), Group);
    world.execute();
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(1_000 * MS)));
    world.submit(2, Ask::Add(7, 5), Async);
    world.execute();
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(50 * MS)));
    world.clock.set(50 * MS);
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.replies(), [early(2, 10), durable(1, 5)]);
}

#[test]
fn an_idle_log_is_sealed_once() {
    let mut options = options();
    options.group.seal_ns_max = 50 * MS;
    let mut world = World::new(options);
    assert_eq!(world.step(Logging), Step::IdleUntil(None), "there is nothing to seal");
    world.clock.set(10 * MS);
    world.submit(1, Ask::Add(1, 1), Group);
    world.execute();
    world.step(Logging);
    assert_eq!(world.step(Logging), Step::IdleUntil(Some(60 * MS)));
    world.clock.set(60 * MS);
    assert_eq!(world.step(Logging), Step::Progress);
    let seals = world.log.with(|medium| (medium.seals, medium.durable, medium.written.len()));
    assert_eq!(seals, (1, 2, 2));
    assert_eq!(world.step(Logging), Step::IdleUntil(None));
    assert_eq!(world.pipeline().statistics().seals, 1);
}

#[test]
fn without_a_log_answers_are_volatile_and_leave_at_once() {
    let mut world = World::unlogged(options());
    world.submit(1, Ask::Add(7, 5), Sync);
    world.submit(2, Ask::Abort, Group);
    world.execute();
    let abort = Reply::Volatile(Err(Failure::Stopped(Stop::Abort("asked to"))));
    assert_eq!(world.replies(), [(1, Reply::Volatile(Ok(5))), (2, abort)]);
    assert!(world.stages.iter().all(|stage| stage.kind() != Logging), "there is no such stage");
    let (closed, _) = world.close();
    assert_eq!(closed.executor.unwrap().balances, [(7, 5)].into());
}

#[test]
fn a_failed_flush_ends_all_acknowledgements() {
    for at_sync in [true, false] {
        let mut world = World::new(options());
        world.submit(1, Ask::Add(7, 5), Group);
        world.execute();
        world.step(Logging);
        assert_eq!(world.replies(), [durable(1, 5)]);
        world.submit(2, Ask::Add(7, 5), Group);
        world.execute();
        world.submit(3, Ask::Read(7), Group);
        world.execute();
        let failure = Some(GroupLogError::Failed("cannot sync wal: it burns".to_owned()));
        world.log.with(|medium| match at_sync {
            true => medium.fail_sync = failure.clone(),
            false => medium.fail_append = failure.clone(),
        });
        // One more is executed before the failure and reaches the logging stage after it.
        world.step(Logging);
        let written = world.log.with(|medium| {
            (medium.fail_sync, medium.fail_append) = (None, None);
            medium.written.len()
        });
        let why: Arc<str> = "cannot sync wal: it burns".into();
        let unknown = Reply::Refused(Refusal::Unknown(why.clone()));
        assert_eq!(world.replies(), [(2, unknown.clone()), (3, unknown)]);
        let refused = world.caller.try_submit(Ask::Read(7), 4, Group);
        let Err(NotSubmitted::Refused(_, refusal)) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal, Refusal::Poisoned(why.clone()));
        world.clock.set(1_000_000 * MS);
        world.settle();
        let medium = world.log.with(|medium| (medium.written.len(), medium.durable));
        assert_eq!(medium, (written, 1), "nothing is written after a failure");
        let (closed, replies) = world.close();
        assert_eq!((closed.poison, replies), (Some(why), vec![]));
    }
}

#[test]
fn calls_on_their_way_when_the_log_fails_get_the_reason() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 5), Group);
    world.execute();
    world.log.with(|medium| medium.fail_sync = Some(GroupLogError::Failed("gone".to_owned())));
    world.submit(2, Ask::Add(7, 5), Async);
    world.submit(3, Ask::Read(7), Group);
    world.step(Logging);
    world.execute();
    let why: Arc<str> = "gone".into();
    let poisoned = Reply::Refused(Refusal::Poisoned(why.clone()));
    let expected =
        [(1, Reply::Refused(Refusal::Unknown(why))), (2, poisoned.clone()), (3, poisoned)];
    assert_eq!(world.replies(), expected);
}

#[test]
fn a_reader_that_reaches_a_failed_log_gets_the_reason() {
    let mut options = options();
    options.queue_max.transactions = 1;
    let mut world = World::new(options);
    world.submit(1, Ask::Add(7, 5), Group);
    world.execute();
    world.submit(2, Ask::Read(7), Group);
    world.execute();
    // The reader's batch found no room in the log queue and arrives after the failure. It logged
    // nothing, but what it read is lost.
    world.log.with(|medium| medium.fail_sync = Some(GroupLogError::Failed("gone".to_owned())));
    world.step(Logging);
    assert_eq!(world.step(Execution), Step::IdleUntil(None));
    let unknown = Reply::Refused(Refusal::Unknown("gone".into()));
    assert_eq!(world.replies(), [(1, unknown.clone())]);
    world.step(Logging);
    assert_eq!(world.replies(), [(2, unknown)]);
}
