//! Where `unsafe` may stand: the modules of this list, and nowhere else.
//!
//! The lint `unsafe_code` is denied for the workspace and lifted module by module; this list keeps the lifting
//! from spreading. A new entry is a decision: write it down in docs/decisions/ first.

use super::code;
use super::tree::Tree;
use crate::findings::Findings;

/// Modules by path without `.rs`; a module's own files below it are included.
const ALLOWED: [&str; 15] = [
    // The memory store: slots and nodes by pointer.
    "crates/tombolo-storage/src/memory/region",
    "crates/tombolo-storage/src/memory/slab",
    "crates/tombolo-storage/src/memory/btree",
    "crates/tombolo-storage/src/memory/hash",
    // The paged store: frames shared under latches.
    "crates/tombolo-storage/src/paged/page",
    "crates/tombolo-storage/src/paged/pool",
    "crates/tombolo-storage/src/latch",
    "crates/tombolo-storage/src/log/buffer",
    // What speaks to the system or the processor (a checksum by its instruction), or hands a stage from thread to
    // thread.
    "crates/tombolo-storage/src/checksum",
    "crates/tombolo-storage/src/disk",
    "crates/tombolo-engine/src/pipeline/transport/seat",
    // Memory that two processes share (docs/decisions/0045-links-and-the-machine.md).
    "crates/tombolo-engine/src/link/ring",
    "crates/tombolo-lab/src/counters",
    // A peer that maps its file (docs/decisions/0025-peers-by-their-libraries.md).
    "crates/tombolo-lab/src/compare/lmdb",
    // A counting allocator is an unsafe trait; a test that counts allocations needs one.
    "crates/*/tests/*alloc*",
];

/// No `unsafe` outside the list.
pub(crate) fn strangers(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust.values().filter(|file| !allowed(&file.path)) {
        let Some((offset, _)) = code::words(&file.code).find(|(_, word)| *word == "unsafe") else {
            continue;
        };
        let fix =
            "use a safe form, or move it into a module listed in xtask/src/tidy/unsafe_places.rs";
        findings.add(
            &file.path,
            file.line_of(offset),
            "`unsafe` outside the modules that may hold it",
            fix,
        );
    }
}

fn allowed(path: &str) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    ALLOWED.iter().any(|entry| {
        let mut parts = stem.split('/');
        entry.split('/').all(|wanted| parts.next().is_some_and(|part| matches(wanted, part)))
    })
}

/// Whether a part of a path is the one wanted; `*` stands for anything, `*name*` for anything around a name.
fn matches(wanted: &str, part: &str) -> bool {
    if wanted.starts_with('*') { part.contains(wanted.trim_matches('*')) } else { part == wanted }
}
