//! Directories and disks: where the files of a run lie, databases with a log that lie in them, disks around
//! a disk.
//!
//! | file | holds |
//! |---|---|
//! | `place.rs`, `work_directory.rs` | the directory of a run's files, and one that goes with its owner |
//! | `open.rs` | opening what a process left behind, whatever ended it |
//! | `survey.rs` | looking at a log without changing it |
//! | `overlay.rs` | a disk on which what is written stays in memory |
//! | `log_disk.rs`, `timed_disk.rs` | two disks as one, one whose log is timed |
//! | `raw_flush.rs`, `raw_read.rs` | how long the device alone takes for a flush, or to read a page |
//!
//! Not here: what a log looks like (storage `value_log/`), what is in the rows.

mod log_disk;
mod open;
mod overlay;
mod place;
mod raw_flush;
mod raw_read;
mod survey;
mod timed_disk;
mod work_directory;

pub(crate) use log_disk::LogDisk;
pub use open::{Logged, Opened, open, open_directories};
pub(crate) use open::{disks, refused, restarting};
pub(crate) use overlay::OverlayDisk;
pub use place::{Medium, Place};
pub(crate) use place::{make_writable, unwritable, verify as verify_place};
pub use raw_flush::RawFlush;
pub(crate) use raw_flush::{GROUP_HEADER_BYTES, RawFile, measure as measure_raw_flush};
pub(crate) use raw_read::measure as measure_raw_read;
pub(crate) use survey::find;
pub use survey::{Surveyed, notice, survey};
pub use timed_disk::FlushTimes;
pub(crate) use timed_disk::TimedDisk;
pub use tombolo_engine::recovery::{Created, OpenOptions, Recovery, create};
pub use work_directory::WorkDirectory;
