//! The files of a dump: a directory with `TABLE.copy` for each table, written by `run --dump`, read
//! by `check`.
//!
//! Not here: what a row's text is (`dump.rs`, `restore.rs`). These are files of the lab, not of a
//! database: they are not written durably.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use super::{DumpError, StateHash, dump};
use crate::failure::{Failure, reason};
use crate::files::make_writable;
use crate::store::DynamicStore;

/// The file of `table`.
pub(crate) fn file_name(table: &str) -> String {
    format!("{table}.copy")
}

/// A directory that can be written to.
#[derive(Debug)]
pub struct DumpDirectory {
    path: PathBuf,
}

impl DumpDirectory {
    /// Makes the directory where it does not exist and proves that files can be written in it.
    ///
    /// # Errors
    /// When they cannot; `flag` is what the user named it with.
    pub fn create(path: PathBuf, flag: &str) -> Result<Self, Failure> {
        make_writable(&path, flag)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all tables of `store`.
    ///
    /// # Errors
    /// When one cannot be read or written.
    pub fn write(&self, store: &mut dyn DynamicStore) -> Result<StateHash, Failure> {
        let open = |table: &str| {
            let path = self.path.join(file_name(table));
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            Ok(BufWriter::new(file))
        };
        dump(store, open).map_err(|error| match error {
            DumpError::Write { table, error } => Failure::environment(format!(
                "{} cannot be written: {}: free space or give --dump another directory",
                self.path.join(file_name(&table)).display(),
                reason(&error)
            )),
            DumpError::Store(error) => Failure::check(error.to_string()),
        })
    }
}

/// The rows in a directory's files.
pub struct DumpReader {
    directory: PathBuf,
    /// The table being read.
    open: Option<(String, Box<dyn BufRead>)>,
    /// Bytes of all files, and those read so far.
    bytes: (u64, u64),
    line: Vec<u8>,
}

impl DumpReader {
    /// Finds the files of `tables`.
    ///
    /// # Errors
    /// When the directory or one of them cannot be read.
    pub fn new<'a>(
        directory: &Path,
        tables: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let mut bytes = 0;
        if !directory.is_dir() {
            return Err(Failure::usage(format!(
                "{} is no directory: give one that run --data made or run --dump wrote",
                directory.display()
            )));
        }
        for table in tables {
            let path = directory.join(file_name(table));
            bytes += fs::metadata(&path).map(|metadata| metadata.len()).map_err(|error| {
                Failure::usage(format!(
                    "{} cannot be read: {}: give a directory that run --dump wrote",
                    path.display(),
                    reason(&error)
                ))
            })?;
        }
        let directory = directory.to_owned();
        Ok(Self { directory, open: None, bytes: (bytes, 0), line: Vec::new() })
    }

    /// Which part has been read.
    pub fn part(&self) -> f64 {
        self.bytes.1 as f64 / self.bytes.0.max(1) as f64
    }

    fn reader(&mut self, table: &str) -> io::Result<&mut Box<dyn BufRead>> {
        if self.open.as_ref().is_none_or(|(open, _)| open != table) {
            let path = self.directory.join(file_name(table));
            let file = OpenOptions::new().read(true).open(path)?;
            self.open = Some((table.to_owned(), Box::new(BufReader::with_capacity(1 << 20, file))));
        }
        match &mut self.open {
            Some((_, reader)) => Ok(reader),
            None => unreachable!("a reader was just put there"),
        }
    }

    /// The next row of `table` into `line`, without the line's end; false after the last.
    ///
    /// # Errors
    /// When the table cannot be read; one line for the user.
    pub fn next_row(&mut self, table: &str, line: &mut String) -> Result<bool, String> {
        let path = self.directory.join(file_name(table));
        let failed = |what: &str| format!("{} cannot be read: {what}", path.display());
        let mut bytes = std::mem::take(&mut self.line);
        bytes.clear();
        let reader = self.reader(table).map_err(|error| failed(&reason(&error)))?;
        let read = reader.read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| failed(&reason(&error)))?;
        self.bytes.1 += read as u64;
        if read == 0 {
            return Ok(false);
        }
        if bytes.pop() != Some(b'\n') {
            return Err(failed("its last line has no end, so it was cut off"));
        }
        line.clear();
        line.push_str(std::str::from_utf8(&bytes).map_err(|_| failed("a line is not UTF-8"))?);
        self.line = bytes;
        Ok(true)
    }
}
