//! What a plan runs: which workload, at which scale.
//!
//! Plans name a workload by value; what runs one takes it by type (`workload/mod.rs`), and the only
//! places where one becomes the other are here and in `run/`. Not here: settings
//! that are any workload's (`plan.rs`).

use tombolo_engine::settings::{self, Settings};

use super::{Plan, estimate, profiles};
use crate::failure::Failure;
use crate::workload::Workload;
use crate::workload::debit_credit::{self, ROWS_MAX};
use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::loader::Scale;

/// Which workload a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedWorkload {
    /// TPC-C.
    Tpcc,
    /// Debit-credit.
    DebitCredit,
}

impl PlannedWorkload {
    /// All of them, in the order they are listed.
    pub const ALL: [Self; 2] = [Self::Tpcc, Self::DebitCredit];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tpcc => Scale::NAME,
            Self::DebitCredit => debit_credit::Scale::NAME,
        }
    }

    /// The one with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

impl Plan {
    /// What is loaded of TPC-C.
    pub fn scale(&self) -> Scale {
        Scale { seed: self.seed, warehouses: self.warehouses, mix: self.mix }
    }

    /// The inputs of a run of TPC-C, from the first.
    pub fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        self.scale().inputs()
    }

    /// What runs, for people.
    pub fn title(&self) -> &'static str {
        match self.workload {
            PlannedWorkload::Tpcc => mix_name(self.mix),
            PlannedWorkload::DebitCredit => debit_credit::Scale::NAME,
        }
    }

    /// Bytes that the run needs in pages, for `transactions` transactions.
    pub(super) fn page_bytes(&self, transactions: u64) -> u64 {
        match self.workload {
            PlannedWorkload::Tpcc => estimate::page_bytes(&self.scale(), transactions),
            PlannedWorkload::DebitCredit => estimate::page_bytes(&self.debit_credit, transactions),
        }
    }

    /// Bytes that the run needs in memory, pages left out, for so many transactions.
    pub(crate) fn bytes(&self, transactions: u64, batch: u64) -> u64 {
        fn of<W: Workload>(plan: &Plan, workload: &W, transactions: u64, batch: u64) -> u64 {
            if profiles::has_pages(&plan.profile) {
                return estimate::beside_pages::<W>(batch);
            }
            let second = match plan.image {
                Some(_) => estimate::second_copy(workload, transactions),
                None => 0,
            };
            estimate::bytes(workload, transactions, batch).saturating_add(second)
        }
        match self.workload {
            PlannedWorkload::Tpcc => of(self, &self.scale(), transactions, batch),
            PlannedWorkload::DebitCredit => of(self, &self.debit_credit, transactions, batch),
        }
    }

    /// The flags that make a counted process count the same.
    pub fn count_arguments(&self) -> Vec<String> {
        let scale = match self.workload {
            PlannedWorkload::Tpcc => vec![
                ("warehouses", self.warehouses.to_string()),
                ("mix", mix_name(self.mix).to_owned()),
            ],
            PlannedWorkload::DebitCredit => vec![
                ("workload", self.workload.name().to_owned()),
                ("branches", self.debit_credit.branches.to_string()),
                ("tellers-per-branch", self.debit_credit.tellers_per_branch.to_string()),
                ("accounts-per-branch", self.debit_credit.accounts_per_branch.to_string()),
            ],
        };
        let flags = [("seed", self.seed.to_string()), ("counted", self.counted.to_string())];
        let ahead = self.locate_ahead.map(|ahead| ("locate-ahead", ahead.to_string()));
        let saved = self.saved.as_ref().map(|path| ("saved", path.display().to_string()));
        let part = self.part.iter().flat_map(|(part, parent)| {
            [("part", part.rung().to_owned()), ("logs", parent.display().to_string())]
        });
        let profile = std::iter::once(("profile", self.profile.clone()));
        let flags = profile.chain(scale).chain(flags).chain(ahead).chain(saved).chain(part);
        flags.flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }
}

/// The scale of debit-credit: whether the ids have room is a matter of several settings.
pub(super) fn debit_credit_scale(settings: &Settings) -> Result<debit_credit::Scale, Failure> {
    let count = |setting| settings.count(setting);
    let branches = count(&settings::BRANCHES);
    let each = [
        ("tellers-per-branch", count(&settings::TELLERS_PER_BRANCH)),
        ("accounts-per-branch", count(&settings::ACCOUNTS_PER_BRANCH)),
    ];
    for (flag, each) in each {
        let rows = branches.saturating_mul(each);
        if rows > ROWS_MAX {
            return Err(Failure::usage(format!(
                "{branches} branches with {each} each are {rows} rows, and ids go up to \
                 {ROWS_MAX}: lower --branches or --{flag}"
            )));
        }
    }
    Ok(debit_credit::Scale {
        seed: count(&settings::SEED),
        branches: branches as u32,
        tellers_per_branch: each[0].1 as u32,
        accounts_per_branch: each[1].1 as u32,
    })
}

/// The name of a mix.
pub const fn mix_name(mix: Mix) -> &'static str {
    match mix {
        Mix::Paper => "paper",
        Mix::Standard => "standard",
    }
}

/// The mix of a name.
pub(super) fn mix_named(name: &str) -> Mix {
    if name == mix_name(Mix::Paper) { Mix::Paper } else { Mix::Standard }
}
