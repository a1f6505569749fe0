//! Sessions of the paged store on real threads: what they saw is judged by what they were promised.
//!
//! One short history of each isolation level unless the environment asks for more (`cargo xtask histories`).
//!
//! Not here: what the transactions do (`callers/mod.rs`), drawn orders of their steps (`interleavings.rs`).

#![cfg(not(any(loom, shuttle)))]

mod callers;

use callers::{Caller, Draw, Sizes};
use tombolo_storage::disk::MemDisk;
use tombolo_storage::paged::store::Isolation;

const SESSIONS: i64 = 4;
const SIZES: Sizes = Sizes {
    keys: 40,
    keys_aside: 120,
    looks_again: false,
    pool_bytes: (1 + SESSIONS as usize) * 8 * 8192,
    isolation: Isolation::Serializable,
};

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable);
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Marsaglia's generator of 64 bits.
fn draw(seed: u64) -> Draw {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    Box::new(move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 32) % u64::from(below)) as u32
    })
}

/// Records histories and judges them.
fn histories(isolation: Isolation) {
    let histories = number("TOMBOLO_HISTORIES", 1);
    let transactions = number("TOMBOLO_TRANSACTIONS", 1_000);
    let (mut all, mut aborted) = (0, 0);
    for history in 0..histories {
        let seed = |session: i64| (history << 8) | (session as u64 + 1);
        let first = Caller::first(&MemDisk::new(), Sizes { isolation, ..SIZES }, draw(seed(0)));
        std::thread::scope(|scope| {
            for session in 1..=SESSIONS {
                let mut caller = first.another(session, draw(seed(session)));
                let own = transactions / SESSIONS as u64;
                scope.spawn(move || (0..own).for_each(|_| caller.random().expect("nothing fails")));
            }
        });
        let judged = first.judge();
        all += judged.transactions;
        aborted += judged.aborted;
        assert!(judged.is_decided, "history {history} leaves more open than the search decides");
    }
    println!("{isolation:?}: {histories} histories of {all} transactions, {aborted} aborted");
}

#[test]
fn sessions_on_threads_are_serializable() {
    histories(Isolation::Serializable);
}

#[test]
fn sessions_on_threads_read_what_is_committed() {
    histories(Isolation::ReadCommitted);
}
