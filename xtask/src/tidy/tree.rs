//! The files the rules look at: what git tracks or would track, with Rust sources also as blanked code.
//!
//! Files not yet added count too, so that tidy speaks before the commit and not after it. Without a git
//! repository (a source archive) every file counts except build products and hidden folders of tools.

use super::code;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file by its path relative to the root, with `/` between folders.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// `None` where the content is not UTF-8.
    pub(crate) text: Option<String>,
}

/// A Rust source, with what the rules ask of it more than once.
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked; offsets and lines are those of `text`.
    pub(crate) code: String,
    /// Byte ranges of the items under `#[cfg(test)]`.
    pub(crate) test_items: Vec<Range<usize>>,
}

/// All files under one root.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<File>,
    pub(crate) rust: BTreeMap<String, RustFile>,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut paths = match tracked(root) {
            Some(paths) => paths,
            None => {
                walked(root).map_err(|error| format!("cannot list {}: {error}", root.display()))?
            }
        };
        paths.sort();
        paths.dedup();
        let mut tree = Self { root: root.to_path_buf(), files: Vec::new(), rust: BTreeMap::new() };
        for path in paths {
            // Listed and gone: deleted in the working folder, or a link to nowhere.
            let Ok(content) = std::fs::read(root.join(&path)) else { continue };
            let bytes = content.len() as u64;
            let text = String::from_utf8(content).ok();
            if let (Some(text), true) = (&text, path.ends_with(".rs")) {
                tree.rust.insert(path.clone(), RustFile::new(&path, text));
            }
            tree.files.push(File { path, bytes, text });
        }
        Ok(tree)
    }

    /// Files that are text, with their text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(candidate, _)| *candidate == path).map(|(_, text)| text)
    }

    /// Whether `path` is a file, or a folder that holds one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl RustFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = code::blanked(text);
        let test_items = code::test_items(&code);
        Self { path: path.to_string(), text: text.to_string(), code, test_items }
    }

    pub(crate) fn in_test_item(&self, offset: usize) -> bool {
        self.test_items.iter().any(|range| range.contains(&offset))
    }

    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// What git knows or would add; `None` without a repository of this root's own, or without git.
fn tracked(root: &Path) -> Option<Vec<String>> {
    // A folder inside some other repository must not be judged by that repository's list.
    if !root.join(".git").exists() {
        return None;
    }
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let list = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(list.split_terminator('\0').map(ToString::to_string).collect())
}

fn walked(root: &Path) -> std::io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = format!("{folder}{}", entry.file_name().to_string_lossy());
            let product = folder.is_empty() && path.starts_with("target");
            match entry.file_type()?.is_dir() {
                true if product || path == ".git" => {}
                true => folders.push(path + "/"),
                false => paths.push(path),
            }
        }
    }
    Ok(paths)
}
