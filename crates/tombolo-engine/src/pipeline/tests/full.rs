//! A log without room: writes are refused before they run, reads still run, writing resumes.

use super::*;
use Durability::Group;
use StageKind::{Execution, Logging};

const FULL: Reply<u64> = Reply::Refused(Refusal::LogFull);

/// Room for exactly so many writes of 16 bytes, one batch each, and a seal.
fn room(batches: u64) -> u64 {
    batches * (16 + OVERHEAD) + OVERHEAD
}

fn world(batches: u64) -> World {
    let log = HandLog::new();
    log.with(|medium| medium.room = room(batches));
    let kept = log.clone();
    let mut world = World::with(options(), move |builder| builder.log(Box::new(log)));
    world.log = kept;
    world
}

#[test]
fn writes_are_refused_before_they_run_and_reads_go_on() {
    let mut world = world(2);
    for tag in 1..=4 {
        world.submit(tag, Ask::Add(7, 1), Group);
        world.execute();
        world.submit(10 + tag, Ask::Read(7), Group);
        world.execute();
    }
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|reply| reply.0);
    let expected = [
        durable(1, 1),
        durable(2, 2),
        (3, FULL),
        (4, FULL),
        durable(11, 1),
        durable(12, 2),
        durable(13, 2),
        durable(14, 2),
    ];
    assert_eq!(replies, expected);
    assert_eq!(world.pipeline().statistics().refused, 2);
}

#[test]
fn a_batch_is_executed_as_far_as_there_is_room() {
    let mut world = world(1);
    world.log.with(|medium| medium.room += 16); // one batch of two
    world.step(Logging);
    let asks = [Ask::Add(1, 1), Ask::Read(1), Ask::Add(2, 1), Ask::Add(3, 1), Ask::Read(2)];
    for (tag, ask) in asks.into_iter().enumerate() {
        world.submit(tag as u64, ask, Group);
    }
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|reply| reply.0);
    let expected = [durable(0, 1), durable(1, 1), durable(2, 1), (3, FULL), durable(4, 1)];
    assert_eq!(replies, expected);
}

/// Charged one by one, three writes do not fit; written together, two leave room for the third.
#[test]
fn room_that_comes_back_is_waited_for() {
    let mut world = world(2);
    world.log.with(|medium| medium.room = room(3) - OVERHEAD);
    world.step(Logging);
    for tag in 1..=3 {
        world.submit(tag, Ask::Add(7, 1), Group);
        world.execute();
    }
    world.settle();
    assert_eq!(world.replies(), [durable(1, 1), durable(2, 2), durable(3, 3)]);
}

#[test]
fn writing_resumes_when_there_is_room() {
    let mut world = world(1);
    for tag in 1..=2 {
        world.submit(tag, Ask::Add(7, 1), Group);
        world.settle();
    }
    assert_eq!(world.replies(), [durable(1, 1), (2, FULL)]);
    world.log.with(|medium| medium.room = room(1));
    world.step(Logging);
    world.submit(3, Ask::Add(7, 1), Group);
    world.settle();
    assert_eq!(world.replies(), [durable(3, 2)]);
}

/// Four batches are charged one by one and take less together: the fifth waits for that, and the
/// sixth for nothing.
#[test]
fn what_a_flush_gives_back_is_waited_for() {
    let mut world = world(4);
    for tag in 1..=6 {
        world.submit(tag, Ask::Add(7, 1), Group);
        world.execute();
    }
    assert_eq!(world.step(Execution), Step::IdleUntil(None));
    assert_eq!(world.replies(), []);
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|reply| reply.0);
    let durable = (1..=5).map(|tag| durable(tag, tag));
    assert_eq!(replies, durable.chain([(6, FULL)]).collect::<Vec<_>>());
}

#[test]
fn a_transaction_no_group_holds_is_refused() {
    let mut world = World::new(options());
    let bytes = GROUP_BYTES_MAX as usize + 1;
    world.submit(1, Ask::Large(bytes), Group);
    world.submit(2, Ask::Add(7, 1), Group);
    world.settle();
    let refusal = Refusal::TooLarge { log_bytes: bytes as u64, log_bytes_max: GROUP_BYTES_MAX };
    assert_eq!(world.replies(), [(1, Reply::Refused(refusal)), durable(2, 1)]);
}

#[test]
fn large_transactions_are_spread_over_groups() {
    let mut world = World::new(options());
    for tag in 0..10 {
        world.submit(tag, Ask::Large(GROUP_BYTES_MAX as usize / 2 - 100), Group);
    }
    world.settle();
    assert_eq!(world.replies().len(), 10);
    // `append` of the log in hand asserts that no group is too large.
    let statistics = world.pipeline().statistics();
    assert_eq!((statistics.groups, statistics.batches), (5, 5));
    assert_eq!(statistics.flushed_bytes, 10 * (GROUP_BYTES_MAX / 2 - 100));
}

#[test]
fn a_group_that_finds_no_room_waits_for_it() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 1), Group);
    world.execute();
    world.log.with(|medium| medium.room = 0); // another program took it
    assert_eq!(world.step(Logging), Step::Progress);
    assert!(matches!(world.step(Logging), Step::IdleUntil(Some(_))));
    assert_eq!(world.replies(), []);
    assert_eq!(world.pipeline().statistics().stalls, 1);
    // What comes after it stays in the bounded queue, and is refused once the room is known.
    world.submit(2, Ask::Add(7, 1), Group);
    world.execute();
    assert_eq!(world.replies(), [(2, FULL)]);
    world.log.with(|medium| medium.room = room(2));
    world.clock.set(1_000_000);
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.replies(), [durable(1, 1)]);
    assert_eq!(world.log.with(|medium| (medium.durable, medium.syncs)), (1, 1));
}

/// As soon as room is made, not when it would look by itself.
#[test]
fn a_group_that_waits_for_room_takes_what_is_made() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 1), Group);
    world.execute();
    world.log.with(|medium| medium.room = 1);
    assert_eq!(world.step(Logging), Step::Progress);
    assert!(matches!(world.step(Logging), Step::IdleUntil(Some(_))));
    world.log.with(|medium| medium.room = room(2));
    assert_eq!(world.step(Logging), Step::Progress);
    assert_eq!(world.replies(), [durable(1, 1)]);
    world.submit(2, Ask::Add(7, 1), Group);
    world.settle();
    assert_eq!(world.replies(), [durable(2, 2)]);
}

#[test]
fn a_group_without_room_at_the_end_is_not_acknowledged() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 1), Group);
    world.execute();
    world.log.with(|medium| medium.room = 0);
    let (closed, replies) = world.close();
    let poison = closed.poison.unwrap();
    assert!(poison.contains("without room"), "{poison}");
    assert_eq!(replies, [(1, Reply::Refused(Refusal::Unknown(poison)))]);
}

#[test]
fn the_execution_stage_waits_when_the_log_queue_is_full() {
    let mut options = options();
    options.queue_max = Load { transactions: 4, bytes: 1 << 20 };
    options.batch_transactions_max = 2;
    let mut world = World::new(options);
    let mut next = 0;
    let mut submit = |world: &mut World| {
        while world.caller.try_submit(Ask::Add(next, 1), next, Group).is_ok() {
            next += 1;
        }
    };
    for _ in 0..10 {
        submit(&mut world);
        world.step(Execution);
    }
    assert_eq!(world.step(Execution), Step::IdleUntil(None));
    let load = world.pipeline().statistics().log_queue;
    assert!(load.transactions <= 4, "{load:?}");
    world.settle();
    submit(&mut world);
    world.settle();
    let (closed, replies) = world.close();
    assert_eq!(replies.len() as u64, closed.statistics.executed);
    assert!(replies.iter().map(|reply| reply.0).eq(0..replies.len() as u64), "in order");
}

#[test]
fn calls_wait_for_room_that_is_being_made() {
    let log = HandLog::new();
    log.with(|medium| {
        (medium.room, medium.more_to_come, medium.is_made) = (room(1), true, true);
    });
    let kept = log.clone();
    let mut world = World::with(options(), move |builder| builder.log(Box::new(log)));
    for tag in 1..=3 {
        world.submit(tag, Ask::Add(7, 1), Group);
        world.execute();
    }
    world.settle();
    assert_eq!(world.replies(), [durable(1, 1)]);
    assert_eq!(world.step(Execution), Step::IdleUntil(None));
    assert_eq!(world.step(StageKind::Room), Step::IdleUntil(None));
    kept.with(|medium| medium.making = room(1));
    assert_eq!(world.step(StageKind::Room), Step::Progress);
    world.step(Logging);
    world.settle();
    assert_eq!(world.replies(), [durable(2, 2)]);
    // The disk turns out to be full: those that wait are refused.
    kept.with(|medium| medium.more_to_come = false);
    world.step(Logging);
    world.settle();
    assert_eq!(world.replies(), [(3, FULL)]);
    let (closed, _) = world.close();
    assert!(closed.poison.is_none());
}

#[test]
fn a_thread_that_waits_for_room_is_woken() {
    for spread in [Spread::One, Spread::Coalesced, Spread::Two, Spread::Carried, Spread::Each] {
        let log = HandLog::new();
        log.with(|medium| {
            (medium.room, medium.more_to_come, medium.is_made) = (room(1), true, true);
        });
        let builder = Builder::new(Accounts::default(), Options { spread, ..options() });
        let pipeline = builder
            .log(Box::new(log.clone()))
            .start(Arc::new(crate::clock::SystemClock::new()))
            .unwrap();
        let mut caller = pipeline.caller(1);
        for n in 1..200 {
            // For the call, and for a seal: a slow machine is idle long enough for one.
            log.with(|medium| medium.making = 16 + 2 * OVERHEAD);
            assert_eq!(caller.call(Ask::Add(7, 1), Group), Reply::Durable(Ok(n)));
        }
    }
}

/// Nothing else happens that could wake a thread: not even a seal is due.
#[test]
fn a_thread_that_waits_in_vain_gets_the_reason() {
    for spread in [Spread::One, Spread::Coalesced, Spread::Two, Spread::Carried, Spread::Each] {
        let log = HandLog::new();
        log.with(|medium| {
            (medium.room, medium.more_to_come, medium.is_made) = (0, true, true);
            medium.ends_making = true;
        });
        let builder = Builder::new(Accounts::default(), Options { spread, ..options() });
        let pipeline =
            builder.log(Box::new(log)).start(Arc::new(crate::clock::SystemClock::new())).unwrap();
        let mut caller = pipeline.caller(1);
        assert_eq!(caller.call(Ask::Add(7, 1), Group), FULL);
    }
}

#[test]
fn a_failure_to_make_room_reaches_those_that_wait_for_it() {
    let log = HandLog::new();
    log.with(|medium| {
        (medium.room, medium.more_to_come, medium.is_made) = (0, true, true);
    });
    let kept = log.clone();
    let mut world = World::with(options(), move |builder| builder.log(Box::new(log)));
    world.submit(1, Ask::Add(7, 1), Group);
    world.settle();
    assert_eq!(world.replies(), []);
    kept.with(|medium| medium.fail_making = Some("the disk is gone".to_owned()));
    assert_eq!(world.step(StageKind::Room), Step::Progress);
    world.settle();
    let poisoned = Reply::Refused(Refusal::Poisoned("the disk is gone".into()));
    assert_eq!(world.replies(), [(1, poisoned)]);
}

/// Nothing wakes the logging stage after the last batch, so that batch must say that it is the last.
#[test]
fn a_pipeline_that_is_shut_while_its_log_fails_ends() {
    let log = HandLog::new();
    log.with(|medium| (medium.more_to_come, medium.is_made) = (true, true));
    let kept = log.clone();
    let mut world = World::with(options(), move |builder| builder.log(Box::new(log)));
    world.submit(1, Ask::Add(7, 1), Durability::Async);
    world.execute();
    kept.with(|medium| medium.fail_making = Some("the disk is gone".to_owned()));
    assert_eq!(world.step(StageKind::Room), Step::Progress);
    world.pipeline().shut();
    while world.step(Execution) != Step::Ended {}
    assert_eq!(world.step(Logging), Step::Ended);
}

/// A world whose store has logged something before there was a pipeline, with this room in its log.
fn begun(room: u64, more_to_come: bool) -> World {
    let mut accounts = Accounts::default();
    assert_eq!(accounts.run(&Ask::Add(9, 1)), Ok(1));
    let log = HandLog::new();
    log.with(|medium| {
        (medium.room, medium.more_to_come, medium.is_made) = (room, more_to_come, more_to_come);
    });
    World::of(accounts, log, options(), |builder| builder)
}

/// What was logged before would have to be durable before any answer: without room nothing runs, and
/// nothing waits for it.
#[test]
fn nothing_runs_before_there_is_room_for_what_was_logged_before() {
    let mut world = begun(room(1) - 1, false);
    let sum = |world: &mut World, tag| {
        let intake = world.pipeline().long();
        let work = long::sum("a", None, &Default::default());
        intake.submit_by(&mut world.caller, work, tag, Group).unwrap();
    };
    world.submit(1, Ask::Read(9), Group);
    world.settle();
    sum(&mut world, 2);
    world.settle();
    world.submit(3, Ask::Add(9, 1), Durability::Async);
    world.settle();
    assert_eq!(world.replies(), [(1, FULL), (2, FULL), (3, FULL)]);
    let statistics = world.pipeline().statistics();
    assert_eq!((statistics.stalls, statistics.executed, statistics.groups), (0, 0, 0));
    // With room it is the log's first group, whatever comes first.
    world.log.with(|medium| medium.room = room(2));
    world.step(Logging);
    sum(&mut world, 4);
    world.submit(5, Ask::Add(9, 1), Group);
    world.settle();
    let mut replies = world.replies();
    replies.sort_by_key(|reply| reply.0);
    assert_eq!(replies, [durable(4, 1), durable(5, 2)]);
    assert_eq!(replayed(&world.log.durable()[..16]), [(9, 1)].into());
    assert_eq!(replayed(&world.log.durable()), [(9, 2)].into());
}

#[test]
fn what_was_logged_before_waits_for_room_that_is_being_made() {
    let mut world = begun(room(0), true);
    world.submit(1, Ask::Read(9), Group);
    world.settle();
    assert_eq!(world.replies(), []);
    world.log.with(|medium| medium.making = room(1));
    assert_eq!(world.step(StageKind::Room), Step::Progress);
    world.step(Logging);
    world.settle();
    assert_eq!(world.replies(), [durable(1, 1)]);
    assert_eq!(world.pipeline().statistics().stalls, 0);
}

#[test]
fn a_pipeline_that_never_began_is_closed_in_good_order() {
    let (closed, replies) = begun(room(0), false).close();
    assert_eq!((closed.poison, replies), (None, vec![]));
}

/// What happens while a batch is fitted into the room there was.
type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Accounts; something happens when a call is first asked what it may log.
struct Interrupted(Accounts, Meanwhile);

impl Executor for Interrupted {
    type Request = Ask;
    type Answer = u64;
    type Records = Notes;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, u64>) {
        self.0.execute(batch);
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        if let Some(happens) = self.1.lock().unwrap().take() {
            happens();
        }
        self.0.log_bytes_max(ask)
    }

    fn take_log(&mut self, into: &mut Notes) {
        self.0.take_log(into);
    }
}

/// The room that was found was too little, and what is said of it then is said of more.
#[test]
fn room_that_is_made_in_the_same_moment_is_found() {
    let (log, meanwhile) = (HandLog::new(), Meanwhile::default());
    log.with(|medium| (medium.room, medium.more_to_come) = (room(0), true));
    let executor = Interrupted(Accounts::default(), meanwhile.clone());
    let builder = Builder::new(executor, options()).log(Box::new(log.clone()));
    let (pipeline, mut stages) = builder.assemble(Arc::new(HandClock::default()));
    let mut take = |kind| {
        let at = stages.iter().position(|stage| stage.kind() == kind).unwrap();
        Arc::new(Mutex::new(stages.remove(at)))
    };
    let (execution, logging) = (take(Execution), take(Logging));
    let own = logging.clone();
    *meanwhile.lock().unwrap() = Some(Box::new(move || {
        log.with(|medium| (medium.room, medium.more_to_come) = (room(1), false));
        own.lock().unwrap().step(0);
    }));
    let mut caller = pipeline.caller(1);
    caller.try_submit(Ask::Add(7, 1), 1, Group).unwrap();
    for _ in 0..2 {
        assert_eq!(execution.lock().unwrap().step(0), Step::Progress);
    }
    logging.lock().unwrap().step(0);
    for stage in &mut stages {
        stage.step(0);
    }
    let mut replies = Vec::new();
    caller.take(&mut replies);
    assert_eq!(replies, [durable(1, 1)]);
}
