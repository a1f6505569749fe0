//! Command logging: procedures that a log knows by name, their arguments as bytes, and running a log again after a
//! restart.
//!
//! ```text
//!   call(procedure, number, store, input)              recover(disk, …, procedures)
//!        │ the store's log gets number and arguments        │ loaded rows: replayed by slot
//!        ▼                                                  ▼ then each command, one by one:
//!   Procedure::call ──► the store keeps the command    number ─► procedure ─► arguments ─► call
//!                       if it wrote and committed           it commits and writes, or recovery stops
//! ```
//!
//! Running a procedure again leaves what it left the first time, because everything it depends on is
//! in its input and in the rows before it: it reads no clock and draws no random number, the order
//! is the log's, and new rows get the same slots as before. A procedure that violates this is detected
//! when it ends differently. The log names a procedure with its *version*: code that
//! would do something else with the same arguments is another version, and the old version stays
//! registered as long as a log has commands of it.
//!
//! | file | contains |
//! |---|---|
//! | `arguments.rs` | inputs as bytes |
//! | `values.rs` | numbers, texts, lists and tuples as bytes |
//! | `procedures.rs` | the procedures that a log may name |
//! | `replay.rs` | a store from a log |
//!
//! Not here: what entries look like (storage `command_log/`), groups and files (storage
//! `value_log/`), the stage that writes them: it is the same for both logs
//! ([`crate::pipeline::ValueLogGroups`]).

mod arguments;
mod procedures;
mod replay;
mod values;

pub use arguments::{Arguments, BadArguments, Decoder, Encoder};
pub use procedures::{CommandStore, ProcedureNumbers, Procedures, call, log_bytes_max, name};
pub use replay::{Recovered, recover};

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
