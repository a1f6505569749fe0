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
//! Checksums are CRC-32C, as eight hexadecimal digits: of the group, as its successor names it; of each
//! file; in the last line of all lines before it.

use super::{BACKUP_FILE, Backup, BackupFailure, CopiedFile, UNFINISHED_FILE};
use crate::checksum;
use crate::disk::{Disk, DiskError, Open};
use crate::value_log::LogPosition;

const FIRST_LINE: &str = "tombolo backup 1";

/// A longer file is no manifest: no database has so many files.
const BYTES_MAX: u64 = 64 << 20;

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

    /// Writes it into a directory whose files are durable; it is durable when this returns.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(super) fn write(&self, to: &dyn Disk) -> Result<(), DiskError> {
        let file = to.open(BACKUP_FILE, Open::New)?;
        file.write_at(self.encode().as_bytes(), 0)?;
        file.sync()?;
        to.sync_dir()
    }

    /// Reads it.
    ///
    /// # Errors
    /// `NoBackup`, `Unfinished`, `OtherVersion`, `Damaged`, `Disk`.
    pub(super) fn read(from: &dyn Disk) -> Result<Self, BackupFailure> {
        let is_unfinished = from.exists(UNFINISHED_FILE)?;
        let unfinished = || BackupFailure::Unfinished { file: UNFINISHED_FILE.to_owned() };
        let file = match from.open(BACKUP_FILE, Open::Read) {
            Err(error) if error.is_not_found() && is_unfinished => return Err(unfinished()),
            Err(error) if error.is_not_found() => {
                return Err(BackupFailure::NoBackup { file: error.file().to_owned() });
            }
            opened => opened?,
        };
        let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
        file.read_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let (name, first) = (file.name().to_owned(), text.lines().next().unwrap_or_default());
        match Self::decode(&text) {
            Some(manifest) => Ok(manifest),
            // Writing it may have been interrupted.
            None if is_unfinished => Err(unfinished()),
            None if first.starts_with("tombolo backup ") && first != FIRST_LINE => {
                Err(BackupFailure::OtherVersion { file: name, found: first.to_owned() })
            }
            None => {
                let what = "its checksum is not what it was".to_owned();
                Err(BackupFailure::Damaged { file: name, what })
            }
        }
    }

    fn encode(&self) -> String {
        let LogPosition { group, checksum, transactions } = self.position;
        let mut text = format!("{FIRST_LINE}\n");
        text += &format!("group {group} {checksum:08x} transactions {transactions}\n");
        for CopiedFile { name, bytes, checksum } in &self.files {
            text += &format!("file {name} {bytes} {checksum:08x}\n");
        }
        let checksum = checksum::append(0, text.as_bytes());
        text + &format!("checksum {checksum:08x}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let hex = |word: &str| u32::from_str_radix(word, 16).ok();
        let words: Vec<_> = lines.next()?.split(' ').collect();
        let ["group", group, checksum, "transactions", transactions] = words[..] else {
            return None;
        };
        let (group, transactions) = (group.parse().ok()?, transactions.parse().ok()?);
        let position = LogPosition { group, checksum: hex(checksum)?, transactions };
        let mut manifest = Self { position, files: Vec::new() };
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["file", name, bytes, checksum] if is_plain(name) => {
                    manifest.files.push(CopiedFile {
                        name: name.to_owned(),
                        bytes: bytes.parse().ok()?,
                        checksum: hex(checksum)?,
                    })
                }
                ["checksum", _] => break,
                _ => return None,
            }
        }
        // Every byte counts, the last line's too.
        (manifest.encode() == text).then_some(manifest)
    }
}

/// Whether a name is one of a database's file names, without a path to another directory.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.chars().all(is_plain)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

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
        assert_eq!(manifest().encode(), format!("{lines}checksum {checksum:08x}\n"));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        let text = manifest().encode();
        assert_eq!(Manifest::decode(&text), Some(manifest()));
        for at in 0..text.len() {
            assert_eq!(Manifest::decode(&text[..at]), None, "cut at {at}");
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(Manifest::decode(&String::from_utf8_lossy(&changed)), None, "byte {at}");
        }
        assert_eq!(Manifest::decode(&format!("{text}x")), None);
    }
}
