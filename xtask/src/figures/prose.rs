//! Checks the prose of documents outside their blocks: README contains no number, and every named commit exists.
//!
//! Ignored are code blocks, code in backticks and targets of links (they show commands and addresses), and years.
//! A word counts as a commit if it has 7 to 12 or 40 hexadecimal digits, and either both letters and digits or the word
//! *commit* before it.

use super::blocks;
use super::results::{HASH_MIN, Results};
use crate::findings::Findings;
use crate::tidy::text::numbered;
use crate::tidy::tree::Tree;

/// The document whose sentences have no number of their own.
const README: &str = "README.md";

/// All of it.
pub(super) fn verify(tree: &Tree, results: &Results, findings: &mut Findings) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, hash) in commits(text) {
            if !results.has_commit(hash) {
                let problem = format!("commit {hash} is not in this history");
                findings.add(path, line, problem, "name the commit as it is now, or none");
            }
        }
    }
    for (line, number) in numbers(tree.text(README).unwrap_or_default()) {
        let fix = "put the sentence into a block of figures, or say it without a number";
        findings.add(README, line, format!("the number {number} has no source"), fix);
    }
}

/// Words that look like the hash of a commit, with their lines.
pub(super) fn commits(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in numbered(text) {
        in_code ^= line.starts_with("```");
        if in_code {
            continue;
        }
        let mut before = "";
        for word in line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
            let digits = word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            let length = (HASH_MIN..=12).contains(&word.len()) || word.len() == 40;
            let mixed = word.contains(|c: char| c.is_ascii_digit())
                && word.contains(|c: char| c.is_ascii_lowercase());
            if digits && length && (mixed || before == "commit") {
                found.push((number, word));
            }
            before = word;
        }
    }
    found
}

/// Numbers in sentences, with their lines.
pub(super) fn numbers(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    let mut in_code = false;
    for (number, line) in numbered(text) {
        in_block = (in_block || blocks::begins(line).is_some()) && !blocks::ends(line);
        let fence = line.starts_with("```");
        in_code ^= fence;
        if in_block || in_code || fence || line.starts_with("    ") {
            continue;
        }
        let sentence = without_targets(&without_code(line));
        for word in sentence.split(|c: char| !(c.is_alphanumeric() || ".,".contains(c))) {
            let word = word.trim_matches(['.', ',']);
            let begins = word.starts_with(|c: char| c.is_ascii_digit());
            let year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20"));
            if begins && !year {
                found.push((number, word.to_string()));
            }
        }
    }
    found
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// `[text](target)` without its target.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_string();
    let rest = parts.map(|part| part.split_once(')').map_or("", |(_, behind)| behind));
    rest.fold(first, |text, part| text + " " + part)
}
