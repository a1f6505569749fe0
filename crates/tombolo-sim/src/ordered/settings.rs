//! The choices of a seed: how many islands, what their databases are set to, what goes wrong how often.
//!
//! Not here: what the settings mean (`crate::swarm`). The medium keeps its promises: what ordered execution owes where
//! it does not is what each log owes by itself.

use tombolo_engine::rng::Rng;

use crate::faults::Faults;
use crate::swarm::{Swarm, pick};
use crate::workload::request::Kinds;

/// Transactions after which a seed may end.
const TRANSACTIONS: u64 = 60;

/// What differs between seeds.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) islands: usize,
    /// Transactions that are over several islands: so many in 16.
    pub(super) over: u64,
    /// Calls, and then transactions, that a client may have open.
    pub(super) open_max: usize,
    /// Backups: one in so many steps.
    pub(super) backups: u32,
    /// Of each island's database.
    pub(super) database: Swarm,
}

impl Settings {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut database = Swarm::draw(rng);
        database.transactions = TRANSACTIONS + rng.below(20);
        database.life_transactions_max = pick(rng, &[15, 30, 60]);
        database.crash_steps_max = pick(rng, &[20, 60, 150]);
        let Faults { sync_fails, write_fails, read_fails, read_short, .. } = database.faults;
        // One machine has the disks of all islands, so failures are as many times as frequent.
        let rare = |rate: u32| rate * 3;
        database.faults = Faults {
            sync_fails: rare(sync_fails),
            write_fails: rare(write_fails),
            read_fails: rare(read_fails),
            read_short: rare(read_short),
            sync_lies: 0,
            write_lost: 0,
            write_misdirected: 0,
            rot: 0,
            ..database.faults
        };
        Self {
            islands: pick(rng, &[2, 2, 2, 3, 3, 4]),
            over: pick(rng, &[2, 6, 12]),
            open_max: pick(rng, &[1, 3, 12]),
            backups: pick(rng, &[0, 0, 150]),
            database: fitted(database),
        }
    }

    /// Other settings of the databases, as a later opening may choose them.
    pub(super) fn change(&mut self, rng: &mut Rng) {
        self.database.change(rng);
        self.database = fitted(self.database.clone());
    }
}

/// What an island's database has: a log of values, callers that carry, no processes that write its checkpoints.
fn fitted(database: Swarm) -> Swarm {
    Swarm {
        has_values: true,
        has_pipeline: true,
        callers_carry: true,
        has_input_stage: false,
        is_checkpoint_remote: false,
        adds_indexes: false,
        long_reads: 0,
        kinds: Kinds { panics: false, columns: false, ids: false, long_texts: false },
        ..database
    }
}
