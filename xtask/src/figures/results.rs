//! The rows of `results/`: each is JSON, names the machine it was measured on and a commit of this history.
//!
//! A `.json` file is one row; each line of a `.jsonl` file is one. `host` is an object with `cpu`; only a row with
//! `"simulated": true` may lack it, since it does not depend on a machine. Files of other kinds are notes that
//! `results/README.md` explains; templates cannot read them.
//!
//! Without git, or in a clone without its history, commits are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::findings::Findings;
use crate::tidy::text::numbered;
use crate::tidy::tree::Tree;

const FOLDER: &str = "results/";

/// The shortest accepted form of a commit's hash.
pub(super) const HASH_MIN: usize = 7;

/// All rows by file, and all commits.
pub(super) struct Results {
    /// By path below `results/`.
    pub(super) files: BTreeMap<String, Vec<Value>>,
    commits: Option<BTreeSet<String>>,
}

impl Results {
    /// Reads all rows; each error of a row is a finding.
    pub(super) fn load(tree: &Tree, findings: &mut Findings) -> Self {
        let mut results = Self { files: BTreeMap::new(), commits: commits(&tree.root) };
        for (path, text) in tree.texts() {
            let Some(name) = path.strip_prefix(FOLDER) else { continue };
            let rows: Vec<(usize, &str)> = match name.rsplit_once('.') {
                Some((_, "json")) => vec![(1, text)],
                Some((_, "jsonl")) => numbered(text).filter(|(_, line)| !line.is_empty()).collect(),
                _ => continue,
            };
            let rows = rows.into_iter().filter_map(|(line, row)| {
                results.row(row).map_err(|problem| findings.add(path, line, problem, REMEDY)).ok()
            });
            let rows = rows.collect();
            results.files.insert(name.to_string(), rows);
        }
        results
    }

    fn row(&self, text: &str) -> Result<Value, String> {
        let row: Value =
            serde_json::from_str(text).map_err(|error| format!("not a row of JSON: {error}"))?;
        let cpu = row.pointer("/host/cpu").and_then(Value::as_str);
        if cpu.is_none_or(str::is_empty) && row.get("simulated") != Some(&Value::Bool(true)) {
            return Err("the row does not name its machine (`host.cpu`)".to_string());
        }
        // A row that compares two commits names both.
        let commits = [row.get("commit").unwrap_or(&Value::Null)].into_iter();
        for commit in commits.chain(row.get("commit_before")) {
            let commit = commit.as_str().unwrap_or_default();
            let is_hash = commit.len() >= HASH_MIN && commit.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_hash || !self.has_commit(commit) {
                return Err(format!("the row's commit `{commit}` is not in this history"));
            }
        }
        Ok(row)
    }

    /// Whether a hash, or the beginning of one, is that of a commit before the present one.
    pub(super) fn has_commit(&self, hash: &str) -> bool {
        self.commits.as_ref().is_none_or(|commits| commits.contains(&hash[..HASH_MIN]))
    }
}

const REMEDY: &str = "measure it again, or remove the row and what is said of it";

/// The first [`HASH_MIN`] digits of each commit up to the present one; `None` where that cannot be known.
fn commits(root: &Path) -> Option<BTreeSet<String>> {
    // A folder inside some other repository must not be judged by that repository's history.
    if !root.join(".git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok().filter(|_| output.status.success())
    };
    if git(&["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        return None;
    }
    let list = git(&["rev-list", "HEAD"])?;
    Some(list.lines().map(|hash| hash[..HASH_MIN].to_string()).collect())
}
