//! The two folders that every chore starts from.

use std::path::{Path, PathBuf};

/// The folder above this package, so that chores can be called anywhere in the repository.
pub(crate) fn repository_root() -> PathBuf {
    // Cargo sets the variable for what it runs; the compiled-in value would be stale in a moved folder.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// The folder of cargo's build output.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
