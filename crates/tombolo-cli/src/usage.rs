//! Errors of command lines: the parser's paragraphs are shortened to one line with a remedy.

use std::io::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use crate::cmd::Cli;
use crate::output;

/// The status of bad usage.
const STATUS_USAGE: u8 = 2;

/// Prints help if requested, otherwise one line to standard error; returns the exit status.
pub(crate) fn report(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that stops reading is not an error.
            let _ = write!(std::io::stdout(), "{error}");
            0
        }
        _ => {
            output::complain(&line(error));
            STATUS_USAGE
        }
    }
}

/// The one line.
fn line(error: &Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let suggestion = |kind| match context(kind).as_str() {
        "" => String::new(),
        similar => format!("did you mean {similar}? "),
    };
    let help = format!("see {} --help", command());
    match error.kind() {
        ErrorKind::InvalidSubcommand => format!(
            "there is no command {}: {}use {}; {help}",
            context(ContextKind::InvalidSubcommand),
            suggestion(ContextKind::SuggestedSubcommand),
            commands().join(", ")
        ),
        ErrorKind::UnknownArgument => {
            let given = context(ContextKind::InvalidArg);
            let what = if given.starts_with('-') { "flag" } else { "argument" };
            let suggestion = suggestion(ContextKind::SuggestedArg);
            format!("{} has no {what} {given}: {suggestion}{help}", command())
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{} needs {}: {help}", command(), context(ContextKind::InvalidArg))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a command is missing: use {}; {help}", commands().join(", "))
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            format!("{}: {help}", first.trim_start_matches("error: "))
        }
    }
}

/// The visible commands.
fn commands() -> Vec<String> {
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// `tombolo`, with the given command if it exists.
fn command() -> String {
    let given = std::env::args().nth(1).unwrap_or_default();
    if commands().contains(&given) { format!("tombolo {given}") } else { "tombolo".to_owned() }
}
