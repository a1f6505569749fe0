//! Templates in `docs/figures/`, written in Jinja, and the functions with which they read the rows in `results/`.
//!
//! | word | gives |
//! |---|---|
//! | `rows("load/load.jsonl")` | all rows of a file |
//! | `rows \| where("engine", "redb")` | the rows in which the field has the value; a field may be a path: `host.cpu` |
//! | `rows \| the` | the only row; none or several are an error |
//! | `rows \| all("latency_us.p50")` | the field of each row, as numbers |
//! | `numbers \| median`, `least`, `most` | one of them (the mean of the middle two if their number is even) |
//! | `numbers \| over(others)` | the quotient of each pair |
//! | `number \| fixed(2)` | with this many digits after the point |
//! | `number \| count`, `count(1000)` | a whole number, rounded to a multiple, with commas between thousands |
//! | `rows \| source("load/load.jsonl")` | machine, commit and file, for the line below a table |
//!
//! A missing field or row is an error, not an empty cell. Templates can read only rows.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::results::Results;
use crate::findings::Findings;
use crate::tidy::tree::Tree;

/// Where templates are.
pub(super) const FOLDER: &str = "docs/figures/";

/// All templates, with the rows they ask for.
pub(super) struct Templates<'t> {
    environment: Environment<'t>,
    names: Vec<String>,
}

impl<'t> Templates<'t> {
    pub(super) fn load(tree: &'t Tree, results: &Results, findings: &mut Findings) -> Self {
        let mut environment = environment(results);
        let mut names = Vec::new();
        for (path, text) in tree.texts() {
            let Some(name) = path.strip_prefix(FOLDER).filter(|name| name.ends_with(".j2")) else {
                continue;
            };
            match environment.add_template(name, text) {
                Ok(()) => names.push(name.to_string()),
                Err(error) => {
                    findings.add(path, error.line().unwrap_or(1), shown(&error), "correct it");
                }
            }
        }
        Self { environment, names }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The text that a template makes of the rows.
    pub(super) fn render(&self, name: &str) -> Result<String, String> {
        let rendered = self.environment.get_template(name).and_then(|template| template.render(()));
        rendered.map_err(|error| {
            format!("{FOLDER}{name}:{}: {}", error.line().unwrap_or(1), shown(&error))
        })
    }
}

fn shown(error: &Error) -> String {
    match error.detail() {
        Some(detail) => detail.to_string(),
        None => error.kind().to_string(),
    }
}

fn environment<'t>(results: &Results) -> Environment<'t> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // A tag alone on its line leaves no line behind.
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the usual delimiters"));
    let files: Vec<(String, Value)> = results
        .files
        .iter()
        .map(|(name, rows)| (name.clone(), Value::from(Serde(rows.clone()))))
        .collect();
    environment.add_function("rows", move |name: &str| {
        let found = files.iter().find(|(file, _)| file == name);
        found.map(|(_, rows)| rows.clone()).ok_or_else(|| wrong(format!("no rows in {name}")))
    });
    environment.add_filter("where", select);
    environment.add_filter("the", the);
    environment.add_filter("all", all);
    environment.add_filter("median", |numbers: Vec<f64>| {
        let sorted = sorted(numbers)?;
        let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
        Ok::<f64, Error>(f64::midpoint(sorted[low], sorted[high]))
    });
    environment.add_filter("least", |numbers: Vec<f64>| Ok::<f64, Error>(sorted(numbers)?[0]));
    environment.add_filter("most", |numbers: Vec<f64>| {
        let sorted = sorted(numbers)?;
        Ok::<f64, Error>(sorted[sorted.len() - 1])
    });
    environment.add_filter("over", over);
    environment.add_filter("fixed", |number: f64, digits: usize| format!("{number:.digits$}"));
    environment.add_filter("count", |number: f64, to: Option<f64>| {
        let to = to.unwrap_or(1.0);
        with_commas((number / to).round() * to)
    });
    environment.add_filter("source", source);
    environment
}

fn wrong(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

/// The value at `path` in a row; `None` where it is absent or null.
fn field(row: &Value, path: &str) -> Option<Value> {
    let value = path.split('.').try_fold(row.clone(), |value, key| value.get_attr(key).ok())?;
    (!value.is_undefined() && !value.is_none()).then_some(value)
}

fn select(rows: Value, path: &str, wanted: Value) -> Result<Value, Error> {
    let rows = rows.try_iter()?;
    Ok(rows.filter(|row| field(row, path).as_ref() == Some(&wanted)).collect())
}

fn the(rows: Value) -> Result<Value, Error> {
    match rows.len() {
        Some(1) => rows.get_item_by_index(0),
        count => Err(wrong(format!("{} rows where one is wanted", count.unwrap_or(0)))),
    }
}

fn all(rows: Value, path: &str) -> Result<Value, Error> {
    let of = |row: Value| field(&row, path).ok_or_else(|| wrong(format!("a row has no {path}")));
    Ok(rows.try_iter()?.map(of).collect::<Result<Vec<Value>, Error>>()?.into_iter().collect())
}

fn sorted(mut numbers: Vec<f64>) -> Result<Vec<f64>, Error> {
    numbers.sort_by(f64::total_cmp);
    if numbers.is_empty() { Err(wrong("no rows".to_string())) } else { Ok(numbers) }
}

fn over(numbers: Vec<f64>, others: Vec<f64>) -> Result<Vec<f64>, Error> {
    if numbers.len() != others.len() {
        return Err(wrong(format!("{} rows over {}", numbers.len(), others.len())));
    }
    Ok(numbers.into_iter().zip(others).map(|(number, other)| number / other).collect())
}

fn with_commas(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

/// `machine; commit; file`: all machines and commits of the rows.
fn source(rows: Value, file: &str) -> Result<String, Error> {
    let mut machines = BTreeSet::new();
    let mut commits = BTreeSet::new();
    for row in rows.try_iter()? {
        let text = |path: &str| field(&row, path).map(|value| value.to_string());
        let cpu = text("host.cpu").unwrap_or_else(|| "simulated".to_string());
        let cpu = cpu.replace("(R)", "").replace(" Processor", "");
        let cores = text("host.cores").map(|cores| format!(", {cores} cores"));
        machines.insert(cpu + &cores.unwrap_or_default());
        let commit = text("commit").ok_or_else(|| wrong("a row has no commit".to_string()))?;
        commits.insert(format!("`{}`", commit.chars().take(7).collect::<String>()));
    }
    if machines.is_empty() {
        return Err(wrong(format!("no rows of {file}")));
    }
    let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" and ");
    let word = if commits.len() == 1 { "commit" } else { "commits" };
    Ok(format!("{}; {word} {}; `results/{file}`", list(machines), list(commits)))
}
