//! Databases that are loaded once per layout, saved, and opened again for each profile that is
//! measured on them.
//!
//! Profiles that keep keys in the same format on pages of the same size lay data out in the same
//! way and open the same files. They read them where they are and keep what they write in memory
//! (`OverlayDisk`), several at a time if need be, so the files stay as they were saved. What keeps
//! its rows outside pages cannot be saved and is loaded each time.
//!
//! Not here: what is measured; where files lie and when they go (`saved/directory.rs`).

mod directory;
mod log_disk;

use std::any::TypeId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_storage::disk::OsDisk;
use tombolo_storage::for_each_paged_profile;
use tombolo_storage::log::Durability;
use tombolo_storage::paged::btree::KeyFormat;
use tombolo_storage::paged::page::PageSize;
use tombolo_storage::paged::pool::PageAccess;
use tombolo_storage::paged::store::PagedStore;
use tombolo_storage::profile::{PROFILES, PagedProfile, ProfileInfo};

pub use directory::WorkDirectory;
use log_disk::LogDisk;

use crate::failure::Failure;
use crate::instance::{self, Deployed, Instance, Options, Part};
use crate::overlay::OverlayDisk;
use crate::progress::Progress;
use crate::run::Plan;
use crate::workload::tpcc;

/// How a profile lays data out on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its format of keys.
    pub keys: &'static str,
    /// Bytes of a page.
    pub page_bytes: usize,
}

/// How the profile called `profile` lays data out; `None` where that cannot be saved.
pub fn layout(profile: &str) -> Option<Layout> {
    let mut layout = None;
    macro_rules! ask {
        ($name:literal, $profile:ty) => {
            if profile == $name && PagedStore::<$profile>::can_be_saved() {
                let keys = <<$profile as PagedProfile>::Keys as KeyFormat>::NAME;
                let page_bytes =
                    <<<$profile as PagedProfile>::Pages as PageAccess>::Size as PageSize>::BYTES;
                layout = Some(Layout { keys, page_bytes });
            }
        };
    }
    for_each_paged_profile!(ask);
    layout
}

/// The first of the names that mean the same type as `profile`.
pub fn same_type(profile: &str) -> &'static str {
    let mut types: Vec<(&'static str, TypeId)> = Vec::new();
    macro_rules! note {
        ($name:literal, $profile:ty) => {
            types.push(($name, TypeId::of::<$profile>()));
        };
    }
    for_each_paged_profile!(note);
    let wanted = types.iter().find(|(name, _)| *name == profile).map(|(_, id)| *id);
    if let Some((name, _)) = types.iter().find(|(_, id)| Some(*id) == wanted) {
        return name;
    }
    if let Some(part) = Part::find(profile) {
        return part.rung();
    }
    PROFILES.iter().find(|info| info.name == profile).map_or("", |info| info.name)
}

/// The profile that makes the files of a layout: the one that does least besides.
fn maker(layout: Layout) -> Option<&'static str> {
    let makers = PROFILES.iter().filter(|info| self::layout(info.name) == Some(layout));
    let work = |info: &&ProfileInfo| info.switches.iter().filter(|on| **on).count();
    makers.min_by_key(work).map(|info| info.name)
}

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
        options.disk = Box::new(OverlayDisk::shared(disk(saved)?));
        return open(plan, workload, &options);
    }
    let mut instance = match &plan.part {
        Some((part, parent)) => instance::create_part(*part, plan, options.limits, fresh(parent))?,
        None => instance::create(&plan.profile, &options)?,
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
    let made = OsDisk::create(directory);
    let mut options = plan.options();
    options.disk = Box::new(made.map_err(|error| Failure::environment(error.to_string()))?);
    // What was saved has no log. An empty database leaves one that holds nothing.
    instance::create::<tpcc::loader::Scale>(&plan.profile, &options)?.save()?;
    let pages = OverlayDisk::shared(disk(saved)?);
    options.disk = Box::new(LogDisk { pages, log: disk(directory)? });
    open(plan, &plan.scale(), &options)
}

fn open<W: Deployed>(
    plan: &Plan,
    workload: &W,
    options: &Options,
) -> Result<Box<dyn Instance<W>>, Failure> {
    let mut instance = instance::open_saved(&plan.profile, options)
        .map_err(|error| Failure::environment(format!("profile {}: {error}", plan.profile)))?;
    instance.bind(*workload).map_err(|error| Failure::check(error.to_string()))?;
    instance.read_all()?;
    Ok(instance)
}

fn disk(directory: &Path) -> Result<OsDisk, Failure> {
    OsDisk::open(directory).map_err(|error| Failure::environment(error.to_string()))
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
        let made = OsDisk::create(&path);
        options.disk = Box::new(made.map_err(|error| Failure::environment(error.to_string()))?);
        database(&plan, &plan.scale(), options, plan.load_threads, progress)?.save()?;
        self.made.push((layout, path.clone()));
        Ok(Some(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_told_by_keys_and_page_size() {
        let same = |a, b| layout(a) == layout(b);
        assert!(same("conventional", "alone-locking") && same("no-btree-keys", "no-directory"));
        assert!(same("no-small-page", "lattice-00000") && layout("no-small-page").is_some());
        assert!(!same("conventional", "no-btree-keys") && !same("no-directory", "no-small-page"));
        for none in ["no-page-access", "no-sessions", "bare", "memory", "no-such-profile"] {
            assert_eq!(layout(none), None, "{none}");
        }
    }

    #[test]
    fn every_layout_has_a_maker_that_does_little() {
        let of = |profile: &str| layout(profile).and_then(maker);
        assert_eq!(of("conventional"), Some("lattice-10001"));
        assert_eq!(of("alone-buffer-manager"), Some("lattice-10000"));
        for info in PROFILES {
            let Some(layout) = layout(info.name) else { continue };
            let maker = maker(layout).unwrap_or_else(|| panic!("nobody makes {layout:?}"));
            assert_eq!(self::layout(maker), Some(layout));
        }
    }

    #[test]
    fn names_of_one_type_have_one_name() {
        assert_eq!(same_type("lattice-11111"), "conventional");
        assert_eq!(same_type("alone-btree-keys"), "no-btree-keys");
        assert_eq!(same_type("swap-no-locking"), "no-latching");
        assert_eq!(same_type("no-sessions"), "no-sessions");
        assert_eq!(same_type("memory"), "memory");
        assert_ne!(same_type("if-locking"), same_type("no-locking"));
    }
}
