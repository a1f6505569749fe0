//! The file of answers: `client seq`, a line for each committed call, appended before its caller
//! sees the answer (cli.md, `--acks`).
//!
//! For harnesses that kill the process: what the system has taken from it survives that. It is not
//! forced to the device, so that it says nothing about a crash of the machine.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::sequences::CallNumber;
use crate::failure::{Failure, reason};

/// The file.
pub(crate) struct Acks {
    file: Box<dyn Write + Send>,
    path: PathBuf,
    lines: Vec<u8>,
}

impl Acks {
    /// Opens the file to append to it; creates it if it is missing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Self { file: Box::new(file), path: path.to_owned(), lines: Vec::new() })
    }

    /// Notes that a call committed.
    pub(crate) fn note(&mut self, CallNumber { client, sequence }: CallNumber) {
        let written = writeln!(self.lines, "{client} {sequence}");
        debug_assert!(written.is_ok(), "a vector takes everything");
    }

    /// Hands everything noted to the system, in one write.
    ///
    /// # Errors
    /// When it is not taken.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.lines).map_err(|error| failed(&self.path, &error))?;
        self.lines.clear();
        Ok(())
    }
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acks").field("path", &self.path).finish_non_exhaustive()
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::environment(format!(
        "{path} cannot be written: {}: give --acks another file",
        reason(error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_when_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("acks");
        for round in 1..=2 {
            let mut acks = Acks::open(&path).unwrap();
            acks.note(CallNumber { client: 3, sequence: round });
            acks.note(CallNumber { client: 0, sequence: 70 + round });
            let before = std::fs::read_to_string(&path).unwrap();
            assert_eq!(before.lines().count() as u64, 2 * (round - 1));
            acks.write().unwrap();
            acks.write().unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3 1\n0 71\n3 2\n0 72\n");
        let refused = Acks::open(scratch.path()).unwrap_err();
        assert!(refused.to_string().contains("give --acks another file"), "{refused}");
    }
}
