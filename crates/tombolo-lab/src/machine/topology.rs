//! `topology`: the machine's cores, and what they share, as a result and as a picture.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tombolo_engine::islands::topology::Topology;

use crate::numbers::size;
use crate::report::Header;
use crate::report::terminal::Style;

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
    #[serde(flatten)]
    pub header: Header,
    pub islands: Vec<Vec<usize>>,
    pub sockets: usize,
    pub cores: Vec<CoreResult>,
    pub caches: Vec<CacheResult>,
}

impl TopologyResult {
    /// The result for `machine`.
    pub fn new(header: Header, machine: &Topology) -> Self {
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
            header,
            islands: machine.islands(),
            sockets: machine.sockets().len(),
            cores: machine.cores.iter().map(core).collect(),
            caches: machine.caches.iter().map(cache).collect(),
        }
    }

    /// A picture: sockets, in them islands, in them cores; threads of one core stand together.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let mut sockets: Vec<usize> = self.cores.iter().map(|core| core.socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        for socket in sockets {
            let of_socket = || self.cores.iter().filter(move |core| core.socket == socket);
            let _ = writeln!(text, "{}", style.strong(&format!("socket {socket}")));
            let mut islands: Vec<usize> = of_socket().map(|core| core.island).collect();
            islands.sort_unstable();
            islands.dedup();
            for island in islands {
                let of_island = || of_socket().filter(|core| core.island == island);
                let node = of_island().next().map_or(0, |core| core.node);
                let mut cores = String::new();
                for first in of_island().filter(|core| core.siblings_of == core.core) {
                    let threads = of_island().filter(|core| core.siblings_of == first.core);
                    let ids: Vec<String> = threads.map(|core| core.core.to_string()).collect();
                    let _ = write!(cores, " [{}]", ids.join(" "));
                }
                let _ = writeln!(text, "  island {island}, memory node {node}:{cores}");
            }
        }
        for cache in &self.caches {
            let CacheResult { level, bytes, shared_by, caches } = *cache;
            let sharing = match shared_by {
                1 => "a core's own".to_owned(),
                cores => format!("shared by {cores} cores"),
            };
            let line = format!("L{level}: {caches} × {}, {sharing}", size(bytes));
            let _ = writeln!(text, "{}", style.faint(&line));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_engine::islands::topology::{CacheLevel, Core};

    #[test]
    fn a_machine_is_drawn_by_sockets_islands_and_cores() {
        let core = |id: usize| Core {
            id,
            siblings_of: id % 4,
            island: id % 4 / 2 * 2,
            node: 0,
            socket: id % 4 / 2,
        };
        let caches = vec![CacheLevel { level: 3, bytes: 32 << 20, shared_by: 4, caches: 2 }];
        let machine = Topology { cores: (0..8).map(core).collect(), caches };
        let result = TopologyResult::new(Header::default(), &machine);
        let drawn = "socket 0\n  island 0, memory node 0: [0 4] [1 5]\nsocket 1\n  island 2, memory node 0: \
                     [2 6] [3 7]\nL3: 2 × 32.0 MB, shared by 4 cores\n";
        assert_eq!(result.text(Style { colour: false }), drawn);
    }
}
