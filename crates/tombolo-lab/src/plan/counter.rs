//! The counter of instructions: the requested one, or the best that this machine has.
//!
//! Not here: counting (`run/counting.rs`, `counters`).

use std::path::PathBuf;

use crate::counters::CounterError;
use crate::counters::callgrind::Callgrind;
use crate::counters::hardware::Instructions;
use crate::failure::Failure;

named! {
    /// A counter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Counter by name {
        /// The processor.
        Perf = "perf",
        /// Valgrind.
        Callgrind = "callgrind",
    }
}

impl Counter {
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
                Err(error) => {
                    let why = match error {
                        CounterError::NoValgrind => "this machine has no hardware counter and no \
                                                     valgrind (apt-get install valgrind)"
                            .to_owned(),
                        error => error.to_string(),
                    };
                    let note = format!("instructions are not counted: {why}; times are given");
                    Ok((None, Some(note)))
                }
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
