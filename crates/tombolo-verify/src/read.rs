//! Histories as files: JSON lines, one transaction each, read one at a time.
//!
//! An invalid line ends the reading: the error names line and field.

use std::fmt;
use std::io::{self, BufRead};

use serde::Deserialize;

use crate::history::History;
use crate::transaction::Transaction;

/// The reason that a history cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file itself.
    Input(io::Error),
    /// A line.
    Line {
        /// Its number, from 1.
        line: u64,
        /// The error, beginning with the field.
        what: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(f, "{error}"),
            Self::Line { line, what } => write!(f, "line {line}: {what}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// A line before its operations are parsed, so that an error can name the operation.
#[derive(Deserialize)]
struct Probe {
    ops: Vec<serde_json::Value>,
}

impl History {
    /// Reads a history; empty lines are skipped but counted.
    ///
    /// # Errors
    /// The first line that is not a transaction, or contradicts an earlier one.
    pub fn read(mut input: impl BufRead) -> Result<Self, ReadError> {
        let mut history = Self::new();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            if input.read_until(b'\n', &mut text).map_err(ReadError::Input)? == 0 {
                break;
            }
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let transaction: Transaction = serde_json::from_slice(&text)
                .map_err(|error| ReadError::Line { line, what: explained(&text, &error) })?;
            history
                .push_line(line, &transaction)
                .map_err(|refused| ReadError::Line { line, what: refused.to_string() })?;
        }
        Ok(history)
    }
}

/// The error of a line, with its operation. The parser names the field.
fn explained(text: &[u8], error: &serde_json::Error) -> String {
    let message = |error: &serde_json::Error| {
        let text = error.to_string();
        text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
    };
    if let Ok(probe) = serde_json::from_slice::<Probe>(text) {
        for (i, operation) in probe.ops.iter().enumerate() {
            if let Err(error) = crate::transaction::Operation::deserialize(operation) {
                return format!("field ops, operation {}: {}", i + 1, message(&error));
            }
        }
    }
    format!("{}, column {}", message(error), error.column())
}
