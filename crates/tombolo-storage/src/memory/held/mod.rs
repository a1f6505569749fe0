//! Held parts: what a memory store has of transactions over several islands that are not decided.
//!
//! ```text
//!   executed through Guarded ──commit──► set aside: Part { changes, locks } ──Locks::acquire──► held
//!                                                                                                │
//!         committed ◄── make, in a transaction ──┬── Locks::release ◄─────────── decided ────────┘
//!           aborted ◄────────────── nothing ─────┘
//! ```
//!
//! A held part changes nothing in place: the store has committed rows only, and what reads rows need not know of
//! it. What is left of it is a value, [`Changes`], and locks (docs/decisions/0046). While no part is held the store
//! itself runs, and nothing here costs an instruction.
//!
//! Read `set_aside.rs` and `make.rs` (changes), `lock.rs` and `locks.rs` (what excludes what), `guard.rs` (what an
//! access locks), `guarded.rs` (the calls), `witness.rs` (which rows they are of). Not here: where parts are kept,
//! decisions, waiting, all of which are the engine's. While a part is held no table, index or column may be added or
//! dropped, because its locks do not cover what is new.

mod changes;
mod guard;
mod guarded;
mod lock;
mod locks;
mod make;
mod raw;
mod sealed;
mod set_aside;
mod witness;

pub use changes::Changes;
pub use guard::Guard;
pub use guarded::Guarded;
pub use lock::{Lock, LockSet, Mode};
pub use locks::Locks;
pub use witness::{Access, RowPlace, Witness};

/// The part that a transaction over several islands has in one store, from its execution to its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it changes if it commits.
    pub changes: Changes,
    /// What it has locked until then.
    pub locks: LockSet,
}
