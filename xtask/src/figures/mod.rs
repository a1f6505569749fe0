//! `cargo xtask figures`: every measured figure in a document comes from a row in `results/`.
//!
//! A Markdown file marks a place with `<!-- figures: NAME -->` and `<!-- end -->`; the text in between is rendered
//! from the template `docs/figures/NAME.md.j2`. A template `docs/figures/NAME.svg.j2` becomes `docs/NAME.svg`. This
//! command writes both; with `--check` it changes nothing and fails if a document differs.
//!
//! The check also fails if a row in `results/` does not parse or lacks its machine or its commit, if a row or a
//! document names a commit that is not in this history, and if README's prose contains a number of its own.
//!
//! | module | does |
//! |---|---|
//! | [`results`] | reads the rows and reports their errors |
//! | [`template`] | the functions and filters that templates use |
//! | [`blocks`] | finds the marked places and replaces them |
//! | [`prose`] | numbers in README, commits in documents |
//!
//! It does not measure, and does not judge figures. That the files named in documents exist is a rule of
//! `cargo xtask tidy`.

mod blocks;
mod prose;
mod results;
mod template;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::failure::Failure;
use crate::findings::Findings;
use crate::tidy::tree::Tree;
use results::Results;
use template::Templates;

/// A file that has to change, with its new content.
struct Change {
    path: String,
    text: String,
}

/// Writes the figures, or with `--check` only compares.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    match words {
        [] => write(root),
        ["--check"] => {
            let findings = findings(root)?;
            findings.print();
            findings.verdict("figures")
        }
        _ => Err(Failure::usage("figures takes no argument but --check")),
    }
}

/// All errors of rows, documents and pictures.
pub(crate) fn findings(root: &Path) -> Result<Findings, Failure> {
    let tree = Tree::load(root).map_err(Failure::machine)?;
    let mut findings = Findings::default();
    let results = Results::load(&tree, &mut findings);
    prose::verify(&tree, &results, &mut findings);
    let templates = Templates::load(&tree, &results, &mut findings);
    for change in changes(&tree, &templates, &mut findings) {
        let now = tree.text(&change.path).unwrap_or_default();
        let line = first_difference(now, &change.text);
        findings.add(&change.path, line, "differs from results/", "run `cargo xtask figures`");
    }
    findings.sort();
    Ok(findings)
}

fn write(root: &Path) -> Result<(), Failure> {
    let tree = Tree::load(root).map_err(Failure::machine)?;
    let mut findings = Findings::default();
    let results = Results::load(&tree, &mut findings);
    let templates = Templates::load(&tree, &results, &mut findings);
    let changes = changes(&tree, &templates, &mut findings);
    for change in &changes {
        let path = root.join(&change.path);
        std::fs::write(&path, &change.text)
            .map_err(|error| Failure::machine(format!("cannot write {}: {error}", change.path)))?;
        println!("figures: wrote {}", change.path);
    }
    findings.print();
    findings.verdict("figures")
}

/// The documents and pictures that differ from the output of their templates.
fn changes(tree: &Tree, templates: &Templates<'_>, findings: &mut Findings) -> Vec<Change> {
    let mut used = Vec::new();
    let mut changes = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        used.extend(blocks::names(text).map(|name| format!("{name}.md.j2")));
        match blocks::replaced(text, |name| templates.render(&format!("{name}.md.j2"))) {
            Ok(new) if new != text => changes.push(Change { path: path.to_string(), text: new }),
            Ok(_) => {}
            Err((line, problem)) => findings.add(path, line, problem, "correct the block"),
        }
    }
    for name in templates.names() {
        let path = format!("{}{name}", template::FOLDER);
        if let Some(picture) = name.strip_suffix(".svg.j2") {
            let picture = format!("docs/{picture}.svg");
            match templates.render(&name) {
                Ok(text) if tree.text(&picture) != Some(&text) => {
                    changes.push(Change { path: picture, text });
                }
                Ok(_) => {}
                Err(problem) => findings.add(&path, 1, problem, "correct the template"),
            }
        } else if name.ends_with(".md.j2") && !used.contains(&name) {
            findings.add(&path, 1, "no document uses this template", "remove it");
        }
    }
    changes
}

fn first_difference(now: &str, new: &str) -> usize {
    let same = now.lines().zip(new.lines()).take_while(|(now, new)| now == new).count();
    same + 1
}
