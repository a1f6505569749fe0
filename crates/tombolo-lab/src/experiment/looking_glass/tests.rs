//! A stored result: it is read whole, what follows from its rungs is in it, and every figure of the
//! paper has its rows.

use super::figures::{Figure, bars, text_rows};
use super::result::{Component, Dissection, Measured, Row, Shares};
use super::{derive, paper};

/// A made-up result, written by other means than ours.
const EXAMPLE: &str = include_str!("../../report/tests/dissect.json");

fn example() -> Dissection {
    serde_json::from_str(EXAMPLE).unwrap()
}

fn assert_near(left: &Shares, right: &Shares) {
    assert_eq!(left.len(), right.len());
    for (component, by_transaction) in left {
        for (transaction, share) in by_transaction {
            let other = right[component][transaction];
            for (a, b) in [
                (share.percent_instructions, other.percent_instructions),
                (share.percent_cycles, other.percent_cycles),
            ] {
                let difference = (a.unwrap_or(-1.0) - b.unwrap_or(-1.0)).abs();
                assert!(difference < 1e-3, "{component} {transaction}: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn what_follows_from_a_result_is_what_is_stored_in_it() {
    let example = example();
    assert_near(&derive::components(&example.rungs), &example.components);
    assert_near(&paper::shares(), &example.paper);
    let point = |mask: usize| {
        let bit = |i: usize| if mask >> i & 1 == 1 { '0' } else { '1' };
        let name = format!("lattice-{}", (0..5).map(bit).collect::<String>());
        example.lattice.iter().find(|point| point.profile == name).unwrap()
    };
    let points: Vec<&Measured> = (0..32).map(point).collect();
    for (component, shares) in derive::attribution(&points) {
        for (transaction, share) in shares {
            let stored = example.attribution[&component][&transaction].percent_instructions;
            let difference = share.percent_instructions.unwrap() - stored.unwrap();
            assert!(difference.abs() < 1e-3, "{component} {transaction}: {difference}");
        }
    }
    let matrix = derive::matrix(&example.rungs);
    for (transaction, by_component) in &example.matrix {
        for (component, calls) in by_component {
            for (call, stored) in calls {
                let derived = matrix[transaction][component][call];
                assert!((derived.instructions - stored.instructions).abs() < 0.05);
                assert_eq!(derived.percent_of_call.is_some(), stored.percent_of_call.is_some());
            }
        }
    }
}

#[test]
fn a_result_survives_writing_and_reading() {
    let example = example();
    let text = serde_json::to_string(&example).unwrap();
    assert_eq!(serde_json::from_str::<Dissection>(&text).unwrap(), example);
    assert!(serde_json::from_str::<Dissection>("{\"command\": \"dissect\"}").is_err());
}

#[test]
fn the_bars_are_those_of_figures_5_and_6() {
    let example = example();
    let bars: Vec<_> = bars(&example).into_iter().map(|bar| (bar.name, bar.measured)).collect();
    let names: Vec<_> = bars.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["whole", "−B-tree keys", "−logging", "−locking", "−latching"];
    assert_eq!(names[..5], expected);
    assert_eq!(names[5..], ["−buffer manager", "optimal"]);
    let profiles: Vec<_> = bars.iter().map(|(_, measured)| measured.profile.as_str()).collect();
    assert_eq!((profiles[2], profiles[5], profiles[6]), ("no-lsn", "no-page-access", "bare"));
}

fn paper_of(rows: &[Row], name: &str, unit: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row.name == name && row.unit == unit);
    row.unwrap_or_else(|| panic!("{name} in {unit} is missing")).paper
}

#[test]
fn every_row_of_the_paper_is_there_with_ours_beside_it() {
    let example = example();
    let rows = |figure: Figure| figure.rows(&example);
    for figure in Figure::ALL {
        let rows = rows(figure);
        assert!(!rows.is_empty(), "{}", figure.item().id);
        assert_eq!(Figure::find(figure.item().id), Some(figure));
        for row in &rows {
            assert!(row.ours.is_some(), "{}: {}", figure.item().id, row.name);
            assert_eq!(row.ratio.is_some(), row.paper.is_some(), "{}", row.name);
            assert!(row.reference.starts_with("LG-"), "{}", row.name);
        }
    }
    let percent = "% of instructions";
    let fig5 = rows(Figure::Fig5);
    assert_eq!(paper_of(&fig5, "Payment · locking", percent), Some(25.2));
    assert_eq!(paper_of(&fig5, "Payment · whole", "instructions"), Some(180_000.0));
    let left = paper_of(&fig5, "Payment · left after −latching", percent).unwrap();
    assert!((left - 34.4).abs() < 1e-9);
    let fig8 = rows(Figure::Fig8);
    assert_eq!(paper_of(&fig8, "New Order · logging", "% of cycles"), Some(21.0));
    let throughput = rows(Figure::Throughput);
    assert_eq!(paper_of(&throughput, "optimal", "tps"), Some(46_500.0));
    assert_eq!(rows(Figure::Table1).len(), 5);
    assert!(text_rows(&example).iter().all(|row| row.ours.is_some()));
}

#[test]
fn no_number_is_invented() {
    let example = example();
    let fig7 = Figure::Fig7.rows(&example);
    let of_switches = fig7.iter().filter(|row| row.name.contains(" S"));
    let without: Vec<_> =
        of_switches.filter(|row| row.paper.is_none()).map(|row| row.name.as_str()).collect();
    assert_eq!(without.len(), 7, "{without:?}");
    assert!(Figure::Table1.rows(&example).iter().all(|row| row.paper.is_none()));
    let calls = Figure::Fig6.call_rows(&example);
    assert_eq!(calls.len(), 7 * 8);
    assert!(calls.iter().all(|row| row.paper.is_none() && row.caveat.contains("without a number")));
}

#[test]
fn a_result_without_counts_keeps_the_papers_rows() {
    let mut example = example();
    for rung in &mut example.rungs {
        for cost in rung.measured.by_transaction.values_mut() {
            (cost.instructions, cost.cycles) = (None, None);
            cost.calls.clear();
        }
    }
    (example.components, example.alone, example.lattice) = Default::default();
    for figure in [Figure::Fig1, Figure::Fig5, Figure::Fig6, Figure::Fig7, Figure::Fig8] {
        let rows = figure.rows(&example);
        assert!(rows.iter().all(|row| row.ours.is_none() && row.ratio.is_none()));
        assert!(rows.iter().any(|row| row.paper.is_some()));
    }
    assert!(Figure::Throughput.rows(&example).iter().all(|row| row.ours.is_some()));
    assert!(Component::ALL.iter().all(|component| !component.key().contains(' ')));
}

#[test]
fn a_ladder_in_another_order_is_compared_where_the_same_is_off() {
    let mut example = example();
    example.ladder = "reverse-locks".to_owned();
    (example.rungs[5].component, example.rungs[6].component) =
        (Some(Component::Latching), Some(Component::Locking));
    let rows = Figure::Fig5.rows(&example);
    let ours = |name: &str| rows.iter().find(|row| row.name == name).unwrap().ours;
    assert!(ours("Payment · left after −logging").is_some());
    assert_eq!(ours("Payment · left after −locking"), None, "latching went first");
    assert!(ours("Payment · left after −latching").is_some());
    example.ladder = "product".to_owned();
    example.components.clear();
    let up = Figure::Fig7.rows(&example);
    assert!(up.iter().all(|row| row.ours.is_none()), "it begins with the bare store");
}
