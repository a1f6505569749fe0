//! Machines as the model has them, the paper's two (ISL-12), and islands on them (ISL-2, ISL-3).
//!
//! Not here: this machine (the engine's `islands/topology.rs` reads it).

use serde::{Deserialize, Serialize};

use super::Costs;
use crate::failure::Failure;

/// A machine and the engine that runs on it; what a `--machine FILE` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// How many sockets it has.
    pub sockets: usize,
    /// How many cores each has; they share a cache.
    pub cores_per_socket: usize,
    /// Whether an island executes one transaction at a time, however many cores it has (the memory store), or one on
    /// each core, with locks and latches (the paged store, the paper's engine).
    pub serial_islands: bool,
    /// The costs of work on it.
    pub costs: Costs,
}

/// Islands: how many, and where their cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Islands {
    /// How many.
    pub count: usize,
    /// Whether the cores of each are as far apart as can be, not as near.
    pub is_spread: bool,
}

impl Islands {
    /// So many, each on cores that are near.
    pub const fn grouped(count: usize) -> Self {
        Self { count, is_spread: false }
    }
}

impl Machine {
    /// Four sockets of six cores (ISL-12).
    pub fn quad_socket() -> Self {
        Self::of_paper("quad-socket", 4, 6, 1.86)
    }

    /// Eight sockets of ten cores (ISL-12).
    pub fn octo_socket() -> Self {
        Self::of_paper("octo-socket", 8, 10, 2.13)
    }

    fn of_paper(name: &str, sockets: usize, cores_per_socket: usize, clock_ghz: f64) -> Self {
        let costs = Costs::of_paper(clock_ghz);
        Self { name: name.to_owned(), sockets, cores_per_socket, serial_islands: false, costs }
    }

    /// All its cores.
    pub const fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket
    }

    /// Refuses what is no machine.
    ///
    /// # Errors
    /// With the field that is wrong.
    pub fn verify(&self) -> Result<(), Failure> {
        let wrong = |field: &str, must: &str| {
            Err(Failure::usage(format!("machine {}: {field} must be {must}", self.name)))
        };
        if !(1..=64).contains(&self.sockets) {
            return wrong("sockets", "from 1 to 64");
        }
        if !(1..=256).contains(&self.cores_per_socket) || self.cores() > 1_024 {
            return wrong("cores_per_socket", "from 1 to 256, and all cores at most 1,024");
        }
        let costs = self.costs.listed();
        match costs.iter().find(|constant| !(0.0..=1e6).contains(&constant.value)) {
            Some(constant) => wrong(&format!("costs.{}", constant.name), "from 0 to 1,000,000"),
            None if self.costs.read_row_us.min(self.costs.management_us) == 0.0 => {
                wrong("costs.read_row_us and costs.management_us", "more than 0")
            }
            None => Ok(()),
        }
    }

    /// The sockets of an island's cores.
    fn sockets_of(&self, islands: Islands, island: usize) -> Vec<usize> {
        let each = self.cores() / islands.count;
        let socket = |at: usize| match islands.is_spread {
            false => (island * each + at) / self.cores_per_socket,
            true => (island * each + at) % self.sockets, // one core of each socket in turn
        };
        (0..each).map(socket).collect()
    }

    /// What the shared lines of an access to a row cost on an island, in microseconds: each was written last by any of
    /// the island's cores alike. Nothing where it has one core.
    pub(super) fn sharing_us(&self, islands: Islands, island: usize) -> f64 {
        let (sockets, costs) = (self.sockets_of(islands, island), &self.costs);
        if sockets.len() == 1 {
            return 0.0;
        }
        let mut sum = 0.0;
        for (one, of) in sockets.iter().enumerate() {
            for (other, last) in sockets.iter().enumerate() {
                sum += match (one == other, of == last) {
                    (true, _) => costs.line_own_us,
                    (_, true) => costs.line_near_us,
                    _ => costs.line_across_us,
                };
            }
        }
        costs.shared_lines * sum / (sockets.len() * sockets.len()) as f64
    }

    /// The cost of a message between two islands, both ends together.
    pub(super) fn message_us(&self, islands: Islands, one: usize, other: usize) -> f64 {
        match self.sockets_of(islands, one)[0] == self.sockets_of(islands, other)[0] {
            true => self.costs.message_us,
            false => self.costs.message_across_us,
        }
    }
}
