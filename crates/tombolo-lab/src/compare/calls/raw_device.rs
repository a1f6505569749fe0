//! The device without an engine: a call writes as many bytes as our log does for one, and forces them
//! to the device.
//!
//! The file is written over beforehand and reached past the system's cache, like a segment of the
//! log; threads that call write different places of it. Not here: the file (`files/raw_flush.rs`).

use tombolo_storage::disk::OsDisk;

use super::{Caller, Engine, Opening};
use crate::compare::made;
use crate::failure::{Blamed, Failure};
use crate::files::{GROUP_HEADER_BYTES, RawFile};

pub(super) const NAME: &str = "raw-device";

/// A file on the device.
pub(super) struct RawDevice {
    disk: OsDisk,
    file: RawFile,
}

impl RawDevice {
    /// A file for writes of `record_bytes` bytes of records, with a group's header in front.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn open(opening: &Opening<'_>, record_bytes: u64) -> Result<Self, Failure> {
        let disk = OsDisk::open(made(opening.directory)?).or_environment()?;
        let file = RawFile::create(&disk, record_bytes + GROUP_HEADER_BYTES).or_environment()?;
        Ok(Self { disk, file })
    }

    /// Bytes of a write.
    pub(super) const fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

impl Engine for RawDevice {
    fn version(&self) -> &str {
        ""
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut &*self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        Ok(None)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Self { disk, file } = *self;
        file.remove(&disk).or_environment()
    }
}

impl Caller for &RawDevice {
    fn transfer(&mut self, _: i32, _: i32, _: i64) -> Result<(), Failure> {
        self.file.flush().or_environment()
    }

    fn read(&mut self, _: i32) -> Result<i64, Failure> {
        Err(Failure::check("the device has no accounts"))
    }
}
