//! `cargo xtask tidy`: the house rules that neither the compiler nor clippy knows.
//!
//! Each rule is one function over the [`Tree`] of tracked files; each finding names file and line, the error
//! and a correction. The same rules run as a test, so plain `cargo test` checks them, too.
//!
//! It does not change files, judge prose, or parse Rust. It reads the text with comments and literals
//! blanked ([`code`]), which is enough for these rules and does not depend on the language version.
//!
//! | module | rules |
//! |---|---|
//! | [`text`] | heads, width, white space, invisible characters, unfinished work, machines' paths, large files |
//! | [`sizes`] | lines per file, as a ratchet |
//! | [`modules`] | no file that no `mod` reaches; a module with files of its own is a folder with `mod.rs` |
//! | [`circles`] | no files in several folders that need each other, by [`imports`] |
//! | [`unsafe_places`] | `unsafe` only in the modules that may hold it |
//! | [`manifests`] | a reason for every dependency |
//! | [`documents`] | paths that documents and heads name exist, each document is linked, the change log is open |
//! | [`history`] | commit subjects |

mod circles;
mod code;
mod documents;
mod exceptions;
mod history;
mod imports;
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

use crate::failure::Failure;
use crate::findings::Findings;
use std::path::Path;
use tree::Tree;

type Rule = fn(&Tree, &mut Findings);

const RULES: [Rule; 20] = [
    text::heads,
    text::width,
    text::white_space,
    text::invisible_characters,
    text::unfinished_work,
    text::machine_paths,
    text::large_files,
    sizes::lines,
    modules::unreached,
    modules::laid_out_alike,
    circles::across_folders,
    unsafe_places::strangers,
    manifests::reasons,
    documents::architecture,
    documents::paths,
    documents::linked,
    documents::heads_name_files,
    documents::change_log,
    history::subjects,
    exceptions::well_formed,
];

/// Everything all rules find under `root`, in order of path and line.
pub(crate) fn findings(root: &Path) -> Result<Findings, Failure> {
    Ok(judge(&Tree::load(root).map_err(Failure::machine)?))
}

fn judge(tree: &Tree) -> Findings {
    let mut findings = Findings::default();
    for rule in RULES {
        rule(tree, &mut findings);
    }
    findings.sort();
    findings
}

/// Prints the circles within folders, which are not failures, and the findings; fails if there are any.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let tree = Tree::load(root).map_err(Failure::machine)?;
    let findings = judge(&tree);
    circles::within_folders(&tree).iter().for_each(|circle| println!("{circle}"));
    findings.print();
    findings.verdict("tidy")
}
