//! `topology`: the machine's cores, and what they share, as a result.

use serde::{Deserialize, Serialize};
use tombolo_engine::islands::topology::Topology;

/// One core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct CoreResult {
    pub core: usize,
    pub siblings_of: usize,
    pub island: usize,
    pub node: usize,
    pub socket: usize,
}

/// A level of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct CacheResult {
    pub level: u32,
    pub bytes: u64,
    pub shared_by: usize,
    pub caches: usize,
}

/// A result of `topology`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct TopologyResult {
    pub islands: Vec<Vec<usize>>,
    pub sockets: usize,
    pub cores: Vec<CoreResult>,
    pub caches: Vec<CacheResult>,
}

impl TopologyResult {
    /// The result for `machine`.
    pub fn new(machine: &Topology) -> Self {
        let core = |core: &tombolo_engine::islands::topology::Core| CoreResult {
            core: core.id,
            siblings_of: core.siblings_of,
            island: core.island,
            node: core.node,
            socket: core.socket,
        };
        let cache = |cache: &tombolo_engine::islands::topology::CacheLevel| CacheResult {
            level: cache.level,
            bytes: cache.bytes,
            shared_by: cache.shared_by,
            caches: cache.caches,
        };
        Self {
            islands: machine.islands(),
            sockets: machine.sockets().len(),
            cores: machine.cores.iter().map(core).collect(),
            caches: machine.caches.iter().map(cache).collect(),
        }
    }
}
