//! `tombolo report`: turns JSON results into one self-contained page, or text.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tombolo_lab::failure::Failure;
use tombolo_lab::report::listed::ReportResult;
use tombolo_lab::report::{html, size};

use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo run tpcc --json > results.jsonl
  tombolo compare tpcc --with sqlite --json >> results.jsonl
  tombolo report results.jsonl --out report.html
  tombolo report results.jsonl --text                  the same on a terminal

The page loads nothing: it can be opened from a disk, mailed, or printed. The same results give
the same bytes. - reads standard input.";

/// The name of standard input.
const STDIN: &str = "-";

/// Make one self-contained page from results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Files of results, as commands print them with --json
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the page here
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print the results as text instead of writing a page
    #[arg(long, conflicts_with_all = ["out", "json"])]
    text: bool,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let output = Output::new(arguments.flags.json);
    let mut results = Vec::new();
    for file in &arguments.files {
        results.extend(html::read(&file.display().to_string(), &contents(file)?)?);
    }
    if arguments.text {
        return output.people(|_| html::text(&results, output.canvas()));
    }
    let page = html::page(&results);
    write(&arguments.out, &page, &arguments.files)?;
    let result = ReportResult {
        page: arguments.out.display().to_string(),
        bytes: page.len(),
        results: results.len(),
    };
    output.result(&result_header("report", &settings), &result, |result, _| {
        let many = if result.results == 1 { "" } else { "s" };
        let size = size(result.bytes as u64);
        format!("{}: {} result{many}, {size}\n", result.page, result.results)
    })
}

fn contents(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = if file == Path::new(STDIN) {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(file)
    };
    read.map_err(|error| {
        let file = file.display();
        Failure::usage(format!("{file}: {error}: give the output of a command with --json"))
    })
}

/// Writes the page, but never over a file of results.
fn write(out: &Path, page: &str, files: &[PathBuf]) -> Result<(), Failure> {
    let place = out.canonicalize().ok();
    if place.is_some() && files.iter().any(|file| file.canonicalize().ok() == place) {
        let out = out.display();
        return Err(Failure::usage(format!("--out {out} is one of the results: give another one")));
    }
    fs::write(out, page).map_err(|error| {
        let out = out.display();
        Failure::environment(format!("{out} cannot be written: {error}: give another --out"))
    })
}
