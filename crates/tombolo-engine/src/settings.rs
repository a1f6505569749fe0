//! Settings: the numbers and choices a user tunes, each with its unit, limits, default and meaning.
//!
//! One registry ([`ALL`]) and one set of values ([`Settings`]). A value comes from the strongest
//! source that names it: a flag, else the environment (`TOMBOLO_…`), else a configuration file,
//! else the default. Every text goes through the same parser and the same limits, so a mistake is
//! the same one-line error wherever it was made.
//!
//! Not here: reading files, the environment or arguments (the command hands texts in), rules that
//! concern several settings at once (whoever uses them together), and switches — those are types
//! (storage `profile.rs`).
//!
//! Invariants: a value that is held is within its limits; a weaker source never replaces a stronger
//! one's value.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tombolo_storage::profile::PROFILES;

mod text;

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
    /// Of a [`Kind::Duration`].
    Duration(Duration),
    /// Of a [`Kind::Choice`] or [`Kind::Text`].
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

/// What a setting has when nobody sets it.
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

const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PROFILES[i].name;
        i += 1;
    }
    names
};

/// What every setting below has in common.
const fn setting(name: &'static str, kind: Kind, default: Default, about: &'static str) -> Setting {
    Setting { name, unit: "", kind, default, about, identifies: true }
}

impl Setting {
    const fn of(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    const fn not_identifying(mut self) -> Self {
        self.identifies = false;
        self
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
            Kind::Bytes(low, high) => between(Value::Bytes(low), Value::Bytes(high)),
            Kind::Duration(low, high) => between(Value::Duration(low), Value::Duration(high)),
            Kind::Choice(words) => words.join("|"),
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
            Kind::Duration(low, high) => {
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
            Kind::Duration(..) => " (5s, 500ms, 2m)",
            Kind::Choice(_) | Kind::Text => "",
        };
        match self.kind {
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            _ => format!("{}{examples}", self.limits()),
        }
    }
}

/// What the variables of the environment begin with.
pub const ENVIRONMENT_PREFIX: &str = "TOMBOLO_";

const GB: u64 = 1 << 30;

/// Which component set runs.
pub static PROFILE: Setting = setting(
    "profile",
    Kind::Choice(&NAMES),
    Default::Is("memory"),
    "which components the engine has (run --list-profiles)",
);
/// When an answer may leave.
pub static DURABILITY: Setting = setting(
    "durability",
    Kind::Choice(&["none", "async", "group", "sync"]),
    Default::Is("none"),
    "what a committed transaction survives; no profile has a log yet",
);
/// Engines side by side.
pub static ISLANDS: Setting = setting(
    "islands",
    Kind::Count(1, 1_024),
    Default::Is("1"),
    "engines, each over a part of the data; only 1 yet",
)
.of("islands");
/// Execution threads.
pub static THREADS: Setting = setting(
    "threads",
    Kind::Count(1, 1_024),
    Default::Is("1"),
    "execution threads of an island; 1 without locks and latches",
)
.of("threads");
/// Callers.
pub static CLIENTS: Setting = setting(
    "clients",
    Kind::Count(1, 1_000_000),
    Default::Is("1"),
    "callers, in a closed loop; not threads",
)
.of("callers");
/// Calls a caller has under way.
pub static IN_FLIGHT: Setting = setting(
    "in_flight",
    Kind::Count(1, 1_000_000),
    Default::Is("1"),
    "calls each caller has under way",
)
.of("calls");
/// TPC-C's scale.
pub static WAREHOUSES: Setting =
    setting("warehouses", Kind::Count(1, 65_535), Default::Is("5"), "scale of tpcc; 100 MB each")
        .of("warehouses");
/// TPC-C's transactions.
pub static MIX: Setting = setting(
    "mix",
    Kind::Choice(&["paper", "standard"]),
    Default::Is("standard"),
    "transactions of tpcc: the paper's New Order and Payment, or the specification's five",
);
/// How long to run.
pub static SECONDS: Setting = setting(
    "seconds",
    Kind::Duration(Duration::from_millis(1), Duration::from_secs(86_400)),
    Default::Is("5s"),
    "how long transactions are executed, unless transactions is given",
)
.of("time");
/// How much to run.
pub static TRANSACTIONS: Setting = setting(
    "transactions",
    Kind::Count(1, 100_000_000_000),
    Default::Means("until seconds are over"),
    "how many transactions are executed",
)
.of("transactions");
/// How many transactions are timed one by one.
pub static LATENCY_TRANSACTIONS: Setting = setting(
    "latency_transactions",
    Kind::Count(0, 100_000_000),
    Default::Is("100k"),
    "further transactions, timed one by one after the throughput was measured",
)
.of("transactions");
/// Inputs made at a time.
pub static BATCH: Setting = setting(
    "batch",
    Kind::Count(1, 10_000_000),
    Default::Is("100k"),
    "inputs made beforehand at a time, outside what is measured",
)
.of("inputs");
/// Whether memory is taken beforehand.
pub static RESERVE: Setting = setting(
    "reserve",
    Kind::Choice(&["yes", "no"]),
    Default::Is("yes"),
    "whether memory for a batch's new rows is taken beforehand, outside what is measured",
);
/// Threads that make the initial data.
pub static LOAD_THREADS: Setting = setting(
    "load_threads",
    Kind::Count(1, 1_024),
    Default::Means("one per core"),
    "threads that generate the initial data; the data does not depend on them",
)
.of("threads")
.not_identifying();
/// The most memory a run may take.
pub static MEMORY_LIMIT: Setting = setting(
    "memory_limit",
    Kind::Bytes(GB / 16, GB << 14),
    Default::Means("what the machine has free"),
    "a run that would need more is refused, one that grows past it ends",
)
.of("bytes");
/// The seed of everything random.
pub static SEED: Setting = setting(
    "seed",
    Kind::Count(0, u64::MAX),
    Default::Is("1"),
    "makes data and inputs the same every time",
)
.not_identifying();
/// Interleaved repetitions.
pub static ROUNDS: Setting = setting(
    "rounds",
    Kind::Count(1, 1_000),
    Default::Is("1"),
    "how often every point is run, in turn",
)
.of("rounds")
.not_identifying();
/// What counts instructions.
pub static COUNTER: Setting = setting(
    "counter",
    Kind::Choice(&["auto", "perf", "callgrind", "none"]),
    Default::Is("none"),
    "what counts instructions: the processor, valgrind, whichever there is, or nothing",
);
/// How many transactions are counted.
pub static COUNTED: Setting = setting(
    "counted",
    Kind::Count(100, 1_000_000),
    Default::Is("2k"),
    "transactions of the mix in which each kind's instructions are counted",
)
.of("transactions");
/// How often instructions are counted.
pub static REPEAT: Setting = setting(
    "repeat",
    Kind::Count(1, 100),
    Default::Is("1"),
    "how often instructions are counted, from the start",
)
.of("counts")
.not_identifying();

/// Every setting, in the order they are printed.
pub static ALL: &[&Setting] = &[
    &PROFILE,
    &DURABILITY,
    &ISLANDS,
    &THREADS,
    &CLIENTS,
    &IN_FLIGHT,
    &WAREHOUSES,
    &MIX,
    &SECONDS,
    &TRANSACTIONS,
    &LATENCY_TRANSACTIONS,
    &BATCH,
    &RESERVE,
    &LOAD_THREADS,
    &MEMORY_LIMIT,
    &SEED,
    &ROUNDS,
    &COUNTER,
    &COUNTED,
    &REPEAT,
];

/// The setting called `name`, with `-` or `_`.
pub fn find(name: &str) -> Option<&'static Setting> {
    let name = name.replace('-', "_");
    ALL.iter().copied().find(|setting| setting.name == name)
}

/// Where a value comes from, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nobody set it.
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
