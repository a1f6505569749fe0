//! `cargo xtask tidy`: the house rules that neither the compiler nor clippy knows.
//!
//! Each rule is one function over the [`Tree`] of tracked files; each finding names file and line, what is wrong
//! and how to correct it. The same rules run as a test, so plain `cargo test` holds them as well.
//!
//! What it does not do: change files, judge prose, or parse Rust. It looks at the text with comments and literals
//! blanked ([`code`]), which is enough for these rules and cannot break with the language.
//!
//! | module | rules |
//! |---|---|
//! | [`text`] | heads, width, white space, invisible characters, unfinished work, machines' paths, large files |
//! | [`sizes`] | lines per file, as a ratchet |
//! | [`modules`] | no file that no `mod` reaches |
//! | [`unsafe_places`] | `unsafe` only in the modules that may hold it |
//! | [`manifests`] | a reason for every dependency |
//! | [`documents`] | paths and links in documents exist, the change log is open |
//! | [`history`] | commit subjects |

mod code;
mod documents;
mod exceptions;
mod history;
mod manifests;
mod modules;
mod sizes;
pub(crate) mod text;
pub(crate) mod tree;
mod unsafe_places;

#[cfg(test)]
pub(crate) mod scratch;
#[cfg(test)]
mod tests;

use crate::Failure;
use std::path::Path;
use tree::Tree;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    problem: String,
    mend: &'static str,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}: {} — {}", self.path, self.line, self.problem, self.mend)
    }
}

/// Where rules put what they find.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(
        &mut self,
        path: &str,
        line: usize,
        problem: impl Into<String>,
        mend: &'static str,
    ) {
        self.0.push(Finding { path: path.to_string(), line, problem: problem.into(), mend });
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

type Rule = fn(&Tree, &mut Findings);

const RULES: [Rule; 16] = [
    text::heads,
    text::width,
    text::white_space,
    text::invisible_characters,
    text::unfinished_work,
    text::machine_paths,
    text::large_files,
    sizes::lines,
    modules::unreached,
    unsafe_places::strangers,
    manifests::reasons,
    documents::architecture,
    documents::paths,
    documents::change_log,
    history::subjects,
    exceptions::well_formed,
];

/// Everything all rules find under `root`, in order of path and line.
pub(crate) fn findings(root: &Path) -> Result<Findings, Failure> {
    let tree = Tree::load(root).map_err(Failure::machine)?;
    let mut findings = Findings::default();
    for rule in RULES {
        rule(&tree, &mut findings);
    }
    findings.sort();
    Ok(findings)
}

/// Prints the findings; any is a failure.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let findings = findings(root)?;
    findings.print();
    findings.verdict("tidy")
}
