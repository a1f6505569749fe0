//! The parts of a durable database besides its store: the upper rungs of the product's ladder, by name.
//!
//! Each has all before it. Not here: what they do (`product.rs`).

use std::fmt;

named! {
    /// A part, and all before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Part by rung {
        /// Changes are recorded, in memory.
        ValueLog = "memory+value-log",
        /// It goes to the disk, a group of transactions at a time, each durable before the next.
        GroupCommit = "memory+group-commit",
        /// Calls come and answers leave through the stages of a pipeline.
        Pipeline = "memory+pipeline",
    }
}

impl Part {
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
