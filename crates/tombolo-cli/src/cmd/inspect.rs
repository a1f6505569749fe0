//! `tombolo inspect`: shows the content of a directory's files.

use std::path::{Path, PathBuf};

use tombolo_lab::failure::Failure;
use tombolo_lab::report::recovery::{InspectPagesResult, InspectResult};
use tombolo_lab::upkeep::{check, inspect, recover};

use super::ImageDirectories;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo inspect data/            image, segments, groups, transactions, records of every table
                                   of islands, each, with transactions that are not decided
  tombolo inspect data/ --json     the same for scripts";

/// Show the content of the files of a database: its image and log, or a paged store's files; transactions in doubt
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
    let islands = check::island_directories(&arguments.directory);
    if islands.is_empty() {
        return look(&arguments.directory, arguments);
    }
    if arguments.image.is_given() {
        return Err(Failure::usage(format!(
            "{} holds {} islands, and --checkpoint-directory is for one: give {}",
            arguments.directory.display(),
            islands.len(),
            islands[0].display()
        )));
    }
    // Each is shown, whatever is wrong with another.
    let looked: Vec<_> = islands.iter().map(|island| look(island, arguments)).collect();
    looked.into_iter().collect()
}

/// Shows one directory.
fn look(directory: &Path, arguments: &Arguments) -> Result<(), Failure> {
    let header = result_header("inspect", &arguments.flags.settings()?);
    let output = Output::new(arguments.flags.json);
    let name = directory.display().to_string();
    if recover::has_pages(directory) {
        let result = InspectPagesResult::new(name, inspect::inspect_pages(directory)?);
        return output.result(&header, &result, InspectPagesResult::text);
    }
    let directories = arguments.image.all_with(directory);
    let found = inspect::inspect(&directories, &mut Bar::default())?;
    let result = InspectResult::new(name, &found);
    output.result(&header, &result, InspectResult::text)?;
    let damage = result.damage.first();
    damage.map_or(Ok(()), |damage| Err(Failure::check(damage.what.clone())))
}
