//! The figures of small trees: what is written, what is refused; then the repository's own.

use super::{findings, run};
use crate::tidy::scratch::Scratch;

const ROWS: &str = concat!(
    r#"{"host":{"cpu":"Intel(R) Xeon(R) Processor","cores":2},"commit":"0432514","engine":"a","us":{"p50":1.25}}"#,
    "\n",
    r#"{"host":{"cpu":"Intel(R) Xeon(R) Processor","cores":2},"commit":"0432514","engine":"b","us":{"p50":1500.4}}"#,
    "\n"
);

const TEMPLATE: &str = concat!(
    "{% for row in rows(\"calls/c.jsonl\") | where(\"engine\", \"b\") %}\n",
    "| {{ row.engine }} | {{ row.us.p50 | count }} |\n",
    "{% endfor %}\n",
    "{{ rows(\"calls/c.jsonl\") | all(\"us.p50\") | median | fixed(1) }}; ",
    "{{ rows(\"calls/c.jsonl\") | source(\"calls/c.jsonl\") }}\n"
);

const DOCUMENT: &str =
    "before\n<!-- figures: table -->\n| b | 1,400 |\n<!-- end -->\nafter, see `docs/x.md`\n";

fn tree(files: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new(&[
        ("results/calls/c.jsonl", ROWS),
        ("docs/figures/table.md.j2", TEMPLATE),
        ("docs/x.md", DOCUMENT),
    ]);
    files.iter().for_each(|(path, text)| scratch.write(path, text));
    scratch
}

fn shown(scratch: &Scratch) -> Vec<String> {
    findings(scratch.root()).unwrap().shown()
}

/// The tree, its figures written and one file then replaced, has exactly one finding, which holds `expected`.
#[track_caller]
fn breaks(path: &str, text: &str, expected: &str) {
    let scratch = tree(&[]);
    run(scratch.root(), &[]).unwrap();
    scratch.write(path, text);
    let found = shown(&scratch);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains(expected), "{} lacks {expected}", found[0]);
}

fn read(scratch: &Scratch, path: &str) -> String {
    std::fs::read_to_string(scratch.root().join(path)).unwrap()
}

#[test]
fn a_document_that_differs_is_found_and_written() {
    let scratch = tree(&[]);
    let found = shown(&scratch);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("docs/x.md:3: differs"), "{}", found[0]);
    run(scratch.root(), &[]).unwrap();
    assert_eq!(
        read(&scratch, "docs/x.md"),
        "before\n<!-- figures: table -->\n| b | 1,500 |\n750.8; Intel Xeon, 2 cores; commit `0432514`; \
         `results/calls/c.jsonl`\n<!-- end -->\nafter, see `docs/x.md`\n"
    );
    assert_eq!(shown(&scratch), Vec::<String>::new());
    run(scratch.root(), &["--check"]).unwrap();
}

#[test]
fn a_changed_row_or_a_changed_document_fails_the_check() {
    breaks("results/calls/c.jsonl", &ROWS.replace("1500.4", "1600"), "docs/x.md:3: differs");
    let edited = DOCUMENT.replace("1,400", "1,600");
    breaks("docs/x.md", &edited, "docs/x.md:3: differs");
}

#[test]
fn pictures_are_made_of_rows_too() {
    let picture = "<svg>{{ rows(\"calls/c.jsonl\") | length }}</svg>\n";
    let scratch = tree(&[("docs/figures/bars.svg.j2", picture)]);
    run(scratch.root(), &[]).unwrap();
    assert_eq!(read(&scratch, "docs/bars.svg"), "<svg>2</svg>\n");
    scratch.write("docs/bars.svg", "<svg>3</svg>\n");
    assert_eq!(shown(&scratch).len(), 1);
}

#[test]
fn rows_without_machine_commit_or_sense_are_found() {
    let row = |text: &str| breaks("results/calls/d.json", text, "results/calls/d.json:1: ");
    row("{");
    row(r#"{"commit":"0432514"}"#);
    row(r#"{"commit":"0432514","host":{"cpu":""}}"#);
    row(r#"{"host":{"cpu":"x"}}"#);
    row(r#"{"host":{"cpu":"x"},"commit":"unknown"}"#);
    let scratch = tree(&[("results/sim/s.json", r#"{"simulated":true,"commit":"0432514"}"#)]);
    run(scratch.root(), &[]).unwrap();
}

#[test]
fn blocks_and_templates_that_do_not_fit_are_found() {
    let begin = "<!-- figures: table -->\n";
    breaks("docs/y.md", begin, "docs/y.md:1: the block does not end");
    breaks("docs/y.md", "<!-- end -->\n", "no block begins");
    breaks("docs/y.md", &format!("{begin}{begin}<!-- end -->\n"), "before the next");
    breaks("docs/y.md", "<!-- figures: none -->\n<!-- end -->\n", "does not exist");
    breaks("docs/figures/unused.md.j2", "x", "no document uses this template");
    breaks("docs/figures/table.md.j2", "{{ rows(\"no.json\") }}", "no rows in no.json");
    breaks("docs/figures/table.md.j2", "{{ rows(\"calls/c.jsonl\") | the }}", "2 rows where one");
    breaks("docs/figures/table.md.j2", "{{ rows(\"calls/c.jsonl\")[0].gone }}", "undefined");
}

#[test]
fn a_number_in_readme_needs_a_source() {
    breaks("README.md", "Some text.\n\nIt takes 0.5 µs.\n", "README.md:3: the number 0.5 has no");
    breaks("README.md", "[twice](a.md) as fast, 64 threads\n", "the number 64");
    let fine = "Of 2008, `x = 5`, [x](docs/64.md).\n\n    run 5\n\n```rust\n5\n```\nx86\n";
    let scratch = tree(&[("README.md", fine)]);
    run(scratch.root(), &[]).unwrap();
    assert_eq!(shown(&scratch), Vec::<String>::new());
}

#[test]
fn commits_are_those_of_the_history() {
    let scratch = tree(&[]);
    scratch.git(&["init", "--quiet"]);
    scratch.git(&["commit", "--quiet", "--allow-empty", "--message", "x: first"]);
    let head = std::process::Command::new("git")
        .args(["-C", scratch.root().to_str().unwrap(), "rev-parse", "HEAD"])
        .output()
        .unwrap();
    let head = String::from_utf8(head.stdout).unwrap();
    let rows = ROWS.replace("0432514", head.trim());
    scratch.write("results/calls/c.jsonl", &rows);
    run(scratch.root(), &[]).unwrap();
    assert_eq!(shown(&scratch), Vec::<String>::new());
    scratch.write("docs/y.md", "measured at commit 1234567, not at 1a2b3c4d5e\n");
    scratch.write("results/calls/d.json", r#"{"host":{"cpu":"x"},"commit":"0432514"}"#);
    let before = r#"{"host":{"cpu":"x"},"commit":"HEAD","commit_before":"0432514"}"#;
    scratch.write("results/calls/e.json", &before.replace("HEAD", head.trim()));
    let found = shown(&scratch);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found.iter().all(|line| line.contains("is not in this history")), "{found:#?}");
}

#[test]
fn the_repository_shows_what_it_measured() {
    let found = findings(&crate::folders::repository_root()).unwrap().shown();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
