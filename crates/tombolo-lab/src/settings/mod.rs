//! Every setting of the command: those of a database (the engine's), of the drivers (`own.rs`) and of the
//! workloads (each in its folder), in the order in which they are printed.
//!
//! Not here: what a setting is, how values are held (engine `settings/`), what follows from them (`plan/`).

mod own;

use std::sync::LazyLock;

pub use own::*;
pub use tombolo_engine::settings::*;

use crate::workload::WORKLOADS;
pub use crate::workload::mixes::MIX;
pub use crate::workload::tpcc::settings::WAREHOUSES;

/// Each is listed behind the other one.
static BEHIND: &[(&Setting, &Setting)] = &[
    (&INPUT_THREADS, &PIPELINE_THREADS),
    (&CHECKPOINT_PROCESS, &CHECKPOINT_THREADS),
    (&SNAPSHOT_BYTES_MAX, &MEMORY_BYTES_MAX),
    (&MIX, &WAREHOUSES),
];

static LIST: LazyLock<Vec<&'static Setting>> = LazyLock::new(|| {
    let of_workloads = WORKLOADS.iter().flat_map(|workload| (workload.settings)());
    let lists = STORE.iter().chain(ALL).chain(CALLERS);
    let behind = |setting: &'static Setting| {
        let next = BEHIND.iter().filter(|(_, before)| before.name == setting.name);
        std::iter::once(setting).chain(next.map(|(next, _)| *next))
    };
    lists.chain(of_workloads).chain(RUN).copied().flat_map(behind).collect()
});

/// Every setting, in the order they are printed.
pub fn all() -> &'static [&'static Setting] {
    &LIST
}

/// The settings that say how large a database is and what runs on it, whichever the workload: the mix first.
pub fn of_workloads() -> impl Iterator<Item = &'static Setting> {
    let scales = WORKLOADS.iter().flat_map(|workload| (workload.settings)());
    std::iter::once(&MIX).chain(scales.copied())
}

/// The defaults of all settings.
pub fn defaults() -> Settings {
    Settings::of(all())
}

/// The first setting of `among` that was given as a flag.
pub fn given<'a>(settings: &Settings, among: &[&'a Setting]) -> Option<&'a Setting> {
    among.iter().copied().find(|setting| settings.source(setting) == Source::Flag)
}

/// The setting called `name`, with `-` or `_`.
pub fn find(name: &str) -> Option<&'static Setting> {
    tombolo_engine::settings::find(all(), name)
}

#[cfg(test)]
mod tests;
