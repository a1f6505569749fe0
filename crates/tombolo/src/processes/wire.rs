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
pub(crate) const VERSION: u16 = 3;

/// From the database.
pub(crate) const CALL: u8 = 1;
pub(crate) const CALL_ONCE: u8 = 2;
pub(crate) const BEGIN: u8 = 3;
pub(crate) const LINK_MADE: u8 = 4;
pub(crate) const LINK_BROKEN: u8 = 5;
pub(crate) const CLOSE: u8 = 6;
/// Is it alive? It says so in the island's turn.
pub(crate) const ASK: u8 = 7;
/// Upkeep, each but the last with the number by which it is answered: the island's statistics; a checkpoint; none from
/// here on; which group is flushed; a copy up to a group; checkpoints again.
pub(crate) const STATISTICS: u8 = 8;
pub(crate) const CHECKPOINT: u8 = 9;
pub(crate) const HOLD: u8 = 10;
pub(crate) const FLUSHED: u8 = 11;
pub(crate) const COPY: u8 = 12;
pub(crate) const RELEASE: u8 = 13;
/// To an island of a paged store: a step of a transaction over several islands, in its session there; its session's
/// vote, decision or undoing; what becomes of a prepared transaction; whether one was decided; which are prepared.
pub(crate) const STEP: u8 = 40;
pub(crate) const VOTE: u8 = 41;
pub(crate) const DECIDE: u8 = 42;
pub(crate) const UNDO: u8 = 43;
pub(crate) const SETTLE: u8 = 44;
pub(crate) const DECIDED: u8 = 45;
pub(crate) const PREPARED: u8 = 46;
/// From an island.
pub(crate) const READY: u8 = 16;
pub(crate) const REFUSED: u8 = 17;
pub(crate) const ANSWER: u8 = 18;
pub(crate) const FAILED: u8 = 19;
pub(crate) const CLOSED: u8 = 20;
/// Also sent without being asked while it opens and closes, when the island has no turns.
pub(crate) const ALIVE: u8 = 21;
/// From both: what one island says to another; the number is that of the other one.
pub(crate) const MESSAGE: u8 = 32;

/// Puts an item together.
#[derive(Debug)]
pub(crate) struct Item(Vec<u8>);

impl Item {
    pub(crate) fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(crate) fn u16(mut self, number: u16) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn u128(mut self, number: u128) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn flag(mut self, is_set: bool) -> Self {
        self.0.push(is_set.into());
        self
    }

    /// Bytes behind their length.
    pub(crate) fn counted(mut self, bytes: &[u8]) -> Self {
        put_counted(&mut self.0, bytes);
        self
    }

    /// Bytes up to the end.
    pub(crate) fn rest(mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        self.0
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.0
    }
}

/// Takes fields off the front of bytes; `None` where there are too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct In<'a>(pub(crate) &'a [u8]);

impl<'a> In<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let (taken, rest) = take_counted(self.0)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an island's process receives when it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) island: u16,
    /// Whose tables and procedures it has to have, as [`Declaration::words`](super::Declaration) writes it down.
    pub(crate) declaration: String,
    /// Of the database; none for one in memory.
    pub(crate) directory: Option<String>,
}

impl Welcome {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let item = Item(VERSION.to_le_bytes().to_vec());
        let item = item.u16(self.island).counted(self.declaration.as_bytes());
        match &self.directory {
            Some(directory) => item.rest(directory.as_bytes()),
            None => item.end(),
        }
    }

    /// # Errors
    /// Why it is no welcome, in words.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
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
