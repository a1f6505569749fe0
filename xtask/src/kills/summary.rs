//! What came of all cases, by kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How one case ended.
#[derive(Clone, Debug)]
pub(super) struct CaseEnd {
    pub(super) kind: &'static str,
    /// Whether what was to happen did: the process was killed, the file was refused.
    pub(super) struck: bool,
    /// Answers that were counted on.
    pub(super) acknowledged: u64,
    pub(super) failure: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    cases: u64,
    struck: u64,
    failed: u64,
}

/// All cases so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    kinds: BTreeMap<&'static str, OfKind>,
    acknowledged: u64,
}

impl Summary {
    pub(super) fn add(&mut self, case: &CaseEnd) {
        let of_kind = self.kinds.entry(case.kind).or_default();
        of_kind.cases += 1;
        of_kind.struck += u64::from(case.struck);
        of_kind.failed += u64::from(case.failure.is_some());
        self.acknowledged += case.acknowledged;
    }

    pub(super) fn failures(&self) -> u64 {
        self.kinds.values().map(|kind| kind.failed).sum()
    }

    /// One line.
    pub(super) fn json(&self, seed: u64, wall_s: f64) -> String {
        let total = |of: fn(&OfKind) -> u64| self.kinds.values().map(of).sum::<u64>();
        let mut kinds = String::new();
        for (name, OfKind { cases, struck, failed }) in &self.kinds {
            let comma = if kinds.is_empty() { "" } else { "," };
            let object = format!("{{\"cases\":{cases},\"struck\":{struck},\"failed\":{failed}}}");
            // A string takes everything.
            let _ = write!(kinds, "{comma}\"{name}\":{object}");
        }
        format!(
            "{{\"command\":\"kills\",\"seed\":{seed},\"cases\":{},\"struck\":{},\"failed\":{},\
             \"acknowledged\":{},\"wall_s\":{wall_s:.1},\"by_kind\":{{{kinds}}}}}",
            total(|kind| kind.cases),
            total(|kind| kind.struck),
            total(|kind| kind.failed),
            self.acknowledged
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseEnd, Summary};

    #[test]
    fn cases_are_counted_by_kind() {
        let mut summary = Summary::default();
        let mut case = CaseEnd { kind: "fdatasync", struck: true, acknowledged: 5, failure: None };
        summary.add(&case);
        case.struck = false;
        case.failure = Some("client 3 lost 7".to_owned());
        summary.add(&case);
        assert_eq!(summary.failures(), 1);
        let json = summary.json(4, 1.25);
        let expected = "\"by_kind\":{\"fdatasync\":{\"cases\":2,\"struck\":1,\"failed\":1}}}";
        assert!(json.ends_with(expected), "{json}");
        assert!(json.contains("\"acknowledged\":10,\"wall_s\":1.2"), "{json}");
    }
}
