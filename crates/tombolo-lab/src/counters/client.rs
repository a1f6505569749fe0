//! Callgrind's client requests: by them a process under valgrind selects what is counted.
//!
//! A request is five instructions that do nothing on a processor (four rotations of `rdi` that add
//! up to 128 bits, and `xchg rbx, rbx`) and that valgrind recognises, `rax` pointing at the request
//! and its five arguments, `rdx` holding the answer to give outside valgrind. Outside valgrind
//! every request is harmless. Valgrind counts the five as one instruction.
//!
//! Written out here because the ready crates need nightly Rust or a C compiler, and because
//! [`meter`](super::meter) has to know exactly what a request costs. The numbers are those of
//! `valgrind.h` and `callgrind.h`, which are public interfaces.

use std::arch::asm;
use std::ffi::CStr;

/// A request's code and arguments, laid out as valgrind reads them.
pub(super) type Request = [u64; 6];

/// The five instructions, for use inside a larger `asm!`.
macro_rules! magic {
    () => {
        "rol rdi, 3\nrol rdi, 13\nrol rdi, 61\nrol rdi, 51\nxchg rbx, rbx"
    };
}
pub(super) use magic;

/// `VG_USERREQ__RUNNING_ON_VALGRIND`.
const RUNNING_ON_VALGRIND: u64 = 0x1001;
/// `VG_USERREQ_TOOL_BASE('C', 'T')`: callgrind's requests are numbered from here.
const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const ZERO_STATS: u64 = CALLGRIND + 1;
const TOGGLE_COLLECT: u64 = CALLGRIND + 2;
const DUMP_STATS_AT: u64 = CALLGRIND + 3;
const START_INSTRUMENTATION: u64 = CALLGRIND + 4;
const STOP_INSTRUMENTATION: u64 = CALLGRIND + 5;

/// The request that switches collecting on and off. A static: nothing is set up when it is made.
pub(super) static TOGGLE: Request = [TOGGLE_COLLECT, 0, 0, 0, 0, 0];

#[inline(always)]
fn make(request: &Request) -> u64 {
    let mut answer = 0;
    // SAFETY: natively the sequence leaves every register but the flags as it was. Valgrind reads
    // the six words behind `rax`, which live as long as the reference, and writes only `rdx`.
    unsafe {
        asm!(
            magic!(),
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

/// Whether valgrind runs this process.
#[must_use]
pub fn running_on_valgrind() -> bool {
    make(&[RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) != 0
}

/// Switches callgrind's instrumentation on. It throws valgrind's translations away: once per count.
pub fn start_instrumentation() {
    make(&[START_INSTRUMENTATION, 0, 0, 0, 0, 0]);
}

/// Switches callgrind's instrumentation off: what follows runs faster and is not counted.
pub fn stop_instrumentation() {
    make(&[STOP_INSTRUMENTATION, 0, 0, 0, 0, 0]);
}

/// Switches collecting on if it is off, off if it is on.
pub fn toggle_collect() {
    make(&TOGGLE);
}

/// Sets all counts to zero.
pub fn zero_stats() {
    make(&[ZERO_STATS, 0, 0, 0, 0, 0]);
}

/// Writes the counts since the last dump out under `name`, and sets them to zero.
///
/// # Panics
/// When `name` is longer than callgrind's buffer allows.
pub fn dump_stats(name: &CStr) {
    // Callgrind formats the name into 512 bytes on its stack without looking at its length.
    assert!(name.count_bytes() <= 400, "a dump's name has at most 400 bytes");
    make(&[DUMP_STATS_AT, name.as_ptr().addr() as u64, 0, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_harmless_without_valgrind() {
        assert!(!running_on_valgrind());
        start_instrumentation();
        toggle_collect();
        zero_stats();
        dump_stats(c"no reader reads this");
        toggle_collect();
        stop_instrumentation();
    }

    #[test]
    fn codes_are_those_of_callgrind_h() {
        assert_eq!(CALLGRIND, 0x4354_0000);
        assert_eq!(TOGGLE[0], 0x4354_0002);
    }
}
