//! The process that writes the checkpoints of another one's database (TPK-33, configuration C): which
//! program it is, and what that does.
//!
//! It is this program with a hidden command, started with one end of a link as its standard input. Not
//! here: the messages on the link and what they cause (the engine's `pipeline/remote_checkpoint/`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::link;
use tombolo_engine::pipeline::remote_checkpoint::Program;
use tombolo_engine::pipeline::remote_checkpoint::run_checkpoint_process;
use tombolo_storage::disk::{Disk, OsDisk};

use crate::failure::{Blamed, Failure};
use crate::plan::own_file;

/// The command's name.
pub const CHILD_COMMAND: &str = "checkpoint-process";

/// The program for the database in `directory`.
///
/// # Errors
/// When the system does not say which program this is, or where.
pub(crate) fn program(directory: &Path) -> Result<Program, Failure> {
    let path = own_file()?;
    // It is started again when it ends, and this process may be elsewhere then.
    let directory = std::path::absolute(directory).map_err(|error| {
        Failure::environment(format!("the directory {}: {error}", directory.display()))
    })?;
    Ok(Program { path, arguments: vec![CHILD_COMMAND.into(), directory.into()] })
}

/// Writes the checkpoints of the database in `directories`, until its process closes the link or ends.
///
/// # Errors
/// Usage, when it was started without a link; when a directory is missing, or there are too few threads.
pub fn run(directories: &[PathBuf]) -> Result<(), Failure> {
    let link = link::inherited().map_err(|_| {
        Failure::usage(
            "this command is started by a database that has its checkpoints written by another \
             process: use tombolo run with --checkpoint-process other",
        )
    })?;
    let opened = directories.iter().map(|path| {
        let disk = OsDisk::open(path).or_environment()?;
        Ok(Arc::new(disk) as Arc<dyn Disk>)
    });
    let disks = opened.collect::<Result<Vec<_>, Failure>>()?;
    let clock = Arc::new(SystemClock::new());
    run_checkpoint_process(Box::new(link), disks, clock).or_environment()
}
