//! Findings of rules in the tree of files, by place; `cargo xtask tidy` and `cargo xtask figures --check` print them.

use crate::failure::Failure;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    problem: String,
    fix: &'static str,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}: {} — {}", self.path, self.line, self.problem, self.fix)
    }
}

/// The collection of findings.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(
        &mut self,
        path: &str,
        line: usize,
        problem: impl Into<String>,
        fix: &'static str,
    ) {
        self.0.push(Finding { path: path.to_string(), line, problem: problem.into(), fix });
    }

    /// In order of path and line, each once.
    pub(crate) fn sort(&mut self) {
        self.0.sort();
        self.0.dedup();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn shown(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn print(&self) {
        self.0.iter().for_each(|finding| println!("{finding}"));
    }

    /// Any finding is a failure of the chore `name`.
    pub(crate) fn verdict(&self, name: &str) -> Result<(), Failure> {
        match self.0.len() {
            0 => {
                println!("{name}: nothing to correct");
                Ok(())
            }
            1 => Err(Failure::check(format!("{name}: 1 finding"))),
            n => Err(Failure::check(format!("{name}: {n} findings"))),
        }
    }
}
