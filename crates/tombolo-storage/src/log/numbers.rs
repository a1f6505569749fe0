//! S3 off, S4 on: numbers without a log.
//!
//! A counter that advances by the length each record would have had, stamped on pages and kept by
//! transactions as ever. No latch, version or cache check uses such a number, so S4 can stand alone.

use super::record::{END_BYTES, change_bytes, control_bytes};
use super::{Change, LogError, LogSettings, Logging};
use crate::disk::Disk;
use crate::error::Error;
use crate::latch::{Counter as _, Latching};
use crate::paged::page::PageSize;
use crate::paged::pool::NoWriteAhead;
use crate::paged::step::{SpaceImage, Stamp, Step};
use crate::probe::{self, Counter};
use crate::sync::Arc;

/// Numbers without a log.
#[derive(Debug)]
pub struct Numbers<L: Latching> {
    next: L::Counter,
}

/// What a transaction keeps of its numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberedTransaction {
    /// The transaction's own number.
    pub id: u64,
    /// The number of its first change; 0 if there is none.
    pub first: u64,
    /// The number of its last change; 0 if there is none.
    pub last: u64,
}

impl NumberedTransaction {
    /// Notes a change.
    #[inline(always)]
    fn add(&mut self, lsn: u64) {
        if self.first == 0 {
            self.first = lsn;
        }
        self.last = lsn;
        probe::count(Counter::LsnWrites, 1);
    }
}

impl<L: Latching> Numbers<L> {
    #[inline(always)]
    fn take(&self, bytes: usize) -> u64 {
        self.next.advance(bytes as u64)
    }
}

impl<L: Latching> Logging for Numbers<L> {
    const RECORDS: bool = false;
    const NUMBERS: bool = true;

    type Ahead = NoWriteAhead;
    type Transaction = NumberedTransaction;

    fn create(settings: LogSettings, _: Option<Arc<dyn Disk>>) -> Result<Self, LogError> {
        Ok(Self { next: L::Counter::new(settings.first_lsn()) })
    }

    fn ahead(&self) -> NoWriteAhead {
        NoWriteAhead
    }

    #[inline(always)]
    fn begin(&self, transaction: &mut NumberedTransaction, id: u64) {
        *transaction = NumberedTransaction { id, first: 0, last: 0 };
    }

    #[inline(always)]
    fn change(
        &self,
        transaction: &mut NumberedTransaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error> {
        let lsn = self.take(change_bytes(change.kind, before.len() + after.len()));
        transaction.add(lsn);
        probe::count(Counter::LsnWrites, 1); // the page's
        Ok(Some(lsn))
    }

    #[inline(always)]
    fn changes<'a>(
        &self,
        transaction: &mut NumberedTransaction,
        changes: impl Iterator<Item = (Change, &'a [u8])>,
    ) -> Result<Stamp, Error> {
        let (mut bytes, mut newest) = (0, None);
        for (change, after) in changes {
            newest = Some(bytes);
            bytes += change_bytes(change.kind, after.len());
        }
        let Some(newest) = newest else { return Ok(None) };
        let first = self.take(bytes);
        transaction.add(first);
        transaction.last = first + newest as u64;
        probe::count(Counter::LsnWrites, 1); // the page's
        Ok(Some(transaction.last))
    }

    fn step<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error> {
        let (records, images) = (step.records(), step.images.len() + step.changed.len());
        probe::count(Counter::LsnWrites, records as u64);
        // In the order in which the log has them: images before what takes no more than a header.
        let sizes = (0..records).map(|at| match at {
            _ if at < step.made.len() => 0,
            _ if at < step.made.len() + images => S::BYTES,
            _ if at + 1 == records && step.space.is_some() => SpaceImage::BYTES,
            _ => 0,
        });
        Ok(sizes.map(|bytes| self.take(control_bytes(bytes))).last())
    }

    #[inline(always)]
    fn commit(&self, transaction: &mut NumberedTransaction) -> Result<u64, Error> {
        if transaction.last == 0 {
            return Ok(0);
        }
        let lsn = self.take(END_BYTES);
        transaction.add(lsn);
        Ok(lsn)
    }
}
