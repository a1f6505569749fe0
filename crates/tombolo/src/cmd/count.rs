//! The hidden command that `--counter callgrind` starts under valgrind.

use tombolo_engine::settings::{COUNTED, MIX, PROFILE, SEED, Setting, WAREHOUSES};
use tombolo_lab::counting;
use tombolo_lab::failure::Failure;
use tombolo_lab::run::Plan;

use crate::flags::{Flags, Scope};

/// What a count depends on.
#[derive(Clone, Debug)]
pub(super) struct CountSettings;

impl Scope for CountSettings {
    const SETTINGS: &'static [&'static Setting] = &[&PROFILE, &WAREHOUSES, &MIX, &SEED, &COUNTED];
}

/// Count the transactions of a mix, as a process under callgrind
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags<CountSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    counting::child(&Plan::new(&arguments.flags.settings()?)?)
}
