//! Why a command failed, in one line: what failed, on what, and what to do.
//!
//! Not here: printing it (the command).

use std::fmt;
use std::io::{self, ErrorKind};

use tombolo_engine::settings::SettingError;

use crate::counters::CounterError;

/// Whose fault it is; a shell sees it as the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The command's own check failed: an invariant, a comparison, an engine error.
    Check,
    /// The command line, a setting or an input file.
    Usage,
    /// The machine: memory, disk, a missing program.
    Environment,
}

impl Blame {
    /// The exit status.
    pub const fn status(self) -> u8 {
        match self {
            Self::Check => 1,
            Self::Usage => 2,
            Self::Environment => 3,
        }
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    blame: Blame,
    message: String,
}

impl Failure {
    /// The command's own check failed.
    pub fn check(message: impl Into<String>) -> Self {
        Self { blame: Blame::Check, message: message.into() }
    }

    /// Something given to the command is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { blame: Blame::Usage, message: message.into() }
    }

    /// The machine cannot.
    pub fn environment(message: impl Into<String>) -> Self {
        Self { blame: Blame::Environment, message: message.into() }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        self.blame
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever a library put into it.
        for (i, line) in self.message.lines().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(line.trim())?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<CounterError> for Failure {
    fn from(error: CounterError) -> Self {
        match error {
            CounterError::Damaged(_) | CounterError::Child { .. } => Self::check(error.to_string()),
            _ => Self::environment(error.to_string()),
        }
    }
}

/// Turns an error into a failure with its blame.
pub(crate) trait Blamed<T> {
    /// On the command's own check.
    fn or_check(self) -> Result<T, Failure>;
    /// On the machine.
    fn or_environment(self) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Blamed<T> for Result<T, E> {
    fn or_check(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::check(error.to_string()))
    }

    fn or_environment(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::environment(error.to_string()))
    }
}

/// The reason of a system's error, in the words of users.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it does not exist".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => "it is not a directory".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::usage("config.toml: line 1\n  expected a value\n");
        assert_eq!(failure.to_string(), "config.toml: line 1 expected a value");
        assert_eq!(failure.blame().status(), 2);
        assert_eq!(Failure::from(CounterError::NoValgrind).blame().status(), 3);
    }
}
