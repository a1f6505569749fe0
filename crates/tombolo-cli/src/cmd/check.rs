//! `tombolo check`: verifies a database, dumped or as it lies on disk.

use std::path::PathBuf;

use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::check::CheckResult;
use tombolo_lab::report::{Header, terminal};
use tombolo_lab::rows::DumpDirectory;
use tombolo_lab::settings::Setting;
use tombolo_lab::upkeep::check;

use super::{BUILD, Striped};
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{self, Output};

/// A check has none of its own.
#[derive(Clone, Debug)]
pub(super) struct NoSettings;

impl Scope for NoSettings {
    fn settings() -> &'static [&'static Setting] {
        &[]
    }
}

const EXAMPLES: &str = "\
Examples:
  tombolo run tpcc --warehouses 1 --transactions 10k --dump dump/
  tombolo check dump/
  tombolo check dump/ --tamper c05      must fail, and only in c05
  tombolo run tpcc --profile conventional --data data/ --transactions 10k && tombolo check data/
  tombolo check data/ --dump rows/      write its rows as text too";

/// Verify a database that run --dump or run --data wrote; the directory is never changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory with TABLE.copy files, or with a database's own
    directory: PathBuf,
    #[command(flatten)]
    striped: Striped,
    /// Break this condition (c01 to c12) in a copy first: exactly that check must fail
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
    let tamper = arguments.tamper.as_deref();
    let dump = arguments.dump.clone().map(|path| DumpDirectory::create(path, "--dump"));
    let dump = dump.transpose()?;
    let directories = arguments.striped.behind(&arguments.directory);
    let checked = check::check(&directories, tamper, dump.as_ref(), &mut Bar::default())?;
    if let Some(notice) = &checked.notice {
        output::complain(&format!("notice: {notice}"));
    }
    let result = CheckResult::new(
        Header::new("check", BUILD, &settings, &Host::read()),
        arguments.directory.display().to_string(),
        arguments.tamper.clone(),
        &checked.verification,
        checked.state_hash.map(|hash| hash.to_string()),
    );
    Output::new(arguments.flags.json).result(&result, terminal::check)?;
    checked.failure().map_or(Ok(()), Err)
}
