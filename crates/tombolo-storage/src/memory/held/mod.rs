//! Held parts: the parts of undecided transactions over several islands in a memory store.
//!
//! ```text
//!   executed through Guarded ──commit──► set aside: Part { changes, locks } ──Locks::acquire──► held
//!                                                                                                │
//!         committed ◄── make, in a transaction ──┬── Locks::release ◄─────────── decided ────────┘
//!           aborted ◄────────────── nothing ─────┘
//! ```
//!
//! A held part changes nothing in place: the store has only committed rows, and code that reads rows need not know of
//! held parts. A part consists of a value, [`Changes`], and locks (docs/decisions/0046). While no part is held,
//! transactions call the store itself, and held parts cost no instruction.
//!
//! Read `set_aside.rs` and `make.rs` (changes), `lock.rs` and `locks.rs` (which locks exclude each other), `guard.rs`
//! (what an access locks), `guarded.rs` (the calls), `witness.rs` (observing their rows). Not here: where parts are
//! kept, decisions, waiting, all of which are the engine's. While a part is held, no table, index or column may be
//! added or dropped, because the part's locks do not cover it.

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
