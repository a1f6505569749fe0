//! What a paged store is built of; the profiles themselves are in `profile/paged.rs`.

use super::{Directory, RowAccess, Sessions, Sharing};
use crate::latch::Latching;
use crate::lock::Locking;
use crate::log::Logging;
use crate::paged::btree::KeyFormat;

/// The components a paged store is built of.
pub trait PagedProfile: 'static {
    /// S1: how keys are kept and compared.
    type Keys: KeyFormat;
    /// S2, S3, S4: the log, which is called with every change.
    type Log: Logging;
    /// S5: whether transactions lock rows.
    type Locks: Locking;
    /// S6: whether structures are latched; how sessions share a database follows from it.
    type Latching: Latching + Sharing;
    /// S7: how a table or an index is found at each call.
    type Directory: Directory;
    /// S8, S9: how large pages are and how they are reached.
    type Pages: RowAccess<<Self::Log as Logging>::Ahead>;
    /// S10: whether transactions are registered.
    type Sessions: Sessions<Self::Latching>;
    /// Which switches are on.
    const SWITCHES: Switches;
}

/// Which of the eleven switches of LG-S1 … LG-S11 are on, in the paper's order.
pub type Switches = [bool; 11];
