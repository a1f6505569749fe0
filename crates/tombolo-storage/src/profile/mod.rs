//! The switchboard: a profile names one type per switch (LG-S1 … LG-S11), and the list of all
//! profiles.
//!
//! "Off" is a sibling of "on" without size or code, so a component that is off leaves no
//! instruction behind. Numbers a user tunes are settings, not switches. Profiles know nothing of
//! workloads.
//!
//! A memory store is built of two components ([`MemoryProfile`]), a paged store of seven ([`PagedProfile`]), which
//! stand for ten switches; each store declares its own. What a switch of the paged store can be set to is in
//! `profile/switch.rs`, the profiles that are made of them in `profile/paged.rs`.

mod paged;
mod switch;

pub use paged::*;
pub use switch::*;

pub use crate::memory::profile::MemoryProfile;
pub use crate::paged::store::{PagedProfile, Switches};

use crate::command_log::CommandLog;
use crate::log::Logging;
use crate::memory::log::{NoLog, ValueLog};
use crate::memory::undo::{Copies, NoUndo};

/// LG-S11: the memory store with nothing besides; no undo, no log.
#[derive(Clone, Copy, Debug)]
pub struct Bare;
impl MemoryProfile for Bare {
    const NAME: &'static str = "bare";
    type Undo = NoUndo;
    type Log = NoLog;
}

/// The product's default: the memory store with undo copies (TPK-8).
#[derive(Clone, Copy, Debug)]
pub struct Memory;
impl MemoryProfile for Memory {
    const NAME: &'static str = "memory";
    type Undo = Copies;
    type Log = NoLog;
}

/// [`Memory`] with the value log (TPK-8): what the library runs, with files and without. On the command
/// line both are profile `memory`; `--durability` says which one.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLogged;
impl MemoryProfile for MemoryLogged {
    const NAME: &'static str = Memory::NAME;
    type Undo = Copies;
    type Log = ValueLog;
}

/// [`Memory`] with the command log: the same on the command line; `--log` says which one.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCommandLogged;
impl MemoryProfile for MemoryCommandLogged {
    const NAME: &'static str = Memory::NAME;
    type Undo = Copies;
    type Log = CommandLog;
}

/// What `run --list-profiles` prints about a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// `memory` or `paged`.
    pub store: &'static str,
    /// The switches.
    pub switches: Switches,
    /// The most threads it runs on.
    pub threads_max: usize,
    /// The durability levels it offers; the first is what it does unless asked otherwise.
    pub durability: &'static [&'static str],
    /// Whether `abort` can take back writes.
    pub undo: bool,
}

/// Threads that a store with locks and latches runs on: as many as the lock table has sessions for.
pub const THREADS_MAX: usize = 256;

impl ProfileInfo {
    const fn of_memory(
        name: &'static str,
        undo: bool,
        durability: &'static [&'static str],
    ) -> Self {
        // S11 on means "the paged store is not bypassed", so both memory profiles have every
        // switch off.
        let switches = [false; 11];
        Self { name, store: "memory", switches, threads_max: 1, durability, undo }
    }

    const fn of_paged<P: PagedProfile>(name: &'static str) -> Self {
        let shared = P::SWITCHES[4] && P::SWITCHES[5];
        Self {
            name,
            store: "paged",
            switches: P::SWITCHES,
            threads_max: if shared { THREADS_MAX } else { 1 },
            durability: if P::SWITCHES[1] { DURABLE } else { NOT_DURABLE },
            undo: P::Log::RECORDS,
        }
    }
}

/// All profiles: those of the memory store, then those of the paged store, each in the order they
/// are listed.
pub const PROFILES: &[ProfileInfo] = &{
    let mut all = [MEMORY_PROFILES[0]; MEMORY_PROFILES.len() + PAGED_PROFILES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = match i.checked_sub(MEMORY_PROFILES.len()) {
            None => MEMORY_PROFILES[i],
            Some(paged) => PAGED_PROFILES[paged],
        };
        i += 1;
    }
    all
};

/// The profiles of the memory store.
pub const MEMORY_PROFILES: &[ProfileInfo] = &[
    ProfileInfo::of_memory(Bare::NAME, false, NOT_DURABLE),
    // With a log it is `MemoryLogged`.
    ProfileInfo::of_memory(Memory::NAME, true, DURABLE),
];

/// The levels of a profile that has a log on disk.
const DURABLE: &[&str] = &["group", "none", "async", "sync"];
/// Those of any other.
const NOT_DURABLE: &[&str] = &["none"];

/// Expands `$each!(Profile)` once per profile of the memory store: with `for_each_paged_profile!`
/// the one place that lists the instances generic code is compiled for.
#[macro_export]
macro_rules! for_each_memory_profile {
    ($each:ident) => {
        $each!($crate::profile::Bare);
        $each!($crate::profile::Memory);
    };
}
