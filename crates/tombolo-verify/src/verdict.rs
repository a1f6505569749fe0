//! The verdict on a history: the level that holds, or the anomaly, explained line by line.
//!
//! Not here: the search.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An isolation level, defined by the anomalies that it forbids, in Adya's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// PL-2: G0, G1a, G1b, G1c.
    ReadCommitted,
    /// PL-2.99: forbids the same as read committed, and G2-item.
    RepeatableRead,
    /// Snapshot isolation: each cycle has two consecutive read-to-write edges.
    Snapshot,
    /// PL-3: one order of all transactions explains the observations of each.
    Serializable,
    /// The same, in an order that no session and no clock contradicts.
    StrictSerializable,
}

impl Level {
    /// All of them, the weaker before the stronger.
    pub const ALL: [Self; 5] = [
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Snapshot,
        Self::Serializable,
        Self::StrictSerializable,
    ];

    /// Its name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read-committed",
            Self::RepeatableRead => "repeatable-read",
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
            Self::StrictSerializable => "strict-serializable",
        }
    }

    /// Whether every history of this level has the `weaker` one, too.
    #[must_use]
    pub fn implies(self, weaker: Self) -> bool {
        weaker <= self && !(self == Self::Snapshot && weaker == Self::RepeatableRead)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of an anomaly. The names are Adya's, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A value was seen that no transaction wrote.
    GarbageRead,
    /// A transaction did not see its own writes, or saw them before it made them.
    Internal,
    /// G1a: a write of an aborted transaction was seen.
    AbortedRead,
    /// G1b: a value was seen that its transaction replaced before it committed.
    IntermediateRead,
    /// G0: writes of transactions are interleaved.
    WriteCycle,
    /// G1c: transactions depend on each other's writes in a circle.
    CircularInformation,
    /// Two transactions replaced the same version.
    LostUpdate,
    /// G-single: a transaction saw a part of another's effects (read skew).
    Single,
    /// G2-item: write skew, by rows that were read.
    ItemAntidependency,
    /// G2: the same by absent rows (a phantom).
    Antidependency,
}

impl Kind {
    /// All of them.
    const ALL: [Self; 10] = [
        Self::GarbageRead,
        Self::Internal,
        Self::AbortedRead,
        Self::IntermediateRead,
        Self::WriteCycle,
        Self::CircularInformation,
        Self::LostUpdate,
        Self::Single,
        Self::ItemAntidependency,
        Self::Antidependency,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GarbageRead => "garbage-read",
            Self::Internal => "internal",
            Self::AbortedRead => "G1a",
            Self::IntermediateRead => "G1b",
            Self::WriteCycle => "G0",
            Self::CircularInformation => "G1c",
            Self::LostUpdate => "lost-update",
            Self::Single => "G-single",
            Self::ItemAntidependency => "G2-item",
            Self::Antidependency => "G2",
        }
    }

    /// A short description.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::GarbageRead => "a value that no transaction wrote",
            Self::Internal => "a transaction that contradicts its own operations",
            Self::AbortedRead => "a read of a value that was rolled back",
            Self::IntermediateRead => "a read of a value that its transaction replaced",
            Self::WriteCycle => "interleaved writes",
            Self::CircularInformation => "transactions that each depend on the other's writes",
            Self::LostUpdate => "two transactions that replaced the same version",
            Self::Single => "a read of some of another transaction's effects and not of others",
            Self::ItemAntidependency => {
                "write skew: each transaction read what another then replaced"
            }
            Self::Antidependency => "a phantom: a read missed a row that another transaction added",
        }
    }
}

/// An order that an anomaly contradicts, in addition to that of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beyond {
    /// None: the data alone shows it.
    Nothing,
    /// The order of a session's transactions.
    Session,
    /// The clock: one transaction had ended when another began.
    RealTime,
}

impl Beyond {
    /// All of them; the one that ends every name is last.
    const ALL: [Self; 3] = [Self::Session, Self::RealTime, Self::Nothing];

    /// The end of an anomaly's name.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Session => "-session",
            Self::RealTime => "-real-time",
        }
    }
}

/// One step of an anomaly's explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The transaction, as the line of the history.
    pub line: u64,
    /// The transaction that must come after it, as a line.
    pub before: u64,
    /// The reason, in words.
    pub why: String,
}

/// An anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: Kind,
    /// The other order that it contradicts.
    pub beyond: Beyond,
    /// The cycle, or the single impossible step.
    pub steps: Vec<Step>,
    /// Whether other orders of versions were possible, each of which leads to an anomaly, too.
    pub by_exclusion: bool,
}

impl Anomaly {
    /// Its full name: `G2-item`, `G-single-real-time`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.kind.name(), self.beyond.suffix())
    }

    /// The kind and the order of an anomaly with this name.
    fn named(name: &str) -> Option<(Kind, Beyond)> {
        let (kind, beyond) = Beyond::ALL
            .into_iter()
            .find_map(|beyond| Some((name.strip_suffix(beyond.suffix())?, beyond)))?;
        Some((Kind::ALL.into_iter().find(|other| other.name() == kind)?, beyond))
    }
}

impl Serialize for Anomaly {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            name: String,
            words: &'static str,
            by_exclusion: bool,
            steps: &'a [Step],
        }
        let (words, by_exclusion) = (self.kind.words(), self.by_exclusion);
        Shown { name: self.name(), words, by_exclusion, steps: &self.steps }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Anomaly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Shown {
            name: String,
            by_exclusion: bool,
            steps: Vec<Step>,
        }
        let Shown { name, by_exclusion, steps } = Shown::deserialize(deserializer)?;
        let (kind, beyond) = Self::named(&name)
            .ok_or_else(|| D::Error::custom(format!("no anomaly is named {name}")))?;
        Ok(Self { kind, beyond, steps, by_exclusion })
    }
}

/// Whether a history has a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// An order was found that explains it.
    Yes,
    /// No order does.
    No,
    /// Neither was found within the effort.
    Undecided,
}

/// The result for each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels(pub(crate) [Holds; 5]);

impl Levels {
    /// Whether the history has this level.
    #[must_use]
    pub fn of(&self, level: Level) -> Holds {
        self.0[level as usize]
    }
}

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Level::ALL.iter().map(|&level| (level.name(), self.of(level))))
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = BTreeMap::<Level, Holds>::deserialize(deserializer)?;
        let mut levels = [Holds::Undecided; Level::ALL.len()];
        for level in Level::ALL {
            let missing = || D::Error::custom(format!("the level {level} is missing"));
            levels[level as usize] = *found.get(&level).ok_or_else(missing)?;
        }
        Ok(Self(levels))
    }
}

/// The facts that the evidence left open, and the number of candidates tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Pairs of neighbouring versions whose order nothing proves.
    pub orders: u64,
    /// Reads of none that more than one deletion can explain.
    pub absences: u64,
    /// Transactions of unknown outcome whose deletions would explain an observation.
    pub outcomes: u64,
    /// The number of candidates tried.
    pub tried: u64,
}

/// The verdict on a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The requested level.
    pub level: Level,
    /// Whether the history has it.
    pub holds: Holds,
    /// The same for every level.
    pub levels: Levels,
    /// The number of transactions that count: committed ones, and unknown ones whose writes were seen.
    pub counted: u64,
    /// The facts that the evidence left open.
    pub open: Open,
    /// The anomalies, the worst first; none if the requested level holds.
    pub anomalies: Vec<Anomaly>,
}

impl Verdict {
    /// The strongest levels that hold: one, or two that do not imply each other, or none.
    #[must_use]
    pub fn strongest(&self) -> Vec<Level> {
        let holds = |level: &Level| self.levels.of(*level) == Holds::Yes;
        let held: Vec<Level> = Level::ALL.into_iter().filter(holds).collect();
        let beaten =
            |level: Level| held.iter().any(|&other| other != level && other.implies(level));
        held.iter().copied().filter(|&level| !beaten(level)).collect()
    }
}

impl fmt::Display for Verdict {
    /// The text for people: the level, then each anomaly with its explanation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = match self.holds {
            Holds::Yes => "holds",
            Holds::No => "does not hold",
            Holds::Undecided => "undecided",
        };
        writeln!(f, "{}: {is}; {} transactions count", self.level, self.counted)?;
        if self.holds != Holds::Yes {
            let names: Vec<&str> = self.strongest().iter().map(|level| level.name()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            writeln!(f, "what holds: {names}")?;
        }
        if self.holds == Holds::Undecided {
            let Open { orders, absences, outcomes, tried } = self.open;
            writeln!(
                f,
                "open: the order of {orders} pairs of versions, the reason of {absences} absences, {outcomes} \
                 outcomes; {tried} candidates were tried: record what writes replace (over), or commit"
            )?;
        }
        for anomaly in &self.anomalies {
            writeln!(f, "{}: {}", anomaly.name(), anomaly.kind.words())?;
            for step in &anomaly.steps {
                writeln!(f, "  {}", step.why)?;
            }
            if anomaly.by_exclusion {
                writeln!(f, "  (other orders of the versions are possible; all lead to a cycle)")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds whose names begin alike must not be confused, and no name may be ambiguous by its ending.
    #[test]
    fn every_verdict_is_read_as_it_was_printed() {
        let anomalies = Kind::ALL.into_iter().flat_map(|kind| {
            Beyond::ALL.map(|beyond| {
                let steps = vec![Step { line: 1, before: 2, why: "a reason".to_owned() }];
                Anomaly { kind, beyond, steps, by_exclusion: beyond == Beyond::Session }
            })
        });
        let verdict = Verdict {
            level: Level::Snapshot,
            holds: Holds::No,
            levels: Levels([Holds::Yes, Holds::No, Holds::No, Holds::Undecided, Holds::No]),
            counted: 3,
            open: Open { orders: 1, absences: 2, outcomes: 3, tried: 4 },
            anomalies: anomalies.collect(),
        };
        let printed = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&printed).unwrap(), verdict);
        let refused = |from: &str, to: &str, expect: &str| {
            let spoilt = printed.replacen(from, to, 1);
            let error = serde_json::from_str::<Verdict>(&spoilt).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{error}");
        };
        refused("\"G1a-session\"", "\"G1a-later\"", "no anomaly is named G1a-later");
        refused("\"snapshot\":\"no\",", "", "the level snapshot is missing");
    }
}
