//! What README and documentation show is what is there, and it runs.

/// The example, which the crate's documentation includes.
const LEDGER: &str = include_str!("../../examples/ledger.rs");

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../../README.md");
    let (_, code) = LEDGER.split_once("\n\n").unwrap();
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md shows another ledger");
}

#[test]
fn a_ledger_is_written_in_under_thirty_lines() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = LEDGER.lines().filter(is_code).count();
    assert!(lines < 30, "{lines} lines"); // with all it imports, and the table and its key
}
