//! What can go wrong while counting. Every message is one line: what failed, on what, what to do.

use std::io;

/// Why something could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// Valgrind is not there.
    #[error("valgrind is not installed: apt-get install valgrind, or use --counter none")]
    NoValgrind,
    /// This process was asked to count under callgrind and does not run under it.
    #[error("this process counts with callgrind and has to be started under it")]
    NotUnderCallgrind,
    /// This machine does not give us its instruction counter.
    #[error("the processor's instruction counter cannot be opened ({0}): use --counter callgrind")]
    NoHardwareCounter(#[source] io::Error),
    /// An operation of the system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The action that failed.
        what: &'static str,
        /// How it failed.
        source: io::Error,
    },
    /// A program does not say which of its instructions belong to which function.
    #[error(
        "{0} has no debug information that names the store's calls: build it with this repository's \
         release profile, or use --counter none"
    )]
    NoDebugInformation(String),
    /// A counted process ended badly.
    #[error("the counted process of {what} {how}")]
    Child {
        /// The program's name.
        what: String,
        /// How it ended.
        how: String,
    },
    /// A count is not what it has to be.
    #[error("the counts cannot be used: {0}")]
    Damaged(String),
}

impl CounterError {
    /// For `map_err`: what was being done when the system refused.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
