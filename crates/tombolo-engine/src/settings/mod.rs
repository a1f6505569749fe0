//! Settings: the numbers and choices a user tunes, each with its unit, limits, default and meaning.
//!
//! This module has a list of settings ([`ALL`], those of a database embedded in a program; a user of the engine may
//! have a longer list) and a set of their values ([`Settings`]). A value comes from the strongest
//! source that names it: a flag, else the environment (`TOMBOLO_…`), else a configuration file,
//! else the default. Every text goes through the same parser and the same limits, so a mistake is
//! the same one-line error wherever it was made.
//!
//! Not here: reading files, the environment or arguments (the command hands texts in), rules that
//! concern several settings (the code that uses them together), and switches — those are types
//! (storage `profile/`).
//!
//! Invariants: a value that is held is within its limits; a weaker source never replaces a stronger
//! one's value.

use std::collections::BTreeMap;
use std::time::Duration;

mod registry;
mod setting;
mod text;

pub use registry::*;
pub use setting::{Default, ENVIRONMENT_PREFIX, Kind, Setting, SettingError, Value};

/// Where a value comes from, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// It was not set.
    Default,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A flag.
    Flag,
}

impl Source {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// The values of all settings of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    list: &'static [&'static Setting],
    values: BTreeMap<&'static str, (Value, Source)>,
}

impl std::default::Default for Settings {
    /// Of [`ALL`].
    fn default() -> Self {
        Self::of(ALL)
    }
}

impl Settings {
    /// The defaults of the settings in `list`.
    pub fn of(list: &'static [&'static Setting]) -> Self {
        let mut values = BTreeMap::new();
        for setting in list {
            if let Default::Is(text) = setting.default {
                let value = setting.parse(text);
                let value = value.unwrap_or_else(|error| unreachable!("a default: {error}"));
                values.insert(setting.name, (value, Source::Default));
            }
        }
        Self { list, values }
    }

    /// Takes a value over from `source`, unless a stronger one gave one.
    ///
    /// # Errors
    /// When there is no such setting or the text is not a value of it.
    pub fn set(&mut self, name: &str, text: &str, source: Source) -> Result<(), SettingError> {
        let Some(setting) = find(self.list, name) else {
            let what = "there is no such setting: see tombolo settings".to_owned();
            return Err(SettingError::new(name, what));
        };
        let value = setting.parse(text)?;
        if self.source(setting) <= source {
            self.values.insert(setting.name, (value, source));
        }
        Ok(())
    }

    /// Where a setting's value comes from.
    pub fn source(&self, setting: &Setting) -> Source {
        self.values.get(setting.name).map_or(Source::Default, |(_, source)| *source)
    }

    /// A setting's value, if it has one.
    pub fn get(&self, setting: &Setting) -> Option<&Value> {
        self.values.get(setting.name).map(|(value, _)| value)
    }

    /// The number a setting holds, of hundredths how many there are; `None` where it has no value.
    ///
    /// # Panics
    /// When it holds something else.
    pub fn number(&self, setting: &Setting) -> Option<u64> {
        self.get(setting).map(|value| match value {
            Value::Count(n) | Value::Hundredths(n) | Value::Bytes(n) => *n,
            other => unreachable!("{} holds {other}, no number", setting.name),
        })
    }

    /// The number a setting with a default holds.
    ///
    /// # Panics
    /// When it holds something else, or nothing.
    pub fn count(&self, setting: &Setting) -> u64 {
        self.number(setting).unwrap_or_else(|| unreachable!("{} has a default", setting.name))
    }

    /// The time a setting holds; zero where it has no value.
    ///
    /// # Panics
    /// When it holds something else.
    pub fn duration(&self, setting: &Setting) -> Duration {
        self.get(setting).map_or(Duration::ZERO, |value| match value {
            Value::Duration(time) => *time,
            other => unreachable!("{} holds {other}, no time", setting.name),
        })
    }

    /// The time a setting holds; `None` where it holds a word, or nothing.
    ///
    /// # Panics
    /// When it holds something else.
    pub fn time_or_word(&self, setting: &Setting) -> Option<Duration> {
        self.get(setting).and_then(|value| match value {
            Value::Duration(time) => Some(*time),
            Value::Word(_) => None,
            other => unreachable!("{} holds {other}, no time", setting.name),
        })
    }

    /// The word a setting holds; empty where it has no value.
    ///
    /// # Panics
    /// When it holds something else.
    pub fn word(&self, setting: &Setting) -> &str {
        self.get(setting).map_or("", |value| match value {
            Value::Word(word) => word,
            other => unreachable!("{} holds {other}, no word", setting.name),
        })
    }
}

/// The setting called `name` in `list`, with `-` or `_`.
pub fn find(list: &[&'static Setting], name: &str) -> Option<&'static Setting> {
    let name = name.replace('-', "_");
    let mut found = list.iter().copied();
    found.find(|setting| setting.name == name || setting.other_name == Some(&name))
}

/// Verifies a list of settings, for the tests of the crates that list them: each is there once, says what it is, and
/// takes back what is printed of it.
///
/// # Panics
/// When that does not hold, with the setting's name.
pub fn verify(list: &'static [&'static Setting]) {
    let settings = Settings::of(list);
    for (i, setting) in list.iter().enumerate() {
        assert!(list[..i].iter().all(|other| other.name != setting.name), "{} twice", setting.name);
        assert!(setting.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        assert!(!setting.about.is_empty() && !setting.about.contains('\n'));
        assert!(!setting.default_text().is_empty(), "{}", setting.name);
        let is_number =
            matches!(setting.kind, Kind::Count(..) | Kind::Bytes(..) | Kind::Duration(..));
        assert!(
            !is_number || !setting.unit.is_empty() || setting.name == "seed",
            "{}",
            setting.name
        );
        match setting.default {
            Default::Is(_) => assert!(settings.get(setting).is_some()),
            Default::Means(_) => assert!(settings.get(setting).is_none()),
        }
        // What is printed can be written back.
        if let Some(value) = settings.get(setting) {
            assert_eq!(setting.parse(&value.to_string()), Ok(value.clone()));
        }
        assert_eq!(find(list, &setting.flag()), Some(*setting));
    }
}

#[cfg(test)]
mod tests;
