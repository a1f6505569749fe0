//! Calls and replies on their way: order, back-pressure, panics, callers that come and go.

use super::*;
use crate::rng::Rng;
use Durability::{Async, Group};
use StageKind::{Execution, Input};

#[test]
fn a_panic_ends_its_own_transaction_only() {
    let mut world = World::new(options());
    world.submit(1, Ask::Add(7, 5), Group);
    world.submit(2, Ask::Panic, Group);
    world.submit(3, Ask::Panic, Async);
    world.submit(4, Ask::Add(7, 5), Group);
    world.settle();
    let panicked = || Err(Failure::Panicked("asked to panic".into()));
    let mut replies = world.replies();
    replies.sort_by_key(|reply| reply.0);
    let expected = [
        durable(1, 5),
        (2, Reply::Durable(panicked())),
        (3, Reply::PreCommitted(panicked())),
        durable(4, 10),
    ];
    assert_eq!(replies, expected);
    let statistics = world.pipeline().statistics();
    assert_eq!((statistics.executed, statistics.failed), (4, 2));
}

/// A request whose end panics.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("dropped in spite");
    }
}

/// Keeps what it is asked, as of calls that did not end.
struct Keeping;

impl Executor for Keeping {
    type Request = Option<Spiteful>;
    type Answer = bool;
    type Records = Notes;

    fn execute(&mut self, batch: &mut Batch<'_, Option<Spiteful>, bool>) {
        batch.each(|held| (Ok(held.is_none()), 0));
    }

    fn log_bytes_max(&self, held: &Option<Spiteful>) -> u64 {
        if held.is_some() { u64::MAX } else { 0 }
    }
}

#[test]
fn what_refused_requests_hold_ends_nobody_else() {
    let builder = Builder::new(Keeping, options()).log(Box::new(HandLog::new()));
    let (pipeline, mut stages) = builder.assemble(Arc::<HandClock>::default());
    let mut caller = pipeline.caller(10);
    let mut replies = Vec::new();
    for turn in 0..2 {
        let held = [Some(Spiteful), None, Some(Spiteful), Some(Spiteful)];
        for (tag, held) in held.into_iter().enumerate() {
            caller.try_submit(held, 10 * turn + tag as u64, Group).map_err(|_| "full").unwrap();
        }
        for _ in 0..5 {
            for stage in &mut stages {
                stage.step(0);
            }
        }
        caller.take(&mut replies);
    }
    let answered = replies.iter().map(|(_, reply)| matches!(reply, Reply::Durable(Ok(true))));
    assert_eq!(replies.len(), 8, "{replies:?}");
    assert_eq!(answered.filter(|&answered| answered).count(), 2, "{replies:?}");
    assert!(pipeline.statistics().refused == 6);
}

/// Answers every second request and then returns.
struct Lazy(Accounts);

impl Executor for Lazy {
    type Request = Ask;
    type Answer = u64;
    type Records = ();

    fn execute(&mut self, batch: &mut Batch<'_, Ask, u64>) {
        if batch.left() % 2 == 1 {
            let ask = batch.request().unwrap().clone();
            batch.answer(self.0.run(&ask), 0);
        }
    }
}

#[test]
fn an_executor_that_does_not_answer_costs_that_request_only() {
    let (pipeline, mut stages) =
        Builder::new(Lazy(Accounts::default()), options()).assemble(Arc::<HandClock>::default());
    let mut caller = pipeline.caller(10);
    for tag in 0..4 {
        caller.try_submit(Ask::Add(tag, 1), tag, Group).unwrap();
    }
    assert!(stages.iter_mut().all(|stage| stage.step(0) == Step::Progress));
    let mut replies = Vec::new();
    caller.take(&mut replies);
    let answered = replies.iter().map(|(_, reply)| reply.clone().outcome().unwrap().is_ok());
    assert!(answered.eq([false, true, false, true]), "{replies:?}");
}

#[test]
fn rows_are_located_ahead_in_windows() {
    let mut options = options();
    options.locate_ahead = Some(3);
    let mut world = World::new(options);
    for tag in 0..10 {
        world.submit(tag, Ask::Add(tag, 1), Group);
    }
    world.settle();
    assert_eq!(world.replies().len(), 10);
    let (closed, _) = world.close();
    assert_eq!(closed.executor.unwrap().located, 10);
}

#[test]
fn nothing_is_lost_or_reordered_whatever_the_interleaving() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(seed);
        let mut options = options();
        options.queue_max = Load { transactions: rng.below(8) + 1, bytes: rng.below(4_000) + 1 };
        options.batch_transactions_max = rng.below(5) as usize + 1;
        options.output_stages = rng.below(3) as usize + 1;
        options.input_stages = rng.below(3) as usize + 1;
        let mut world = match rng.below(2) {
            0 => World::new(options),
            _ => World::with(options, |builder| builder.prepare(|| prepare)),
        };
        let mut callers: Vec<_> = (0..3).map(|_| world.pipeline().caller(20)).collect();
        let (mut sent, mut seen) = ([0_u64; 3], [0_u64; 3]);
        while seen.iter().sum::<u64>() < 300 {
            let which = rng.below(3) as usize;
            if sent[which] < 100 {
                let ask = Ask::Add(which as u64, 1);
                sent[which] +=
                    u64::from(callers[which].try_submit(ask, sent[which], Group).is_ok());
            }
            let stage = rng.below(world.stages.len() as u64) as usize;
            world.stages[stage].step(0);
            let mut replies = Vec::new();
            callers[which].take(&mut replies);
            for (tag, reply) in replies {
                // A caller's replies come in the order of its calls, each once; what an answer
                // says is what its transaction saw.
                assert_eq!((tag, reply), durable(seen[which], seen[which] + 1));
                seen[which] += 1;
            }
        }
        let (closed, _) = world.close();
        assert_eq!(closed.executor.unwrap().balances, [(0, 100), (1, 100), (2, 100)].into());
    }
}

fn prepare(ask: &mut Ask) -> Result<(), Box<str>> {
    match ask {
        Ask::Raw(0) => Err("account 0 does not exist".into()),
        Ask::Raw(u64::MAX) => panic!("no such account"),
        Ask::Raw(account) => {
            *ask = Ask::Add(*account, 1);
            Ok(())
        }
        _ => Ok(()),
    }
}

#[test]
fn input_stages_make_requests_ready_and_refuse_what_is_not_valid() {
    let mut world = World::with(options(), |builder| builder.prepare(|| prepare));
    for (tag, account) in [(1, 7), (2, 0), (3, u64::MAX), (4, 7)] {
        world.submit(tag, Ask::Raw(account), Group);
    }
    world.settle();
    let invalid = |what: &str| Reply::Refused(Refusal::Invalid(what.into()));
    let expected = [
        (2, invalid("account 0 does not exist")),
        (3, invalid("preparing it panicked: no such account")),
        durable(1, 1),
        durable(4, 2),
    ];
    assert_eq!(world.replies(), expected);
}

#[test]
fn input_stages_wait_for_room_and_end_one_by_one() {
    let mut options = options();
    options.input_stages = 2;
    options.queue_max.transactions = 2;
    let mut world = World::with(options, |builder| builder.prepare(|| prepare));
    let mut other = world.pipeline().caller(10);
    for tag in 0..2 {
        world.submit(tag, Ask::Raw(1), Group);
        other.try_submit(Ask::Raw(1), tag, Group).unwrap();
    }
    assert_eq!(world.step(Input), Step::Progress);
    assert_eq!(world.step(Input), Step::IdleUntil(None), "the input queue is full");
    let (closed, replies) = world.close();
    assert_eq!((replies.len(), closed.executor.unwrap().balances[&1]), (2, 4));
    let mut replies = Vec::new();
    other.take(&mut replies);
    assert_eq!(replies.len(), 2);
}

#[test]
fn a_callers_bound_holds_until_it_fetches() {
    let mut world = World::new(options());
    let mut caller = world.pipeline().caller(2);
    caller.try_submit(Ask::Read(1), 1, Group).unwrap();
    let mut calls: Vec<_> = (2..5).map(|tag| caller.prepare(Ask::Read(1), tag, Group)).collect();
    assert_eq!(caller.try_submit_many(&mut calls), Ok(1));
    assert_eq!(calls.iter().map(Call::tag).collect::<Vec<_>>(), [3, 4]);
    let full = caller.try_submit(Ask::Read(1), 9, Group);
    assert!(matches!(full, Err(NotSubmitted::Full(Ask::Read(1)))), "{full:?}");
    world.settle();
    assert_eq!(caller.in_flight(), 2);
    let mut replies = Vec::new();
    caller.take(&mut replies);
    assert_eq!((replies.len(), caller.in_flight()), (2, 0));
    assert_eq!(caller.try_submit_many(&mut calls), Ok(2));
}

#[test]
fn a_full_input_queue_says_so() {
    let mut options = options();
    options.queue_max.transactions = 2;
    let mut world = World::new(options);
    world.submit(1, Ask::Read(1), Group);
    world.submit(2, Ask::Read(1), Group);
    let full = world.caller.try_submit(Ask::Read(1), 3, Group);
    assert!(matches!(full, Err(NotSubmitted::Full(_))), "{full:?}");
    world.step(Execution);
    world.submit(3, Ask::Read(1), Group);
    assert_eq!(world.pipeline().statistics().input_queue.transactions, 1);
}

#[test]
fn a_caller_that_is_gone_costs_nobody_anything() {
    let mut world = World::new(options());
    let mut gone = world.pipeline().caller(10);
    gone.try_submit(Ask::Add(7, 1), 1, Group).unwrap();
    world.execute();
    drop(gone);
    // The place is used again; the old owner's reply is not the new one's.
    let mut next = world.pipeline().caller(10);
    next.try_submit(Ask::Add(7, 1), 2, Group).unwrap();
    world.settle();
    let mut replies = Vec::new();
    next.take(&mut replies);
    assert_eq!(replies, [durable(2, 2)]);
}

#[test]
fn closures_are_called_back_and_one_that_panics_is_dropped() {
    let mut world = World::new(options());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let sink = move |tag, reply: Reply<u64>| {
        assert!(tag != 13, "unlucky");
        kept.lock().unwrap().push((tag, reply));
    };
    let submitter = world.pipeline().register(Arc::new(sink));
    for tag in [1, 2] {
        submitter.try_submit(Ask::Add(7, 1), tag, Group).unwrap();
    }
    world.settle();
    assert_eq!(*seen.lock().unwrap(), [durable(1, 1), durable(2, 2)]);
    submitter.try_submit(Ask::Add(7, 1), 13, Group).unwrap();
    world.submit(3, Ask::Add(7, 1), Group);
    world.settle();
    submitter.try_submit(Ask::Add(7, 1), 14, Group).unwrap();
    world.settle();
    assert_eq!(world.replies(), [durable(3, 4)]);
    assert_eq!(seen.lock().unwrap().len(), 2, "its sink is gone");
}

#[test]
fn closing_answers_and_seals_what_is_under_way() {
    let mut world = World::new(options());
    for tag in 0..10 {
        world.submit(tag, Ask::Add(7, 1), if tag % 2 == 0 { Group } else { Async });
    }
    let log = world.log.clone();
    let (closed, replies) = world.close();
    assert_eq!(replies.len(), 10);
    assert!(closed.poison.is_none() && closed.log.is_some());
    assert_eq!(closed.executor.unwrap().balances, replayed(&log.durable()));
    assert_eq!(log.with(|medium| (medium.seals, medium.durable, medium.transactions)), (1, 2, 10));
    assert_eq!(closed.statistics.replies, 10);
}

#[test]
fn a_closed_pipeline_takes_nothing() {
    let mut world = World::new(options());
    world.pipeline().shut();
    let refused = world.caller.try_submit(Ask::Read(1), 1, Group);
    assert!(matches!(refused, Err(NotSubmitted::Refused(_, Refusal::Closed))), "{refused:?}");
    assert_eq!(world.caller.call(Ask::Read(1), Group), Reply::Refused(Refusal::Closed));
    assert_eq!(world.caller.try_submit_many(&mut Vec::new()), Err(Refusal::Closed));
}
