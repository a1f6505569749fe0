//! The outcomes of all cases, by kind and by place.
//!
//! A harness whose kills strike nothing would find every database whole. So a kind of which no case struck is a failure
//! of the harness, and so are too few strikes in all; cases that a machine cannot do are not counted there.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::Outcome;
use crate::provenance::{Host, line, tenths};

/// The least percentage of strikes among the cases in which something could strike.
const STRUCK_PERCENT_MIN: u64 = 90;
/// A kind with at least this many cases must have struck.
const CASES_OF_KIND_MIN: u64 = 3;

/// How one case ended.
#[derive(Clone, Debug)]
pub(super) struct CaseEnd {
    pub(super) kind: &'static str,
    /// The outcome, or what is wrong.
    pub(super) outcome: Result<Outcome, String>,
    /// Calls that were answered.
    pub(super) acknowledged: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct OfKind {
    cases: u64,
    struck: u64,
    missed: u64,
    skipped: u64,
    failed: u64,
}

/// The report of `cargo xtask kills`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    command: &'a str,
    commit: &'a str,
    host: Host,
    profile: &'a str,
    seed: u64,
    #[serde(flatten)]
    total: OfKind,
    acknowledged: u64,
    wall_s: f64,
    by_kind: &'a BTreeMap<&'static str, OfKind>,
    by_place: &'a BTreeMap<String, u64>,
}

/// All cases so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    kinds: BTreeMap<&'static str, OfKind>,
    /// How often something struck, by where.
    places: BTreeMap<String, u64>,
    acknowledged: u64,
}

impl Summary {
    pub(super) fn add(&mut self, case: &CaseEnd) {
        let of_kind = self.kinds.entry(case.kind).or_default();
        of_kind.cases += 1;
        match &case.outcome {
            Ok(Outcome::Struck(places)) => {
                of_kind.struck += 1;
                for place in places {
                    *self.places.entry(place.clone()).or_default() += 1;
                }
            }
            Ok(Outcome::Missed(_)) => of_kind.missed += 1,
            Ok(Outcome::Skipped(_)) => of_kind.skipped += 1,
            Err(_) => of_kind.failed += 1,
        }
        self.acknowledged += case.acknowledged;
    }

    /// All kinds together.
    fn total(&self) -> OfKind {
        let mut total = OfKind::default();
        for kind in self.kinds.values() {
            total.cases += kind.cases;
            total.struck += kind.struck;
            total.missed += kind.missed;
            total.skipped += kind.skipped;
            total.failed += kind.failed;
        }
        total
    }

    pub(super) fn cases(&self) -> u64 {
        self.total().cases
    }

    pub(super) fn failures(&self) -> u64 {
        self.total().failed
    }

    /// Why these cases prove nothing, if so.
    pub(super) fn too_few(&self) -> Option<String> {
        let never = self
            .kinds
            .iter()
            .find(|(_, kind)| kind.struck == 0 && kind.possible() >= CASES_OF_KIND_MIN);
        if let Some((name, kind)) = never {
            return Some(format!("none of {} cases of {name} struck", kind.cases));
        }
        let total = self.total();
        let (struck, possible) = (total.struck, total.possible());
        let is_enough =
            struck * 100 >= possible * STRUCK_PERCENT_MIN || possible - struck < CASES_OF_KIND_MIN;
        (!is_enough).then(|| format!("only {struck} of {possible} cases struck"))
    }

    /// A line for each kind, for people.
    pub(super) fn table(&self) -> String {
        let mut table = format!(
            "{:<14}{:>7}{:>8}{:>8}{:>9}{:>8}\n",
            "kind", "cases", "struck", "missed", "skipped", "failed"
        );
        for (name, OfKind { cases, struck, missed, skipped, failed }) in &self.kinds {
            table +=
                &format!("{name:<14}{cases:>7}{struck:>8}{missed:>8}{skipped:>9}{failed:>8}\n");
        }
        table
    }

    /// One line.
    pub(super) fn json(&self, (profile, seed): (&str, u64), commit: &str, wall_s: f64) -> String {
        line(&Row {
            command: "kills",
            commit,
            host: Host::read(),
            profile,
            seed,
            total: self.total(),
            acknowledged: self.acknowledged,
            wall_s: tenths(wall_s),
            by_kind: &self.kinds,
            by_place: &self.places,
        })
    }
}

impl OfKind {
    /// Cases in which something could strike.
    fn possible(&self) -> u64 {
        self.struck + self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseEnd, Outcome, Summary};

    fn of(outcomes: Vec<(&'static str, Result<Outcome, String>)>) -> Summary {
        let mut summary = Summary::default();
        for (kind, outcome) in outcomes {
            summary.add(&CaseEnd { kind, outcome, acknowledged: 5 });
        }
        summary
    }

    fn missed() -> Result<Outcome, String> {
        Ok(Outcome::Missed("too late".to_owned()))
    }

    fn struck(place: &str) -> Result<Outcome, String> {
        Ok(Outcome::struck(place))
    }

    #[test]
    fn cases_are_counted_by_kind_and_place() {
        let summary = of(vec![
            ("fdatasync", struck("fdatasync")),
            ("fdatasync", Err("client 3 lost 7".to_owned())),
            ("recovering", Ok(Outcome::Struck(vec!["recover time".into(), "fdatasync".into()]))),
        ]);
        assert_eq!(summary.failures(), 1);
        let json = summary.json(("memory", 4), "abc", 1.25);
        let expected = "\"by_kind\":{\"fdatasync\":{\"cases\":2,\"struck\":1,\"missed\":0,\
                        \"skipped\":0,\"failed\":1},";
        assert!(json.contains(expected), "{json}");
        assert!(json.starts_with("{\"command\":\"kills\",\"commit\":\"abc\",\"host\":{"), "{json}");
        assert!(json.ends_with("\"by_place\":{\"fdatasync\":2,\"recover time\":1}}"), "{json}");
        assert!(json.contains("\"acknowledged\":15,\"wall_s\":1.2"), "{json}");
        assert!(summary.table().contains("fdatasync           2       1       0        0       1"));
    }

    #[test]
    fn kills_that_strike_nothing_prove_nothing() {
        assert_eq!(Summary::default().too_few(), None);
        let few = of(vec![("fsync", missed()), ("fsync", missed())]);
        assert_eq!(few.too_few(), None);
        let never = of(vec![("fsync", missed()), ("fsync", missed()), ("fsync", missed())]);
        assert_eq!(never.too_few().unwrap(), "none of 3 cases of fsync struck");
        let mut cases = vec![("a", struck("x")); 17];
        cases.extend(vec![("a", missed()); 3]);
        assert_eq!(of(cases.clone()).too_few().unwrap(), "only 17 of 20 cases struck");
        cases.extend(vec![("a", struck("x")); 10]);
        assert_eq!(of(cases).too_few(), None);
        let skipped = Ok(Outcome::Skipped("not root".to_owned()));
        assert_eq!(of(vec![("full-disk", skipped); 9]).too_few(), None);
    }
}
