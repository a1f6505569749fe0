//! Which Rust files a build can see: a file that no `mod` declaration reaches is dead code that still reads as
//! living.
//!
//! Starts at every package's roots (library, commands, tests, examples, benches, build script, programs in
//! `tests/mistakes/`, which a test compiles to see them refused, and `path = "…"` in its manifest)
//! and follows `mod name;`, inline modules, `#[path = "…"]` and `include!("…")`.
//! Declarations made by macros are not seen; the project has none.
//!
//! The same file says how a module with files of its own is laid out: as a folder with `mod.rs`.

use super::code;
use super::tree::{RustFile, Tree};
use crate::findings::Findings;
use std::collections::BTreeMap;

/// Each file reached, and whether only tests reach it.
pub(crate) fn reached(tree: &Tree) -> BTreeMap<String, bool> {
    let mut reached: BTreeMap<String, bool> = BTreeMap::new();
    let mut open: Vec<(String, bool, bool)> =
        roots(tree).map(|(path, test)| (path, test, true)).collect();
    while let Some((path, test, is_root)) = open.pop() {
        let Some(file) = tree.rust.get(&path) else { continue };
        // Seen before with at least this standing: shipped code outranks tests.
        if reached.get(&path).is_some_and(|known| !known || test) {
            continue;
        }
        reached.insert(path, test);
        for declared in declarations(file, is_root) {
            for candidate in declared.candidates {
                open.push((candidate, test || declared.in_test_item, false));
            }
        }
    }
    reached
}

/// The files of the crate whose root file is `root`, each by its module's path; tests do not count.
pub(crate) fn source_modules<'a>(
    tree: &'a Tree,
    root: &str,
) -> impl Iterator<Item = (Vec<String>, &'a RustFile)> {
    let mut open = vec![(Vec::new(), root.to_string())];
    std::iter::from_fn(move || {
        while let Some((place, path)) = open.pop() {
            let Some(file) = tree.rust.get(&path) else { continue };
            for declared in declarations(file, place.is_empty()) {
                // What is included has no name of its own.
                if !declared.in_test_item && !declared.name.is_empty() {
                    let place = [place.as_slice(), &declared.name].concat();
                    open.extend(declared.candidates.into_iter().map(|path| (place.clone(), path)));
                }
            }
            return Some((place, file));
        }
        None
    })
}

/// The root files of libraries and programs that ship.
pub(crate) fn source_roots(tree: &Tree) -> impl Iterator<Item = String> {
    roots(tree).filter(|(path, test)| !test && path.contains("src/")).map(|(path, _)| path)
}

/// Every file under a package's `src` or `tests` is reached.
pub(crate) fn unreached(tree: &Tree, findings: &mut Findings) {
    let reached = reached(tree);
    for path in tree.rust.keys().filter(|path| !reached.contains_key(*path)) {
        let in_package = packages(tree).any(|package| {
            path.strip_prefix(package)
                .is_some_and(|rest| rest.starts_with("src/") || rest.starts_with("tests/"))
        });
        if in_package {
            let fix = "declare it with `mod`, or remove the file";
            findings.add(path, 1, "no `mod` declaration reaches this file", fix);
        }
    }
}

/// A module with files of its own is a folder with `mod.rs`. One that has only tests in its folder may stay `name.rs`.
pub(crate) fn laid_out_alike(tree: &Tree, findings: &mut Findings) {
    for path in tree.rust.keys().filter(|path| path.contains("src/")) {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        let has_files = tree.files.iter().any(|file| {
            file.path.strip_prefix(&folder).is_some_and(|rest| {
                let first = rest.split('/').next().unwrap_or(rest);
                !first.trim_end_matches(".rs").ends_with("tests")
            })
        });
        if has_files {
            let message = format!("the module's other files are in a folder: {folder}mod.rs");
            findings.add(path, 1, message, "move it into the folder, as mod.rs");
        }
    }
}

/// The folders that hold a manifest, with their closing slash (the root's is empty).
fn packages(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.files.iter().filter_map(|file| file.path.strip_suffix("Cargo.toml"))
}

/// The files cargo itself starts from, and whether each is a test.
fn roots(tree: &Tree) -> impl Iterator<Item = (String, bool)> {
    let named = |package: &str| {
        let manifest = tree.text(&format!("{package}Cargo.toml")).unwrap_or_default();
        let lines = manifest.lines().filter_map(|line| line.trim().strip_prefix("path"));
        let values = lines.filter_map(|rest| rest.trim_start().strip_prefix('='));
        values.map(|value| value.trim().trim_matches('"').to_string()).collect::<Vec<_>>()
    };
    tree.rust.keys().filter_map(move |path| {
        packages(tree).find_map(|package| {
            let rest = path.strip_prefix(package)?;
            let test = ["tests/", "benches/"].iter().any(|folder| rest.starts_with(folder));
            (is_root(rest) || named(package).iter().any(|name| name == rest))
                .then(|| (path.clone(), test))
        })
    })
}

fn is_root(path_in_package: &str) -> bool {
    matches!(
        path_in_package.split('/').collect::<Vec<_>>()[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "examples" | "benches", _]
            | ["tests" | "examples" | "benches", _, "main.rs"]
            | ["tests", "mistakes", _]
    )
}

/// One file that another names.
struct Declared {
    /// The module's name, behind those of the inline modules around it; empty for what is included.
    name: Vec<String>,
    /// Where the file may be.
    candidates: Vec<String>,
    in_test_item: bool,
}

/// The files that a file names.
fn declarations(file: &RustFile, is_root: bool) -> Vec<Declared> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let mut base: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if !is_root && name != "mod.rs" {
        base.push(name.trim_end_matches(".rs"));
    }
    let folder = folder.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let mut found = Vec::new();
    // Inline modules around the word we are at: name and the offset behind their closing brace.
    let mut inline: Vec<(&str, usize)> = Vec::new();
    let mut words = code::words(&file.code).peekable();
    while let Some((at, word)) = words.next() {
        inline.retain(|(_, end)| *end > at);
        if word == "include" {
            found.extend(literal_after(file, at + word.len()).map(|path| Declared {
                name: Vec::new(),
                candidates: vec![joined(&folder, path)],
                in_test_item: file.in_test_item(at),
            }));
        }
        let (true, Some((name_at, name))) = (word == "mod", words.peek().copied()) else {
            continue;
        };
        let behind = name_at + name.len();
        let rest = &file.code[behind..];
        let punctuation = behind + (rest.len() - rest.trim_start().len());
        match file.code.as_bytes().get(punctuation) {
            Some(b'{') => inline.push((name, code::closing(&file.code, punctuation))),
            Some(b';') => {
                let around: Vec<&str> = inline.iter().map(|(name, _)| *name).collect();
                let parts = [base.as_slice(), &around].concat();
                let candidates = match path_attribute(file, at) {
                    Some(path) => vec![joined(&folder, path)],
                    None => {
                        let module = joined(&parts, name);
                        vec![format!("{module}.rs"), format!("{module}/mod.rs")]
                    }
                };
                let name = around.iter().chain([&name]).map(|name| (*name).to_string()).collect();
                found.push(Declared { name, candidates, in_test_item: file.in_test_item(at) });
            }
            _ => {}
        }
    }
    found
}

/// The value of `#[path = "…"]` among the attributes in front of `at`.
fn path_attribute(file: &RustFile, at: usize) -> Option<&str> {
    let start = file.code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    let attribute = start + file.code[start..at].find("#[path")?;
    literal_after(file, attribute + "#[path".len())
}

/// The string literal that follows `at` within the next few characters; the blanked code has lost it.
fn literal_after(file: &RustFile, at: usize) -> Option<&str> {
    let mut parts = file.text[at..].splitn(3, '"');
    let before = parts.next()?;
    let plain = before.chars().all(|c| c.is_whitespace() || "=!(".contains(c));
    parts.next().filter(|_| plain)
}

/// `path` seen from `folder`, with `.` and `..` resolved.
fn joined(folder: &[&str], path: &str) -> String {
    let mut parts = folder.to_vec();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
