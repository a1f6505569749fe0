//! The hidden command that `--counter callgrind` starts under valgrind.

use std::path::PathBuf;
use std::sync::LazyLock;

use tombolo_lab::failure::Failure;
use tombolo_lab::plan::{Part, Plan};
use tombolo_lab::run::counting;
use tombolo_lab::settings::{COUNTED, LOCATE_AHEAD, PROFILE, SEED, Setting, of_workloads};

use crate::flags::{Flags, Scope};

/// The settings of a count.
#[derive(Clone, Debug)]
pub(super) struct CountSettings;

impl Scope for CountSettings {
    fn settings() -> &'static [&'static Setting] {
        static LIST: LazyLock<Vec<&'static Setting>> = LazyLock::new(|| {
            [&PROFILE, &SEED, &COUNTED, &LOCATE_AHEAD].into_iter().chain(of_workloads()).collect()
        });
        &LIST
    }
}

/// Count the transactions of a mix, as a process under callgrind
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The workload
    #[arg(long, default_value = "tpcc")]
    workload: String,
    /// Open the database saved in this directory instead of loading one
    #[arg(long, value_name = "DIR")]
    saved: Option<PathBuf>,
    /// Profile memory with this part of its durability
    #[arg(long, value_name = "RUNG", requires = "logs")]
    part: Option<String>,
    /// The directory for its log
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<CountSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let workload = super::workload(&arguments.workload)?;
    let mut plan = Plan::of(workload, &arguments.flags.settings()?)?;
    plan.saved.clone_from(&arguments.saved);
    if let (Some(rung), Some(logs)) = (&arguments.part, &arguments.logs) {
        let unknown = || Failure::usage(format!("there is no part {rung}"));
        plan.part = Some((Part::find(rung).ok_or_else(unknown)?, logs.clone()));
    }
    counting::child(&plan)
}
