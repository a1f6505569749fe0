//! The machine's cores and what they share: caches, memory, sockets (ISL-1, ISL-12).
//!
//! This is read from `/sys/devices/system`, for the cores on which this process may run. What the system does not
//! report counts as shared by all: a machine without information is one island. Not here: the speed of shared memory
//! (`tombolo counters` and `tombolo links` measure it), where threads run (`placement.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where the system describes itself.
const SYSTEM: &str = "/sys/devices/system";

/// One core, or one of the threads that a core runs simultaneously: what the system schedules on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The system's number.
    pub id: usize,
    /// The least number of the threads that share its execution units.
    pub siblings_of: usize,
    /// The least number of the cores that share its last-level cache.
    pub island: usize,
    /// Its memory node.
    pub node: usize,
    /// Its socket.
    pub socket: usize,
}

/// A level of caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1 is the nearest.
    pub level: u32,
    /// Bytes of one cache.
    pub bytes: u64,
    /// How many cores share one.
    pub shared_by: usize,
    /// How many there are.
    pub caches: usize,
}

/// How near two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// They are one.
    SameCore,
    /// They share execution units.
    Siblings,
    /// They share the last-level cache.
    SameCache,
    /// They share a socket.
    SameSocket,
    /// They are on different sockets.
    Across,
}

impl Distance {
    /// All, the nearest first.
    pub const ALL: [Self; 5] =
        [Self::SameCore, Self::Siblings, Self::SameCache, Self::SameSocket, Self::Across];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameCore => "same_core",
            Self::Siblings => "siblings",
            Self::SameCache => "same_cache",
            Self::SameSocket => "same_socket",
            Self::Across => "across",
        }
    }
}

/// The cores that this process may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// In ascending order of their numbers.
    pub cores: Vec<Core>,
    /// Caches for data, the nearest first.
    pub caches: Vec<CacheLevel>,
}

impl Topology {
    /// Of this machine.
    pub fn of_machine() -> Self {
        let cores = crate::threads::allowed_cores();
        Self::read(Path::new(SYSTEM), &cores)
    }

    /// Of the machine that `system` describes, as far as these cores go.
    pub fn read(system: &Path, ids: &[usize]) -> Self {
        let nodes = nodes(system);
        let mut caches: BTreeMap<u32, BTreeMap<usize, Cache>> = BTreeMap::new();
        let first = ids.first().copied().unwrap_or(0);
        let mut cores = Vec::new();
        for &id in ids {
            let core = system.join(format!("cpu/cpu{id}"));
            let own = Cache::of(&core, ids);
            let island = own.last().map_or(first, |cache| cache.first);
            for cache in own {
                caches.entry(cache.level).or_default().insert(cache.first, cache);
            }
            let siblings = list(&core.join("topology/thread_siblings_list"));
            let number = |name: &str| word(&core.join("topology").join(name))?.parse().ok();
            cores.push(Core {
                id,
                siblings_of: least(&siblings, ids).unwrap_or(id),
                island,
                node: nodes.get(&id).copied().unwrap_or(0),
                socket: number("physical_package_id").unwrap_or(0),
            });
        }
        let level = |(&level, caches): (&u32, &BTreeMap<usize, Cache>)| CacheLevel {
            level,
            bytes: caches.values().map(|cache| cache.bytes).max().unwrap_or(0),
            shared_by: caches.values().map(|cache| cache.shared_by).max().unwrap_or(1),
            caches: caches.len(),
        };
        Self { cores, caches: caches.iter().map(level).collect() }
    }

    /// The islands: for each the cores that share a last-level cache.
    pub fn islands(&self) -> Vec<Vec<usize>> {
        self.grouped(|core| core.island)
    }

    /// For each socket its cores.
    pub fn sockets(&self) -> Vec<Vec<usize>> {
        self.grouped(|core| core.socket)
    }

    fn grouped(&self, of: impl Fn(&Core) -> usize) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for core in &self.cores {
            groups.entry(of(core)).or_default().push(core.id);
        }
        groups.into_values().collect()
    }

    /// How near two of its cores are.
    pub fn distance(&self, one: usize, other: usize) -> Option<Distance> {
        let core = |id| self.cores.iter().find(|core| core.id == id);
        let (one, other) = (core(one)?, core(other)?);
        Some(match () {
            () if one.id == other.id => Distance::SameCore,
            () if one.siblings_of == other.siblings_of => Distance::Siblings,
            () if one.island == other.island => Distance::SameCache,
            () if one.socket == other.socket => Distance::SameSocket,
            () => Distance::Across,
        })
    }

    /// For each distance that occurs, two cores that far apart, the nearest first.
    pub fn pairs(&self) -> Vec<(Distance, [usize; 2])> {
        let all = || {
            self.cores.iter().flat_map(|one| self.cores.iter().map(move |other| [one.id, other.id]))
        };
        let at =
            |distance| all().find(|[one, other]| self.distance(*one, *other) == Some(distance));
        Distance::ALL.into_iter().filter_map(|distance| Some((distance, at(distance)?))).collect()
    }
}

/// A cache of one core.
struct Cache {
    level: u32,
    bytes: u64,
    /// The least number of the cores that share it.
    first: usize,
    shared_by: usize,
}

impl Cache {
    /// The caches for data of a core, the nearest first.
    fn of(core: &Path, ids: &[usize]) -> Vec<Self> {
        let mut caches: Vec<Self> = (0..8)
            .filter_map(|index| {
                let cache = core.join(format!("cache/index{index}"));
                let kind = word(&cache.join("type"))?;
                let shared: Vec<usize> = list(&cache.join("shared_cpu_list"));
                let shared: Vec<usize> = shared.into_iter().filter(|id| ids.contains(id)).collect();
                let level = word(&cache.join("level"))?.parse().ok()?;
                let bytes = bytes(&word(&cache.join("size"))?)?;
                let first = shared.iter().min().copied()?;
                (kind != "Instruction").then_some(Self {
                    level,
                    bytes,
                    first,
                    shared_by: shared.len(),
                })
            })
            .collect();
        caches.sort_by_key(|cache| cache.level);
        caches
    }
}

/// The node of each core.
fn nodes(system: &Path) -> BTreeMap<usize, usize> {
    let mut nodes = BTreeMap::new();
    let directories = fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    for directory in directories {
        let name = directory.file_name();
        let Some(node) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok())
        else {
            continue;
        };
        nodes.extend(list(&directory.path().join("cpulist")).into_iter().map(|id| (id, node)));
    }
    nodes
}

fn word(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// Numbers and ranges of numbers, as in `0-3,8`; nothing of what is no such list.
fn list(file: &Path) -> Vec<usize> {
    let numbers = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let text = word(file).unwrap_or_default();
    text.split(',').filter_map(numbers).flatten().collect()
}

fn least(shared: &[usize], ids: &[usize]) -> Option<usize> {
    shared.iter().filter(|id| ids.contains(id)).min().copied()
}

/// A size such as `32K`.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let shift = match size.strip_prefix(digits)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        _ => 30,
    };
    Some(digits.parse::<u64>().ok()? << shift)
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
