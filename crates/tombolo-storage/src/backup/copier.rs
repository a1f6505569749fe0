//! `Copier`: makes files one after the other in an empty directory, which carries a marker until all are durable.
//!
//! Each file is written from its beginning to its end, with gaps of zeros, so that its checksum is known
//! without reading it again. Not here: what is in them. Invariant: the marker is durable before the
//! first file is made, and is removed only when all files are durable or removed.

use super::marks::{UNFINISHED_FILE, is_copy};
use crate::checksum;
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::value_log::LOCK_FILE;

/// Zeros that a checksum is taken of at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// CRC-32C of all of them.
    pub(crate) checksum: u32,
}

/// A file that is being written.
pub(crate) struct Copying {
    file: Box<dyn DiskFile>,
    /// The offset up to which it is written.
    at: u64,
    copied: CopiedFile,
}

/// The directory for a copy is not empty: it holds this file.
pub(crate) struct NotEmpty {
    pub(crate) file: String,
    /// Whether the file belongs to another copy.
    pub(crate) is_copy: bool,
}

/// Makes the files of a copy. See the module's head.
pub(crate) struct Copier<'a> {
    to: &'a dyn Disk,
    /// All files that were made.
    made: Vec<String>,
    files: Vec<CopiedFile>,
}

impl<'a> Copier<'a> {
    /// Makes a copy of the files that `copy` makes. On a failure they are removed, `first` before the others.
    ///
    /// # Errors
    /// As [`Self::begin`]; what `copy` says; when the disk fails.
    pub(crate) fn make<T, E: From<DiskError> + From<NotEmpty>>(
        to: &'a dyn Disk,
        first: Option<&str>,
        copy: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut copier = Self::begin::<E>(to)?;
        let made = copy(&mut copier).and_then(|made| {
            copier.finish()?;
            Ok(made)
        });
        made.inspect_err(|_| copier.give_up(first))
    }

    /// Begins a copy in a directory that holds nothing; the marker is durable when this returns.
    ///
    /// # Errors
    /// When the directory holds a file; when the disk is full or fails.
    fn begin<E: From<DiskError> + From<NotEmpty>>(to: &'a dyn Disk) -> Result<Self, E> {
        // A lock's file stays behind wherever a process has looked for a database.
        if let Some(file) = to.list()?.into_iter().find(|name| name != LOCK_FILE) {
            let is_copy = is_copy(to)?.is_some();
            return Err(NotEmpty { file, is_copy }.into());
        }
        let marked = to.open(UNFINISHED_FILE, Open::New).and_then(|file| {
            file.sync()?;
            to.sync_dir()
        });
        let copier = Self { to, made: Vec::new(), files: Vec::new() };
        if let Err(error) = marked {
            copier.give_up(None);
            return Err(error.into());
        }
        Ok(copier)
    }

    /// Makes an empty file that is not one of the copied ones; it is durable once its directory is.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) fn mark(&mut self, name: &str) -> Result<(), DiskError> {
        self.made.push(name.to_owned());
        self.to.open(name, Open::New)?.sync()
    }

    /// Begins a file that will be `bytes` long, and takes its space.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) fn file(&mut self, name: &str, bytes: u64) -> Result<Copying, DiskError> {
        self.made.push(name.to_owned());
        let file = self.to.open(name, Open::New)?;
        file.set_len(bytes)?;
        let copied = CopiedFile { name: name.to_owned(), bytes, checksum: 0 };
        Ok(Copying { file, at: 0, copied })
    }

    /// Ends a file; it is durable then, once its directory is.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn end(&mut self, mut copying: Copying) -> Result<CopiedFile, DiskError> {
        copying.skip_to(copying.copied.bytes);
        copying.file.sync()?;
        self.files.push(copying.copied.clone());
        Ok(copying.copied)
    }

    /// The files of the copy so far.
    pub(crate) fn files(&self) -> &[CopiedFile] {
        &self.files
    }

    /// Ends the copy: all files are durable, and the marker is removed durably.
    ///
    /// # Errors
    /// When the disk fails.
    fn finish(&self) -> Result<(), DiskError> {
        self.to.sync_dir()?;
        self.to.remove(UNFINISHED_FILE)?;
        self.to.sync_dir()
    }

    /// Removes the files that were made, `first` before the others, and the marker after all of them.
    fn give_up(&self, first: Option<&str>) {
        let made = first.into_iter().chain(self.made.iter().map(String::as_str));
        let is_gone = |name: &str| match self.to.remove(name) {
            Err(error) => error.is_not_found(),
            Ok(()) => true,
        };
        // A file that cannot be removed does not keep the others from being removed.
        let stay = made.filter(|name| !is_gone(name)).count();
        if stay == 0 {
            // A directory whose marker cannot be removed still says that it is an unfinished copy.
            _ = self.to.sync_dir();
            _ = self.to.remove(UNFINISHED_FILE);
        }
        _ = self.to.sync_dir();
    }
}

impl Copying {
    /// Writes bytes at an offset that lies behind all that was written.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.skip_to(offset);
        self.file.write_at(bytes, offset)?;
        self.copied.checksum = checksum::append(self.copied.checksum, bytes);
        self.at += bytes.len() as u64;
        assert!(self.at <= self.copied.bytes, "{} grows past its length", self.copied.name);
        Ok(())
    }

    /// The gap before it reads as zeros.
    fn skip_to(&mut self, offset: u64) {
        assert!(offset >= self.at, "{} is written in order", self.copied.name);
        while self.at < offset {
            let count = (offset - self.at).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..count as usize];
            self.copied.checksum = checksum::append(self.copied.checksum, zeros);
            self.at += count;
        }
    }
}
