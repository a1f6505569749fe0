//! Islands that are processes, whichever store they have: each is the program's own file, started again (ISL-2,
//! ISL-11).
//!
//! ```text
//!   program: callers, supervision                             the same program again, once for each island
//!   ┌───────────────────────────────────┐      links       ┌──────────────────────────────────────────────┐
//!   │ call ─► seat ─► sleeps            │ ◄──────────────► │ receiving ─► an island ─► sending            │
//!   │ supervisor: one thread an island  │                  └──────────────────────────────────────────────┘
//!   └───────────────────────────────────┘ ◄──────────────►  …
//! ```
//!
//! | file | contains |
//! |---|---|
//! | `declared.rs` | the procedures that a program declares |
//! | `own.rs` | the database's process: starting those of its islands, and ending them |
//! | `seat.rs` | the calls that wait for an island's answers |
//! | `line.rs` | its link, and which thread reads what arrives |
//! | `reading.rs` | what arrives, handed on |
//! | `supervisor.rs` | processes started, linked with each other, and started again |
//! | `silence.rs` | whether a process hangs |
//! | `host.rs` | the process of an island |
//! | `outward.rs` | what it sends |
//! | `wire.rs`, `errors.rs` | messages and errors as bytes |
//!
//! Not here: what an island is, and what it runs (`islands/process/`, `paged/islands/process/`).

use std::ffi::OsString;
use std::time::Duration;

use tombolo_engine::command_log::{Arguments, Decoder, Encoder};
use tombolo_engine::link::LinkKind;

use crate::error::Error;

pub(crate) mod declared;
pub(crate) mod errors;
pub(crate) mod host;
pub(crate) mod line;
pub(crate) mod outward;
pub(crate) mod own;
mod reading;
pub(crate) mod seat;
mod silence;
pub(crate) mod supervisor;
pub(crate) mod wire;

/// In the environment of a process that is an island. Programs of this repository take what begins with `TOMBOLO_` for
/// settings.
const VARIABLE: &str = "ISLAND_OF_TOMBOLO";

/// How long the process of an island may be silent by default. Too short a time costs a restart with recovery, too
/// long a time only the waiting callers of one island.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Below that a busy machine would look like a process that hangs.
const SILENCE_MIN: Duration = Duration::from_millis(100);

/// How processes are started and linked.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSettings {
    /// Arguments of the program, instead of those that it was started with.
    pub(crate) arguments: Option<Vec<OsString>>,
    /// How long one may be silent.
    pub(crate) silence_max: Option<Duration>,
    pub(crate) link: LinkKind,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { arguments: None, silence_max: Some(SILENCE_MAX), link: LinkKind::Unix }
    }
}

impl ProcessSettings {
    /// Refuses what cannot be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.silence_max.is_some_and(|time| time < SILENCE_MIN) {
            let what = format!("silence_max is at least {SILENCE_MIN:?}, or None");
            return Err(Error::Setting(what));
        }
        if !self.link.has_halves() {
            let kind = self.link.name();
            let what = format!(
                "islands in processes are not linked by {kind}: one thread receives while others send; choose unix, \
                 tcp, pipe or fifo"
            );
            return Err(Error::Setting(what));
        }
        Ok(())
    }
}

/// The bytes of a value.
pub(crate) fn encoded(value: &impl Arguments) -> Vec<u8> {
    let mut bytes = vec![0; value.bytes_max()];
    let mut out = Encoder::new(&mut bytes);
    value.encode(&mut out);
    let length = out.len();
    bytes.truncate(length);
    bytes
}

/// The value in these bytes; `None` if they are none of its type.
pub(crate) fn decoded<T: Arguments>(bytes: &[u8]) -> Option<T> {
    let mut from = Decoder::new(bytes);
    let value = T::decode(&mut from).ok()?;
    from.end().ok().map(|()| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_all_of_its_bytes() {
        let value = (7u64, String::from("Trave"), None::<i32>);
        let mut bytes = encoded(&value);
        assert_eq!(decoded(&bytes), Some(value));
        bytes.push(0);
        assert_eq!(decoded::<(u64, String, Option<i32>)>(&bytes), None);
    }
}
