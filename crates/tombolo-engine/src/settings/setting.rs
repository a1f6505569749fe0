//! One setting: its unit, limits, default and meaning, and how a text becomes its value. Not here: which
//! settings there are (`registry.rs`, and the registries of those that use the engine).

use std::fmt;
use std::time::Duration;

use super::text::{BYTE_UNITS, COUNT_UNITS, DURATION_UNITS, HUNDREDTHS, parse_scaled, with_unit};

/// Declares settings, each written once, and the list of them in this order.
#[macro_export]
macro_rules! setting_list {
    (
        $(#[$about_all:meta])*
        $seen:vis static $all:ident;
        $($(#[$about:meta])* $open:vis $name:ident = $setting:expr;)*
    ) => {
        $($(#[$about])* $open static $name: Setting = $setting;)*
        $(#[$about_all])*
        $seen static $all: &[&Setting] = &[$(&$name),*];
    };
}

/// What a setting holds, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number between two limits.
    Count(u64, u64),
    /// A number between two limits, all in hundredths.
    Hundredths(u64, u64),
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
    /// Of a [`Kind::Hundredths`].
    Hundredths(u64),
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
            Self::Hundredths(n) => (*n as f64 / 100.0).fmt(f),
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
    /// What it is called besides, on the command line and in files.
    pub other_name: Option<&'static str>,
}

impl Setting {
    /// A setting without a unit, in which results differ.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: Default,
        about: &'static str,
    ) -> Self {
        Self { name, unit: "", kind, default, about, identifies: true, other_name: None }
    }

    /// The same, whose number counts `unit`.
    #[must_use]
    pub const fn of(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// The same, in which results do not differ.
    #[must_use]
    pub const fn not_identifying(mut self) -> Self {
        self.identifies = false;
        self
    }

    /// The same with another name besides.
    #[must_use]
    pub const fn also(mut self, name: &'static str) -> Self {
        self.other_name = Some(name);
        self
    }

    /// The value that is this number.
    ///
    /// # Panics
    /// When it holds no number.
    pub fn numbered(&self, n: u64) -> Value {
        match self.kind {
            Kind::Count(..) => Value::Count(n),
            Kind::Hundredths(..) => Value::Hundredths(n),
            Kind::Bytes(..) => Value::Bytes(n),
            _ => unreachable!("{} holds no number", self.name),
        }
    }

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
            Kind::Hundredths(low, high) => between(Value::Hundredths(low), Value::Hundredths(high)),
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
            Kind::Hundredths(low, high) => match parse_scaled(text, HUNDREDTHS) {
                Some(n) => within(n, low, high).map_or_else(outside, |n| Ok(Value::Hundredths(n))),
                None => refuse("a number with at most two decimal places"),
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
            Kind::Hundredths(..) | Kind::Choice(_) | Kind::Text => "",
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

/// A text that no setting takes; one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    name: String,
    what: String,
}

impl SettingError {
    pub(super) fn new(name: &str, what: String) -> Self {
        Self { name: name.to_owned(), what }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting {}: {}", self.name, self.what)
    }
}

impl std::error::Error for SettingError {}
