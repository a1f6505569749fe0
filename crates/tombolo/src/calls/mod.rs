//! Calls of many types, sent through a pipeline that has one type of request.
//!
//! ```text
//!   Registered::call(input)                       Database::transaction(closure)
//!        │ an envelope from the procedure's pool        │ an envelope of its own
//!        └───────────────► Request { Box<dyn Envelope> } ◄──┘
//!                                    │ pipeline: the runner runs the envelope's content
//!                            Reply<Box<dyn Envelope>>  ─► [reply slots]: one slot per call under way
//!                                                             │ wakes the caller
//!        the answer is taken out; the envelope goes back ◄────┘
//! ```
//!
//! A single box carries the input in and the outcome out. No other thread can access
//! it meanwhile, so the execution stage neither locks nor allocates nor frees for a call of a registered
//! procedure. Envelopes come from a pool per procedure and return to it.
//!
//! | file | contains |
//! |---|---|
//! | `envelope.rs` | bodies, envelopes and their pools |
//! | `held.rs` | the size of the memory that an input owns |
//! | `runner.rs` | the store with the code that the execution stage runs on it |
//! | `later.rs` | calls that are answered later than the pipeline's reply |
//! | `identified.rs` | calls with a request id: remembered, never run twice |
//! | `reply_slots.rs` | the slots in which replies arrive |
//! | `waiting.rs` | threads that sleep until a reply arrives |
//! | `pending.rs` | a call under way, as its caller sees it: waiting, polling, cancelling |
//! | `registered.rs` | registered procedures and closures, ready to be called |
//! | `once.rs` | the same, for one call with a request id |
//! | `options.rs` | durability, deadline, log room of a call |

mod envelope;
mod held;
mod identified;
mod later;
mod once;
mod options;
mod pending;
mod registered;
mod reply_slots;
mod runner;
mod waiting;

pub(crate) use envelope::{
    Body, ClosureBody, Envelope, Finished, How, Otherwise, ProcedureBody, Ran, Request,
};
#[cfg(test)]
pub(crate) use envelope::{Lone, Registration};
pub(crate) use identified::{
    Identified, Kept, OWN_PREFIX, REQUEST_LOG_BYTES_MAX, Requests, request_table,
};
pub(crate) use later::{Later, LaterSlots};
pub(crate) use registered::{Started, Step, register};
pub(crate) use reply_slots::{Answered, ReplySlots, Ticket};
pub(crate) use runner::{
    Counters, Neighbour, OverIslands, Owed, Runner, Site, hold_to, run_guarded, unless_held,
};
pub(crate) use waiting::{OnDatabaseThread, block_on, on_database_thread, wait_a_moment};

pub use identified::Outcome;
pub use once::Once;
pub use options::{CallOptions, Durability, Early, EarlyError, PreCommitted, Promise, Settled};
pub use pending::Pending;
pub use registered::{NotSubmitted, Registered, Transactions};
