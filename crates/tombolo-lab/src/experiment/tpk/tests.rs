//! Configurations as settings, the tables' rows, and a run that a test can wait for.

use std::time::Duration;

use tombolo_engine::pipeline::{self, Spread};

use super::configuration::Configuration::{self, A, B, C};
use super::table::{Found, Table, TablePlan, direction, notes, rows};
use super::terminals::{Measured, Point, measure};
use crate::host::Switches;
use crate::settings::{Settings, Source};
use crate::workload::debit_credit::Scale;

fn settings(given: &[(&str, &str)]) -> Settings {
    let mut settings = crate::settings::defaults();
    for (name, value) in given {
        settings.set(name, value, Source::Flag).unwrap();
    }
    settings
}

#[test]
fn configurations_are_settings_unless_reported_otherwise() {
    let of = |configuration: Configuration, given, cores| {
        let mut settings = settings(given);
        configuration.apply(&mut settings, cores).unwrap();
        let options = pipeline::Options::new(&settings, cores);
        (options.spread, options.spin_ns)
    };
    assert_eq!(of(A, &[], 8), (Spread::Coalesced, 0));
    assert_eq!(of(B, &[], 8), (Spread::Each, 1_000_000_000));
    assert_eq!(of(B, &[], 2), (Spread::Each, 20_000));
    assert_eq!(of(B, &[("spin_us_max", "7")], 2), (Spread::Each, 7_000));
    assert_eq!(of(C, &[], 8), of(B, &[], 8));
    let process = |configuration: Configuration, given| {
        let mut settings = settings(given);
        configuration.apply(&mut settings, 8).unwrap();
        assert_eq!(settings.word(&crate::settings::CHECKPOINT_COPY), "memory");
        settings.word(&crate::settings::CHECKPOINT_PROCESS).to_owned()
    };
    assert_eq!((process(B, &[]), process(C, &[])), ("own".to_owned(), "other".to_owned()));
    assert_eq!(process(C, &[("checkpoint_process", "own")]), "own");
    assert_eq!((Configuration::find("B"), Configuration::find("b")), (Some(B), None));
    assert!(B.caveat(2).is_some() && B.caveat(8).is_none() && A.caveat(1).is_none());
}

fn found_by(wall_ms: u64, cpu_ms: u64, switches: u64) -> Measured {
    let mut measured = Measured {
        wall: Duration::from_millis(wall_ms),
        cpu: Duration::from_millis(cpu_ms),
        committed: 990,
        aborted: 10,
        input: Duration::from_millis(wall_ms * 9 / 10),
        switches: Some(Switches { voluntary: switches, involuntary: 0 }),
        per_flush: 50.0,
        checkpoints: 5,
        ..Measured::default()
    };
    measured.responses.record(400_000_000);
    measured
}

#[test]
fn a_direction_is_explained_by_what_was_measured() {
    let (slow, fast) = (found_by(2_000, 2_000, 4_000), found_by(1_000, 1_900, 1_000));
    let shown = direction((A, &slow), (B, &fast), 2);
    assert!(shown.starts_with("B is 2.00 times as fast as A"), "{shown}");
    assert!(shown.contains("from 4.000 to 1.000 a transaction"), "{shown}");
    assert!(shown.contains("input, busy 90 %"), "{shown}");
    let busy = direction((B, &fast), (C, &found_by(2_000, 4_000, 9_000)), 2);
    assert!(busy.contains("does not show") && busy.contains("uses all of its 2 cores"), "{busy}");
    let idle = direction((A, &fast), (B, &found_by(2_000, 2_000, 9_000)), 2);
    assert!(idle.contains("B used only 1.00 of 2 cores"), "{idle}");
}

#[test]
fn every_figure_of_the_paper_has_a_row_with_or_without_ours() {
    let plan = TablePlan::new(&settings(&[]), Duration::from_micros(500)).unwrap();
    let none = rows(Table::Table1, &plan, &Found::new(), 2);
    let of = |rows: &[crate::experiment::looking_glass::result::Row], name: &str| {
        rows.iter().find(|row| row.name == name).cloned().unwrap_or_else(|| panic!("{name}"))
    };
    for (name, paper) in [("A · throughput", 77.0), ("B / A", 5.83), ("C / A", 16.6)] {
        let row = of(&none, name);
        assert_eq!((row.paper, row.ours, row.ratio), (Some(paper), None, None), "{name}");
    }
    assert!(of(&none, "C · mean response").caveat.contains("another machine"));
    let at = |configuration, group| Point {
        configuration,
        group,
        scale: Scale { seed: 1, branches: 15, tellers_per_branch: 10, accounts_per_branch: 1_000 },
        transactions: 50_000,
        terminal: Duration::from_micros(500),
    };
    let found = vec![
        (at(A, 50), found_by(2_000, 2_000, 4_000)),
        (at(B, 200), found_by(1_000, 1_900, 9)),
        (at(C, 400), found_by(500, 900, 9)),
    ];
    let some = rows(Table::Table1, &plan, &found, 2);
    assert_eq!(some.iter().filter(|row| row.paper.is_some()).count(), 3 * 5 + 3 + 3);
    let throughput = of(&some, "B · throughput");
    assert_eq!((throughput.ours, throughput.ratio), (Some(1_000.0), Some(2.2272)));
    assert_eq!((of(&some, "B / A").ours, of(&some, "C / A").ours), (Some(2.0), Some(4.0)));
    assert_eq!(of(&some, "A · mean response").ours.map(f64::round), Some(400.0));
    assert_eq!(of(&some, "A · responses below 1 s").ours, Some(100.0));
    let said = notes(Table::Table1, &plan, &found, 2);
    assert!(said.iter().any(|note| note.starts_with("B is 2.00 times as fast as A")), "{said:?}");
    assert!(said.iter().any(|note| note.starts_with("C is 2.00 times as fast as B")), "{said:?}");
    assert!(said.iter().all(|note| !note.starts_with("Scaled up")), "{said:?}");
    let scaled = |configuration| Point {
        scale: Scale { branches: 1_500, ..at(configuration, 200).scale },
        transactions: 500_000,
        terminal: Duration::ZERO,
        ..at(configuration, 200)
    };
    let larger =
        vec![(scaled(A), found_by(500, 900, 9)), (scaled(B), found_by(1_000, 2_000, 4_000))];
    let said = notes(Table::Table1, &plan, &larger, 2);
    let why =
        "Scaled up, groups of 200: This machine does not show the paper's direction (B / A 0.50)";
    assert!(said.iter().any(|note| note.starts_with(why)), "{said:?}");
    let parts = rows(Table::Breakdown, &plan, &found, 2);
    let parts: Vec<_> = parts.iter().map(|row| (row.name.as_str(), row.paper, row.ours)).collect();
    assert_eq!(parts[..2], [("total", Some(39.0), Some(0.5)), ("input", Some(38.5), Some(0.45))]);
    assert_eq!(parts.len(), 6);
}

#[test]
fn a_run_answers_everything_and_writes_its_checkpoints() {
    let scratch = tempfile::tempdir().unwrap();
    for configuration in [A, B] {
        let scale =
            Scale { seed: 1, branches: 15, tellers_per_branch: 10, accounts_per_branch: 100 };
        let terminal = Duration::from_micros(20);
        let point = Point { configuration, group: 10, scale, transactions: 500, terminal };
        let directory = scratch.path().join(configuration.name());
        let given = settings(&[("log_segment_bytes", "1MB")]);
        let found = measure(&point, &given, &directory, &mut ()).unwrap();
        assert_eq!((found.done(), found.responses.len()), (500, 500));
        assert_eq!(found.checkpoints, 5, "{configuration:?}");
        // A flush takes all that was executed until then: four groups at most.
        assert!((1.0..=40.0).contains(&found.per_flush), "{}", found.per_flush);
        assert!(found.input >= Duration::from_millis(10) && found.input <= found.wall);
        // A stage counts its time after it delivered, so the last delivery may be missing: four
        // groups at most.
        assert!(found.busy.output_ns >= (500 - 40) * 20_000, "terminals keep output busy");
        assert!(found.busy.execution_ns > 0 && found.busy.logging_ns > 0);
    }
}
