//! Results: what a command found, as one JSON object each for scripts and as a few lines for
//! people.
//!
//! [`run`] and [`check`] make the objects cli.md names, field by field; [`terminal`] says the same
//! to people. Names are never changed, only added. Not here: measuring, and where the text goes.

pub mod canvas;
pub mod check;
pub mod demo;
pub mod dissection;
pub mod html;
pub mod listed;
pub mod recovery;
pub mod run;
pub mod scale;
pub mod terminal;
mod text;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

pub use crate::numbers::{quantity, rounded, separated, size};

use crate::host::Host;
use crate::settings::{self, Settings, Value};

/// Which build made a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from.
    pub commit: &'static str,
}

/// The fields of every result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The command.
    pub command: String,
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// All effective settings.
    pub settings: Map<String, Json>,
    /// Equal for results that measure the same thing.
    pub settings_hash: String,
    /// The machine.
    pub host: Host,
    /// The seed.
    pub seed: Option<u64>,
}

/// A result as it is written: the common fields, then what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headed<T> {
    /// The common fields.
    #[serde(flatten)]
    pub header: Header,
    /// What was found.
    #[serde(flatten)]
    pub found: T,
}

impl Header {
    /// The header of a result of `command` under `settings`.
    pub fn new(command: &str, build: Build, settings: &Settings, host: &Host) -> Self {
        Self {
            command: command.to_owned(),
            version: build.version.to_owned(),
            commit: build.commit.to_owned(),
            settings: settings_json(settings),
            settings_hash: settings_hash(settings),
            host: host.clone(),
            seed: Some(settings.count(&settings::SEED)),
        }
    }

    /// The same with settings that only its command has; they identify the result too.
    #[must_use]
    pub fn and(mut self, own: &[(&str, Json)]) -> Self {
        let mut digest = Sha256::new();
        digest.update(&self.settings_hash);
        for (name, value) in own {
            digest.update(format!("\n{name}={value}"));
            self.settings.insert((*name).to_owned(), value.clone());
        }
        self.settings_hash = short_hash(digest);
        self
    }
}

/// A setting's value in results: times in seconds, no value as null.
pub fn value_json(value: Option<&Value>) -> Json {
    match value {
        None => Json::Null,
        Some(Value::Count(n) | Value::Bytes(n)) => (*n).into(),
        Some(Value::Hundredths(n)) => (*n as f64 / 100.0).into(),
        Some(Value::Duration(time)) => time.as_secs_f64().into(),
        Some(Value::Word(word)) => word.as_str().into(),
    }
}

fn settings_json(settings: &Settings) -> Map<String, Json> {
    let value = |setting| value_json(settings.get(setting));
    settings::all().iter().map(|setting| (setting.name.to_owned(), value(setting))).collect()
}

/// Sixteen hexadecimal digits that differ where an identifying setting does; seeds, paths and the
/// machine are left out.
pub fn settings_hash(settings: &Settings) -> String {
    let mut digest = Sha256::new();
    let mut identifying: Vec<_> = settings::all().iter().filter(|s| s.identifies).collect();
    identifying.sort_unstable_by_key(|setting| setting.name);
    for setting in identifying {
        digest.update(format!("{}={}\n", setting.name, value_json(settings.get(setting))));
    }
    short_hash(digest)
}

/// Sixteen hexadecimal digits that differ where the content of a file does: results name a file by them, not by its
/// path.
pub fn content_hash(content: &[u8]) -> String {
    short_hash(Sha256::new_with_prefix(content))
}

/// Sixteen hexadecimal digits of a digest.
fn short_hash(digest: Sha256) -> String {
    let mut text = String::new();
    for byte in digest.finalize().iter().take(8) {
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    text
}

/// The text in place of a figure that was not measured.
const MISSING: &str = "–";
#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;

    #[test]
    fn the_hash_leaves_the_seed_out_and_nothing_that_matters() {
        let plain = settings::defaults();
        let with = |name, value| {
            let mut settings = plain.clone();
            settings.set(name, value, Source::Flag).unwrap();
            settings_hash(&settings)
        };
        let hash = settings_hash(&plain);
        assert_eq!(hash.len(), 16);
        assert_eq!(hash, with("seed", "7"));
        assert_eq!(hash, with("load_threads", "7"));
        for (name, value) in [("warehouses", "7"), ("profile", "bare"), ("transactions", "5000000")]
        {
            assert_ne!(hash, with(name, value), "{name}");
        }
    }

    #[test]
    fn what_only_a_command_has_identifies_its_results() {
        let build = Build { version: "0.1.0", commit: "0123456789ab" };
        let header = || Header::new("dissect", build, &settings::defaults(), &Host::read());
        let with = |ladder: &str| header().and(&[("ladder", ladder.into())]);
        assert_ne!(with("paper").settings_hash, header().settings_hash);
        assert_ne!(with("paper").settings_hash, with("product").settings_hash);
        assert_eq!(with("paper").settings["ladder"], "paper");
        assert_eq!(with("paper").settings_hash.len(), 16);
    }

    #[test]
    fn all_settings_are_in_a_result() {
        let header = Header::new(
            "run",
            Build { version: "1.2.3", commit: "abc" },
            &settings::defaults(),
            &Host::read(),
        );
        assert_eq!(header.settings.len(), settings::all().len());
        assert_eq!(header.settings["seconds"], 5.0);
        assert_eq!(header.settings["transactions"], Json::Null);
        assert_eq!(header.seed, Some(1));
    }
}
