//! What a database and the processes of its islands say to each other, and its bytes.
//!
//! ```text
//!   database                                       process of an island
//!      │ ── welcome: version, which island of which database ──► │   opens it
//!      │ ◄── alive, until it is open ─────────────────────────── │
//!      │ ◄── ready, or why not ───────────────────────────────── │
//!      │ ── calls, transactions, what other islands say ───────► │
//!      │ ◄── answers, what it says to other islands ──────────── │
//!      │ ── close ─────────────────────────────────────────────► │   closes it, and ends
//! ```
//!
//! A message of the link is a bundle of items. Numbers are little endian. Not here: bundles, framing and checksums (the
//! engine's `link/`), what islands say about a transaction (`islands/commit/message.rs`), errors (`errors.rs`).

use tombolo_engine::link::{put_counted, take_counted};

/// The version of everything here: changes with any message.
pub(super) const VERSION: u16 = 2;

/// From the database.
pub(super) const CALL: u8 = 1;
pub(super) const CALL_ONCE: u8 = 2;
pub(super) const BEGIN: u8 = 3;
pub(super) const LINK_MADE: u8 = 4;
pub(super) const LINK_BROKEN: u8 = 5;
pub(super) const CLOSE: u8 = 6;
/// Is it alive? It says so in the island's turn.
pub(super) const ASK: u8 = 7;
/// Upkeep, each but the last with the number by which it is answered: the island's statistics; a checkpoint; none from
/// here on; which group is flushed; a copy up to a group; checkpoints again.
pub(super) const STATISTICS: u8 = 8;
pub(super) const CHECKPOINT: u8 = 9;
pub(super) const HOLD: u8 = 10;
pub(super) const FLUSHED: u8 = 11;
pub(super) const COPY: u8 = 12;
pub(super) const RELEASE: u8 = 13;
/// From an island.
pub(super) const READY: u8 = 16;
pub(super) const REFUSED: u8 = 17;
pub(super) const ANSWER: u8 = 18;
pub(super) const FAILED: u8 = 19;
pub(super) const CLOSED: u8 = 20;
/// Also sent without being asked while it opens and closes, when the island has no turns.
pub(super) const ALIVE: u8 = 21;
/// From both: what one island says to another; the number is that of the other one.
pub(super) const MESSAGE: u8 = 32;

/// Puts an item together.
#[derive(Debug)]
pub(super) struct Item(Vec<u8>);

impl Item {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(super) fn u16(mut self, number: u16) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn u128(mut self, number: u128) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Bytes behind their length.
    pub(super) fn counted(mut self, bytes: &[u8]) -> Self {
        put_counted(&mut self.0, bytes);
        self
    }

    /// Bytes up to the end.
    pub(super) fn rest(mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        self.0
    }

    pub(super) fn end(self) -> Vec<u8> {
        self.0
    }
}

/// Takes fields off the front of bytes; `None` where there are too few.
#[derive(Clone, Copy, Debug)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let (taken, rest) = take_counted(self.0)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an island's process receives when it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    pub(super) island: u16,
    /// Whose tables and procedures it has to have, as [`Declaration::words`](super::Declaration) writes it down.
    pub(super) declaration: String,
    /// Of the database; none for one in memory.
    pub(super) directory: Option<String>,
}

impl Welcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        let item = Item(VERSION.to_le_bytes().to_vec());
        let item = item.u16(self.island).counted(self.declaration.as_bytes());
        match &self.directory {
            Some(directory) => item.rest(directory.as_bytes()),
            None => item.end(),
        }
    }

    /// # Errors
    /// Why it is no welcome, in words.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut from = In(bytes);
        let version = from.u16().ok_or("it is cut off")?;
        if version != VERSION {
            return Err(format!(
                "the database's process speaks version {version} of the islands' protocol, this one version {VERSION}: \
                 start the same program again"
            ));
        }
        let mut fields = || {
            let island = from.u16()?;
            let declaration = std::str::from_utf8(from.counted()?).ok()?.to_owned();
            let directory = std::str::from_utf8(from.0).ok()?;
            let directory = (!directory.is_empty()).then(|| directory.to_owned());
            Some(Self { island, declaration, directory })
        };
        fields().ok_or_else(|| "it is cut off".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_welcome_is_read_as_it_was_written_and_another_version_is_refused() {
        for directory in [None, Some("/somewhere/else".to_owned())] {
            let welcome = Welcome { island: 7, declaration: "2 islands".to_owned(), directory };
            let mut bytes = welcome.encode();
            assert_eq!(Welcome::decode(&bytes), Ok(welcome));
            assert!(Welcome::decode(&bytes[..8]).is_err());
            bytes[0] += 1;
            let refused = Welcome::decode(&bytes).unwrap_err();
            let versions = [VERSION, VERSION + 1].map(|version| format!("version {version}"));
            assert!(versions.iter().all(|version| refused.contains(version)), "{refused}");
        }
    }
}
