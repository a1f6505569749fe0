//! Tombolo's engine: *when* something happens, and on which thread.
//!
//! # The life of a transaction
//! 1. A caller puts a call in ([`pipeline::Submitter::submit`], [`pipeline::Caller::call`]): a
//!    request, a tag, and when its answer may leave ([`pipeline::Durability`]). A full queue makes
//!    it wait, or says so.
//! 2. Where requests arrive as bytes, an *input* stage makes them ready
//!    ([`pipeline::Prepare::prepare`]).
//! 3. The *execution* stage takes everything that waits with one lock, cuts it into batches, and
//!    reserves room in the log for a batch before its first transaction runs. It may let the
//!    executor find the rows of several transactions ahead ([`pipeline::Executor::locate`]).
//! 4. [`pipeline::Executor::execute`] runs the batch: each request is a transaction of its own.
//!    [`procedure::Procedure::call`] is given the store and the input; where the log holds commands,
//!    [`command_log::call`] names the procedure first.
//! 5. [`transaction::execute`] begins a transaction on the store and opens its reading phase.
//! 6. The procedure looks keys up and pins rows ([`transaction::Reading`]); it may abort, which
//!    undoes nothing and happens when it returns.
//! 7. `write()` ends the reading phase ([`transaction::Writing`]): rows are updated, created and
//!    deleted in place, index entries follow, the store's log gets the changes.
//! 8. `commit` makes the answer ([`transaction::Committed`]); any other way out — a panic before it, too —
//!    is undone, or poisons a store without undo. From here on only later transactions see the changes: the
//!    transaction is *pre-committed*.
//! 9. [`pipeline::Batch::answer`] decides how the answer leaves: immediately, when all it stands for is durable
//!    already, when the call is `async`, or when there is no log; else it waits.
//! 10. The *logging* stage gathers batches into a group, writes it ([`pipeline::GroupLog::append`])
//!     and makes it durable ([`pipeline::GroupLog::sync`]); then the group's answers may leave. If
//!     either fails, nothing is acknowledged any more, and every answer says why.
//! 11. The *output* stage hands each caller its replies ([`pipeline::Sink::deliver`]), all that are
//!     there then. A reply's type says what it waited for ([`pipeline::Reply`]).
//!
//! A caller that waits does this work itself where it finds a stage free (`pipeline/callers/carrying/mod.rs`): steps
//! 3 to 9 on its own stack, and step 10 for all that wait; then steps 1, 2 and 11 fall away. The
//! stages' own threads are for calls that no thread waits for, and for more work than a caller should
//! do for others. An output stage is there only where the settings ask for one: otherwise each reply
//! is handed out by the stage that lets it go.
//!
//! Next to that path a *checkpoint* stage installs what is durable into a second copy of the rows, and
//! writes that copy's blocks ([`pipeline::Builder::checkpoints`]), or has blocks copied from the rows between two
//! batches; then the log before it can go.
//!
//! Without a pipeline — to measure a store alone — steps 4 to 8 are a loop of calls. The doors
//! (`clock`, `threads`, `rng`, `link`, `event`, `pipeline::remote_checkpoint`) are the only ways to time, concurrency,
//! chance and descriptors.

pub mod checkpointing;
pub mod clock;
pub mod command_log;
pub mod event;
pub mod hints;
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
pub mod transaction;
