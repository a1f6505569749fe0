//! `tombolo inspect`: shows the content of a directory's files.

use std::path::PathBuf;

use tombolo_lab::failure::Failure;
use tombolo_lab::report::recovery::InspectResult;
use tombolo_lab::upkeep::inspect;

use super::ImageDirectories;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo inspect data/            image, segments, groups, transactions, records of every table
  tombolo inspect data/ --json     the same for scripts";

/// Show the content of the files of a database that run --data wrote with profile memory
///
/// Nothing is changed; damage is shown with file, offset and group. To verify the rows, use tombolo check.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The database's directory
    directory: PathBuf,
    #[command(flatten)]
    image: ImageDirectories,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let directories = arguments.image.all_with(&arguments.directory);
    let found = inspect::inspect(&directories, &mut Bar::default())?;
    let header = result_header("inspect", &settings);
    let directory = arguments.directory.display().to_string();
    let result = InspectResult::new(directory, &found);
    Output::new(arguments.flags.json).result(&header, &result, InspectResult::text)?;
    let damage = result.damage.first();
    damage.map_or(Ok(()), |damage| Err(Failure::check(damage.what.clone())))
}
