//! Input and execution on the logging stage's thread: when they go there, and that no flush holds
//! them up.

use std::sync::Condvar;

use super::*;
use crate::clock::SystemClock;
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
        let thread = std::thread::current().name().unwrap().to_owned();
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

fn last(threads: &Threads) -> String {
    threads.lock().unwrap().last().unwrap().clone()
}

/// Calls until a call was executed on that thread.
fn call_until(caller: &mut Caller<Ask, u64>, threads: &Threads, thread: &str) {
    for _ in 0..100_000 {
        let Reply::Durable(Ok(_)) = caller.call(Ask::Add(1, 1), Group) else { panic!("refused") };
        if last(threads) == thread {
            return;
        }
    }
    panic!("nothing was executed on {thread}");
}

#[test]
fn a_lone_callers_calls_need_one_thread() {
    let (pipeline, threads, _, log) = start(Spread::OneOrTwo);
    let mut caller = pipeline.caller(1);
    call_until(&mut caller, &threads, "tombolo-logging");
    let answered = caller.call(Ask::Read(1), Group);
    drop(pipeline.close());
    let Reply::Durable(Ok(balance)) = answered else { panic!("{answered:?}") };
    assert_eq!(replayed(&log.durable()), [(1, balance)].into());
}

#[test]
fn a_flush_does_not_hold_execution_up() {
    let (pipeline, threads, gate, log) = start(Spread::OneOrTwo);
    let (mut lone, mut other) = (pipeline.caller(1), pipeline.caller(1));
    for _ in 0..3 {
        call_until(&mut lone, &threads, "tombolo-logging");
        let begun = gate.begun();
        gate.shut(true);
        lone.submit(Ask::Add(1, 1), 1, Group).unwrap();
        while gate.begun() == begun {
            std::thread::yield_now();
        }
        // The flush hangs: the call is executed all the same, on the stages' own thread.
        let executed = threads.lock().unwrap().len();
        other.submit(Ask::Add(2, 1), 2, Async).unwrap();
        while threads.lock().unwrap().len() == executed {
            std::thread::yield_now();
        }
        assert_eq!(last(&threads), "tombolo-execution");
        gate.shut(false);
        for (caller, tag) in [(&mut lone, 1), (&mut other, 2)] {
            let mut replies = Vec::new();
            caller.wait(&mut replies).unwrap();
            assert_eq!(replies.iter().map(|reply| reply.0).collect::<Vec<_>>(), [tag]);
        }
    }
    let closed = pipeline.close();
    assert_eq!(replayed(&log.durable()), closed.executor.unwrap().accounts.balances);
}

#[test]
fn two_threads_stay_two_where_the_settings_say_so() {
    let (pipeline, threads, ..) = start(Spread::Two);
    let mut caller = pipeline.caller(1);
    (0..50).for_each(|_| drop(caller.call(Ask::Add(1, 1), Group)));
    let threads = threads.lock().unwrap();
    assert!(threads.iter().all(|thread| thread == "tombolo-execution"), "{threads:?}");
}
