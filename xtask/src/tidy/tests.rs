//! Each rule against a small tree that breaks it, and against a tree that breaks none; then the repository itself.

use super::findings;
use super::history::problem;
use super::scratch::Scratch;

/// A tree in which no rule finds anything.
const CLEAN: [(&str, &str); 13] = [
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nserde = \"1\" # rows to JSON\n",
    ),
    (
        "ARCHITECTURE.md",
        "`store.rs`, `crates/tombolo-storage/src/memory/` and `memory/{btree,slab}`; `a/b`\n",
    ),
    ("CHANGELOG.md", "# Changes\n\n## Unreleased\n"),
    ("README.md", "[papers](docs/papers.md)\n"),
    (".gitignore", "/target\n/out*\n"),
    (
        "docs/papers.md",
        "| idea | place |\n|---|---|\n| x | `memory/slab`, [the map](../ARCHITECTURE.md#x), [web](https://x.org) |\n",
    ),
    (
        "crates/tombolo-storage/Cargo.toml",
        "[package]\nname = \"x\"\n[dependencies]\nserde.workspace = true\ntombolo-x.workspace = true\n\
         # Reads hidden in plain sight.\nlibc = { version = \"1\", features = [\n  \"std\",\n] }\n",
    ),
    ("crates/tombolo-storage/src/lib.rs", "//! Library.\nmod memory;\n/// Store.\nmod store;\n"),
    ("crates/tombolo-storage/src/store.rs", "//! Store.\n// unsafe is only a word here\n"),
    (
        "crates/tombolo-storage/src/memory/mod.rs",
        "//! Memory.\nmod btree;\nmod slab;\n#[cfg(test)]\nmod checks;\n",
    ),
    ("crates/tombolo-storage/src/memory/slab.rs", "//! Slab.\nfn f() { unsafe { g() } }\n"),
    ("crates/tombolo-storage/src/memory/btree.rs", "//! Tree.\n"),
    ("crates/tombolo-storage/src/memory/checks.rs", "//! Checks.\n"),
];

fn shown(scratch: &Scratch) -> Vec<String> {
    findings(scratch.root()).unwrap().shown()
}

/// The clean tree with one file added or replaced gives exactly one finding, which holds `expected`.
#[track_caller]
fn breaks(path: &str, text: &str, expected: &str) {
    let scratch = Scratch::new(&CLEAN);
    scratch.write(path, text);
    let found = shown(&scratch);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains(expected), "{} lacks {expected}", found[0]);
}

/// The same, with no finding.
#[track_caller]
fn passes(path: &str, text: &str) {
    let scratch = Scratch::new(&CLEAN);
    scratch.write(path, text);
    assert_eq!(shown(&scratch), Vec::<String>::new());
}

const STORE: &str = "crates/tombolo-storage/src/store.rs";

fn lines(count: usize) -> String {
    "//! Long.\n".to_string() + &"fn f() {}\n".repeat(count - 1)
}

#[test]
fn a_clean_tree_passes() {
    assert_eq!(shown(&Scratch::new(&CLEAN)), Vec::<String>::new());
}

#[test]
fn a_file_starts_with_its_head() {
    breaks(STORE, "fn f() {}\n", "store.rs:1: the file does not start with `//!` — say");
    breaks("examples/x.rs", "// Example.\n", "examples/x.rs:1: the file does not start");
}

#[test]
fn lines_are_narrow() {
    breaks(
        STORE,
        &format!("//! S.\n// {}\n", "ä".repeat(118)),
        "store.rs:2: 121 columns, more than 120",
    );
    passes(STORE, &format!("//! S.\n// {}\n", "ä".repeat(117)));
}

#[test]
fn white_space_is_plain() {
    breaks(STORE, "//! S.\n\tfn f() {}\n", "store.rs:2: a tab");
    breaks(STORE, "//! S.\nfn f() {} \n", "store.rs:2: white space at the end");
    breaks(STORE, "//! S.\r\n", "store.rs:1: white space at the end");
}

#[test]
fn invisible_characters_are_shown() {
    breaks(STORE, "//! S.\n// a\u{200b}b\n", "store.rs:2: the invisible character U+200B");
    breaks("x.md", "a\u{202e}b\n", "x.md:1: the invisible character U+202E");
}

#[test]
fn nothing_is_left_for_later() {
    breaks(STORE, concat!("//! S.\n// TO", "DO: more\n"), concat!("store.rs:2: TO", "DO"));
    breaks("xtask/x.py", concat!("# FIX", "ME\n"), concat!("x.py:1: FIX", "ME"));
    breaks(STORE, "//! S.\nfn f() {\n    dbg!(1);\n}\n", "store.rs:3: `dbg!`");
    passes(STORE, "//! S. dbg! is a macro\nfn dbg() {}\n");
}

#[test]
fn no_machine_is_named() {
    for place in [
        concat!("/ho", "me/ann"),
        concat!("/ro", "ot/x"),
        concat!("/wo", "rk/main"),
        concat!("/Us", "ers/b"),
    ] {
        breaks("x.md", &format!("one\nsee `{place}/x`\n"), "x.md:2: a path of one machine");
    }
    passes("x.md", concat!("net/wo", "rk/x and example.org/ho", "me/x\n"));
}

#[test]
fn files_are_small_except_results() {
    let large = "x".repeat(512 * 1024 + 1);
    breaks("docs/large.txt", &large, "docs/large.txt:1: 512 KB, more than 512 KB");
    passes("results/large.txt", &large);
}

#[test]
fn long_files_are_split() {
    passes(STORE, &lines(600));
    breaks(STORE, &lines(601), "store.rs:1: 601 lines without tests, more than 600");
    breaks(STORE, &lines(1_001), "1001 lines without tests; 1000 is the hard limit");
    let with_tests =
        lines(590) + "#[cfg(test)]\nmod tests {\n" + &"fn f() {}\n".repeat(500) + "}\n";
    passes(STORE, &with_tests);
    passes("crates/tombolo-storage/src/memory/checks.rs", &lines(700));
    passes("crates/tombolo-storage/tests/model.rs", &lines(1_200));
}

#[test]
fn an_exception_is_a_ratchet() {
    let ratchet = |count: usize, entry: &str| {
        let scratch = Scratch::new(&CLEAN);
        scratch.write(STORE, &lines(count));
        scratch.write("xtask/exceptions.txt", &format!("# why\n{entry}\n"));
        shown(&scratch)
    };
    let entry = format!("lines {STORE} 700");
    assert_eq!(ratchet(700, &entry), Vec::<String>::new());
    assert!(ratchet(701, &entry)[0].contains("701 lines without tests, more than 700"));
    assert!(ratchet(650, &entry)[0].contains("exceptions.txt:2:"));
    assert!(ratchet(1_001, &format!("lines {STORE} 1001"))[0].contains("hard limit"));
    assert!(ratchet(10, "lines crates/gone.rs 700")[0].contains("crates/gone.rs does not exist"));
    assert!(ratchet(10, "lines crates/gone.rs many")[0].contains("not an exception"));
}

#[test]
fn every_file_is_reached() {
    breaks(
        "crates/tombolo-storage/src/stray.rs",
        "//! S.\n",
        "stray.rs:1: no `mod` declaration reaches",
    );
    breaks(
        "crates/tombolo-storage/tests/common/mod.rs",
        "//! C.\n",
        "common/mod.rs:1: no `mod` declaration",
    );
    passes("crates/tombolo-storage/src/bin/tool.rs", "//! T.\n");
    passes("crates/tombolo-storage/tests/mistakes/one.rs", "//! M.\n");
}

#[test]
fn a_module_with_files_of_its_own_is_a_folder() {
    let scratch = Scratch::new(&CLEAN);
    let source = |path: &str| format!("crates/tombolo-storage/src/{path}");
    scratch.write(STORE, "//! S.\n#[cfg(test)]\nmod tests;\n");
    scratch.write(&source("store/tests.rs"), "//! T.\n");
    assert_eq!(shown(&scratch), Vec::<String>::new());
    scratch.write(STORE, "//! S.\nmod calls;\n#[cfg(test)]\nmod tests;\n");
    scratch.write(&source("store/calls.rs"), "//! C.\n");
    let found = shown(&scratch);
    assert!(found.len() == 1 && found[0].contains("src/store/mod.rs"), "{found:?}");
}

#[test]
fn modules_are_followed_as_the_compiler_does() {
    let scratch = Scratch::new(&CLEAN);
    let head = "//! S.\n";
    let declarations =
        "mod inner { mod deep; }\n#[path = \"odd/name.rs\"]\nmod named;\ninclude!(\"made.rs\");\n";
    let known = "mod btree;\nmod slab;\n#[cfg(test)]\nmod checks;\n";
    let module = "crates/tombolo-storage/src/memory/mod.rs";
    scratch.write(module, &format!("{head}{known}{declarations}"));
    for path in ["memory/inner/deep.rs", "memory/odd/name.rs", "memory/made.rs"] {
        scratch.write(&format!("crates/tombolo-storage/src/{path}"), head);
    }
    assert_eq!(shown(&scratch), Vec::<String>::new());
    scratch.write("crates/tombolo-storage/src/inner/deep.rs", head);
    assert_eq!(shown(&scratch).len(), 1);
}

#[test]
fn unsafe_keeps_to_its_places() {
    let body = "fn f() {\n    unsafe { g() }\n}\n";
    breaks(STORE, &format!("//! S.\n{body}"), "store.rs:3: `unsafe` outside the modules");
    passes("crates/tombolo-storage/src/memory/slab.rs", &format!("//! S.\n{body}"));
    passes("crates/tombolo-storage/tests/allocations.rs", &format!("//! A.\n{body}"));
    passes("crates/tombolo-storage/tests/no_alloc/main.rs", &format!("//! A.\n{body}"));
    breaks(
        "crates/tombolo-storage/tests/model.rs",
        &format!("//! M.\n{body}"),
        "model.rs:3: `unsafe`",
    );
    breaks(
        "crates/tombolo-storage/src/bin/slab.rs",
        &format!("//! B.\n{body}"),
        "slab.rs:3: `unsafe`",
    );
    passes(STORE, "//! S.\n#[expect(unsafe_code, reason = \"unsafe\")]\nfn f() {}\n");
}

#[test]
fn dependencies_have_reasons() {
    const MANIFEST: &str = "crates/tombolo-storage/Cargo.toml";
    breaks(
        MANIFEST,
        "[dependencies]\nlibc = \"1\"\n",
        "Cargo.toml:2: dependency `libc` without a reason",
    );
    breaks(MANIFEST, "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n", "dependency `libc`");
    breaks(
        MANIFEST,
        "[dev-dependencies.libc]\nversion = \"1\"\n",
        "Cargo.toml:1: dependency `libc`",
    );
    breaks(
        MANIFEST,
        "[dependencies]\n# Sockets.\nlibc = \"1\"\nrand = \"1\"\n",
        "4: dependency `rand`",
    );
    breaks("Cargo.toml", "[workspace.dependencies]\nserde = \"1#2\"\n", "dependency `serde`");
    passes(MANIFEST, "[features]\nlibc = []\n[dependencies]\nlibc = \"1\" # sockets\n");
}

#[test]
fn documents_name_what_exists() {
    breaks(
        "ARCHITECTURE.md",
        "a\nsee `crates/gone/x.rs:12`\n",
        "ARCHITECTURE.md:2: `crates/gone/x.rs` does not",
    );
    breaks("ARCHITECTURE.md", "`memory/{slab,gone}`\n", "`memory/gone` does not exist");
    breaks("ARCHITECTURE.md", "`gone.rs`\n", "`gone.rs` does not exist");
    breaks("ARCHITECTURE.md", "`gone/`\n", "`gone/` does not exist");
    breaks(
        "docs/papers.md",
        "| x | `memory/gone.rs` |\n",
        "docs/papers.md:1: `memory/gone.rs` does not",
    );
    passes(
        "ARCHITECTURE.md",
        "`memory/slab.rs::f` `read/update` `target/debug/` `out-1/x.json` `Store::get`\n",
    );
    breaks(
        "docs/papers.md",
        "[map](ARCHITECTURE.md)\n",
        "docs/papers.md:1: the link to ARCHITECTURE.md leads",
    );
    breaks("docs/papers.md", "`crates/gone.rs`\n", "docs/papers.md:1: `crates/gone.rs` does not");
    breaks("docs/x.md", "[papers](papers.md)\n", "docs/x.md:1: no document links to it");
    breaks("README.md", "`docs/papers.md`\n", "docs/papers.md:1: no document links to it");
    passes("crates/x.md", "`papers.md`, [papers](../docs/papers.md)\n");
    breaks(STORE, "//! Rows: `memory/gone.rs`.\n", "store.rs:1: `memory/gone.rs` does not");
    passes(STORE, "//! Rows: `memory/slab.rs`, `slab.rs`.\n");
    passes("ARCHITECTURE.md", "```text\n`crates/gone/x.rs`\n```\n");
}

#[test]
fn the_map_and_the_change_log_are_there() {
    breaks("CHANGELOG.md", "# Changes\n\n## 0.1\n", "CHANGELOG.md:1: no section Unreleased");
    let scratch = Scratch::new(&CLEAN);
    std::fs::remove_file(scratch.root().join("ARCHITECTURE.md")).unwrap();
    assert!(shown(&scratch)[0].contains("there is no ARCHITECTURE.md"));
}

#[test]
fn subjects_have_one_form() {
    for good in [
        "storage: split leaves at the end",
        "ci, xtask: run tidy",
        ".ci: call xtask",
        "docs/papers: add",
    ] {
        assert_eq!(problem(good), None, "{good}");
    }
    for bad in ["Fix things", "storage:no space", ": nothing", "storage: ", "Storage: split"] {
        assert!(problem(bad).is_some(), "{bad}");
    }
    let of_length = |length: usize| format!("storage: {}", "x".repeat(length - "storage: ".len()));
    assert_eq!(problem(&of_length(72)), None);
    assert!(problem(&of_length(73)).unwrap().contains("73 characters"));
}

/// A library whose module `shelf` has the face `front`, and in its folder `inner.rs` with `inner`, next to `b.rs`.
fn library(front: &str, inner: &str, b: &str) -> Scratch {
    let scratch = Scratch::new(&CLEAN);
    let source = "crates/tombolo-storage/src";
    scratch.write(
        &format!("{source}/lib.rs"),
        "//! Library.\nmod shelf;\nmod b;\nmod memory;\nmod store;\n",
    );
    scratch.write(&format!("{source}/shelf/mod.rs"), &format!("//! Face.\nmod inner;\n{front}\n"));
    scratch.write(&format!("{source}/shelf/inner.rs"), &format!("//! Inner.\n{inner}\n"));
    scratch.write(&format!("{source}/b.rs"), &format!("//! B.\n{b}\n"));
    scratch
}

#[test]
fn files_in_several_folders_do_not_need_each_other() {
    const INNER: &str = "use crate::b::{self, Below as _};\npub struct Inner(b::Above);";
    for b in [
        "pub struct Above;\npub trait Below {}\nimpl Below for crate::shelf::Inner {}",
        "use super::shelf::*;\npub struct Above;\npub trait Below {}\nfn f(_: Inner) {}",
        "use crate::shelf::{Inner as Deep};\npub struct Above;\npub trait Below {}",
    ] {
        let found = shown(&library("pub use inner::Inner;", INNER, b));
        assert_eq!(found.len(), 1, "{found:#?}");
        for part in
            ["src/b.rs:1: 2 files", "inner.rs takes Above, Below from ", "/b.rs takes Inner from "]
        {
            assert!(found[0].contains(part), "{} lacks {part}", found[0]);
        }
    }
}

#[test]
fn names_handed_on_tests_and_faces_make_no_circle() {
    // The face hands `Inner` on and does not use it; what `b` takes from it is the face's own.
    let face = "pub(crate) use inner::Inner;\npub struct Own;";
    let inner = "use crate::b::Above;\npub struct Inner(Above);";
    let found = |b: &str| shown(&library(face, inner, b));
    assert_eq!(found("use crate::shelf::Own;\npub struct Above(Own);"), Vec::<String>::new());
    let test = "pub struct Above;\n#[cfg(test)]\nmod tests {\n    use crate::shelf::Inner;\n}";
    assert_eq!(found(test), Vec::<String>::new());
    // `std::fmt` is not the crate's own `fmt`, and `$crate` stands in a macro's text.
    let others =
        "pub struct Above(std::shelf::Inner);\nmacro_rules! m { () => { $crate::shelf::Inner } }";
    assert_eq!(found(others), Vec::<String>::new());
}

#[test]
fn a_circle_within_a_folder_is_listed_and_one_granted_may_only_shrink() {
    let within = library(
        "pub use inner::Inner;\npub struct Own(Inner);",
        "pub struct Inner(super::Own);",
        "",
    );
    assert_eq!(shown(&within), Vec::<String>::new());
    let listed = super::circles::within_folders(&super::Tree::load(within.root()).unwrap());
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert!(listed[0].starts_with(
        "2 files need each other: crates/tombolo-storage/src/shelf/inner.rs takes Own"
    ));

    let across = library(
        "",
        "use crate::b::B;\npub struct Inner;",
        "pub struct B(crate::shelf::inner::Inner);",
    );
    let granted = |count: usize| {
        let entry = format!("circle crates/tombolo-storage/src/b.rs {count}\n");
        across.write("xtask/exceptions.txt", &entry);
        shown(&across)
    };
    assert_eq!(granted(2), Vec::<String>::new());
    assert!(granted(3)[0].contains("has 2 files now, fewer than 3"));
    across.write("crates/tombolo-storage/src/b.rs", "//! B.\npub struct B;\n");
    assert!(granted(2)[0].contains("no circle across folders begins with"));
}

#[test]
fn history_and_ignored_files_come_from_git() {
    let scratch = Scratch::new(&CLEAN);
    scratch.write("out-1/broken.rs", "no head, but ignored\n");
    assert_eq!(shown(&scratch).len(), 1, "without a repository every file counts");
    scratch.git(&["init", "--quiet"]);
    assert_eq!(shown(&scratch), Vec::<String>::new(), "no commit yet");
    scratch.git(&["add", "."]);
    scratch.git(&["commit", "--quiet", "-m", "Everything"]);
    let found = shown(&scratch);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("not of the form `area: behaviour`: \"Everything\""), "{}", found[0]);
    let hash = found[0].split("commit ").nth(1).unwrap().split(':').next().unwrap();
    scratch.write("xtask/exceptions.txt", &format!("subject {hash} shared before the rule\n"));
    assert_eq!(shown(&scratch), Vec::<String>::new());
    std::fs::remove_file(scratch.root().join("README.md")).unwrap();
    std::fs::remove_file(scratch.root().join("docs/papers.md")).unwrap();
    assert_eq!(shown(&scratch), Vec::<String>::new(), "tracked and gone is no error");
}

#[test]
fn the_repository_is_tidy() {
    let shown = findings(&crate::folders::repository_root()).unwrap().shown();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
