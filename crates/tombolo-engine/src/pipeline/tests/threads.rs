//! The whole pipeline on threads, in every spread: nothing is lost, callers wait and are woken,
//! closing while busy, stages that break.

use super::*;
use crate::clock::SystemClock;
use crate::pipeline::stage_loop::StageLoop;
use crate::threads::on_each;
use Durability::{Async, Group, Sync};

const SPREADS: [Spread; 6] =
    [Spread::One, Spread::Coalesced, Spread::Two, Spread::Carried, Spread::Callers, Spread::Each];

/// Small queues, so that every stage waits for every other.
fn tight(spread: Spread) -> Options {
    Options {
        spread,
        queue_max: Load { transactions: 16, bytes: 1 << 20 },
        batch_transactions_max: 5,
        output_stages: 2,
        spin_ns: 2_000,
        ..options()
    }
}

fn start(options: Options) -> (Pipeline<Accounts>, HandLog) {
    let log = HandLog::new();
    let builder = Builder::new(Accounts::default(), options).log(Box::new(log.clone()));
    (builder.start(Arc::new(SystemClock::new())).unwrap(), log)
}

/// Runs `work` next to a thread that steps the callers' own stages, if there are any, and closes.
fn with_own_stages(
    pipeline: Pipeline<Accounts>,
    work: impl FnOnce(&Pipeline<Accounts>) + Send,
) -> Closed<Accounts> {
    let own = pipeline.own_stages();
    std::thread::scope(|scope| {
        let stepping = scope.spawn(|| own.into_iter().for_each(StageLoop::run));
        work(&pipeline);
        pipeline.shut();
        stepping.join().unwrap();
    });
    pipeline.close()
}

#[test]
fn every_call_is_answered_once_and_in_order() {
    const CALLS: u64 = 2_000;
    for spread in SPREADS {
        let (pipeline, log) = start(tight(spread));
        let closed = with_own_stages(pipeline, |pipeline| {
            on_each(0..3_u64, |account| {
                let mut caller = pipeline.caller(50);
                let (mut sent, mut seen, mut replies) = (0, 0, Vec::new());
                while seen < CALLS {
                    while sent < CALLS
                        && caller.try_submit(Ask::Add(account, 1), sent, Group).is_ok()
                    {
                        sent += 1;
                    }
                    caller.wait(&mut replies).unwrap();
                    for reply in replies.drain(..) {
                        assert_eq!(reply, durable(seen, seen + 1), "{spread:?}");
                        seen += 1;
                    }
                    if caller.in_flight() == 0 && sent < CALLS {
                        caller.submit(Ask::Add(account, 1), sent, Group).unwrap();
                        sent += 1;
                    }
                }
            });
        });
        let balances: BTreeMap<u64, u64> = (0..3).map(|account| (account, CALLS)).collect();
        assert_eq!(closed.executor.unwrap().balances, balances);
        assert_eq!(replayed(&log.durable()), balances);
        let statistics = closed.statistics;
        assert_eq!((statistics.executed, statistics.replies), (3 * CALLS, 3 * CALLS));
        assert!(statistics.busy.execution_ns > 0 && statistics.busy.logging_ns > 0);
    }
}

#[test]
fn lone_calls_of_every_kind_come_back() {
    for spread in SPREADS {
        let (pipeline, log) = start(tight(spread));
        with_own_stages(pipeline, |pipeline| {
            let mut caller = pipeline.caller(1);
            for n in 1..=50 {
                assert_eq!(caller.call(Ask::Add(1, 1), Group), Reply::Durable(Ok(2 * n - 1)));
                let durable = replayed(&log.durable())[&1];
                assert!(durable > 2 * (n - 1), "an answer left before it was durable");
                assert_eq!(caller.call(Ask::Add(1, 1), Sync), Reply::Durable(Ok(2 * n)));
            }
            assert_eq!(caller.call(Ask::Add(2, 1), Async), Reply::PreCommitted(Ok(1)));
            assert_eq!(caller.call(Ask::Read(2), Group), Reply::Durable(Ok(1)));
            let panicked = caller.call(Ask::Panic, Group).outcome().unwrap().unwrap_err();
            assert_eq!(panicked, Failure::Panicked("asked to panic".into()));
        });
    }
}

#[test]
fn an_async_call_becomes_durable_by_itself() {
    let mut options = tight(Spread::Two);
    options.group.async_loss_ns_max = 10_000_000;
    let (pipeline, log) = start(options);
    let mut caller = pipeline.caller(1);
    assert_eq!(caller.call(Ask::Add(2, 1), Async), Reply::PreCommitted(Ok(1)));
    while log.durable().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(replayed(&log.durable()), [(2, 1)].into());
}

#[test]
fn closing_while_busy_answers_what_was_taken_in() {
    for spread in SPREADS {
        let (pipeline, log) = start(tight(spread));
        let answered = Mutex::new(0);
        let closed = with_own_stages(pipeline, |pipeline| {
            let busy = |account: u64| {
                let mut caller = pipeline.caller(30);
                let mut replies = Vec::new();
                let mut own = 0;
                for tag in 0.. {
                    match caller.submit(Ask::Add(account, 1), tag, Group) {
                        Ok(()) => {}
                        Err(NotSubmitted::Full(_)) => caller.wait(&mut replies).unwrap(),
                        Err(NotSubmitted::Refused(_, refusal)) => {
                            assert_eq!(refusal, Refusal::Closed);
                            break;
                        }
                    }
                    own += replies.drain(..).count();
                    if account == 0 && own > 500 {
                        pipeline.shut();
                    }
                }
                while caller.in_flight() > 0 {
                    caller.wait(&mut replies).unwrap();
                }
                own += replies.len();
                *answered.lock().unwrap() += own as u64;
            };
            on_each(0..3, busy);
        });
        assert_eq!(closed.statistics.executed, *answered.lock().unwrap(), "{spread:?}");
        assert_eq!(replayed(&log.durable()), closed.executor.unwrap().balances);
    }
}

#[test]
fn a_failed_log_reaches_every_caller() {
    for spread in SPREADS {
        let (pipeline, log) = start(tight(spread));
        with_own_stages(pipeline, |pipeline| {
            on_each(0..3_u64, |account| {
                let mut caller = pipeline.caller(1);
                for n in 1.. {
                    if account == 0 && n == 100 {
                        let failure = GroupLogError::Failed("it burns".to_owned());
                        log.with(|medium| medium.fail_sync = Some(failure));
                    }
                    match caller.call(Ask::Add(account, 1), Group) {
                        Reply::Durable(Ok(balance)) => assert_eq!(balance, n),
                        Reply::Refused(refusal) => {
                            assert!(refusal.poisons() && refusal.to_string().contains("it burns"));
                            break;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
            assert_eq!(pipeline.poison().as_deref(), Some("it burns"));
        });
    }
}

#[test]
fn a_stage_that_breaks_leaves_nobody_waiting() {
    for spread in SPREADS {
        let executor = Accounts { breaks: true, ..Accounts::default() };
        let builder = Builder::new(executor, tight(spread)).log(Box::new(HandLog::new()));
        let pipeline = builder.start(Arc::new(SystemClock::new())).unwrap();
        let closed = with_own_stages(pipeline, |pipeline| {
            let mut caller = pipeline.caller(1);
            let reply = caller.call(Ask::Add(1, 1), Group);
            let Reply::Refused(Refusal::Unknown(reason)) = reply else { panic!("{reply:?}") };
            assert_eq!(&*reason, "the execution stage panicked: asked to break");
            let next = caller.call(Ask::Add(1, 1), Group);
            assert_eq!(next, Reply::Refused(Refusal::Poisoned(reason)));
        });
        assert!(closed.executor.is_none() && closed.poison.is_some());
    }
}

#[test]
fn dropping_a_pipeline_closes_it() {
    let (pipeline, log) = start(tight(Spread::Two));
    let mut caller = pipeline.caller(10);
    for tag in 0..10 {
        caller.try_submit(Ask::Add(1, 1), tag, Group).unwrap();
    }
    drop(pipeline);
    assert_eq!(replayed(&log.durable()), [(1, 10)].into());
}
