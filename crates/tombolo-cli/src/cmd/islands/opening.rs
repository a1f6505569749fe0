//! Opening a database of islands for any workload: where its threads run, how it commits, where its files in memory
//! are.
//!
//! Not here: its tables (`rows.rs`, `paged_rows.rs`, `tpcc/`).

use std::path::Path;

use tombolo::{AtomicCommit, IslandsBuilder};
use tombolo_lab::experiment::islands::deployments::How;
use tombolo_lab::failure::Failure;
use tombolo_lab::files::{Medium, WorkDirectory};

/// Files in memory, where the system has a place for them.
const IN_MEMORY: &str = "/dev/shm";

/// A builder of islands that are opened so.
pub(super) fn opened_so(builder: IslandsBuilder, how: How) -> IslandsBuilder {
    let commit = match how.is_ordered {
        true => AtomicCommit::Ordered,
        false => AtomicCommit::TwoPhase,
    };
    builder.placement(how.placement).atomic_commit(commit)
}

/// A directory whose files are in memory, where the system has a place for them.
pub(super) fn files_in_memory() -> Result<WorkDirectory, Failure> {
    let own = std::env::temp_dir();
    let parent = Path::new(IN_MEMORY);
    let parent = if parent.is_dir() { parent } else { &own };
    WorkDirectory::create(parent, Medium::Any)
}
