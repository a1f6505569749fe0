//! The list of workloads, and what is known of each without its type.
//!
//! What is measured takes a workload by type: `with_workload!` makes a `match` of the list where a planned one is
//! run. Everything else (plans, results, checks) asks a [`WorkloadInfo`].

use tombolo_engine::settings::{Setting, Settings};
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::Store;

use super::check::Check;
use super::error::WorkloadError;
use super::interface::Workload;
use super::mixes;
use crate::failure::Failure;
use crate::store::DynamicStore;

/// Calls the macro `$then` with what it is given besides, and every workload: its name in code, and its type. The
/// ladders are measured with the first.
macro_rules! for_each_workload {
    ($then:ident $($with:tt)*) => {
        $then! {
            $($with)*
            Tpcc => $crate::workload::tpcc::loader::Scale,
            DebitCredit => $crate::workload::debit_credit::Scale,
            Ycsb => $crate::workload::ycsb::Scale,
            Rows => $crate::workload::microbenchmark::Scale,
        }
    };
}
pub(crate) use for_each_workload;

/// `$then` of a workload by its type: of `$scale` in `$any`.
macro_rules! with_workload {
    ($any:expr, $scale:ident => $then:expr) => {
        $crate::workload::for_each_workload!(matched_workload ($any) $scale ($then))
    };
}
pub(crate) use with_workload;

macro_rules! matched_workload {
    (($any:expr) $scale:ident ($then:expr) $($name:ident => $type:ty,)*) => {
        match $any {
            $($crate::workload::AnyWorkload::$name($scale) => $then,)*
        }
    };
}
pub(crate) use matched_workload;

/// What is known of a workload without its type.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// Its name.
    pub name: &'static str,
    /// The names of its kinds of transaction.
    pub kinds: &'static [&'static str],
    /// The settings that say how large a database is.
    pub settings: fn() -> &'static [&'static Setting],
    /// The scale that settings say.
    pub planned: fn(&Settings) -> Result<AnyWorkload, Failure>,
    /// The scale of these values of `settings`, for people.
    pub size: fn(&[u64]) -> String,
    /// The same on the page of `report`.
    pub label: fn(&[u64]) -> String,
    /// Command lines for the help of `run`.
    pub examples: &'static [&'static str],
    /// A table that only its databases have.
    pub table: &'static str,
    /// The tables that a database may have.
    pub tables: fn() -> Vec<TableDef>,
    checks: fn(&mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError>,
}

impl WorkloadInfo {
    const fn of<W: Workload + Into<AnyWorkload>>() -> Self {
        Self {
            name: W::NAME,
            kinds: W::KINDS,
            settings: W::settings,
            planned: |settings| W::planned(settings, mixes::chosen::<W>(settings)?).map(W::into),
            size: W::size,
            label: W::label,
            examples: W::EXAMPLES,
            table: W::TABLE,
            tables: W::all_tables,
            checks: W::checks,
        }
    }
}

/// Two are the same if they have one name.
impl PartialEq for WorkloadInfo {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

macro_rules! list {
    ($($name:ident => $scale:ty,)*) => {
        /// Any workload, at one scale.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is the workload of its name")]
        pub enum AnyWorkload {
            $($name($scale),)*
        }

        $(impl From<$scale> for AnyWorkload {
            fn from(scale: $scale) -> Self {
                Self::$name(scale)
            }
        })*

        /// All workloads, in the order they are listed.
        pub static WORKLOADS: &[WorkloadInfo] = &[$(WorkloadInfo::of::<$scale>(),)*];

        impl AnyWorkload {
            /// What is known of it at any scale.
            pub fn info(&self) -> &'static WorkloadInfo {
                match self {
                    $(Self::$name(_) => info::<$scale>(),)*
                }
            }

            /// See [`Workload::values`].
            pub fn values(&self) -> Vec<u64> {
                with_workload!(self, scale => scale.values())
            }

            /// See [`Workload::mix`].
            pub fn mix(&self) -> Option<&'static str> {
                with_workload!(self, scale => scale.mix())
            }

            /// See [`Workload::title`].
            pub fn title(&self) -> String {
                with_workload!(self, scale => scale.title())
            }

            /// See [`Workload::unmeasured`].
            pub fn unmeasured(&self) -> &'static [&'static str] {
                with_workload!(self, scale => scale.unmeasured())
            }
        }

        /// Breaks the condition called `check` of the database in `store`, and no other.
        ///
        /// # Errors
        /// When no check has that name, it cannot be broken alone, or the store refuses a call.
        pub fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError> {
            let info = info_of(store.schema());
            $(if info.name == <$scale>::NAME {
                return <$scale>::tamper(store, check);
            })*
            unreachable!("{} is listed", info.name)
        }
    };
}
for_each_workload!(list);

/// The workload called `name`.
pub fn find(name: &str) -> Option<&'static WorkloadInfo> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// What is known of `W` without its type.
///
/// # Panics
/// When it is not listed.
pub fn info<W: Workload>() -> &'static WorkloadInfo {
    find(W::NAME).expect("workloads are listed")
}

/// The workload whose tables `schema` has; any schema but the others' is taken for the first's.
fn info_of(schema: &Schema) -> &'static WorkloadInfo {
    let found = WORKLOADS.iter().find(|workload| schema.table(workload.table).is_some());
    found.unwrap_or(&WORKLOADS[0])
}

/// Asks all conditions of the database in `store`, whichever workload's it is.
///
/// # Errors
/// When it is of no known workload, or the store cannot be read.
pub fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError> {
    (info_of(store.schema()).checks)(store)
}
