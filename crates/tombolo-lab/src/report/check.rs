//! The result of `check` and `dump`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rows::{Finding, Verification};

/// A result of `check` and `dump`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct CheckResult {
    pub directory: String,
    pub tampered: Option<String>,
    pub consistent: bool,
    pub checks: BTreeMap<String, bool>,
    pub damage: Vec<Finding>,
    /// Null where not all rows can be read, and of islands with transactions that have not ended or copies that differ.
    pub state_hash: Option<String>,
    /// Where the rows were written as text; null where they were not.
    pub dump: Option<String>,
}

impl CheckResult {
    /// The result of verifying what was in `directory`.
    pub fn new(
        directory: String,
        tampered: Option<String>,
        verification: &Verification,
        state_hash: Option<String>,
    ) -> Self {
        Self {
            directory,
            tampered,
            consistent: verification.consistent(),
            checks: verification.checks.iter().cloned().collect(),
            damage: verification.damage.clone(),
            state_hash,
            dump: None,
        }
    }
}
