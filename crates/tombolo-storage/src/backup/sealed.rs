//! The file `backup`: text whose last line has the checksum of the lines before it.
//!
//! Not here: the lines in between (`manifest.rs`, `set.rs`).

use super::{BACKUP_FILE, BackupFailure, UNFINISHED_FILE};
use crate::checksum;
use crate::disk::{Disk, DiskError, Open};

/// A longer file is none of these: no database has so many files.
const BYTES_MAX: u64 = 64 << 20;

/// The beginning of every first line.
const PROGRAM: &str = "tombolo backup ";

/// The content of a file `backup`.
pub(super) trait Sealed: Sized {
    /// The kind of backup, and the version of its format.
    const FIRST_LINE: &str;

    /// The lines between the first and the last.
    fn encode(&self) -> String;

    /// Reads these lines.
    fn decode(text: &str) -> Option<Self>;

    /// The whole text.
    fn seal(&self) -> String {
        let text = format!("{}\n{}", Self::FIRST_LINE, self.encode());
        let checksum = checksum::append(0, text.as_bytes());
        text + &format!("checksum {checksum:08x}\n")
    }

    /// Reads the whole text.
    fn unseal(text: &str) -> Option<Self> {
        let lines = text.strip_prefix(Self::FIRST_LINE)?.strip_prefix('\n')?;
        let sealed = Self::decode(&lines[..lines.rfind("checksum ")?])?;
        // Every byte counts, the last line's too.
        (sealed.seal() == text).then_some(sealed)
    }

    /// Writes it into a directory whose files are durable; it is durable when this returns.
    ///
    /// # Errors
    /// When the disk is full or fails.
    fn write(&self, to: &dyn Disk) -> Result<(), DiskError> {
        let file = to.open(BACKUP_FILE, Open::New)?;
        file.write_at(self.seal().as_bytes(), 0)?;
        file.sync()?;
        to.sync_dir()
    }

    /// Reads it.
    ///
    /// # Errors
    /// `NoBackup`, `Unfinished`, `OtherVersion`, `Damaged`, `Disk`.
    fn read(from: &dyn Disk) -> Result<Self, BackupFailure> {
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
        match Self::unseal(&text) {
            Some(sealed) => Ok(sealed),
            // Writing it may have been interrupted.
            None if is_unfinished => Err(unfinished()),
            None if first.starts_with(PROGRAM) && first != Self::FIRST_LINE => {
                Err(BackupFailure::OtherVersion { file: name, found: first.to_owned() })
            }
            None => {
                let what = "its checksum is not what it was".to_owned();
                Err(BackupFailure::Damaged { file: name, what })
            }
        }
    }
}

/// A number of eight hexadecimal digits.
pub(super) fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

/// Changes and cuts each byte of `sealed`, and sees that it is noticed.
#[cfg(test)]
#[cfg(not(loom))]
pub(super) fn assert_sealed<S: Sealed + PartialEq + std::fmt::Debug>(sealed: &S) {
    let text = sealed.seal();
    assert_eq!(S::unseal(&text).as_ref(), Some(sealed));
    for at in 0..text.len() {
        assert_eq!(S::unseal(&text[..at]), None, "cut at {at}");
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        assert_eq!(S::unseal(&String::from_utf8_lossy(&changed)), None, "byte {at}");
    }
    assert_eq!(S::unseal(&format!("{text}x")), None);
}
