//! Tells the command which commit it is built from: results carry it.
//!
//! Read from the repository's own files, without running git; `unknown` where there is no repository.

use std::fs;
use std::path::Path;

fn main() {
    let git = Path::new("../../.git");
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "packed-refs"] {
        if git.join(file).exists() {
            println!("cargo::rerun-if-changed={}", git.join(file).display());
        }
    }
    let commit = commit(git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=TOMBOLO_COMMIT={commit}");
}

/// What HEAD names: a commit, or a branch whose commit is in a file of its own or among the packed ones.
fn commit(git: &Path) -> Option<String> {
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(branch) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    let file = git.join(branch);
    if let Ok(commit) = fs::read_to_string(&file) {
        println!("cargo::rerun-if-changed={}", file.display());
        return Some(commit.trim().to_owned());
    }
    let packed = fs::read_to_string(git.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.ends_with(&format!(" {branch}")))?;
    Some(line.split(' ').next()?.to_owned())
}
