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
fn a_ledger_is_written_in_thirty_lines() {
    let (_, own) = LEDGER.split_once("#[derive(Table)]").unwrap();
    let lines = own.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 30, "{lines} lines"); // with the table and its key
    let (_, main) = LEDGER.split_once("fn main").unwrap();
    assert!(main.lines().count() <= 28, "{} lines of main", main.lines().count());
}
