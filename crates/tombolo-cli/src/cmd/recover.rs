//! `tombolo recover`: recovers a directory after any end of its last process.

use std::path::PathBuf;

use tombolo_engine::clock::SystemClock;
use tombolo_lab::failure::Failure;
use tombolo_lab::files::notice;
use tombolo_lab::report::recovery::{RecoverPagesResult, RecoverResult};
use tombolo_lab::upkeep::recover;

use super::ImageDirectories;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{self, Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo recover data/                  cut off what was never finished, say what was found
  tombolo recover data/ --accept-loss    damaged: give up what can no longer be read";

/// Recover a database that run --data wrote, or a program, and report
///
/// A torn tail — the remains of a group that was never acknowledged — is cut off with a notice.
/// Damage anywhere else is refused with file, offset and group, and nothing is changed.
/// A paged database that was not closed is restarted and closed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The database's directory
    directory: PathBuf,
    #[command(flatten)]
    image: ImageDirectories,
    /// Cut the log where it is damaged: everything from there on is lost, acknowledged or not
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let Arguments { directory, image, accept_loss, flags } = arguments;
    if recover::has_pages(directory) {
        return run_on_pages(arguments);
    }
    let (directories, clock) = (image.all_with(directory), SystemClock::new());
    let recovery = recover::recover(&directories, *accept_loss, &clock, &mut Bar::default())?;
    if let Some(cut) = &recovery.cut {
        output::complain(&format!("notice: {}", notice(cut, true)));
    }
    let own = [("accept_loss", (*accept_loss).into())];
    let header = result_header("recover", &settings).and(&own);
    let result = RecoverResult::new(directory.display().to_string(), &recovery);
    Output::new(flags.json).result(&header, &result, RecoverResult::text)
}

/// The same of a paged store.
fn run_on_pages(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { directory, image, accept_loss, flags } = arguments;
    let given = [("--accept-loss", *accept_loss), ("--checkpoint-directory", image.is_given())];
    if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{flag} is for databases of the memory store, and {} holds a paged one: leave it out",
            directory.display()
        )));
    }
    let restart = recover::recover_pages(directory, &SystemClock::new(), &mut Bar::default())?;
    let result = RecoverPagesResult { directory: directory.display().to_string(), restart };
    let header = result_header("recover", &flags.settings()?);
    Output::new(flags.json).result(&header, &result, RecoverPagesResult::text)
}
