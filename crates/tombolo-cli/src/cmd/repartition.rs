//! `tombolo repartition`: another number of islands for a database.
//!
//! Not here: the copy, and the exchange of directories (the library, `islands/repartition/`).

use std::path::{Path, PathBuf};

use clap::value_parser;
use tombolo::{Database, Error, Repartitioned};
use tombolo_lab::failure::Failure;
use tombolo_lab::progress::Progress;
use tombolo_lab::report::listed::RepartitionResult;
use tombolo_lab::report::quantity;
use tombolo_lab::upkeep::check::has_paged_islands;

use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::library::failed;
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo repartition data/ --islands 4
  tombolo repartition data/ --islands 3 --ranges 1000,2000";

/// Give a closed database of islands another number of islands
///
/// Each row is copied to the island of its key, in the column that the program declared (spread_by). Needs disk for
/// the database twice, and memory, too, unless its islands are of paged stores. If it does not come to its end, run it
/// again: nothing is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The database's directory
    directory: PathBuf,
    /// The new number of islands
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    islands: u16,
    /// Spread keys by ranges: the first number of each island but the first; otherwise by their hash
    #[arg(long, value_name = "N,…", value_delimiter = ',', allow_negative_numbers = true)]
    ranges: Vec<i64>,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { directory, islands, ranges, flags } = arguments;
    let settings = flags.settings()?;
    let mut bar = Bar::default();
    bar.begin("copying rows");
    let made = repartition(directory, usize::from(*islands), ranges, &mut |done, all| {
        bar.part(done as f64 / all.max(1) as f64, &format!("{} rows", quantity(done as f64)));
    });
    bar.end();
    let made = made.map_err(failed)?;
    let result = RepartitionResult {
        directory: directory.display().to_string(),
        islands_before: (made.before > 0).then_some(made.before),
        islands: *islands,
        rows: made.rows,
    };
    let header = result_header("repartition", &settings);
    Output::new(flags.json).result(&header, &result, |result, _| {
        let place = &result.directory;
        match result.islands_before {
            Some(before) => format!(
                "{place}\n  islands    {islands}, {before} before\n  rows       {} copied\n",
                result.rows
            ),
            None => format!("{place} has its new islands: what an earlier call began has ended\n"),
        }
    })
}

fn repartition(
    directory: &Path,
    islands: usize,
    ranges: &[i64],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Repartitioned, Error> {
    let (builder, bounds) = (Database::builder(), ranges.iter().copied());
    match (has_paged_islands(directory), ranges.is_empty()) {
        (false, true) => builder.islands(islands).repartition(directory, progress),
        (false, false) => builder.islands(islands).ranges(bounds).repartition(directory, progress),
        (true, true) => builder.paged().islands(islands).repartition(directory, progress),
        (true, false) => {
            builder.paged().islands(islands).ranges(bounds).repartition(directory, progress)
        }
    }
}
