//! Documents are right about the tree: the paths they name exist, each document can be found from another one, and the
//! change log has a place for the next change.
//!
//! A path is a word in backticks that looks like one, or the target of a link. A word may be written from the root,
//! from the document's folder, from `crates/`, from a package or from its `src/`, and a module may lack its `.rs`:
//! people write `memory/btree`, and that is clear enough. Code blocks are not read: they show trees and sessions, often
//! of other folders.

use std::collections::BTreeSet;

use super::text::numbered;
use super::tree::Tree;
use crate::findings::Findings;

const REMEDY: &str = "name the file as it is now, or describe the idea without a path";

/// There is a map.
pub(crate) fn architecture(tree: &Tree, findings: &mut Findings) {
    const PATH: &str = "ARCHITECTURE.md";
    if tree.text(PATH).is_none() {
        findings.add(PATH, 1, "there is no ARCHITECTURE.md", "write the map of the project");
    }
}

/// No document names a file that is not there.
pub(crate) fn paths(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        check_lines(tree, path, outside_code_blocks(text), findings);
    }
}

/// Each document in `docs/` is linked from another document, or no reader finds it.
pub(crate) fn linked(tree: &Tree, findings: &mut Findings) {
    let is_document = |path: &str| path.ends_with(".md");
    let mut linked = BTreeSet::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (_, line) in outside_code_blocks(text) {
            let targets = links(line).map(|target| from_the_root(target, folder));
            linked.extend(targets.filter(|target| target != path));
        }
    }
    let documents = tree.files.iter().map(|file| file.path.as_str());
    for path in documents.filter(|path| path.starts_with("docs/") && is_document(path)) {
        if !linked.contains(path) {
            findings.add(path, 1, "no document links to it", "link it where its readers look");
        }
    }
}

/// No head of a file names a source file that is not there. A head may begin a path at any folder.
pub(crate) fn heads_name_files(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        for (number, line) in numbered(text).filter(|(_, line)| line.starts_with("//!")) {
            let is_file = |word: &&str| word.ends_with(".rs") && *word != ".rs";
            for word in line.split('`').skip(1).step_by(2).filter(is_file) {
                let end = format!("/{word}");
                if !tree.has(word) && !tree.files.iter().any(|file| file.path.ends_with(&end)) {
                    findings.add(path, number, format!("`{word}` does not exist"), REMEDY);
                }
            }
        }
    }
}

/// The change log has an open section.
pub(crate) fn change_log(tree: &Tree, findings: &mut Findings) {
    const PATH: &str = "CHANGELOG.md";
    let text = tree.text(PATH).unwrap_or_default();
    if !text.lines().any(|line| line.starts_with('#') && line.contains("Unreleased")) {
        let fix =
            "add `## Unreleased` with Durability & Correctness, Performance, Features, Internals";
        findings.add(PATH, 1, "no section Unreleased", fix);
    }
}

fn outside_code_blocks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    })
}

fn check_lines<'t>(
    tree: &Tree,
    path: &str,
    lines: impl Iterator<Item = (usize, &'t str)>,
    findings: &mut Findings,
) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut bases = bases(tree);
    bases.push(format!("{folder}/"));
    for (number, line) in lines {
        for word in line.split('`').skip(1).step_by(2) {
            for candidate in expanded(bare(word)) {
                if looks_like_path(&candidate, tree, &bases) && !exists(&candidate, tree, &bases) {
                    findings.add(path, number, format!("`{candidate}` does not exist"), REMEDY);
                }
            }
        }
        for target in links(line).filter(|target| !leads_to(target, folder, tree)) {
            findings.add(path, number, format!("the link to {target} leads nowhere"), REMEDY);
        }
    }
}

/// The targets of links to other files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| bare(target)).filter(|target| !target.is_empty() && !is_url(target))
}

fn is_url(target: &str) -> bool {
    target.starts_with("http") || target.starts_with("mailto")
}

/// Whether a link in a document of `folder` leads to a file.
fn leads_to(target: &str, folder: &str, tree: &Tree) -> bool {
    tree.has(&from_the_root(target, folder))
}

/// The path of a link's target, which is relative to the document's folder.
fn from_the_root(target: &str, folder: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The folders a path may be written from, each with its closing slash.
fn bases(tree: &Tree) -> Vec<String> {
    let mut bases = vec![String::new(), "crates/".to_string()];
    for package in tree.files.iter().filter_map(|file| file.path.strip_suffix("Cargo.toml")) {
        bases.push(package.to_string());
        bases.push(format!("{package}src/"));
    }
    bases
}

/// The word without a line number, an item's name, or a fragment.
fn bare(word: &str) -> &str {
    let word = word.split_once("::").map_or(word, |(path, _)| path);
    let word = word.split_once('#').map_or(word, |(path, _)| path);
    match word.split_once(':') {
        Some((path, line)) if line.starts_with(|c: char| c.is_ascii_digit()) => path,
        _ => word,
    }
}

/// `a/{b,c}` is two paths.
fn expanded(word: &str) -> Vec<String> {
    let parts = word.split_once('{').and_then(|(head, rest)| {
        let (list, tail) = rest.split_once('}')?;
        Some(
            list.split(',')
                .flat_map(|part| expanded(&format!("{head}{}{tail}", part.trim())))
                .collect(),
        )
    });
    parts.unwrap_or_else(|| vec![word.to_string()])
}

fn looks_like_path(word: &str, tree: &Tree, bases: &[String]) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if word.is_empty()
        || !word.chars().all(plain)
        || word.starts_with(['/', '.']) && !word.starts_with(".c")
    {
        return false;
    }
    let source = [".rs", ".md", ".toml", ".py", ".txt", ".json", ".sh"]
        .iter()
        .any(|end| word.ends_with(end));
    match word.split_once('/') {
        // A bare name is only taken for a file where nothing else is spelled like one.
        None => word.ends_with(".rs") || word.ends_with(".md"),
        Some((first, rest)) => {
            let known = bases.iter().any(|base| tree.has(&format!("{base}{first}")));
            !is_product(first, tree) && (known || source || rest.is_empty() || word.ends_with('/'))
        }
    }
}

/// Whether the first folder is something git ignores, hence made by a build or a run.
fn is_product(first: &str, tree: &Tree) -> bool {
    let ignored =
        tree.text(".gitignore").unwrap_or_default().lines().map(|line| line.trim_matches('/'));
    ignored.filter(|line| !line.is_empty()).any(|line| match line.strip_suffix('*') {
        Some(start) => first.starts_with(start),
        None => first == line,
    })
}

fn exists(word: &str, tree: &Tree, bases: &[String]) -> bool {
    let word = word.trim_end_matches('/');
    if !word.contains('/')
        && tree.files.iter().any(|file| file.path.rsplit('/').next() == Some(word))
    {
        return true;
    }
    bases.iter().any(|base| {
        let path = format!("{base}{word}");
        tree.has(&path) || tree.has(&format!("{path}.rs"))
    })
}
