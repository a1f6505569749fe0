//! The profiles: which types databases are made of.
//!
//! The place where profiles and the workload meet (`for_each_memory_profile!`); with the feature
//! `every-profile` TPC-C meets those on pages in the crate `tombolo-ladder`, which is registered here.
//! Names of profiles that mean the same type share its code. Not here: which settings fit a profile
//! (`plan/`).

use std::sync::OnceLock;

use tombolo_storage::error::Error;
use tombolo_storage::for_each_memory_profile;
use tombolo_storage::log::LogUsage;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::paged::page::PageSize;
use tombolo_storage::paged::pool::{PageAccess, PoolUsage};
use tombolo_storage::paged::store::{OpenError, PagedStore, Restart, RestartProgress};
use tombolo_storage::profile::{Conventional, MemoryProfile, PagedProfile};

use super::Instance;
use super::benchmark::{Benchmark, Kind};
use crate::failure::{Blamed, Failure};
use crate::plan::Options;
use crate::plan::profiles::{self, all_on};
use crate::rows::StoreChecks;
use crate::workload::{AnyWorkload, Workload, for_each_workload, tpcc};

/// Memory stores.
struct InMemory;

impl<P: MemoryProfile> Kind<MemoryStore<P>> for InMemory {
    const CHECKS: StoreChecks = StoreChecks::IN_MEMORY;
    const ALL: bool = true;
    const SHARED: bool = false;
    const LOOKS_AHEAD: bool = true;

    fn reserve(store: &mut MemoryStore<P>, table: usize, rows: usize) -> Result<(), Error> {
        store.reserve(table, rows)
    }
}

/// Paged stores. All five transactions are compiled for the one with everything on.
struct OnPages;

impl<P: PagedProfile> Kind<PagedStore<P>> for OnPages {
    const CHECKS: StoreChecks = if PagedStore::<P>::can_be_saved() {
        let page_bytes = <<P::Pages as PageAccess>::Size as PageSize>::BYTES as u64;
        StoreChecks { names: &["indexes", "pages", "heaps"], page_bytes }
    } else {
        StoreChecks::IN_MEMORY
    };
    const ALL: bool = all_on(&P::SWITCHES);
    const SHARED: bool = P::SWITCHES[4] && P::SWITCHES[5];
    const LOOKS_AHEAD: bool = false;

    // Nothing is reserved: the pool is as large from the beginning as it will ever be.
    fn read_all(store: &PagedStore<P>) -> Result<(), Failure> {
        store.read_all().or_environment()
    }
    fn session(store: &PagedStore<P>) -> Option<Result<PagedStore<P>, Failure>> {
        store.session().map(Blamed::or_environment)
    }
    fn log_usage(store: &PagedStore<P>) -> Option<LogUsage> {
        Some(store.log_usage())
    }
    fn pool_usage(store: &PagedStore<P>) -> Option<PoolUsage> {
        store.pool_usage()
    }
    fn restart(store: &PagedStore<P>) -> Option<Restart> {
        store.restart()
    }
    fn when_few_frames_are_ready(store: &PagedStore<P>, call: impl Fn() + Send + Sync + 'static) {
        store.when_few_frames_are_ready(call);
    }
    fn make_frames_ready(store: &PagedStore<P>) {
        let _ = store.make_frames_ready();
    }
    fn checkpoint_if_due(store: &PagedStore<P>) -> Result<(), Failure> {
        match store.checkpoint_due() {
            true => store.checkpoint().map(drop).or_environment(),
            false => Ok(()),
        }
    }
    fn save(store: PagedStore<P>) -> Result<(), Failure> {
        store.close().or_environment()
    }
}

/// Called with how far a restart is.
pub type OnRestart<'a> = &'a mut dyn FnMut(RestartProgress);

/// Whether a database is made or opened.
pub enum How<'a> {
    /// Made.
    Create,
    /// Opened, restarted if it was not closed.
    Open(OnRestart<'a>),
}

/// Why there is no database; what is wrong with the profile, or with its files.
#[derive(Debug, thiserror::Error)]
pub enum NoDatabase {
    /// No profile has this name.
    #[error("is not known: see tombolo run --list-profiles")]
    NoSuchProfile,
    /// This build was made without it, for the workload of this name.
    #[error("{}", not_compiled(.0))]
    NotCompiled(&'static str),
    /// The profile keeps no files that could be opened.
    #[error("keeps no files: use one with pages")]
    NothingToOpen,
    /// The store refused.
    #[error(transparent)]
    Refused(OpenError),
}

fn not_compiled(workload: &str) -> String {
    match workload {
        "tpcc" => "is not in this build: add --features every-profile".to_owned(),
        _ => format!("does not run {workload}: use bare, memory or conventional"),
    }
}

/// A database on pages, of profile `P`. Where this is called is where its code is compiled.
///
/// # Errors
/// When the store refuses, or has prepared transactions.
pub fn paged<W: Workload, P: PagedProfile>(
    options: &Options,
    how: How<'_>,
) -> Result<Box<dyn Instance<W>>, NoDatabase>
where
    PagedStore<P>: Send,
{
    let disk = &options.disk;
    let store = match how {
        How::Create => PagedStore::<P>::create(disk, &options.paged),
        How::Open(report) => PagedStore::<P>::open_reporting(disk, &options.paged, report),
    };
    let store = store.map_err(NoDatabase::Refused)?;
    // What they hold would be waited for in vain.
    let owners: Vec<_> = store.prepared().iter().map(|prepared| prepared.owner).collect();
    if !owners.is_empty() {
        return Err(NoDatabase::Refused(OpenError::Undecided { owners }));
    }
    Ok(Box::new(Benchmark::<W, _, OnPages>::new(store, options)))
}

/// The paged profiles that are compiled without the feature `every-profile`: compiling the workload
/// for all of them takes minutes, which tests of everything else need not wait for.
#[cfg(any(test, not(feature = "every-profile")))]
fn on_tested_pages(profile: &str, options: &Options, how: How<'_>) -> Made<tpcc::loader::Scale> {
    use tombolo_storage::profile::{NoLocking, NoLsn, NoSessions};
    Some(match profile {
        "conventional" => paged::<_, Conventional>(options, how),
        "no-lsn" => paged::<_, NoLsn>(options, how),
        "no-locking" => paged::<_, NoLocking>(options, how),
        "no-sessions" => paged::<_, NoSessions>(options, how),
        _ => return None,
    })
}

/// With it no paged profile is compiled here.
#[cfg(all(not(test), feature = "every-profile"))]
fn on_tested_pages(_: &str, _: &Options, _: How<'_>) -> Made<tpcc::loader::Scale> {
    None
}

/// Makes databases of TPC-C on pages, by the profile's name.
pub type MakePaged = fn(&str, &Options, How<'_>) -> Made<tpcc::loader::Scale>;

/// The function of another crate that makes databases on pages.
static ON_PAGES: OnceLock<MakePaged> = OnceLock::new();

/// From now on TPC-C runs on the profiles that `make` knows. The first call counts.
pub fn run_on_pages_by(make: MakePaged) {
    ON_PAGES.get_or_init(|| make);
}

/// Whether and how a database is made: `None` where no profile in this list has the name.
pub type Made<W> = Option<Result<Box<dyn Instance<W>>, NoDatabase>>;

fn in_memory<W: Workload>(profile: &str, options: &Options, how: &How<'_>) -> Made<W> {
    macro_rules! if_named {
        ($profile:ty) => {
            if <$profile as MemoryProfile>::NAME == profile {
                if matches!(how, How::Open(_)) {
                    return Some(Err(NoDatabase::NothingToOpen));
                }
                let store = MemoryStore::<$profile>::new(options.limits);
                return Some(Ok(Box::new(Benchmark::<W, _, InMemory>::new(store, options))));
            }
        };
    }
    for_each_memory_profile!(if_named);
    None
}

/// A workload with the profiles that it is compiled for.
pub trait Deployed: Workload + Into<AnyWorkload> {
    /// A database on pages, of the profile called `profile`; none where it is not compiled. This is the conventional
    /// end to compare with, and no ladder.
    #[doc(hidden)]
    fn on_pages(profile: &str, options: &Options, how: How<'_>) -> Made<Self> {
        (profile == "conventional").then(|| paged::<Self, Conventional>(options, how))
    }
}

macro_rules! deployed {
    ($first:ident => $ladder:ty, $($name:ident => $scale:ty,)*) => {
        /// The transactions that the ladders run.
        impl Deployed for $ladder {
            fn on_pages(profile: &str, options: &Options, how: How<'_>) -> Made<Self> {
                let make = ON_PAGES.get().copied().unwrap_or(on_tested_pages);
                make(profile, options, how)
            }
        }

        $(impl Deployed for $scale {})*
    };
}
for_each_workload!(deployed);

fn database<W: Deployed>(
    profile: &str,
    options: &Options,
    how: How<'_>,
) -> Result<Box<dyn Instance<W>>, NoDatabase> {
    let made = in_memory(profile, options, &how);
    let made = made.or_else(|| W::on_pages(profile, options, how));
    made.unwrap_or_else(|| {
        Err(match profiles::find(profile).is_some() {
            true => NoDatabase::NotCompiled(W::NAME),
            false => NoDatabase::NoSuchProfile,
        })
    })
}

/// An empty database of the profile called `profile`.
///
/// # Errors
/// When no profile has that name, or the database cannot be made.
pub fn create<W: Deployed>(
    profile: &str,
    options: &Options,
) -> Result<Box<dyn Instance<W>>, Failure> {
    database(profile, options, How::Create).map_err(|error| match error {
        NoDatabase::Refused(error) => Failure::environment(error.to_string()),
        error => Failure::usage(format!("profile {profile} {error}")),
    })
}

/// A database that was saved, of a profile that lays data out in the same way as the one called
/// `profile`; `report` is called while it is restarted.
///
/// # Errors
/// When there is no such profile, or the files are refused.
pub fn open_saved<W: Deployed>(
    profile: &str,
    options: &Options,
    report: OnRestart<'_>,
) -> Result<Box<dyn Instance<W>>, NoDatabase> {
    database(profile, options, How::Open(report))
}
