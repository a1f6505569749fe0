//! The meter: it is called where transactions and calls begin and end, and drives the counter in use.
//!
//! # The probe
//! One short fixed sequence, the same in every place (LG-38 used PAPI here, 535 instructions and
//! 1,350 cycles a time; this is five instructions where nothing is counted):
//!
//! ```text
//!     inc  calls[c]            on entering only: the probes in a count are known
//!     cmp  armed[c], TOGGLE
//!     jb   done                0: this boundary means nothing to this count
//!     je   toggle
//!     …                        2: read the native counter, out of line
//! toggle:
//!     lea  rax, TOGGLE         1: callgrind's client request
//!     xor  edx, edx
//!     <request>
//! done:
//! ```
//!
//! # Counting with callgrind
//! [`Meter::count`] arms the boundaries of transactions, and only those: they switch callgrind's
//! collecting on and off. Which instruction belongs to which call is found out afterwards, from the
//! program's debug information; the counted store contains no probe.
//!
//! Callgrind collects by basic blocks and looks whether it collects when a block is over: the block
//! that a switching-on request ends is counted, the block that a switching-off request ends is not.
//! Both are `lea, xor, request` here, because they are jumped to. So what a probe adds to a count
//! does not depend on the code around it, and is the same whole number everywhere. Empty
//! transactions are counted and dumped first, so that [`counts`](super::counts) can subtract it.
//!
//! # Counting natively
//! [`Meter::time`] arms all boundaries to read a [`Native`] counter; one run on a store with probes
//! gives all categories, less accurately, as the paper did it.
//!
//! # What it does not do
//! Calls do not nest, and it does not check that: a check would be in every count. It is not shared
//! between threads, and it does not know what a kind, a group or a store is.
//!
//! # Invariants
//! - Outside transactions that are counted nothing is armed.
//! - Every probe site reaches the meter through one register: keep it the first field of what
//!   holds it (`repr(C)`), or the address computation is counted with the call.

use super::client::{self, magic};
use super::hardware::Instructions;
use super::label::{self, Label};
use super::{Category, CounterError, Kind, Tally, tsc};
use std::arch::{asm, naked_asm};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io::Write as _;
use std::mem::offset_of;

/// The slot of the transaction's own boundaries, after those of the calls, which are their categories'.
const TRANSACTION: usize = Category::CALLS;
const SLOTS: usize = Category::CALLS + 1;

/// What a boundary does when it is reached. The probe compares with `ARMED_TOGGLE`.
const UNARMED: u8 = 0;
const ARMED_TOGGLE: u8 = 1;
const ARMED_CLOCK: u8 = 2;

/// The state that probes use.
#[repr(C)]
#[derive(Debug, Default)]
struct Hot {
    armed: Cell<[u8; SLOTS]>,
    entered: Cell<[u64; SLOTS]>,
}

/// A counter that is read natively.
#[derive(Debug)]
pub enum Native {
    /// The time-stamp counter.
    Tsc,
    /// The processor's instruction counter.
    Instructions(Instructions),
}

impl Native {
    /// Whether it is read at the calls of a transaction too: probes there would distort ticks.
    pub const fn is_of_calls(&self) -> bool {
        matches!(self, Self::Instructions(_))
    }
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Off,
    Callgrind,
    Native(Native, Probe),
    /// The native counter failed while a transaction ran.
    Failed(CounterError),
}

/// The native cost of empty probes, in the counter's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probe {
    /// The count of an empty transaction.
    pub transaction: f64,
    /// The cost of a call's probes within the call.
    pub inside_call: f64,
    /// The cost of a call's probes within the transaction, the above included.
    pub call: f64,
}

/// A native count: sums over all transactions, the cost of probes subtracted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativeCount {
    /// Whole transactions.
    pub whole: f64,
    /// By category, in the order of [`Category::ALL`]; they add up to `whole`.
    pub categories: [f64; Category::CALLS + 1],
    /// The counts.
    pub tally: Tally,
    /// The subtracted cost of a probe.
    pub probe: Probe,
}

/// The meter. Off until it is asked to count.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Meter {
    hot: Hot,
    /// The value of `armed` in a counted transaction.
    arming: Cell<[u8; SLOTS]>,
    /// `entered` after the last counted transaction.
    settled: Cell<[u64; SLOTS]>,
    sums: [Cell<u64>; SLOTS],
    only: Cell<Option<Kind>>,
    counted: Cell<bool>,
    mode: RefCell<Mode>,
}

/// The part of a probe after the count of entries.
///
/// The way to the native counter is a call that the compiler does not see, and that keeps every
/// register: were it a branch to Rust code (`asm!` with a `label`), all that lives across a probe
/// would be kept out of most registers, counted or not; that made the smallest transactions 7 %
/// longer.
macro_rules! boundary {
    () => {
        concat!(
            "cmp byte ptr [{meter} + {armed}], {toggle}\n",
            "jb 2f\n",
            "je 3f\n",
            "mov rax, {meter}\n",
            "mov edx, {slot}\n",
            "call {clock}\n",
            "jmp 2f\n",
            "3: lea rax, [rip + {request}]\n",
            "xor edx, edx\n",
            magic!(),
            "\n2:"
        )
    };
}

/// Calls [`clock`] for the meter in `rax` and the slot in `edx`, keeping all registers but those
/// two.
#[unsafe(naked)]
unsafe extern "C" fn clock_keeping_registers<const EXIT: bool>() {
    naked_asm!(
        // With the return address these are 64 bytes: the stack stays aligned for the call.
        ".irp r, rcx, rsi, rdi, r8, r9, r10, r11\npush \\r\n.endr",
        "sub rsp, 512",
        ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovdqu [rsp + 32 * \\i], ymm\\i\n.endr",
        "mov rdi, rax",
        "mov esi, edx",
        "call {clock}",
        ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovdqu ymm\\i, [rsp + 32 * \\i]\n.endr",
        "add rsp, 512",
        ".irp r, r11, r10, r9, r8, rdi, rsi, rcx\npop \\r\n.endr",
        "ret",
        clock = sym clock::<EXIT>,
    )
}

/// Reads the native counter at a boundary. It cannot unwind: a panic ends the process here.
extern "C" fn clock<const EXIT: bool>(meter: &Meter, slot: u32) {
    let now = meter.read_native();
    let sum = &meter.sums[slot as usize];
    // The sums wrap; the difference of the readings is what remains.
    sum.set(if EXIT { sum.get().wrapping_add(now) } else { sum.get().wrapping_sub(now) });
}

impl Meter {
    /// A meter that counts nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A call begins; `CALL` is its category, so that each probe knows its place at compile time.
    #[inline(always)]
    pub fn enter<const CALL: usize>(&self) {
        const { assert!(CALL < Category::CALLS) };
        self.enter_slot::<CALL>();
    }

    /// A call is over.
    #[inline(always)]
    pub fn exit<const CALL: usize>(&self) {
        self.exit_slot::<CALL>();
    }

    /// A transaction of `kind` begins: nothing before this is counted.
    #[inline(always)]
    pub fn transaction_begin(&self, kind: Kind) {
        self.arm(kind);
        self.enter_slot::<TRANSACTION>();
    }

    /// The transaction is over: nothing after this is counted.
    #[inline(always)]
    pub fn transaction_end(&self) {
        self.exit_slot::<TRANSACTION>();
        self.disarm();
    }

    #[inline(always)]
    fn enter_slot<const SLOT: usize>(&self) {
        // SAFETY: what is written through the shared reference are cells, at offsets of the meter
        // itself, SLOT being below SLOTS. The request is the one in `client`: it reads six words
        // of a static and writes `rdx`. The call keeps all registers but `rax` and `rdx`, gets the
        // stack as the ABI wants it (`nostack` is not promised), and a meter that lives on after
        // it.
        unsafe {
            asm!(
                "inc qword ptr [{meter} + {entered}]",
                boundary!(),
                meter = in(reg) &raw const *self,
                entered = const offset_of!(Self, hot.entered) + SLOT * size_of::<u64>(),
                armed = const offset_of!(Self, hot.armed) + SLOT,
                toggle = const ARMED_TOGGLE,
                slot = const SLOT,
                request = sym client::TOGGLE,
                clock = sym clock_keeping_registers::<false>,
                out("rax") _,
                out("rdx") _,
            );
        }
    }

    #[inline(always)]
    fn exit_slot<const SLOT: usize>(&self) {
        // SAFETY: as in `enter_slot`.
        unsafe {
            asm!(
                boundary!(),
                meter = in(reg) &raw const *self,
                armed = const offset_of!(Self, hot.armed) + SLOT,
                toggle = const ARMED_TOGGLE,
                slot = const SLOT,
                request = sym client::TOGGLE,
                clock = sym clock_keeping_registers::<true>,
                out("rax") _,
                out("rdx") _,
            );
        }
    }

    /// Out of line, and before anything is counted.
    #[inline(never)]
    fn arm(&self, kind: Kind) {
        self.counted.set(self.only.get().is_none_or(|only| only == kind));
        let arming = if self.counted.get() { self.arming.get() } else { [UNARMED; SLOTS] };
        self.hot.entered.set(self.settled.get());
        self.hot.armed.set(arming);
    }

    /// Out of line, and after everything is counted.
    #[inline(never)]
    fn disarm(&self) {
        if self.counted.get() {
            self.settled.set(self.hot.entered.get());
        }
        self.hot.armed.set([UNARMED; SLOTS]);
    }

    #[inline(always)]
    fn read_native(&self) -> u64 {
        let mut mode = self.mode.borrow_mut();
        match &mut *mode {
            Mode::Native(Native::Tsc, _) => tsc::read(),
            Mode::Native(Native::Instructions(instructions), _) => match instructions.read() {
                Ok(now) => now,
                Err(error) => {
                    *mode = Mode::Failed(error);
                    0
                }
            },
            Mode::Off | Mode::Callgrind | Mode::Failed(_) => 0,
        }
    }

    /// The sums over counted transactions since the last dump or start.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let settled = self.settled.get();
        Tally {
            transactions: settled[TRANSACTION],
            calls: std::array::from_fn(|slot| settled[slot]),
        }
    }

    fn reset(&self) {
        self.settled.set([0; SLOTS]);
        self.sums.iter().for_each(|sum| sum.set(0));
    }

    /// Counts only transactions of `only` from here on; all of them when it is `None`.
    pub fn only(&self, only: Option<Kind>) {
        self.only.set(only);
    }

    /// Counts nothing from here on; stops callgrind's instrumentation if it was on.
    pub fn stop(&self) {
        if let Mode::Callgrind = self.mode.replace(Mode::Off) {
            client::stop_instrumentation();
        }
        self.arming.set([UNARMED; SLOTS]);
        self.reset();
    }
}

/// Counting with callgrind.
impl Meter {
    /// Counts transactions from here on, in a process that runs under callgrind, and first what it
    /// costs to switch collecting on and off.
    ///
    /// # Errors
    /// When the process does not run under valgrind.
    ///
    /// # Panics
    /// When a transaction is open, or something is already being counted with callgrind.
    pub fn count(&self) -> Result<(), CounterError> {
        if !client::running_on_valgrind() {
            return Err(CounterError::NotUnderCallgrind);
        }
        assert_eq!(self.hot.armed.get(), [UNARMED; SLOTS], "no transaction is open");
        let counting = matches!(*self.mode.borrow(), Mode::Callgrind);
        assert!(!counting, "it counts once at a time");
        let mut arming = [UNARMED; SLOTS];
        arming[TRANSACTION] = ARMED_TOGGLE;
        self.arming.set(arming);
        self.reset();
        *self.mode.borrow_mut() = Mode::Callgrind;
        client::start_instrumentation();
        client::zero_stats();
        let only = self.only.replace(None);
        self.run_empty_transactions();
        self.dump_as(label::EMPTY_TRANSACTIONS);
        self.only.set(only);
        Ok(())
    }

    /// Hands the counts since the last dump over as those of `group` and starts again at zero.
    ///
    /// # Panics
    /// When nothing is being counted with callgrind, or `group` is not 1 to 64 ASCII letters,
    /// digits, `_`, `-` or `.`.
    pub fn dump(&self, group: &str) {
        assert!(label::is_group_name(group), "{group:?} cannot be the name of a group");
        let counting = matches!(*self.mode.borrow(), Mode::Callgrind);
        assert!(counting, "a dump needs a count with callgrind");
        self.dump_as(group);
    }

    fn dump_as(&self, group: &str) {
        // On the stack: an allocation here would change what the allocator does in the next group.
        // The longest label has 94 bytes.
        let mut name = [0; 128];
        let label = Label { group, transactions: self.tally().transactions };
        let fits = write!(&mut name[..], "{label}\0").is_ok();
        assert!(fits, "the name of a dump is bounded");
        client::dump_stats(CStr::from_bytes_until_nul(&name).unwrap_or_default());
        self.reset();
    }
}

/// How often the empty runs are made.
const EMPTY_RUNS: usize = 256;
/// Calls in the body of [`Meter::empty_calls`].
const EMPTY_CALLS_IN_A_ROW: usize = 8;

/// The cost of empty probes. Loops and choices stand outside of what is counted, and what is
/// counted is straight-line code, so that it is nothing but probes.
impl Meter {
    #[inline(never)]
    fn run_empty_transactions(&self) {
        for _ in 0..EMPTY_RUNS {
            self.transaction_begin(Kind(0));
            self.transaction_end();
        }
    }

    /// A transaction with nothing but empty calls in it.
    #[inline(never)]
    fn empty_calls(&self) {
        let empty_call = || {
            self.enter::<{ Category::Lookup as usize }>();
            self.exit::<{ Category::Lookup as usize }>();
        };
        self.transaction_begin(Kind(0));
        empty_call();
        empty_call();
        empty_call();
        empty_call();
        empty_call();
        empty_call();
        empty_call();
        empty_call();
        self.transaction_end();
    }

    /// The middle of many measurements of empty probes.
    fn native_probe(&self) -> Probe {
        let (mut transactions, mut with_calls, mut inside) = (vec![], vec![], vec![]);
        for _ in 0..EMPTY_RUNS {
            self.reset();
            self.transaction_begin(Kind(0));
            self.transaction_end();
            transactions.push(self.sums[TRANSACTION].get());
            self.reset();
            self.empty_calls();
            with_calls.push(self.sums[TRANSACTION].get());
            inside.push(self.sums[Category::Lookup as usize].get());
        }
        let [transaction, with_calls, inside] =
            [transactions, with_calls, inside].map(|mut runs| {
                runs.sort_unstable();
                runs[EMPTY_RUNS / 2] as f64
            });
        let calls = EMPTY_CALLS_IN_A_ROW as f64;
        Probe {
            transaction,
            inside_call: inside / calls,
            call: (with_calls - transaction).max(0.0) / calls,
        }
    }
}

/// Counting natively.
impl Meter {
    /// Reads `native` at every boundary from here on; at those of transactions only, where `calls`
    /// is false.
    ///
    /// # Errors
    /// When the counter cannot be read.
    pub fn time(&self, native: Native, calls: bool) -> Result<(), CounterError> {
        let mut arming = [if calls { ARMED_CLOCK } else { UNARMED }; SLOTS];
        arming[TRANSACTION] = ARMED_CLOCK;
        self.arming.set(arming);
        *self.mode.borrow_mut() = Mode::Native(native, Probe::default());
        let only = self.only.replace(None);
        let measured = self.native_probe();
        self.only.set(only);
        self.reset();
        match &mut *self.mode.borrow_mut() {
            Mode::Native(_, probe) => *probe = measured,
            mode => return Err(Self::failure(mode)),
        }
        Ok(())
    }

    /// The counts since the last call, or since [`Meter::time`].
    ///
    /// # Errors
    /// When the counter failed, or nothing was being counted natively.
    pub fn take(&self) -> Result<NativeCount, CounterError> {
        let probe = match &mut *self.mode.borrow_mut() {
            Mode::Native(_, probe) => *probe,
            mode => return Err(Self::failure(mode)),
        };
        let tally = self.tally();
        let sum = |slot: usize| self.sums[slot].get() as f64;
        let whole = sum(TRANSACTION)
            - probe.transaction * tally.transactions as f64
            - probe.call * tally.all_calls() as f64;
        let mut categories = [0.0; Category::CALLS + 1];
        for (slot, &calls) in tally.calls.iter().enumerate() {
            // Without probes in the calls their sum is 0 and must stay it.
            let timed = self.arming.get()[slot] == ARMED_CLOCK;
            categories[slot] =
                if timed { sum(slot) - probe.inside_call * calls as f64 } else { 0.0 };
        }
        categories[Category::Other as usize] = whole - categories.iter().sum::<f64>();
        self.reset();
        Ok(NativeCount { whole, categories, tally, probe })
    }

    fn failure(mode: &mut Mode) -> CounterError {
        match std::mem::take(mode) {
            Mode::Failed(error) => error,
            _ => CounterError::Damaged("nothing was counted natively".to_owned()),
        }
    }
}
