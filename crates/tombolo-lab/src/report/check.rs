//! The result of `check`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Header;
use crate::instance::Verification;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamageResult {
    /// The file it is in; null where it is no file's.
    pub file: Option<String>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// The check that found it.
    pub check: String,
    /// What is wrong.
    pub what: String,
}

/// A result of `check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct CheckResult {
    #[serde(flatten)]
    pub header: Header,
    pub directory: String,
    pub tampered: Option<String>,
    pub consistent: bool,
    pub checks: BTreeMap<String, bool>,
    pub damage: Vec<DamageResult>,
    /// Null where not all rows can be read.
    pub state_hash: Option<String>,
}

impl CheckResult {
    /// The result of verifying what was in `directory`.
    pub fn new(
        header: Header,
        directory: String,
        tampered: Option<String>,
        verification: &Verification,
        state_hash: Option<String>,
    ) -> Self {
        let damage = verification.damage.iter().map(|finding| DamageResult {
            file: finding.file.clone(),
            offset: finding.offset,
            check: finding.check.clone(),
            what: finding.what.clone(),
        });
        Self {
            header,
            directory,
            tampered,
            consistent: verification.consistent(),
            checks: verification.checks.iter().cloned().collect(),
            damage: damage.collect(),
            state_hash,
        }
    }
}
