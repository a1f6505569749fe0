//! Commit subjects say which part behaves how: `area: behaviour`, at most 72 characters.
//!
//! The last 50 commits are looked at. Without git, without history or in a source archive there is nothing to say.
//! Merges are left out: their subjects are git's.

use super::exceptions::{self, Exceptions};
use super::tree::Tree;
use crate::findings::Findings;
use std::process::Command;

/// The length that fits in one line of `git log --oneline` next to the hash.
const SUBJECT_MAX: usize = 72;

/// How far back a subject still counts.
const COMMITS: &str = "-50";

/// Every recent subject has the form.
pub(crate) fn subjects(tree: &Tree, findings: &mut Findings) {
    let exceptions = Exceptions::read(tree);
    for (hash, subject) in recent(tree) {
        let Some(problem) = problem(&subject) else { continue };
        if !exceptions.allows_subject_of(&hash) {
            let problem =
                format!("commit {}: {problem}: \"{subject}\"", &hash[..hash.len().min(10)]);
            let fix = "reword it before it is shared; afterwards list it as `subject HASH REASON`";
            findings.add(exceptions::PATH, 1, problem, fix);
        }
    }
}

fn recent(tree: &Tree) -> Vec<(String, String)> {
    if !tree.root.join(".git").exists() {
        return Vec::new();
    }
    let log = ["log", COMMITS, "--no-merges", "--format=%H %s"];
    let output = Command::new("git").arg("-C").arg(&tree.root).args(log).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let commits = text.lines().filter_map(|line| line.split_once(' '));
    commits.map(|(hash, subject)| (hash.to_string(), subject.to_string())).collect()
}

/// The error in a subject, if there is one.
pub(crate) fn problem(subject: &str) -> Option<String> {
    let characters = subject.chars().count();
    if characters > SUBJECT_MAX {
        return Some(format!("{characters} characters, more than {SUBJECT_MAX}"));
    }
    let area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/., ".contains(c);
    match subject.split_once(": ") {
        Some((name, behaviour))
            if name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
                && name.chars().all(area)
                && !behaviour.trim().is_empty() =>
        {
            None
        }
        _ => Some("not of the form `area: behaviour`".to_string()),
    }
}
