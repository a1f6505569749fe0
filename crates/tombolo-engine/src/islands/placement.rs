//! Placement of threads on cores (ISL-3, ISL-8, ISL-10, ISL-13).
//!
//! Threads are placed in groups: the threads of one engine, or of one counter. Not here: binding a thread
//! ([`crate::threads::bind_to`]), memory near it.

use super::topology::Topology;

/// How groups of threads are laid on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Wherever the system puts them.
    #[default]
    Os,
    /// The threads of a group as far apart as possible: on the islands by turns.
    Spread,
    /// The threads of a group next to each other: an island is filled before the next one.
    Grouped,
    /// In between: two threads of a group on an island, then the next one.
    Mix,
    /// Each group on an island of its own, on any of its cores: the system moves threads inside.
    Islands,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Os, Self::Spread, Self::Grouped, Self::Mix, Self::Islands];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Spread => "spread",
            Self::Grouped => "grouped",
            Self::Mix => "mix",
            Self::Islands => "islands",
        }
    }

    /// The placement of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }

    /// The cores that each thread of each group may run on; none where the system decides. Cores are used
    /// evenly: where there are more threads than cores, several run on one.
    pub fn cores(self, machine: &Topology, groups: usize, threads: usize) -> Vec<Vec<Vec<usize>>> {
        let islands = machine.islands();
        let order = match self {
            Self::Os => return vec![vec![Vec::new(); threads]; groups],
            Self::Islands => {
                let of = |group: usize| islands[group % islands.len()].clone();
                return (0..groups).map(|group| vec![of(group); threads]).collect();
            }
            Self::Spread => taking_turns(&islands, 1),
            Self::Mix => taking_turns(&islands, 2),
            Self::Grouped => islands.concat(),
        };
        let core =
            |group: usize, thread: usize| vec![order[(group * threads + thread) % order.len()]];
        (0..groups).map(|group| (0..threads).map(|thread| core(group, thread)).collect()).collect()
    }
}

/// All cores, `at_once` of each island by turns.
fn taking_turns(islands: &[Vec<usize>], at_once: usize) -> Vec<usize> {
    let turns = islands.iter().map(|island| island.len().div_ceil(at_once)).max().unwrap_or(0);
    let part = |island: &Vec<usize>, turn: usize| -> Vec<usize> {
        island.iter().skip(turn * at_once).take(at_once).copied().collect()
    };
    (0..turns).flat_map(|turn| islands.iter().flat_map(move |island| part(island, turn))).collect()
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::super::topology::Core;
    use super::*;

    /// Cores without siblings, in islands of this size.
    fn machine(islands: usize, cores: usize) -> Topology {
        let core =
            |id| Core { id, siblings_of: id, island: id / cores * cores, node: 0, socket: 0 };
        Topology { cores: (0..islands * cores).map(core).collect(), caches: Vec::new() }
    }

    #[test]
    fn groups_are_laid_as_their_placement_says() {
        let machine = machine(4, 4);
        let of = |placement: Placement| -> Vec<Vec<usize>> {
            let cores = placement.cores(&machine, 4, 4);
            cores.iter().map(|group| group.iter().map(|cores| cores[0]).collect()).collect()
        };
        assert_eq!(of(Placement::Spread)[0], [0, 4, 8, 12]);
        assert_eq!(of(Placement::Spread)[3], [3, 7, 11, 15]);
        assert_eq!(of(Placement::Grouped)[1], [4, 5, 6, 7]);
        assert_eq!(of(Placement::Mix)[0], [0, 1, 4, 5]);
        assert_eq!(Placement::Islands.cores(&machine, 2, 2)[1], vec![vec![4, 5, 6, 7]; 2]);
        assert_eq!(Placement::Os.cores(&machine, 1, 2), [[[0; 0]; 2]]);
        for placement in [Placement::Spread, Placement::Grouped, Placement::Mix] {
            let mut all = of(placement).concat();
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<_>>(), "{placement:?} uses every core");
        }
    }

    #[test]
    fn more_threads_than_cores_share_them_evenly() {
        let machine = machine(1, 2);
        for placement in [Placement::Spread, Placement::Grouped, Placement::Mix] {
            let cores = placement.cores(&machine, 3, 2).concat().concat();
            assert_eq!(cores.iter().filter(|core| **core == 0).count(), 3, "{placement:?}");
        }
    }
}
