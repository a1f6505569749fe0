//! What people see of a stored result, to the character. `UPDATE_GOLDEN=1 cargo test` writes anew.

use super::*;
use crate::report::terminal::Style;

const EXAMPLE: &str = include_str!("../tests/dissect.json");
const PLAIN: Style = Style { colour: false };

fn example() -> Dissection {
    serde_json::from_str(EXAMPLE).unwrap()
}

/// Compares with a stored text, or stores it.
fn golden(name: &str, actual: &str) {
    let path = format!("{}/src/report/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(actual == expected, "{name} differs (UPDATE_GOLDEN=1 writes it):\n{actual}");
}

#[test]
fn a_wide_terminal() {
    golden("dissect-unicode-120.txt", &text(&example(), Canvas::new(PLAIN, true, 120)));
}

#[test]
fn a_narrow_place_without_unicode() {
    let narrow = text(&example(), Canvas::new(PLAIN, false, 80));
    assert!(narrow.is_ascii());
    golden("dissect-ascii-80.txt", &narrow);
}

#[test]
fn colour_changes_no_character() {
    let plain = text(&example(), Canvas::new(PLAIN, true, 100));
    let colourful = text(&example(), Canvas::new(Style { colour: true }, true, 100));
    assert!(colourful.contains("\x1b[36m"));
    let mut shown = String::new();
    for (i, part) in colourful.split("\x1b[").enumerate() {
        shown.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(shown, plain);
}

#[test]
fn lines_stay_within_the_width() {
    for width in [80, 100, 132] {
        let text = text(&example(), Canvas::new(PLAIN, true, width));
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn every_part_of_a_rung_is_in_its_bar() {
    let example = example();
    for (at, rung) in example.rungs.iter().enumerate() {
        for transaction in ["new_order", "payment"] {
            let sum: f64 =
                parts(&example.rungs, at, transaction).unwrap().iter().map(|(_, part)| part).sum();
            let whole = rung.measured.instructions(transaction).unwrap();
            assert!((sum - whole).abs() < 1e-6, "{transaction} at {at}: {sum} {whole}");
        }
    }
}

#[test]
fn what_was_not_counted_is_said() {
    let mut example = example();
    for rung in &mut example.rungs {
        rung.measured.by_transaction.get_mut("payment").unwrap().instructions = None;
    }
    example.counter = "none".to_owned();
    example.components.clear();
    let text = text(&example, Canvas::new(PLAIN, true, 100));
    assert!(text.contains("Payment: its instructions were not counted"));
    assert!(text.contains(", not counted\n") && text.contains("25.2"));
    example.rungs[3].measured.state_hash = "0".to_owned();
    let text = super::text(&example, Canvas::new(PLAIN, false, 100));
    assert!(text.contains("FAILED the rungs leave different states"));
}

#[test]
fn a_reproduction_is_its_rows() {
    let reproduction = Figure::Fig7.reproduce(&example());
    let text = super::reproduction(&reproduction, Canvas::new(PLAIN, true, 120));
    assert!(text.starts_with("Figure 7"));
    let line = text.lines().find(|line| line.contains("S2 disk log")).unwrap();
    assert!(line.contains('–'), "no number is invented: {line}");
    assert!(text.contains("without a number (LG-E8)"));
    let line = text.lines().find(|line| line.contains("S5 locking")).unwrap();
    assert!(line.contains("16.3") && line.contains("18.2") && line.contains("1.12 ×"), "{line}");
}
