//! The hidden command that a database starts so that another process writes its checkpoints.

use std::path::PathBuf;

use tombolo_lab::drive::checkpoint_process;
use tombolo_lab::failure::Failure;

/// Write the checkpoints of another process's database
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The database's directories
    #[arg(required = true)]
    directories: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    checkpoint_process::run(&arguments.directories)
}
