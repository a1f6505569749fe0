//! `cargo xtask tidy`: the house rules that neither the compiler nor clippy knows.
//!
//! Each rule is one function over the [`Tree`] of tracked files; each finding names file and line, what is wrong
//! and how to mend it. The same rules run as a test, so plain `cargo test` holds them as well.
//!
//! What it does not do: change files, judge prose, or parse Rust. It looks at the text with comments and literals
//! blanked ([`code`]), which is enough for these rules and cannot break with the language.
//!
//! | module | rules |
//! |---|---|
//! | [`text`] | heads, width, white space, invisible characters, unfinished work, machines' paths, large files |
//! | [`sizes`] | lines per file, as a ratchet |
//! | [`modules`] | no file that no `mod` reaches |
//! | [`unsafe_places`] | `unsafe` only where the design allows it |
//! | [`manifests`] | a reason for every dependency |
//! | [`documents`] | paths in documents exist, the change log is open |
//! | [`history`] | commit subjects |

mod code;
mod documents;
mod exceptions;
mod history;
mod manifests;
mod modules;
mod sizes;
mod text;
mod tree;
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
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, path: &str, line: usize, problem: impl Into<String>, mend: &'static str) {
        self.0.push(Finding { path: path.to_string(), line, problem: problem.into(), mend });
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
    documents::papers,
    documents::change_log,
    history::subjects,
    exceptions::well_formed,
];

/// Everything all rules find under `root`, in order of path and line.
pub(crate) fn findings(root: &Path) -> Result<Vec<Finding>, Failure> {
    let tree = Tree::load(root).map_err(Failure::machine)?;
    let mut findings = Findings::default();
    for rule in RULES {
        rule(&tree, &mut findings);
    }
    findings.0.sort();
    findings.0.dedup();
    Ok(findings.0)
}

/// Prints the findings; any is a failure.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let findings = findings(root)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    match findings.len() {
        0 => {
            println!("tidy: nothing to mend");
            Ok(())
        }
        1 => Err(Failure::check("tidy: 1 finding")),
        n => Err(Failure::check(format!("tidy: {n} findings"))),
    }
}
