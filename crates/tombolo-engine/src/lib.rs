//! Tombolo's engine: *when* something happens, and on which thread.
//!
//! # The life of a transaction
//! 1. A caller submits a call ([`pipeline::Submitter::submit`], [`pipeline::Caller::call`]): a
//!    request, a tag, and the durability of its answer ([`pipeline::Durability`]). If the queue is full,
//!    the caller waits or gets an error.
//! 2. If requests arrive as bytes, an *input* stage decodes them
//!    ([`pipeline::Prepare::prepare`]).
//! 3. The *execution* stage takes all waiting calls with one lock, cuts them into batches, and
//!    reserves room in the log for a batch before its first transaction runs. It may let the
//!    executor prefetch the rows of the next transactions ([`pipeline::Executor::locate`]).
//! 4. [`pipeline::Executor::execute`] runs the batch: each request is a transaction of its own.
//!    [`procedure::Procedure::call`] gets the store and the input; if the log contains commands,
//!    [`command_log::call`] names the procedure first.
//! 5. [`transaction::execute`] begins a transaction on the store and opens its reading phase.
//! 6. The procedure looks up keys and pins rows ([`transaction::Reading`]). It may abort: there is nothing to
//!    undo, and the transaction ends when the procedure returns.
//! 7. `write()` ends the reading phase ([`transaction::Writing`]): rows are updated, created and
//!    deleted in place, index entries follow, and the store logs the changes.
//! 8. `commit` returns the answer ([`transaction::Committed`]); any other ending, such as a panic, is undone, or
//!    poisons a store without undo. The transaction is now *pre-committed*: later transactions see its
//!    changes, but they are not durable.
//! 9. [`pipeline::Batch::answer`] decides how the answer leaves: immediately, if everything it depends on is
//!    durable already, if the call is `async`, or if there is no log; otherwise it waits.
//! 10. The *logging* stage gathers batches into a group, writes it ([`pipeline::GroupLog::append`])
//!     and makes it durable ([`pipeline::GroupLog::sync`]); then the group's answers may leave. If
//!     either fails, nothing is acknowledged any more, and every answer has the reason.
//! 11. The *output* stage delivers all finished replies to each caller ([`pipeline::Sink::deliver`]). A
//!     reply's type shows which durability it has ([`pipeline::Reply`]).
//!
//! A waiting caller does this work itself if it finds a stage free (`pipeline/callers/carrying/mod.rs`): steps
//! 3 to 9 on its own stack, and step 10 for all waiting callers; steps 1, 2 and 11 are then omitted. The
//! stages' own threads run calls that no thread waits for, and more work than a caller should
//! do for others. An output stage exists only if the settings ask for one; otherwise each reply
//! is delivered by the stage that releases it.
//!
//! Next to that path a *checkpoint* stage has blocks copied from the rows between two batches and writes them
//! ([`pipeline::Builder::checkpoints`]), or applies durable changes to a second copy of the rows and writes that;
//! older log can then be reused.
//!
//! Without a pipeline — to measure a store alone — steps 4 to 8 are a loop of calls. The doors
//! (`clock`, `threads`, `rng`, `link`, `event`, `pipeline::remote_checkpoint`) are the only access to time,
//! concurrency, randomness and descriptors.

pub mod checkpointing;
pub mod clock;
pub mod command_log;
pub mod event;
pub mod hints;
pub mod islands;
pub mod link;
pub mod look_ahead;
pub mod pipeline;
pub mod procedure;
#[cfg(not(loom))]
mod read_ahead;
#[cfg(not(loom))]
pub mod recovery;
pub mod requests;
pub mod rng;
pub mod settings;
pub mod threads;
pub mod trace;
pub mod transaction;
