//! The transport of calls, replies and buffers between callers and stages, and the signals that wake their threads.

pub(crate) mod call;
pub(crate) mod mailbox;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod seat;
pub(crate) mod signal;
pub(crate) mod sinks;
pub(crate) mod slots;
pub(crate) mod waiters;

pub(crate) use call::{Answered, CallerId, call_load, drop_guarded};
pub use call::{Call, Durability, Failure, Outcome, Refusal, Reply, guarded};
pub use mailbox::Mailbox;
pub(crate) use pool::Pool;
pub use queue::{Load, NotPut, Queue};
pub(crate) use seat::{Held, Seat};
pub use signal::Signal;
pub(crate) use sinks::Callers;
pub use sinks::{Sink, Tagged};
pub use slots::Slots;
pub(crate) use waiters::{Sleeper, Waiters};
