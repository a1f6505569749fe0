//! Programs with mistakes: the compiler points at the field, in words that say what to do.
//!
//! What the macro itself refuses is in `src/parse/tests.rs`; here is how that looks, and what the
//! compiler finds in the code it makes. `TRYBUILD=overwrite` writes the expected output anew.

#[test]
fn mistakes_are_reported_at_their_field() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
