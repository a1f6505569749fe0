//! `tombolo verify`: checks the isolation level of a history of transactions.

use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tombolo_lab::failure::Failure;
use tombolo_lab::report::listed::VerifyResult;
use tombolo_verify::{History, Holds, Level, ReadError};

use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo verify history.jsonl                        was it strictly serializable?
  tombolo verify history.jsonl --level snapshot       was it snapshot isolation?
  my-test | tombolo verify - --json                   from another program, for scripts

docs/verify.md has the format, and how to record a history.";

/// Check a history of transactions: print its isolation level, or the anomaly with its cycle
///
/// A history is a file of JSON lines, one per transaction, with its reads and writes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The file; - is standard input
    history: PathBuf,
    /// The isolation level that must hold
    #[arg(long, value_name = "LEVEL", default_value = "strict-serializable", value_parser = levels())]
    level: Level,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

fn levels() -> impl TypedValueParser<Value = Level> {
    let names = PossibleValuesParser::new(Level::ALL.map(Level::name));
    let find = |name: &String| Level::ALL.into_iter().find(|level| level.name() == name.as_str());
    names.map(move |name| find(&name).expect("it is one of them"))
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let name = arguments.history.display().to_string();
    let history = read(&arguments.history, &name)?;
    if history.is_empty() {
        return Err(Failure::usage(format!(
            "{name} has no transaction: give what a program recorded"
        )));
    }
    let verdict = history.judge(arguments.level);
    let header =
        result_header("verify", &settings).and(&[("level", arguments.level.name().into())]);
    let (transactions, operations) = (history.len(), history.operations());
    let result = VerifyResult { history: name, transactions, operations, verdict };
    let text = |result: &VerifyResult, _| result.verdict.to_string();
    Output::new(arguments.flags.json).result(&header, &result, text)?;
    failure(&result)
}

fn read(path: &Path, name: &str) -> Result<History, Failure> {
    let input: Box<dyn BufRead> = if name == "-" {
        if io::stdin().is_terminal() {
            return Err(Failure::usage("standard input is a terminal: give a file"));
        }
        Box::new(io::stdin().lock())
    } else {
        #[expect(
            clippy::disallowed_types,
            reason = "a file of any size, of any program: read line by line"
        )]
        let file = std::fs::File::open(path).map_err(|error| {
            Failure::usage(format!("{name} cannot be read: {error}: give a history"))
        })?;
        Box::new(BufReader::new(file))
    };
    History::read(input).map_err(|error| match error {
        ReadError::Input(error) => Failure::usage(format!("{name} cannot be read: {error}")),
        ReadError::Line { .. } => Failure::usage(format!("{name}: {error}")),
    })
}

/// The reason that the check failed, in one line.
fn failure(result: &VerifyResult) -> Result<(), Failure> {
    let level = result.verdict.level;
    match (result.verdict.holds, result.verdict.anomalies.first()) {
        (Holds::Yes, _) => Ok(()),
        (Holds::Undecided, _) | (Holds::No, None) => Err(Failure::check(format!(
            "{}: {level} is undecided: record replaced values (over), or positions of commits (commit)",
            result.history
        ))),
        (Holds::No, Some(anomaly)) => Err(Failure::check(format!(
            "{}: not {level}: {} on line {}",
            result.history,
            anomaly.name(),
            anomaly.steps.first().map_or(0, |step| step.line)
        ))),
    }
}
