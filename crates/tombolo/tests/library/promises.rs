//! What README and documentation show is what is there, and it runs.

/// The example, which the crate's documentation includes.
const LEDGER: &str = include_str!("../../examples/ledger.rs");

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../../README.md");
    let (_, code) = LEDGER.split_once("\n\n").unwrap();
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md shows another ledger");
}
