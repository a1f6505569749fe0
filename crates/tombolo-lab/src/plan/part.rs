//! What a durable database has besides its store: the upper rungs of the product's ladder, by name.
//!
//! Each has all before it. Not here: what they do (`product.rs`).

use std::fmt;

/// A part, and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What changed is written down, in memory.
    ValueLog,
    /// It goes to the disk, a group of transactions at a time, each durable before the next.
    GroupCommit,
    /// Calls come and answers leave through the stages of a pipeline.
    Pipeline,
}

impl Part {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::ValueLog, Self::GroupCommit, Self::Pipeline];

    /// What a ladder and its results call profile `memory` with it.
    pub const fn rung(self) -> &'static str {
        match self {
            Self::ValueLog => "memory+value-log",
            Self::GroupCommit => "memory+group-commit",
            Self::Pipeline => "memory+pipeline",
        }
    }

    /// The part of a rung's name.
    pub fn find(rung: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.rung() == rung)
    }

    /// Whether answers wait for the disk.
    pub const fn is_durable(self) -> bool {
        !matches!(self, Self::ValueLog)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValueLog => "value log",
            Self::GroupCommit => "group commit",
            Self::Pipeline => "pipeline",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_found_by_name() {
        for part in Part::ALL {
            assert_eq!(Part::find(part.rung()), Some(part));
        }
        assert_eq!(Part::find("memory"), None);
    }
}
