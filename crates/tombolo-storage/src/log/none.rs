//! S2, S3 and S4 off: no log, no numbers. Every call compiles to nothing.

use super::{Change, LogError, LogSettings, LogUsage, Logging, UndoRecord};
use crate::disk::Disk;
use crate::error::Error;
use crate::paged::heap::Stamp;
use crate::paged::page::{Page, PageId, PageSize};
use crate::paged::pool::NoWriteAhead;
use crate::store::Damage;

/// No log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Logging for NoLog {
    const RECORDS: bool = false;
    const NUMBERS: bool = false;

    type Ahead = NoWriteAhead;
    type Transaction = ();

    fn create(_: LogSettings, _: Option<&dyn Disk>) -> Result<Self, LogError> {
        Ok(Self)
    }

    fn open(_: LogSettings, _: Option<&dyn Disk>) -> Result<Self, LogError> {
        Ok(Self)
    }

    fn ahead(&self) -> NoWriteAhead {
        NoWriteAhead
    }

    #[inline(always)]
    fn begin(&self, (): &mut (), _: u64) {}

    #[inline(always)]
    fn change(&self, (): &mut (), _: Change, _: &[u8], _: &[u8]) -> Result<Stamp, Error> {
        Ok(None)
    }

    #[inline(always)]
    fn page_images<S: PageSize>(&self, _: &[Page<'_, S>], _: &[PageId]) -> Result<Stamp, Error> {
        Ok(None)
    }

    #[inline(always)]
    fn commit(&self, (): &mut ()) -> Result<u64, Error> {
        Ok(0)
    }

    #[inline(always)]
    fn harden(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn newest(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn next_undo(&self, (): &mut (), _: &mut UndoRecord) -> bool {
        false
    }

    #[inline(always)]
    fn compensate(&self, (): &mut (), _: Change, _: &[u8], _: &[u8]) -> Result<Stamp, Error> {
        Ok(None)
    }

    #[inline(always)]
    fn end_abort(&self, (): &mut ()) -> Result<(), Error> {
        Ok(())
    }

    fn usage(&self) -> LogUsage {
        LogUsage::default()
    }

    fn check(&self) -> Vec<Damage> {
        Vec::new()
    }

    fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}

// What takes the place of a log must leave nothing behind.
const _: () = assert!(size_of::<NoLog>() == 0 && size_of::<<NoLog as Logging>::Transaction>() == 0);
