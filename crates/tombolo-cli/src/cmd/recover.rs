//! `tombolo recover`: recovers a directory after any end of its last process.

use std::path::PathBuf;

use tombolo_engine::clock::SystemClock;
use tombolo_lab::failure::Failure;
use tombolo_lab::files::notice;
use tombolo_lab::report::recovery::RecoverResult;
use tombolo_lab::upkeep::recover;

use super::ImageDirectories;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{self, Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo recover data/                  cut off what was never finished, say what was found
  tombolo recover data/ --accept-loss    damaged: give up what can no longer be read";

/// Recover a database that run --data wrote with profile memory, and report
///
/// A torn tail — the remains of a group that was never acknowledged — is cut off with a notice.
/// Damage anywhere else is refused with file, offset and group, and nothing is changed.
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
