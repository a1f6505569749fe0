//! Results as one self-contained page: charts, the paper's figures next to ours, tables of all of
//! it.
//!
//! [`read`] takes results out of files, [`page`] makes the page, [`text`] says the same on a
//! terminal. It loads nothing, from anywhere,
//! needs no script, and holds no time of day: the same results give the same bytes. `chart.rs`
//! draws, `markup.rs` writes; `dissection.rs` and `others.rs` say what is shown of which result.
//!
//! Not here: files.

mod chart;
mod dissection;
mod figures;
mod markup;
mod others;
mod read;

#[cfg(test)]
mod tests;

pub use read::{Stored, read};

use markup::Markup;
use read::Found;

use super::canvas::Canvas;
use super::{Header, size};

const STYLE: &str = include_str!("style.css");
/// A figure that there is none of.
const MISSING: &str = "–";

/// Results that are shown together.
enum Section<'a> {
    Dissection(&'a Stored),
    Reproduction(&'a Stored),
    Runs(Vec<&'a Stored>),
    Comparison(Vec<&'a Stored>),
    Other(&'a Stored),
}

impl Section<'_> {
    fn title(&self) -> String {
        match self {
            Self::Dissection(stored) => dissection::heading(stored),
            Self::Reproduction(stored) => others::reproduction_heading(stored),
            Self::Runs(_) => "Runs".to_owned(),
            Self::Comparison(_) => "Beside other engines".to_owned(),
            Self::Other(stored) => match &stored.found {
                Found::Profile(found) => format!("Profile {}", found.profile),
                _ => format!("Result of {}", stored.head.command),
            },
        }
    }

    /// The headings below it that the table of contents lists.
    fn parts(&self) -> Vec<(String, String)> {
        match self {
            Self::Dissection(stored) => dissection::parts(stored),
            _ => Vec::new(),
        }
    }

    fn write(&self, page: &mut Markup, id: &str) {
        match self {
            Self::Dissection(stored) => dissection::write(page, stored, id),
            Self::Reproduction(stored) => others::reproduction(page, stored),
            Self::Runs(results) => others::runs(page, results),
            Self::Comparison(results) => others::comparison(page, results),
            Self::Other(stored) => others::plain(page, stored),
        }
    }

    fn results(&self) -> Vec<&Stored> {
        match self {
            Self::Dissection(stored) | Self::Reproduction(stored) | Self::Other(stored) => {
                vec![stored]
            }
            Self::Runs(results) | Self::Comparison(results) => results.clone(),
        }
    }
}

/// Runs that follow each other are one section, and so are the engines of one comparison.
fn sections(results: &[Stored]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut compared = true;
    for stored in results {
        match (&stored.found, sections.last_mut()) {
            (Found::Dissection(_), _) => sections.push(Section::Dissection(stored)),
            (Found::Reproduction(_), _) => sections.push(Section::Reproduction(stored)),
            (Found::Run(_) | Found::Summary(_), Some(Section::Runs(runs))) => runs.push(stored),
            (Found::Run(_) | Found::Summary(_), _) => sections.push(Section::Runs(vec![stored])),
            (found, Some(Section::Comparison(engines))) if found.is_compared() && !compared => {
                engines.push(stored);
            }
            (found, _) if found.is_compared() => sections.push(Section::Comparison(vec![stored])),
            _ => sections.push(Section::Other(stored)),
        }
        compared = matches!(stored.found, Found::Ratios(_) | Found::CallRatios(_));
    }
    sections
}

/// What `results` say, for a terminal: what was dissected or reproduced is drawn, the others are
/// lists of their fields.
pub fn text(results: &[Stored], canvas: Canvas) -> String {
    let mut text = String::new();
    for (i, stored) in results.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        text.push_str(&match &stored.found {
            Found::Dissection(found) => super::dissection::text(&found.found, canvas),
            Found::Reproduction(found) => super::dissection::reproduction(&found.found, canvas),
            _ => canvas.finish(others::text(stored, canvas)),
        });
    }
    text
}

/// The page that shows `results`.
pub fn page(results: &[Stored]) -> String {
    let sections = sections(results);
    let mut page = Markup::default();
    page.node("html", &[("lang", "en")], |page| {
        page.node("head", &[], |page| {
            page.empty("meta", &[("charset", "utf-8")]);
            let viewport = "width=device-width, initial-scale=1";
            page.empty("meta", &[("name", "viewport"), ("content", viewport)]);
            page.leaf("title", &[], "Tombolo: what it costs");
            page.style_sheet(STYLE);
        });
        page.node("body", &[], |page| {
            chart::patterns(page);
            page.node("header", &[], |page| opening(page, results, &sections));
            page.node("main", &[], |page| {
                for (i, section) in sections.iter().enumerate() {
                    let id = format!("s{}", i + 1);
                    page.node("section", &[("id", &id)], |page| {
                        page.leaf("h2", &[], &section.title());
                        section.write(page, &id);
                        settings(page, &section.results());
                    });
                }
            });
        });
    });
    page.finish()
}

fn opening(page: &mut Markup, results: &[Stored], sections: &[Section<'_>]) {
    page.leaf("h1", &[], "What it costs");
    page.leaf(
        "p",
        &[("class", "lead")],
        "Results of Tombolo, a main-memory OLTP database whose components can be taken out, so \
         that what each costs can be counted. Where a result reproduces a figure of a paper, the \
         paper's numbers stand beside ours.",
    );
    page.leaf(
        "p",
        &[("class", "note")],
        "Instructions are counted exactly and are the same on every machine; cycles and times are \
         of the machine below. A dash is a figure that was not measured, or that the paper does \
         not print: none is made up.",
    );
    provenance(page, results);
    if sections.len() < 2 && sections.iter().all(|section| section.parts().is_empty()) {
        return;
    }
    page.node("nav", &[("aria-label", "Contents")], |page| {
        page.node("ul", &[], |page| {
            for (i, section) in sections.iter().enumerate() {
                page.node("li", &[], |page| {
                    page.leaf("a", &[("href", &format!("#s{}", i + 1))], &section.title());
                    let parts = section.parts();
                    if !parts.is_empty() {
                        page.node("ul", &[], |page| {
                            for (id, title) in parts {
                                let to = format!("#s{}-{id}", i + 1);
                                page.node("li", &[], |page| {
                                    page.leaf("a", &[("href", &to)], &title);
                                });
                            }
                        });
                    }
                });
            }
        });
    });
}

/// Which builds, machines and settings the results are of.
fn provenance(page: &mut Markup, results: &[Stored]) {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut seen: Vec<(&Header, Vec<&str>)> = Vec::new();
    for stored in results.iter().filter(|stored| !stored.head.command.is_empty()) {
        let head = &stored.head;
        let same = |other: &Header| {
            (&other.commit, &other.host, &other.settings_hash, other.seed)
                == (&head.commit, &head.host, &head.settings_hash, head.seed)
        };
        match seen.iter_mut().find(|(other, _)| same(other)) {
            Some((_, commands)) if commands.contains(&head.command.as_str()) => {}
            Some((_, commands)) => commands.push(&head.command),
            None => seen.push((head, vec![&head.command])),
        }
    }
    for (head, commands) in seen {
        let machine = format!(
            "{} · {} cores · {} · {}",
            head.host.cpu,
            head.host.cores,
            size(head.host.memory_bytes),
            head.host.os
        );
        rows.push(vec![
            Cell::Head(commands.join(", ")),
            Cell::Long(machine),
            Cell::Left(head.version.clone()),
            Cell::Code(head.commit.clone()),
            Cell::Code(head.settings_hash.clone()),
            Cell::Figure(head.seed.map_or_else(|| MISSING.to_owned(), |seed| seed.to_string())),
        ]);
    }
    let heads = ["command", "machine", "version", "commit", "settings hash", "seed"];
    table(page, "Where the results come from", &heads, &rows);
}

/// All effective settings of results, once for each that differ.
fn settings(page: &mut Markup, results: &[&Stored]) {
    let mut seen: Vec<&Header> = Vec::new();
    for stored in results {
        let head = &stored.head;
        if !head.settings.is_empty() && !seen.iter().any(|other| other.settings == head.settings) {
            seen.push(head);
        }
    }
    for head in seen {
        page.node("details", &[], |page| {
            let summary = format!("All settings ({})", head.settings_hash);
            page.leaf("summary", &[], &summary);
            let rows: Vec<Vec<Cell>> = head
                .settings
                .iter()
                .map(|(name, value)| vec![Cell::Head(name.clone()), Cell::Left(json_text(value))])
                .collect();
            table(page, "Effective settings, times in seconds", &["setting", "value"], &rows);
        });
    }
}

/// A JSON value as people read it.
fn json_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => MISSING.to_owned(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
enum Cell {
    /// The head of its row.
    Head(String),
    /// A number.
    Figure(String),
    /// A short text.
    Left(String),
    /// A text that is broken into lines.
    Long(String),
    /// Characters to be copied.
    Code(String),
    /// Whether something holds.
    Holds(bool),
    /// A number on a colour whose strength is −1 to 1; the number says it all.
    Heat(String, f64),
    /// Above the rows of one unit, over all columns.
    Unit(String),
}

/// A table in a box of its own, which scrolls where the page is narrow.
fn table(page: &mut Markup, caption: &str, heads: &[&str], rows: &[Vec<Cell>]) {
    let region =
        [("class", "scroll"), ("role", "region"), ("tabindex", "0"), ("aria-label", caption)];
    page.node("div", &region, |page| {
        page.node("table", &[], |page| {
            page.node("caption", &[], |page| page.leaf("span", &[], caption));
            page.node("thead", &[], |page| {
                page.node("tr", &[], |page| {
                    for (i, head) in heads.iter().enumerate() {
                        let class = if is_left(i, rows) { "left" } else { "" };
                        page.leaf("th", &[("scope", "col"), ("class", class)], head);
                    }
                });
            });
            page.node("tbody", &[], |page| {
                for row in rows {
                    write_row(page, row, heads.len());
                }
            });
        });
    });
}

/// Whether a column's cells begin at its left.
fn is_left(column: usize, rows: &[Vec<Cell>]) -> bool {
    let cells = || rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column));
    cells().next().is_some_and(|cell| !matches!(cell, Cell::Figure(_) | Cell::Heat(..)))
}

fn write_row(page: &mut Markup, row: &[Cell], columns: usize) {
    if let [Cell::Unit(unit)] = row {
        let columns = columns.to_string();
        return page.node("tr", &[("class", "unit")], |page| {
            page.leaf("th", &[("scope", "rowgroup"), ("colspan", &columns)], unit);
        });
    }
    page.node("tr", &[], |page| {
        for cell in row {
            match cell {
                Cell::Head(text) | Cell::Unit(text) => page.leaf("th", &[("scope", "row")], text),
                Cell::Figure(text) => page.leaf("td", &[], text),
                Cell::Left(text) => page.leaf("td", &[("class", "left")], text),
                Cell::Long(text) => page.leaf("td", &[("class", "long")], text),
                Cell::Code(text) => {
                    page.node("td", &[("class", "left")], |page| page.leaf("code", &[], text));
                }
                Cell::Holds(true) => page.leaf("td", &[("class", "left good")], "✓ yes"),
                Cell::Holds(false) => page.leaf("td", &[("class", "left bad")], "✗ no"),
                Cell::Heat(text, strength) => {
                    let colour = if *strength < 0.0 { "230, 126, 34" } else { "86, 160, 233" };
                    let alpha = (strength.abs().min(1.0) * 0.6).max(0.0);
                    let style = format!("background: rgba({colour}, {alpha:.3})");
                    page.leaf("td", &[("style", &style)], text);
                }
            }
        }
    });
}
