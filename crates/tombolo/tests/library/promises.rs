//! What README and documentation show is what is there, and it runs.

/// The examples; the crate's documentation includes the first.
const SHOWN: [(&str, &str); 2] = [
    ("ledger", include_str!("../../examples/ledger.rs")),
    ("order desk", include_str!("../../examples/islands.rs")),
];

#[test]
fn the_readme_shows_the_examples() {
    let readme = include_str!("../../../../README.md");
    for (name, example) in SHOWN {
        let (_, code) = example.split_once("\n\n").unwrap();
        assert!(readme.contains(&format!("```rust\n{code}```")), "README.md shows another {name}");
    }
}
