//! What `demo` reports: few figures, each with its meaning.
//!
//! Nothing is claimed that was not measured in the same run.

use std::path::Path;

use minijinja::context;

use super::canvas::Canvas;
use super::run::RunResult;
use super::terminal::{self, Style};
use super::text::{fields, text};
use super::{dissection, separated};
use crate::demo::{DATABASE, MEMORY_DATABASE, PAGE, RESULTS, Step};
use crate::experiment::looking_glass::paper::in_order;
use crate::experiment::looking_glass::result::Dissection;
use crate::host::Host;

/// Before anything runs.
pub fn opening(host: &Host, directory: &Path, style: Style) -> String {
    let directory = directory.display().to_string();
    text("demo_opening", fields(host, context! { directory }), style)
}

/// After a run.
pub fn step(step: &Step, result: &RunResult, style: Style) -> String {
    let checked = terminal::checks(&result.checks, style);
    let more = context! { step => step.title, size => result.size(), checked };
    text("demo_step", fields(result, more), style)
}

/// After the engine was taken apart.
pub fn dissection(found: &Dissection, canvas: Canvas) -> String {
    let style = canvas.style;
    let profiles = found.rungs.len();
    let mut text = format!(
        "\n{}\n  Each line takes one part out, and all above it: what is left, by type of transaction.\n  \
         {profiles} engines ran the same {} transactions and left the same rows ({}).\n",
        style.strong("What each part of a conventional engine costs"),
        separated(found.transactions),
        found.rungs.first().map_or("", |rung| &rung.measured.state_hash)
    );
    let transactions = found.rungs.first().map(|rung| &rung.measured.by_transaction);
    let counted = found.counter != "none";
    for transaction in
        transactions.map(in_order).unwrap_or_default().into_iter().filter(|_| counted)
    {
        text.push('\n');
        text.push_str(&dissection::ladder(found, transaction, canvas));
    }
    text.push('\n');
    text.push_str(&dissection::speeds(&found.rungs, canvas));
    if !counted {
        text.push_str("  Instructions were not counted: apt-get install valgrind.\n");
    }
    text
}

/// Where to go from here; `program` is how the command was called.
pub fn closing(program: &str, directory: &Path, style: Style) -> String {
    let at = |name| directory.join(name).display().to_string();
    let context = context! {
        program, memory_database => at(MEMORY_DATABASE), database => at(DATABASE),
        results => at(RESULTS), page => at(PAGE),
    };
    text("demo_closing", context, style)
}
