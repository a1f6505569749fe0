//! Rules about plain text: what a line may hold, how a file starts, how large it may be.

use super::code;
use super::tree::Tree;
use crate::findings::Findings;

/// Wide enough for a table row; the formatter keeps code narrower.
const COLUMNS_MAX: usize = 120;

/// The most bytes that a file may add to each clone of the repository, unless it is a result.
const BYTES_MAX: u64 = 512 * 1024;

/// Every Rust file starts by saying what it is.
pub(crate) fn heads(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust.values() {
        if !file.text.starts_with("//!") {
            let fix = "say in `//!` lines what the file is, what it does not do, which invariants it keeps";
            findings.add(&file.path, 1, "the file does not start with `//!`", fix);
        }
    }
}

/// Lines of Rust fit next to another window.
pub(crate) fn width(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust.values() {
        for (line, text) in numbered(&file.text) {
            let columns = text.chars().count();
            if columns > COLUMNS_MAX {
                let problem = format!("{columns} columns, more than {COLUMNS_MAX}");
                findings.add(&file.path, line, problem, "break the line");
            }
        }
    }
}

/// No tabs and no spaces at the end of a line.
pub(crate) fn white_space(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust.values() {
        for (line, text) in numbered(&file.text) {
            if text.contains('\t') {
                findings.add(&file.path, line, "a tab", "use spaces; in a literal write \\t");
            }
            if text.ends_with([' ', '\r']) {
                findings.add(&file.path, line, "white space at the end of the line", "remove it");
            }
        }
    }
}

/// No character that an editor does not show: reviewed and compiled text must be the same.
pub(crate) fn invisible_characters(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts() {
        for (line, text) in numbered(text) {
            if let Some(found) = text.chars().find(|c| is_invisible(*c)) {
                let problem = format!("the invisible character U+{:04X}", u32::from(found));
                findings.add(path, line, problem, "remove it; in a literal write \\u{…}");
            }
        }
    }
}

/// Soft hyphen, zero-width and joining characters, direction marks, byte order mark.
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c), 0xAD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF)
}

/// Nothing is left for later in a source file: later work is an issue, where it can be found.
pub(crate) fn unfinished_work(tree: &Tree, findings: &mut Findings) {
    // Put together here so that this file does not find itself.
    let markers = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let sources = tree.texts().filter(|(path, _)| {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        ["rs", "py", "sh", "toml"].contains(&extension) || *path == ".ci/run"
    });
    for (path, text) in sources {
        for (line, text) in numbered(text) {
            for marker in markers {
                if code::words(text).any(|(_, word)| word == marker) {
                    findings.add(
                        path,
                        line,
                        marker,
                        "finish it, or write an issue and say here what holds now",
                    );
                }
            }
        }
    }
    for file in tree.rust.values() {
        for (offset, _) in code::words(&file.code).filter(|(_, word)| *word == "dbg") {
            if file.code[offset + "dbg".len()..].trim_start().starts_with('!') {
                findings.add(&file.path, file.line_of(offset), "`dbg!`", "remove it");
            }
        }
    }
}

/// No path of one machine: what is tracked must work in any folder.
pub(crate) fn machine_paths(tree: &Tree, findings: &mut Findings) {
    let places = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/Us", "ers/"),
    ];
    for (path, text) in tree.texts() {
        for (line, text) in numbered(text) {
            if let Some(place) = places.iter().find(|place| names_place(text, place)) {
                let problem = format!("a path of one machine ({place}…)");
                findings.add(
                    path,
                    line,
                    problem,
                    "make it relative to the repository, or a parameter",
                );
            }
        }
    }
}

/// Whether an absolute path that begins with `place` stands in the line; `net/work/` is not one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + place.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}*".contains(c))
            && after.is_some_and(|c| c.is_alphanumeric() || "_.-".contains(c))
    })
}

/// Large files stay out of every clone, except the measured results.
pub(crate) fn large_files(tree: &Tree, findings: &mut Findings) {
    for file in tree
        .files
        .iter()
        .filter(|file| file.bytes > BYTES_MAX && !file.path.starts_with("results/"))
    {
        let problem = format!("{} KB, more than {} KB", file.bytes / 1024, BYTES_MAX / 1024);
        findings.add(
            &file.path,
            1,
            problem,
            "generate it, shrink it, or keep it out of the repository",
        );
    }
}

/// Lines with their numbers from 1; a carriage return stays visible to the rules.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}
