//! Running from a log of commands: procedures that are known by name, their arguments as bytes, and
//! a log that is run again after a restart.
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
//! is the log's, and new rows get the slots they had. A procedure of which that is not true is found
//! out when it ends otherwise than before. Its *version* is part of what the log names: code that
//! would do something else with the same arguments is another version, and the old one stays
//! registered as long as a log holds commands of it.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | inputs as bytes |
//! | `values.rs` | numbers, texts, lists and tuples as bytes |
//! | `procedures.rs` | the procedures a log may name |
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
