//! Calls of many types on their way through a pipeline that knows one.
//!
//! ```text
//!   Registered::call(input)                       Database::transaction(closure)
//!        │ an envelope from the procedure's pool        │ an envelope of its own
//!        └───────────────► Request { Box<dyn Envelope> } ◄──┘
//!                                    │ pipeline: the runner runs what is inside
//!                            Reply<Box<dyn Envelope>>  ─► [reply slots]: one slot per call under way
//!                                                             │ wakes the caller
//!        the answer is taken out; the envelope goes back ◄────┘
//! ```
//!
//! One box travels: the input lies in it on the way in, the outcome on the way out. No other thread can reach
//! it meanwhile, so the execution stage neither locks nor allocates nor frees for a call of a registered
//! procedure. Envelopes come from a pool per procedure and return to it.
//!
//! | file | holds |
//! |---|---|
//! | `envelope.rs` | what travels: bodies, envelopes, pools |
//! | `held.rs` | what an input holds outside itself |
//! | `runner.rs` | what the execution stage runs |
//! | `identified.rs` | calls with a request id: remembered, never run twice |
//! | `reply_slots.rs` | where replies wait |
//! | `waiting.rs` | threads that sleep until a reply is there |
//! | `pending.rs` | the caller's end of a call under way: waiting, polling, cancelling |
//! | `registered.rs` | procedures and closures under the caller's hand |
//! | `once.rs` | the same, for one call with a request id |
//! | `options.rs` | durability, deadline, log room of a call |

mod envelope;
mod held;
mod identified;
mod once;
mod options;
mod pending;
mod registered;
mod reply_slots;
mod runner;
mod waiting;

pub(crate) use envelope::{
    ClosureBody, Envelope, Finished, How, Otherwise, ProcedureBody, Ran, Request,
};
pub(crate) use identified::{
    Identified, Kept, OWN_PREFIX, REQUEST_LOG_BYTES_MAX, Requests, request_table,
};
pub(crate) use registered::register;
pub(crate) use reply_slots::{Answered, ReplySlots, Ticket};
pub(crate) use runner::{Counters, Runner};
pub(crate) use waiting::{block_on, on_database_thread, wait_a_moment};

pub use identified::Outcome;
pub use once::Once;
pub use options::{CallOptions, Durability, Early, EarlyError, PreCommitted, Promise, Settled};
pub use pending::Pending;
pub use registered::{NotSubmitted, Registered, Transactions};
