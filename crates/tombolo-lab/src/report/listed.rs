//! The results of commands that measure nothing: settings, what can be reproduced, a page, a verdict on a history,
//! another number of islands.
//!
//! Not here: profiles (`run.rs`), and where any of it comes from (the command).

use serde::{Deserialize, Serialize};
use tombolo_verify::Verdict;

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct SettingResult {
    pub name: String,
    pub value: serde_json::Value,
    pub source: String,
    pub unit: String,
    pub limits: String,
    pub default: String,
    pub flag: String,
    pub variable: String,
    pub about: String,
}

/// A result of `settings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingsResult {
    /// Every setting.
    pub registry: Vec<SettingResult>,
}

/// A figure or table that `paper` can reproduce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct Listed {
    pub id: String,
    pub title: String,
}

/// A result of `report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportResult {
    /// Where the page was written.
    pub page: String,
    /// How long it is.
    pub bytes: usize,
    /// How many results it shows.
    pub results: usize,
}

/// A result of `verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyResult {
    /// The file of the history.
    pub history: String,
    /// How many transactions it has.
    pub transactions: usize,
    /// How many reads and writes they have.
    pub operations: usize,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A result of `repartition`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepartitionResult {
    /// The database.
    pub directory: String,
    /// How many islands there were; null if the call only ended an earlier one.
    pub islands_before: Option<usize>,
    /// How many there are.
    pub islands: u16,
    /// How many rows were copied.
    pub rows: u64,
}
