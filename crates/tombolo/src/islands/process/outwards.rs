//! What an island of a memory store in a process of its own says to others, and how it runs what they sent.
//!
//! Not here: sending (`processes/outward.rs`).

use std::sync::Arc;

use tombolo_engine::islands::commit::{IslandId, Refusal};
use tombolo_engine::islands::island::Executed;
use tombolo_engine::link::ITEM_BYTES_MAX;
use tombolo_storage::memory::held::Locks;

use super::super::mail::Outwards;
use super::code::Code;
use crate::processes::outward::Outward;
use crate::processes::wire::{Item, MESSAGE};
use crate::product::Product;
use crate::tx::Tables;

/// The exit of an island's mail.
pub(super) struct IslandOutward {
    pub(super) outward: Arc<Outward>,
    pub(super) code: Arc<Code>,
}

impl Outwards for IslandOutward {
    fn send(&self, to: IslandId, message: &[u8]) {
        if message.len() < ITEM_BYTES_MAX / 2 {
            self.outward.put(Item::new(MESSAGE).u16(to.0).rest(message));
        }
    }

    fn run_part(
        &self,
        me: IslandId,
        site: (&mut Product, &Tables),
        locks: &Locks,
        part: &[u8],
    ) -> Executed {
        self.code.run_part(me, site, locks, part)
    }

    fn refuse_peer(&self, peer: IslandId, why: Refusal) {
        self.outward.stopped(format!("{peer} is not understood: {why}").into());
    }

    fn lives(&self) {
        self.outward.lives();
    }

    fn stopped(&self, why: Arc<str>) {
        self.outward.stopped(why);
    }
}
