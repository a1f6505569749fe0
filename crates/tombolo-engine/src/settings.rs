//! Settings: the numbers and choices a user tunes, each with its unit, limits, default and meaning.
//!
//! One registry ([`ALL`]) and one set of values ([`Settings`]). A value comes from the strongest
//! source that names it: a flag, else the environment (`TOMBOLO_…`), else a configuration file,
//! else the default. Every text goes through the same parser and the same limits, so a mistake is
//! the same one-line error wherever it was made.
//!
//! Not here: reading files, the environment or arguments (the command hands texts in), rules that
//! concern several settings (the code that uses them together), and switches — those are types
//! (storage `profile.rs`).
//!
//! Invariants: a value that is held is within its limits; a weaker source never replaces a stronger
//! one's value.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

mod registry;
mod text;

pub use registry::*;
use text::{BYTE_UNITS, COUNT_UNITS, DURATION_UNITS, parse_scaled, with_unit};

/// What a setting holds, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number between two limits.
    Count(u64, u64),
    /// A number of bytes between two limits.
    Bytes(u64, u64),
    /// A time between two limits.
    Duration(Duration, Duration),
    /// A time between two limits, or this word.
    DurationOr(&'static str, Duration, Duration),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a [`Kind::Count`].
    Count(u64),
    /// Of a [`Kind::Bytes`].
    Bytes(u64),
    /// Of a [`Kind::Duration`] or [`Kind::DurationOr`].
    Duration(Duration),
    /// Of a [`Kind::Choice`], [`Kind::Text`] or [`Kind::DurationOr`].
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => n.fmt(f),
            Self::Bytes(n) => with_unit(f, u128::from(*n), BYTE_UNITS),
            Self::Duration(time) => with_unit(f, time.as_nanos(), DURATION_UNITS),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// The value of a setting that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This value, as a user would write it.
    Is(&'static str),
    /// No value, which means this.
    Means(&'static str),
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in files and results; flags write `-` for `_`.
    pub name: &'static str,
    /// What its number counts; empty for words.
    pub unit: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its default.
    pub default: Default,
    /// What it does, in one line.
    pub about: &'static str,
    /// Whether results that differ in it measure different things; seeds and paths do not.
    pub identifies: bool,
}

impl Setting {
    /// Its flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// Its limits, for people.
    pub fn limits(&self) -> String {
        let between = |low: Value, high: Value| format!("{low} to {high}");
        match self.kind {
            Kind::Count(low, high) => between(Value::Count(low), Value::Count(high)),
            Kind::Bytes(low, high) => between(Value::Bytes(low), Value::Bytes(high)),
            Kind::Duration(low, high) => between(Value::Duration(low), Value::Duration(high)),
            Kind::DurationOr(word, low, high) => {
                format!("{word} or {}", between(Value::Duration(low), Value::Duration(high)))
            }
            Kind::Choice(words) => some_of(words, "|"),
            Kind::Text => "any text".to_owned(),
        }
    }

    /// Its default, for people.
    pub fn default_text(&self) -> &'static str {
        match self.default {
            Default::Is(text) | Default::Means(text) => text,
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// When `text` is no value of this kind or outside the limits.
    pub fn parse(&self, text: &str) -> Result<Value, SettingError> {
        let text = text.trim();
        let refuse = |expected: &str| {
            let what = format!("{text:?} is not {expected}: give {}", self.expectation());
            Err(SettingError::new(self.name, what))
        };
        let outside = || {
            let what = format!("{text} is outside its limits: give {}", self.expectation());
            Err(SettingError::new(self.name, what))
        };
        let within = |n: u128, low: u64, high: u64| {
            u64::try_from(n).ok().filter(|n| (low..=high).contains(n))
        };
        match self.kind {
            Kind::Count(low, high) => match parse_scaled(text, COUNT_UNITS) {
                Some(n) => within(n, low, high).map_or_else(outside, |n| Ok(Value::Count(n))),
                None => refuse("a whole number"),
            },
            Kind::Bytes(low, high) => match parse_scaled(&text.to_ascii_uppercase(), BYTE_UNITS) {
                Some(n) => within(n, low, high).map_or_else(outside, |n| Ok(Value::Bytes(n))),
                None => refuse("a size"),
            },
            Kind::DurationOr(word, ..) if text == word => Ok(Value::Word(word.to_owned())),
            Kind::Duration(low, high) | Kind::DurationOr(_, low, high) => {
                // A bare number counts seconds.
                let unit = if text.ends_with(|c: char| c.is_ascii_digit()) { "s" } else { "" };
                let Some(ns) = parse_scaled(&format!("{text}{unit}"), DURATION_UNITS) else {
                    return refuse("a time");
                };
                let time = u64::try_from(ns).ok().map(Duration::from_nanos);
                let time = time.filter(|time| (low..=high).contains(time));
                time.map_or_else(outside, |time| Ok(Value::Duration(time)))
            }
            Kind::Choice(words) => match words.iter().find(|&&word| word == text) {
                Some(word) => Ok(Value::Word((*word).to_owned())),
                None => refuse("known"),
            },
            Kind::Text => Ok(Value::Word(text.to_owned())),
        }
    }

    fn expectation(&self) -> String {
        let examples = match self.kind {
            Kind::Count(..) => " (1_000, 50k, 2M)",
            Kind::Bytes(..) => " (512 MB, 2 GB)",
            Kind::Duration(..) | Kind::DurationOr(..) => " (5s, 500ms, 2m)",
            Kind::Choice(_) | Kind::Text => "",
        };
        match self.kind {
            Kind::Choice(words) => format!("one of {}", some_of(words, ", ")),
            _ => format!("{}{examples}", self.limits()),
        }
    }
}

/// What the variables of the environment begin with.
pub const ENVIRONMENT_PREFIX: &str = "TOMBOLO_";

/// The words of a choice; of many only the first.
fn some_of(words: &[&str], separator: &str) -> String {
    const MANY: usize = 12;
    const SHOWN: usize = 4;
    if words.len() < MANY {
        return words.join(separator);
    }
    format!("{}{separator}… ({} in all)", words[..SHOWN].join(separator), words.len())
}

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

/// A text that no setting takes; one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    name: String,
    what: String,
}

impl SettingError {
    fn new(name: &str, what: String) -> Self {
        Self { name: name.to_owned(), what }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting {}: {}", self.name, self.what)
    }
}

impl std::error::Error for SettingError {}

/// All settings' values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, (Value, Source)>,
}

impl std::default::Default for Settings {
    fn default() -> Self {
        let mut settings = Self { values: BTreeMap::new() };
        for setting in ALL {
            if let Default::Is(text) = setting.default {
                let value = setting.parse(text);
                let value = value.unwrap_or_else(|error| unreachable!("a default: {error}"));
                settings.values.insert(setting.name, (value, Source::Default));
            }
        }
        settings
    }
}

impl Settings {
    /// Takes a value over from `source`, unless a stronger one gave one.
    ///
    /// # Errors
    /// When there is no such setting or the text is not a value of it.
    pub fn set(&mut self, name: &str, text: &str, source: Source) -> Result<(), SettingError> {
        let Some(setting) = find(name) else {
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

    /// The number a setting holds; `None` where it has no value.
    ///
    /// # Panics
    /// When it holds something else.
    pub fn number(&self, setting: &Setting) -> Option<u64> {
        self.get(setting).map(|value| match value {
            Value::Count(n) | Value::Bytes(n) => *n,
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

#[cfg(test)]
mod tests;
