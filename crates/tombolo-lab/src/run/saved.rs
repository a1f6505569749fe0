//! Databases that are loaded once per layout, saved, and opened again for each profile that is
//! measured on them.
//!
//! Profiles that keep keys in the same format on pages of the same size lay data out in the same
//! way and open the same files. They read them where they are and keep what they write in memory
//! (`OverlayDisk`), several at a time if need be, so the files stay as they were saved. What keeps
//! its rows outside pages cannot be saved and is loaded each time.
//!
//! Not here: what is measured; where files lie and when they go (`files/work_directory.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_storage::disk::OsDisk;
use tombolo_storage::log::Durability;

use crate::drive::{self, Deployed, Instance};
use crate::failure::{Blamed, Failure};
use crate::files::{LogDisk, OverlayDisk, WorkDirectory};
use crate::plan::profiles::{Layout, layout, maker};
use crate::plan::{Options, Plan};
use crate::progress::Progress;
use crate::workload::tpcc;

/// The database of `plan`, ready for its transactions: opened where `plan.saved` says so, else
/// loaded by up to `threads` threads.
///
/// # Errors
/// When it cannot be opened or loaded.
pub fn database<W: Deployed>(
    plan: &Plan,
    workload: &W,
    mut options: Options,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Box<dyn Instance<W>>, Failure> {
    if let Some(saved) = &plan.saved {
        options.disk = Arc::new(OverlayDisk::shared(disk(saved)?));
        return open(plan, workload, &options);
    }
    let mut instance = match &plan.part {
        Some((part, parent)) => drive::create_part(*part, plan, options.limits, fresh(parent))?,
        None => drive::create(&plan.profile, &options)?,
    };
    progress.begin(&format!("loading {}", workload.describe()));
    let loaded = instance.load(*workload, threads, &mut |done, of| {
        progress.part(done as f64 / of as f64, &plan.profile);
    });
    progress.end();
    loaded.map(|()| instance)
}

/// A name that nothing in `parent` has.
fn fresh(parent: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("value-log-{}-{number}", std::process::id()))
}

/// The same with a log that is written to `directory`, which is on a disk and empty: only for what
/// was saved.
///
/// # Errors
/// When it cannot be opened.
pub fn with_log_on_disk(
    plan: &Plan,
    saved: &Path,
    directory: &Path,
) -> Result<Box<dyn Instance>, Failure> {
    let mut options = plan.options();
    options.disk = Arc::new(OsDisk::create(directory).or_environment()?);
    // What was saved has no log. An empty database leaves one that holds nothing.
    drive::create::<tpcc::loader::Scale>(&plan.profile, &options)?.save()?;
    let pages = OverlayDisk::shared(disk(saved)?);
    options.disk = Arc::new(LogDisk { pages, log: disk(directory)? });
    open(plan, &plan.scale(), &options)
}

fn open<W: Deployed>(
    plan: &Plan,
    workload: &W,
    options: &Options,
) -> Result<Box<dyn Instance<W>>, Failure> {
    let mut instance = drive::open_saved(&plan.profile, options, &mut |_| ())
        .map_err(|error| Failure::environment(format!("profile {}: {error}", plan.profile)))?;
    instance.bind(*workload).or_check()?;
    instance.read_all()?;
    Ok(instance)
}

fn disk(directory: &Path) -> Result<OsDisk, Failure> {
    OsDisk::open(directory).or_environment()
}

/// Databases of one scale and seed, one for each layout that was asked for.
#[derive(Debug)]
pub struct SavedDatabases {
    directory: WorkDirectory,
    made: Vec<(Layout, PathBuf)>,
}

impl SavedDatabases {
    /// None yet; they will be made in `directory`.
    pub fn new(directory: WorkDirectory) -> Self {
        Self { directory, made: Vec::new() }
    }

    /// Where they are.
    pub fn directory(&self) -> &WorkDirectory {
        &self.directory
    }

    /// Makes the database that the profile of `plan` can open; `None` if it can open none.
    ///
    /// # Errors
    /// When it cannot be loaded or saved.
    pub fn make(
        &mut self,
        plan: &Plan,
        progress: &mut dyn Progress,
    ) -> Result<Option<PathBuf>, Failure> {
        let Some(layout) = layout(&plan.profile) else { return Ok(None) };
        if let Some((_, path)) = self.made.iter().find(|(made, _)| *made == layout) {
            return Ok(Some(path.clone()));
        }
        let Some(maker) = maker(layout) else { return Ok(None) };
        // Paths of one length: they are arguments of counted processes.
        let path = self.directory.path().join(format!("saved-{}", self.made.len()));
        let mut plan = Plan { profile: maker.to_owned(), saved: None, ..plan.clone() };
        plan.durability = Durability::None;
        let mut options = plan.options();
        options.disk = Arc::new(OsDisk::create(&path).or_environment()?);
        database(&plan, &plan.scale(), options, plan.load_threads, progress)?.save()?;
        self.made.push((layout, path.clone()));
        Ok(Some(path))
    }
}
