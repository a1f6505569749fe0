//! Gives the command and the simulator the commit they are built from: results carry it.
//!
//! Read from the repository's own files, without running git; `unknown` where there is no repository.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let commit = commit(Path::new("../../.git")).unwrap_or_else(|| "unknown".to_owned());
    // No name that begins like a setting's: `cargo run` hands it to the program, too.
    println!("cargo::rustc-env=BUILT_FROM_COMMIT={commit}");
}

/// A file of the repository, which the build depends on.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

/// What HEAD names: a commit, or a branch whose commit is in a file of its own or among the packed ones.
fn commit(git: &Path) -> Option<String> {
    // In a linked worktree `.git` is a file that says where its HEAD is; branches are in the main one's.
    let own = match read(git) {
        Some(link) => PathBuf::from(link.strip_prefix("gitdir: ")?),
        None => git.to_owned(),
    };
    let common = read(&own.join("commondir")).map_or_else(|| own.clone(), |path| own.join(path));
    let head = read(&own.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref: ") else { return Some(head) };
    if let Some(commit) = read(&common.join(branch)) {
        return Some(commit);
    }
    let packed = read(&common.join("packed-refs"))?;
    let line = packed.lines().find(|line| line.ends_with(&format!(" {branch}")))?;
    Some(line.split(' ').next()?.to_owned())
}
