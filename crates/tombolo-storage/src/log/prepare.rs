//! The records of a prepared transaction (kind 41): its coordinator's number for it and its locks.
//!
//! A list that is too long for one record takes several, each of which says how many follow; the transaction is
//! prepared when the last is durable. Room for all of them is promised with the first, so a full disk takes all or
//! none. What is reserved for the transaction's end stays.
//!
//! Not here: what the locks are (the store's), what a restart does with them.

use super::buffer::Claim;
use super::file::LEFT_FOR_IMAGES;
use super::record::{Content, END_BYTES, IMAGE_BYTES_MAX, Record};
use super::session::{Destination, Log};
use super::transaction::LogTransaction;
use crate::error::Error;
use crate::latch::Latching;
use crate::owner::Owner;

/// A lock in the log: its name, 8 bytes, and its mode.
pub type LockEntry = [u8; 9];

/// Bytes of the number that comes before the locks.
const OWNER_BYTES: usize = size_of::<u128>();

/// Locks that one record holds.
const ENTRIES_MAX: usize = if cfg!(test) { 20 } else { (IMAGE_BYTES_MAX - OWNER_BYTES) / 9 };

/// The number and the locks in a record's image.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Owner, &[LockEntry]), &'static str> {
    const WRONG: &str = "no list of locks";
    let (number, entries) = bytes.split_first_chunk::<OWNER_BYTES>().ok_or(WRONG)?;
    let (entries, []) = entries.as_chunks() else { return Err(WRONG) };
    Ok((Owner::new(u128::from_le_bytes(*number)), entries))
}

impl<D: Destination, L: Latching> Log<D, L> {
    /// See [`super::Logging::prepare`].
    pub(super) fn publish_prepared(
        &self,
        transaction: &mut LogTransaction,
        since: u64,
        owner: Owner,
        entries: &[LockEntry],
    ) -> Result<u64, Error> {
        assert!(!transaction.is_undoing, "a transaction that began to undo must abort");
        if transaction.first == 0 {
            return Ok(0);
        }
        let count = entries.len().div_ceil(ENTRIES_MAX).max(1);
        let images: Vec<Vec<u8>> = (0..count)
            .map(|at| {
                let rest = &entries[at * ENTRIES_MAX..];
                let entries = &rest[..rest.len().min(ENTRIES_MAX)];
                [&owner.number().to_le_bytes(), entries.as_flattened()].concat()
            })
            .collect();
        let part = |at: usize, previous, bytes| Record {
            is_redo_only: true,
            transaction: transaction.id,
            previous,
            content: Content::Prepared { since, following: (count - 1 - at) as u16, bytes },
        };
        let bytes = images.iter().map(|image| part(0, 0, image).bytes() as u64);
        let mut rest = bytes.sum::<u64>();
        let publisher = transaction.publisher.get_or_insert_with(|| self.core.ring.publisher());
        let (mut encoded, mut newest, mut promised) = (Vec::new(), transaction.last, 0);
        for (at, image) in images.iter().enumerate() {
            let record = part(at, newest, image);
            rest -= record.bytes() as u64;
            let left = if at == 0 { LEFT_FOR_IMAGES } else { 0 };
            let claim =
                Claim { reserved_before: promised, reserved_after: rest, left, ..Claim::default() };
            encoded.clear();
            record.encode(&mut encoded);
            newest = self.core.publish(publisher, &encoded, &[], claim)?;
            promised = rest;
        }
        let reserved = transaction.reserved;
        transaction.published(newest, reserved);
        // A flush may end behind what is asked for as behind a record that ends a transaction: this ends where its
        // last does.
        Ok(newest + (encoded.len() - END_BYTES) as u64)
    }
}
