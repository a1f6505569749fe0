//! What counts instructions: the one that is asked for, or the best this machine has.
//!
//! Not here: counting (`run/counting.rs`, `counters`).

use std::path::PathBuf;

use crate::counters::CounterError;
use crate::counters::callgrind::Callgrind;
use crate::counters::hardware::Instructions;
use crate::failure::Failure;

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// The processor.
    Perf,
    /// Valgrind.
    Callgrind,
}

impl Counter {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Callgrind => "callgrind",
        }
    }

    /// The counter a setting asks for, and what to say to the user where there is none.
    ///
    /// # Errors
    /// When the machine does not have the one that is asked for by name.
    pub fn choose(setting: &str) -> Result<(Option<Self>, Option<String>), Failure> {
        let valgrind = || -> Result<Self, CounterError> {
            Callgrind::find()?;
            Callgrind::verify(&own_file()?)?;
            Ok(Self::Callgrind)
        };
        let perf = || Instructions::open().map(|_| Self::Perf);
        match setting {
            "perf" => Ok((Some(perf()?), None)),
            "callgrind" => Ok((Some(valgrind()?), None)),
            "auto" => match perf().or_else(|_| valgrind()) {
                Ok(counter) => Ok((Some(counter), None)),
                Err(CounterError::NoValgrind) => Ok((
                    None,
                    Some(
                        "instructions are not counted: this machine has no hardware counter and \
                         no valgrind (apt-get install valgrind); times are given"
                            .to_owned(),
                    ),
                )),
                Err(error) => Ok((
                    None,
                    Some(format!("instructions are not counted: {error}; times are given")),
                )),
            },
            _ => Ok((None, None)),
        }
    }
}

/// The file of this very command.
pub(crate) fn own_file() -> Result<PathBuf, CounterError> {
    std::env::current_exe()
        .map_err(|source| CounterError::System { what: "find the command's own file", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_counter_is_no_error() {
        assert_eq!(Counter::choose("none"), Ok((None, None)));
        assert!(Counter::choose("auto").is_ok());
    }
}
