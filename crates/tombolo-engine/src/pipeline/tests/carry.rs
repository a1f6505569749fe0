//! Callers that carry: on which thread a call runs, which flushes, and that neither a flush nor a long
//! transaction holds up what need not wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Condvar;

use super::*;
use crate::clock::SystemClock;
use crate::threads::on_each;
use Durability::{Async, Group};

/// Which threads executed something.
type Threads = Arc<Mutex<Vec<String>>>;

/// Accounts that note on which thread they run.
struct Noting {
    accounts: Accounts,
    threads: Threads,
}

impl Executor for Noting {
    type Request = Ask;
    type Answer = u64;
    type Records = Notes;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, u64>) {
        let thread = own_name();
        self.threads.lock().unwrap().push(thread);
        self.accounts.execute(batch);
    }

    fn take_log(&mut self, into: &mut Notes) {
        self.accounts.take_log(into);
    }
}

/// A device that can be made to hang.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
    /// Flushes that began.
    begun: Mutex<u64>,
}

impl Gate {
    fn begun(&self) -> u64 {
        *self.begun.lock().unwrap()
    }

    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

struct Hanging {
    log: HandLog,
    gate: Arc<Gate>,
}

impl GroupLog for Hanging {
    fn append(&mut self, records: &[&[u8]], transactions: u64) -> Result<(), GroupLogError> {
        self.log.append(records, transactions)
    }

    fn sync(&mut self) -> Result<(), GroupLogError> {
        *self.gate.begun.lock().unwrap() += 1;
        let mut is_shut = self.gate.is_shut.lock().unwrap();
        while *is_shut {
            is_shut = self.gate.opened.wait(is_shut).unwrap();
        }
        self.log.sync()
    }

    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.append(&[], 0)?;
        self.sync()
    }

    fn room(&mut self) -> Room {
        self.log.room()
    }

    fn group_bytes_max(&self) -> u64 {
        self.log.group_bytes_max()
    }

    fn cost(&self) -> Cost {
        self.log.cost()
    }
}

fn start(spread: Spread) -> (Pipeline<Noting>, Threads, Arc<Gate>, HandLog) {
    let (threads, gate, log) = (Threads::default(), Arc::<Gate>::default(), HandLog::new());
    let executor = Noting { accounts: Accounts::default(), threads: threads.clone() };
    let device = Hanging { log: log.clone(), gate: gate.clone() };
    let mut options = Options { spread, ..options() };
    options.group.seal_ns_max = 60_000_000_000; // a seal is a flush, too
    let builder = Builder::new(executor, options).log(Box::new(device));
    (builder.start(Arc::new(SystemClock::new())).unwrap(), threads, gate, log)
}

/// This thread's name, as executors note it.
fn own_name() -> String {
    std::thread::current().name().unwrap_or("a caller").to_owned()
}

/// A transaction on the calling thread, if execution is free.
fn carry(carrier: &Carrier<Noting>, ask: Ask, durability: Durability) -> Option<Carried<u64>> {
    let terms = Terms { durability, log_bytes_max: 1_000 };
    carrier.run(terms, |noting| {
        let answer = noting.accounts.run(&ask).unwrap();
        (answer, noting.accounts.log.bytes.len())
    })
}

/// The outcome of a call once execution is free: the stage's own thread may have it for a moment.
fn when_free<T>(call: impl FnMut() -> Option<T>) -> T {
    std::iter::repeat_with(call).flatten().next().unwrap()
}

/// The outcome of a transaction that ran.
fn ran(carried: Carried<u64>) -> (u64, Stands) {
    match carried {
        Carried::Ran { outcome: Ok(answer), stands } => (answer, stands),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lone_callers_calls_run_on_its_thread() {
    let (pipeline, threads, _, log) = start(Spread::Carried);
    let mut caller = pipeline.caller(1);
    for n in 1..=50 {
        assert_eq!(caller.call(Ask::Add(1, 1), Group), Reply::Durable(Ok(n)));
        assert_eq!(log.syncs() as u64, n, "a flush each, before the answer");
    }
    let own = threads.lock().unwrap().iter().filter(|thread| **thread == own_name()).count();
    // All but what the stages' threads found while they started.
    assert!(own >= 45, "{own} of 50");
    let closed = pipeline.close();
    assert_eq!(replayed(&log.durable()), closed.executor.unwrap().accounts.balances);
}

#[test]
fn stages_keep_to_their_threads_where_the_settings_say_so() {
    let (pipeline, threads, ..) = start(Spread::Two);
    assert!(pipeline.carrier().is_none());
    let mut caller = pipeline.caller(1);
    (0..50).for_each(|_| drop(caller.call(Ask::Add(1, 1), Group)));
    let threads = threads.lock().unwrap();
    assert!(threads.iter().all(|thread| thread == "tombolo-execution"), "{threads:?}");
}

#[test]
fn what_need_not_wait_for_a_flush_does_not() {
    let (pipeline, _, gate, log) = start(Spread::Carried);
    let mut caller = pipeline.caller(1);
    drop(caller.call(Ask::Add(1, 1), Group));
    gate.shut(true);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pipeline.caller(1).call(Ask::Add(1, 1), Group));
        while gate.begun() < 2 {
            std::thread::yield_now();
        }
        // The device hangs: an early answer comes all the same, queued or carried.
        assert_eq!(caller.call(Ask::Add(2, 1), Async), Reply::PreCommitted(Ok(1)));
        let carrier = pipeline.carrier().unwrap();
        let second = when_free(|| carry(&carrier, Ask::Add(2, 1), Async));
        assert_eq!(ran(second), (2, Stands::PreCommitted));
        assert!(!waiting.is_finished());
        gate.shut(false);
        assert_eq!(waiting.join().unwrap(), Reply::Durable(Ok(2)));
    });
    let closed = pipeline.close();
    assert_eq!(replayed(&log.durable()), closed.executor.unwrap().accounts.balances);
}

#[test]
fn a_long_transaction_does_not_hold_a_promised_flush_up() {
    let (pipeline, _, _, log) = start(Spread::Carried);
    let carrier = pipeline.carrier().unwrap();
    let early = when_free(|| carry(&carrier, Ask::Add(1, 1), Async));
    assert_eq!(ran(early), (1, Stands::PreCommitted));
    let terms = Terms { durability: Async, log_bytes_max: 0 };
    // On another clock than the pipeline's: it is the logging stage's own thread that is awaited.
    let is_flushed = || {
        (0..20_000).any(|_| {
            std::thread::yield_now();
            crate::threads::pause(Duration::from_millis(1));
            log.syncs() > 0
        })
    };
    let carried = when_free(|| carrier.run(terms, |_| (u64::from(is_flushed()), 0)));
    assert_eq!(ran(carried).0, 1, "the first answer's group was flushed meanwhile");
}

#[test]
fn threads_that_carry_lose_nothing() {
    const CALLS: u64 = 3_000;
    let (pipeline, _, _, log) = start(Spread::Carried);
    on_each(0..4_u64, |thread| {
        let (carrier, mut caller) = (pipeline.carrier().unwrap(), pipeline.caller(1));
        for n in 1..=CALLS {
            let durability = if n % 3 == 0 { Async } else { Group };
            let answer = match carry(&carrier, Ask::Add(thread, 1), durability) {
                Some(Carried::Ran { outcome: Ok(answer), stands }) => {
                    if let Stands::From(position) = stands {
                        carrier.wait(position).unwrap();
                        assert!(log.durable().len() as u64 >= position);
                    }
                    answer
                }
                Some(other) => panic!("{other:?}"),
                None => match caller.call(Ask::Add(thread, 1), durability) {
                    Reply::Durable(Ok(answer)) | Reply::PreCommitted(Ok(answer)) => answer,
                    other => panic!("{other:?}"),
                },
            };
            assert_eq!(answer, n);
        }
    });
    let closed = pipeline.close();
    let balances = closed.executor.unwrap().accounts.balances;
    assert_eq!(balances, (0..4).map(|thread| (thread, CALLS)).collect());
    assert_eq!(replayed(&log.durable()), balances);
}

#[test]
fn calls_that_wait_go_first() {
    let mut world = World::new(Options { spread: Spread::Carried, ..options() });
    let carrier = world.pipeline().carrier().unwrap();
    world.submit(1, Ask::Add(1, 1), Group);
    let terms = Terms { durability: Group, log_bytes_max: 16 };
    let run = |accounts: &mut Accounts| {
        let answer = accounts.run(&Ask::Add(1, 1)).unwrap();
        (answer, accounts.log.bytes.len())
    };
    assert!(carrier.run(terms, run).is_none(), "a call waits");
    world.settle();
    let Some(Carried::Ran { outcome: Ok(2), stands: Stands::From(32) }) = carrier.run(terms, run)
    else {
        panic!("it runs behind the first, and waits for both")
    };
    assert_eq!(carrier.wait(32), Ok(()));
    let large = Terms { log_bytes_max: 2 * GROUP_BYTES_MAX, ..terms };
    assert!(carrier.run(large, run).is_none(), "refused behind the queue, with its reason");
}

#[test]
fn a_carried_panic_ends_its_own_transaction_only() {
    let world = World::new(Options { spread: Spread::Carried, ..options() });
    let carrier = world.pipeline().carrier().unwrap();
    let terms = Terms { durability: Group, log_bytes_max: 16 };
    let panicked: Option<Carried<()>> = carrier.run(terms, |_| panic!("asked to panic"));
    let Some(Carried::Ran { outcome: Err(why), stands: Stands::Durable }) = panicked else {
        panic!("{panicked:?}")
    };
    assert_eq!(why, Panicked("asked to panic".into()));
    let next = carrier.run(terms, |accounts| (accounts.run(&Ask::Add(1, 1)).unwrap(), 16));
    assert!(matches!(next, Some(Carried::Ran { outcome: Ok(1), stands: Stands::From(16) })));
    world.log.with(|medium| medium.fail_sync = Some(GroupLogError::Failed("gone".into())));
    assert_eq!(carrier.wait(16), Err(Refusal::Unknown("gone".into())));
    let refused: Option<Carried<()>> = carrier.run(terms, |_| unreachable!("nothing runs"));
    assert!(matches!(refused, Some(Carried::Refused(Refusal::Poisoned(_)))));
}

#[test]
fn a_stage_that_breaks_on_a_callers_thread_ends_all() {
    let (pipeline, _, _, _) = start(Spread::Carried);
    let mut caller = pipeline.caller(1);
    drop(caller.call(Ask::Add(1, 1), Group));
    let carrier = pipeline.carrier().unwrap();
    let terms = Terms { durability: Group, log_bytes_max: 16 };
    let broken = when_free(|| {
        carrier.run(terms, |noting| {
            noting.accounts.breaks = true;
            (noting.accounts.run(&Ask::Add(1, 1)).unwrap(), 16)
        })
    });
    assert!(matches!(broken, Carried::Refused(Refusal::Unknown(_))), "{broken:?}");
    let refused = caller.call(Ask::Read(1), Group);
    assert!(matches!(refused, Reply::Refused(Refusal::Poisoned(_))), "{refused:?}");
    assert!(pipeline.close().poison.is_some());
}

#[test]
fn a_thread_takes_several_pipelines_for_one_transaction() {
    let worlds = [(); 2].map(|()| World::new(Options { spread: Spread::Carried, ..options() }));
    let [first, second] = worlds.each_ref().map(|world| world.pipeline().carrier().unwrap());
    let terms = Terms { durability: Group, log_bytes_max: 16 };
    let add = |taken: &mut Taken<'_, Accounts>| {
        let accounts = taken.executor();
        (accounts.run(&Ask::Add(1, 1)).unwrap(), accounts.log.bytes.len())
    };
    for n in 1..=3 {
        let mut one = first.take(terms, WhileTaken::Sleep).unwrap().unwrap();
        let mut other = second.take(terms, WhileTaken::Spin).unwrap().unwrap();
        assert!(first.take(terms, WhileTaken::Leave).is_none(), "it is taken");
        let ((answer, bytes), (same, of_other)) = (add(&mut one), add(&mut other));
        assert_eq!((answer, same), (n, n));
        assert_eq!(other.end(of_other), Ok(Stands::From(16 * n)));
        assert_eq!(one.end(bytes), Ok(Stands::From(16 * n)));
        [&first, &second].iter().for_each(|carrier| carrier.wait(16 * n).unwrap());
    }
    // One that its owner does not end is given back.
    let failed = worlds[0].pipeline().statistics().failed;
    drop(first.take(terms, WhileTaken::Leave).unwrap());
    assert_eq!(worlds[0].pipeline().statistics().failed, failed + 1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _taken = second.take(terms, WhileTaken::Leave).unwrap().unwrap();
        panic!("asked to panic")
    }));
    assert!(panicked.is_err_and(|panic| panic.is::<&str>()));
    // Its stage is broken, and asked for no more.
    assert!(second.take(terms, WhileTaken::Leave).is_none());
    assert!(worlds[1].pipeline().poison().is_some_and(|why| why.contains("between its steps")));
    worlds[0].log.with(|medium| medium.fail_sync = Some(GroupLogError::Failed("gone".into())));
    let mut one = first.take(terms, WhileTaken::Leave).unwrap().unwrap();
    let (_, bytes) = add(&mut one);
    assert_eq!(one.end(bytes), Ok(Stands::From(64)));
    assert_eq!(first.wait(64), Err(Refusal::Unknown("gone".into())));
    assert!(matches!(first.take(terms, WhileTaken::Sleep), Some(Err(Refusal::Poisoned(_)))));
}

#[test]
fn a_pipeline_that_times_each_call_is_taken_all_the_same() {
    // Otherwise threads that only take pipelines, and queue nothing, would wait for ever.
    let options = Options { spread: Spread::Carried, slice_ns_max: 0, ..options() };
    let builder = Builder::new(Accounts::default(), options);
    let pipeline = builder.start(Arc::new(SystemClock::new())).unwrap();
    let (carrier, mut caller) = (pipeline.carrier().unwrap(), pipeline.caller(8));
    let terms = Terms { durability: Async, log_bytes_max: 0 };
    let times_each = || {
        let held = std::iter::repeat_with(|| carrier.execution.try_take()).flatten().next();
        let mut held = held.unwrap();
        let stage = held.stage();
        let times_each = stage.admit(terms).is_ok() && stage.admit_call(terms).is_err();
        let _ = held.give_back(); // all that was asked for is answered
        times_each
    };
    // A batch of several calls takes longer than no time at all.
    for _ in 0..1_000 {
        let mut calls = (0..8).map(|_| caller.prepare(Ask::Read(1), 0, Async)).collect();
        assert_eq!(caller.try_submit_many(&mut calls), Ok(8));
        let mut replies = Vec::new();
        while replies.len() < 8 {
            caller.wait(&mut replies).unwrap();
        }
        if times_each() {
            break;
        }
    }
    assert!(times_each(), "no batch had several calls");
    let taken = std::iter::repeat_with(|| carrier.take(terms, WhileTaken::Sleep));
    let taken = taken.take(100_000).flatten().next().unwrap().unwrap();
    assert_eq!(taken.end(0), Ok(Stands::Volatile));
}

#[test]
fn transactions_over_several_pipelines_in_a_row_are_counted() {
    let options = Options { spread: Spread::Carried, ..options() };
    let builder = Builder::new(Accounts::default(), options);
    let pipeline = builder.start(Arc::new(SystemClock::new())).unwrap();
    let carrier = pipeline.carrier().unwrap();
    let terms = Terms { durability: Async, log_bytes_max: 0 };
    let run = || {
        let taken = when_free(|| carrier.take(terms, WhileTaken::Sleep)).unwrap();
        let in_a_row = carrier.execution.for_several();
        assert_eq!(taken.end(0), Ok(Stands::Volatile));
        assert_eq!(carrier.execution.for_several(), 0, "it is given back");
        in_a_row
    };
    assert_eq!([run(), run(), run()], [1, 2, 3]);
    let call = |accounts: &mut Accounts| (accounts.run(&Ask::Read(1)).unwrap(), 0);
    let called = when_free(|| carrier.run(terms, call));
    assert!(matches!(called, Carried::Ran { .. }), "{called:?}");
    assert_eq!([run(), run()], [1, 2]);
}
