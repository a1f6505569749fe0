//! The switchboard: a profile names one type per switch (LG-S1 … LG-S11), and the list of all
//! profiles.
//!
//! "Off" is a zero-sized sibling of "on", so a component that is off leaves no instruction behind.
//! Numbers a user tunes are settings, not switches. Profiles know nothing of workloads. The paged
//! store's switches join with it.

use crate::memory::log::{Log, NoLog};
use crate::memory::undo::{Copies, NoUndo, Undo};

/// The components a memory store is built of.
pub trait MemoryProfile: 'static {
    /// The profile's name on the command line.
    const NAME: &'static str;
    /// How changes are taken back.
    type Undo: Undo;
    /// What is told of every change, for durability.
    type Log: Log;
}

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

/// Which of the eleven switches of LG-S1 … LG-S11 are on, in the paper's order.
pub type Switches = [bool; 11];

/// What `run --list-profiles` tells of a profile.
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
    /// The durability levels it offers.
    pub durability: &'static [&'static str],
    /// Whether `abort` can take back writes.
    pub undo: bool,
}

/// All profiles, in the order they are listed.
///
/// S11 on means "the paged store is not bypassed", so both memory profiles have every switch off.
pub const PROFILES: &[ProfileInfo] = &[
    ProfileInfo {
        name: Bare::NAME,
        store: "memory",
        switches: [false; 11],
        threads_max: 1,
        durability: &["none"],
        undo: false,
    },
    ProfileInfo {
        name: Memory::NAME,
        store: "memory",
        switches: [false; 11],
        threads_max: 1,
        durability: &["none"],
        undo: true,
    },
];

/// Expands `$each!(Profile)` once per profile: the one place that lists the instances generic code
/// is compiled for.
#[macro_export]
macro_rules! for_each_profile {
    ($each:ident) => {
        $each!($crate::profile::Bare);
        $each!($crate::profile::Memory);
    };
}
