//! What can go wrong while counting. Every message is one line: what failed, on what, what to do.

use std::fmt;
use std::io;

/// Why something could not be counted.
#[derive(Debug)]
pub enum CounterError {
    /// Valgrind is not there.
    NoValgrind,
    /// This process was asked to count under callgrind and does not run under it.
    NotUnderCallgrind,
    /// This machine does not give us its instruction counter.
    NoHardwareCounter(io::Error),
    /// An operation of the system failed.
    System {
        /// What was done.
        what: &'static str,
        /// How it failed.
        source: io::Error,
    },
    /// A program does not say which of its instructions belong to which function.
    NoDebugInformation(String),
    /// A counted process ended badly.
    Child {
        /// The program's name.
        what: String,
        /// How it ended.
        how: String,
    },
    /// A count is not what it has to be.
    Damaged(String),
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValgrind => f.write_str(
                "valgrind is not installed: apt-get install valgrind, or use --counter none",
            ),
            Self::NotUnderCallgrind => {
                f.write_str("this process counts with callgrind and has to be started under it")
            }
            Self::NoHardwareCounter(source) => write!(
                f,
                "the processor's instruction counter cannot be opened ({source}): \
                 use --counter callgrind"
            ),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
            Self::NoDebugInformation(path) => write!(
                f,
                "{path} has no debug information that names the store's calls: build it with \
                 this repository's release profile, or use --counter none"
            ),
            Self::Child { what, how } => write!(f, "the counted process of {what} {how}"),
            Self::Damaged(what) => write!(f, "the counts cannot be used: {what}"),
        }
    }
}

impl std::error::Error for CounterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoHardwareCounter(source) | Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl CounterError {
    /// For `map_err`: what was being done when the system refused.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
