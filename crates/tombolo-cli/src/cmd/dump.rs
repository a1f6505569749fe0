//! `tombolo dump`: the rows of a database as text, verified as they are read.

use std::path::PathBuf;

use tombolo_lab::failure::Failure;
use tombolo_lab::rows::DumpDirectory;

use super::ImageDirectories;
use super::check;
use crate::flags::{Flags, NoSettings};
use crate::output::result_header;

const EXAMPLES: &str = "\
Examples:
  tombolo run tpcc --warehouses 1 --data data/ --transactions 10k
  tombolo dump data/                    into tombolo-dump/, a file TABLE.copy for each table
  tombolo dump data/ --out rows/ && tombolo check rows/";

/// Write the rows of a database as text, one file for each table; the database is never changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The database's directory
    directory: PathBuf,
    #[command(flatten)]
    image: ImageDirectories,
    /// The directory for the files
    #[arg(long, value_name = "DIR", default_value = "tombolo-dump")]
    out: PathBuf,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let header = result_header("dump", &settings);
    let dump = DumpDirectory::create(arguments.out.clone(), "--out")?;
    let directories = arguments.image.all_with(&arguments.directory);
    check::verify(&directories, None, Some(&dump), &header, arguments.flags.json)
}
