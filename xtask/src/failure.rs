//! `Failure`: the error of every chore.

/// The reason that a chore failed: one line for people and the exit status for scripts.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// A check failed.
    pub(crate) fn check(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 1 }
    }

    /// The command line is invalid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 2 }
    }

    /// The machine lacks a program or a right.
    pub(crate) fn machine(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 3 }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}
