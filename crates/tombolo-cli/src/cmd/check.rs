//! `tombolo check`: verifies a database, dumped or in its directory.

use std::path::{Path, PathBuf};

use tombolo_lab::failure::Failure;
use tombolo_lab::report::check::CheckResult;
use tombolo_lab::report::{Header, terminal};
use tombolo_lab::rows::DumpDirectory;
use tombolo_lab::upkeep::check;

use super::ImageDirectories;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{self, Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo run tpcc --warehouses 1 --transactions 10k --dump dump/
  tombolo check dump/
  tombolo check dump/ --tamper c05      must fail, and only in c05
  tombolo run tpcc --profile conventional --data data/ --transactions 10k && tombolo check data/
  tombolo check data/ --dump rows/      write its rows as text too (tombolo dump data/)";

/// Verify a database that run --dump or run --data wrote; the directory is never changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory with TABLE.copy files, or with a database's own
    directory: PathBuf,
    #[command(flatten)]
    image: ImageDirectories,
    /// Break this condition (of tpcc: c01 to c12) in a copy first: exactly that check must fail
    #[arg(long, value_name = "CHECK")]
    tamper: Option<String>,
    /// Write all rows into this directory, as TABLE.copy
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let dump = arguments.dump.clone().map(|path| DumpDirectory::create(path, "--dump"));
    let header = result_header("check", &settings);
    let directories = arguments.image.all_with(&arguments.directory);
    let tamper = arguments.tamper.as_deref();
    verify(&directories, tamper, dump.transpose()?.as_ref(), &header, arguments.flags.json)
}

/// Verifies the database in `directories`, writes its rows to `dump`, and prints the result.
pub(super) fn verify(
    directories: &[&Path],
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    header: &Header,
    json: bool,
) -> Result<(), Failure> {
    let checked = check::check(directories, tamper, dump, &mut Bar::default())?;
    if let Some(notice) = &checked.notice {
        output::complain(&format!("notice: {notice}"));
    }
    let mut result = CheckResult::new(
        directories[0].display().to_string(),
        tamper.map(str::to_owned),
        &checked.verification,
        checked.state_hash.map(|hash| hash.to_string()),
    );
    result.dump = dump.map(|dump| dump.path().display().to_string());
    Output::new(json).result(header, &result, terminal::check)?;
    checked.failure().map_or(Ok(()), Err)
}
