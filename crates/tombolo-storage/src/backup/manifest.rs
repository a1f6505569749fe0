//! The file `backup`: what a backup holds, as text, so that a person can see it too.
//!
//! ```text
//! tombolo backup 1
//! group 4711 0badcafe transactions 30811
//! file checkpoint-000007 512 1c291ca3
//! file log-000012 67108864 99bb2e01
//! checksum 5d1f0a37
//! ```
//!
//! Of a paged store, the number of transactions is the LSN behind the log's newest record. Checksums are
//! CRC-32C, as eight hexadecimal digits: of the group, as its successor names it; of each file; in the last line of all
//! lines before it.

use super::sealed::{Sealed, hex};
use super::{Backup, CopiedFile};
use crate::paged::pool::PAGES_FILE;
use crate::value_log::LogPosition;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) position: LogPosition,
    pub(super) files: Vec<CopiedFile>,
}

impl Manifest {
    pub(super) fn backup(&self) -> Backup {
        let bytes = self.files.iter().map(|file| file.bytes).sum();
        Backup { position: self.position, files: self.files.len(), bytes }
    }

    /// Whether the backup is of a paged store.
    pub(super) fn is_paged(&self) -> bool {
        self.files.iter().any(|file| file.name == PAGES_FILE)
    }
}

impl Sealed for Manifest {
    const FIRST_LINE: &str = "tombolo backup 1";

    fn encode(&self) -> String {
        let mut text = position_line("group", &self.position);
        for CopiedFile { name, bytes, checksum } in &self.files {
            text += &format!("file {name} {bytes} {checksum:08x}\n");
        }
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let position = position_in("group", lines.next()?)?;
        let mut manifest = Self { position, files: Vec::new() };
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            let ["file", name, bytes, checksum] = words[..] else { return None };
            if !is_plain(name) {
                return None;
            }
            let (name, bytes, checksum) = (name.to_owned(), bytes.parse().ok()?, hex(checksum)?);
            manifest.files.push(CopiedFile { name, bytes, checksum });
        }
        Some(manifest)
    }
}

/// The line of a position, which begins with `what`.
pub(super) fn position_line(what: &str, position: &LogPosition) -> String {
    let LogPosition { group, checksum, transactions } = position;
    format!("{what} {group} {checksum:08x} transactions {transactions}\n")
}

/// The position in a line that begins with `what`.
pub(super) fn position_in(what: &str, line: &str) -> Option<LogPosition> {
    let words: Vec<_> = line.strip_prefix(what)?.strip_prefix(' ')?.split(' ').collect();
    let [group, checksum, "transactions", transactions] = words[..] else { return None };
    let (group, transactions) = (group.parse().ok()?, transactions.parse().ok()?);
    Some(LogPosition { group, checksum: hex(checksum)?, transactions })
}

/// Whether a name is one of a database's file names, without a path to another directory.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.chars().all(is_plain)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::sealed::assert_sealed;
    use super::*;
    use crate::checksum;

    fn manifest() -> Manifest {
        let file = |name: &str, bytes| CopiedFile { name: name.to_owned(), bytes, checksum: 0xab };
        let position = LogPosition { group: 4711, checksum: 0x0bad_cafe, transactions: 99 };
        Manifest { position, files: vec![file("checkpoint-000007", 512), file("log-000012", 8192)] }
    }

    #[test]
    fn the_text_is_what_the_format_states() {
        let lines = "tombolo backup 1\ngroup 4711 0badcafe transactions 99\n\
                     file checkpoint-000007 512 000000ab\nfile log-000012 8192 000000ab\n";
        let checksum = checksum::append(0, lines.as_bytes());
        assert_eq!(manifest().seal(), format!("{lines}checksum {checksum:08x}\n"));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        assert_sealed(&manifest());
    }
}
