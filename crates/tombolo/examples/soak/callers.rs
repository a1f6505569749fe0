//! The threads that call: each call's answer, how long it took, and the number it carried.
//!
//! Not here: what a call does (`bank.rs`), what the figures mean (`judge.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tombolo::{Error, Pending};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::pause;

use crate::bank::{ACCOUNTS, Bank, MONEY, Transfer};
use crate::judge::{BEYOND_NS_MAX, Latencies, Slow};

/// Calls that a submitting thread has under way.
const UNDER_WAY: usize = 256;
/// Between two sums of all accounts.
const BETWEEN_AUDITS: Duration = Duration::from_millis(200);
/// Of so many transfers one is undone.
const TRANSFERS_PER_ABORT: u64 = 256;

/// What all threads share.
pub(crate) struct Field<'b> {
    pub(crate) bank: &'b Bank,
    pub(crate) clock: SystemClock,
    pub(crate) is_over: AtomicBool,
    /// The last call of each caller that was answered as durable.
    pub(crate) settled: Vec<AtomicI64>,
}

impl Field<'_> {
    fn is_running(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// The last call of each caller that was answered as durable by now.
    pub(crate) fn settled(&self) -> Vec<i64> {
        self.settled.iter().map(|last| last.load(Ordering::SeqCst)).collect()
    }

    /// Lets `part` of `all` pass, unless it is over before.
    pub(crate) fn wait_for(&self, all: Duration, part: f64) {
        let until_ns = self.clock.now_ns() + all.mul_f64(part).as_nanos() as u64;
        while self.is_running() && self.clock.now_ns() < until_ns {
            pause(Duration::from_millis(5));
        }
    }
}

/// The kinds of call a thread waits for, as results name them.
pub(crate) const KINDS: [&str; 3] = ["transfer", "early", "read"];

/// The results of a thread's calls.
pub(crate) struct CallResults {
    /// All that were answered, those that were to abort among them.
    pub(crate) calls: u64,
    /// The number of the last that committed.
    pub(crate) last: i64,
    /// By kind; of a submitting thread in the first place.
    pub(crate) latencies: [Latencies; 3],
    pub(crate) slow: Vec<Slow>,
    /// What ended its calls before it was over.
    pub(crate) fault: Option<String>,
}

impl CallResults {
    fn new() -> Result<Self, String> {
        let latencies = [Latencies::new()?, Latencies::new()?, Latencies::new()?];
        Ok(Self { calls: 0, last: 0, latencies, slow: Vec::new(), fault: None })
    }

    fn note(&mut self, kind: usize, begun_ns: u64, ended_ns: u64) {
        self.calls += 1;
        self.latencies[kind].record(ended_ns - begun_ns);
        if ended_ns - begun_ns > BEYOND_NS_MAX {
            self.slow.push(Slow { begun_ns, ended_ns });
        }
    }
}

/// A random transfer.
fn transfer(random: &mut Rng, caller: usize, call: i64) -> Transfer {
    let from = random.below(ACCOUNTS as u64) as i32;
    let other = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
    let to = if random.below(TRANSFERS_PER_ABORT) == 0 { from } else { other };
    Transfer { caller: caller as i32, call, from, to, cents: 1 + random.below(10_000) as i64 }
}

/// Calls and waits, one call after the other: transfers, early ones, reads.
pub(crate) fn call(field: &Field<'_>, caller: usize) -> Result<CallResults, String> {
    let (bank, mut random, mut results) =
        (field.bank, Rng::from_seed(caller as u64), CallResults::new()?);
    let mut begun_ns = field.clock.now_ns();
    while field.is_running() {
        let transfer = transfer(&mut random, caller, results.last + 1);
        let (kind, ended) = match random.below(10) {
            0..6 => (0, bank.transfer.call(transfer)),
            6..8 => {
                let ended = bank.early.call(transfer);
                (1, ended.map(|_| ()).map_err(Error::from))
            }
            _ => (2, bank.balance.call(transfer.from).map(|_| ())),
        };
        let ended_ns = field.clock.now_ns();
        results.note(kind, begun_ns, ended_ns);
        match ended {
            Ok(()) if kind == 2 => {}
            Ok(()) => results.last = transfer.call,
            Err(Error::Aborted(_)) if kind != 2 && transfer.aborts() => {}
            Err(error) => {
                results.fault = Some(format!("caller {caller}, call {}: {error}", transfer.call));
                break;
            }
        }
        if kind == 0 {
            field.settled[caller].store(results.last, Ordering::SeqCst);
        }
        begun_ns = ended_ns;
    }
    Ok(results)
}

/// A call under way.
struct UnderWay {
    call: i64,
    begun_ns: u64,
    pending: Pending<(), tombolo::Settled>,
}

/// Keeps many calls under way, whose answers it takes in their order.
pub(crate) fn submit(field: &Field<'_>, caller: usize) -> Result<CallResults, String> {
    let (mut random, mut results) = (Rng::from_seed(caller as u64), CallResults::new()?);
    let (mut under_way, mut next) = (VecDeque::with_capacity(UNDER_WAY), 1);
    loop {
        while field.is_running() && under_way.len() < UNDER_WAY {
            let mut transfer = transfer(&mut random, caller, next);
            if transfer.aborts() {
                transfer.to = (transfer.from + 1) % ACCOUNTS; // the next one's number is taken
            }
            let begun_ns = field.clock.now_ns();
            let pending = field.bank.transfer.submit(transfer);
            let pending = pending.map_err(|error| format!("caller {caller}: {error}"))?;
            under_way.push_back(UnderWay { call: next, begun_ns, pending });
            next += 1;
        }
        let Some(UnderWay { call, begun_ns, pending }) = under_way.pop_front() else {
            return Ok(results);
        };
        if let Err(error) = pending.wait() {
            results.fault = Some(format!("caller {caller}, call {call}, submitted: {error}"));
            return Ok(results);
        }
        results.calls += 1;
        results.latencies[0].record(field.clock.now_ns() - begun_ns);
        results.last = call;
        field.settled[caller].store(call, Ordering::SeqCst);
    }
}

/// Sums all accounts now and then, in one transaction; says how often.
///
/// # Errors
/// When money is missing, or has become more.
pub(crate) fn audit(field: &Field<'_>) -> Result<u64, String> {
    let mut audits = 0;
    while field.is_running() {
        let money = field.bank.money().map_err(|error| format!("audit: {error}"))?;
        if money != MONEY {
            return Err(format!("audit {audits}: {money} in all accounts, not {MONEY}"));
        }
        audits += 1;
        pause(BETWEEN_AUDITS);
    }
    Ok(audits)
}
