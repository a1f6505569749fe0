//! The results of commands that measure nothing: the settings, what can be reproduced, a page.
//!
//! Not here: profiles (`run.rs`), and where any of it comes from (the command).

use serde::{Deserialize, Serialize};

use super::Header;
use super::run::ProfileResult;

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
    /// What every result begins with.
    #[serde(flatten)]
    pub header: Header,
    /// Every setting.
    pub registry: Vec<SettingResult>,
}

/// A figure or table that `paper` can reproduce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct Listed {
    /// What every result begins with.
    #[serde(flatten)]
    pub header: Header,
    pub id: String,
    pub title: String,
}

/// A profile, as `run --list-profiles` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedProfile {
    /// What every result begins with.
    #[serde(flatten)]
    pub header: Header,
    /// The profile.
    #[serde(flatten)]
    pub profile: ProfileResult,
}

/// A result of `report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportResult {
    /// What every result begins with.
    #[serde(flatten)]
    pub header: Header,
    /// Where the page was written.
    pub page: String,
    /// How long it is.
    pub bytes: usize,
    /// How many results it shows.
    pub results: usize,
}
