//! S2, S3 and S4 off: no log, no numbers. Every call compiles to nothing.

use super::{Change, LogError, LogSettings, Logging};
use crate::disk::Disk;
use crate::error::Error;
use crate::paged::page::PageSize;
use crate::paged::pool::NoWriteAhead;
use crate::paged::step::{Stamp, Step};
use crate::sync::Arc;

/// No log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Logging for NoLog {
    const RECORDS: bool = false;
    const NUMBERS: bool = false;

    type Ahead = NoWriteAhead;
    type Transaction = ();

    fn create(_: LogSettings, _: Option<Arc<dyn Disk>>) -> Result<Self, LogError> {
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
    fn step<S: PageSize>(&self, _: &Step<'_, S>) -> Result<Stamp, Error> {
        Ok(None)
    }

    #[inline(always)]
    fn commit(&self, (): &mut ()) -> Result<u64, Error> {
        Ok(0)
    }
}

// What takes the place of a log must leave nothing behind.
const _: () = assert!(size_of::<NoLog>() == 0 && size_of::<<NoLog as Logging>::Transaction>() == 0);
