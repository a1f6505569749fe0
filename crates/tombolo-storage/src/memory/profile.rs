//! The components of a memory store as types; the profiles made of them are in `profile/`.

use super::log::Log;
use super::undo::Undo;

/// The components a memory store is built of.
pub trait MemoryProfile: 'static {
    /// The profile's name on the command line.
    const NAME: &'static str;
    /// How changes are taken back.
    type Undo: Undo + Send;
    /// The log, which is called with every change, for durability.
    type Log: Log + Send;
}
