//! A simulated database as it is opened: its log, what is recorded in that, its image and its archive.
//!
//! | module | holds |
//! |---|---|
//! | `refused` | why it was not opened |
//! | `log` | the log's numbers; a log that was opened |
//! | `archive` | the log's archive |
//! | `image` | image, log and store, opened together |
//! | `buffer` | records as bytes |
//! | `recording` | what goes into the log |
//!
//! Not here: transactions, crashes.

pub(crate) mod archive;
mod buffer;
pub(crate) mod image;
pub(crate) mod log;
pub(crate) mod recording;
mod refused;

pub use buffer::ByteBuffer;
pub use log::OpenLog;
pub use recording::{Commands, Recording, StoreOf, Values};
pub use refused::Refused;
