//! One file of the faulty disk: what a process sees of it, what the medium holds, and between them
//! the writes that were not synced yet.
//!
//! ```text
//!   write ──► cache (what reads see)
//!      └────► pending: every version of every dirty sector ──sync──► medium
//!                                                          └─crash─► one version each, torn or none
//! ```
//!
//! Invariant: outside `pending` and after a failed sync, cache and medium agree. The length is
//! versioned like a sector. Not here: names, handles, which fault strikes (`machine.rs`).

use std::collections::BTreeMap;

use tombolo_engine::rng::Rng;

use crate::faults::kinds::{FaultCounts, FaultKind, Faults, Survival, one_in};

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What reads see; its length is the file's.
    pub(super) cache: Vec<u8>,
    /// What survives a crash for certain.
    medium: Vec<u8>,
    /// Versions of dirty sectors, oldest first.
    pending: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// Lengths since the last sync, oldest first.
    lengths: Vec<usize>,
    /// Whether a handle has the file for itself.
    pub(super) locked: bool,
}

/// Where a write ends up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Where it belongs.
    Here,
    /// Nowhere: the device reported success and forgot it.
    Nowhere,
}

impl Content {
    /// Changes what reads see, and keeps versions of the sectors changed unless the write arrives
    /// nowhere.
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize, sector: usize, to: Arrival) {
        let end = offset + bytes.len();
        if end > self.cache.len() {
            self.cache.resize(end, 0);
            self.lengths.push(end);
        }
        self.cache[offset..end].copy_from_slice(bytes);
        if to == Arrival::Here && !bytes.is_empty() {
            self.keep_versions(offset / sector, (end - 1) / sector, sector);
        }
    }

    /// A write meant for another place arrives here: the medium gets it, the cache does not.
    pub(super) fn stray_write(&mut self, bytes: &[u8], offset: usize, sector: usize) {
        let end = (offset + bytes.len()).min(self.cache.len());
        if offset >= end {
            return;
        }
        let mut changed = self.cache.clone();
        changed[offset..end].copy_from_slice(&bytes[..end - offset]);
        std::mem::swap(&mut self.cache, &mut changed);
        self.keep_versions(offset / sector, (end - 1) / sector, sector);
        self.cache = changed;
    }

    pub(super) fn set_len(&mut self, bytes: usize, sector: usize) {
        let from = self.cache.len();
        self.cache.resize(bytes, 0);
        self.lengths.push(bytes);
        if bytes < from {
            // What is cut off reads as zero if the file grows again.
            self.cache.resize(from, 0);
            self.keep_versions(bytes / sector, (from - 1) / sector, sector);
            self.cache.truncate(bytes);
        }
    }

    fn keep_versions(&mut self, first: usize, last: usize, sector: usize) {
        for number in first..=last {
            let start = number * sector;
            let end = (start + sector).min(self.cache.len());
            let version = self.cache[start..end].into();
            self.pending.entry(number).or_default().push(version);
        }
    }

    /// Everything pending reaches the medium.
    pub(super) fn sync(&mut self, sector: usize) {
        if let Some(length) = self.lengths.last() {
            self.medium.resize(*length, 0);
        }
        self.lengths.clear();
        for (number, mut versions) in std::mem::take(&mut self.pending) {
            if let Some(version) = versions.pop() {
                place(&mut self.medium, number * sector, &version);
            }
        }
    }

    /// Of what is pending the medium gets what a crash would leave; the rest is forgotten, though
    /// reads still see it.
    pub(super) fn lose_some(&mut self, faults: &Faults, rng: &mut Rng, counts: &mut FaultCounts) {
        self.settle_length(faults.survival, rng, counts);
        for (number, versions) in std::mem::take(&mut self.pending) {
            let start = number * faults.sector_bytes;
            let chosen = if survives(faults.survival, rng) {
                // Most often the newest; any version may be the one the device had written.
                let back =
                    if one_in(rng, 4) { rng.below(versions.len() as u64) as usize } else { 0 };
                if back > 0 {
                    counts.add(FaultKind::SectorStale);
                }
                &versions[versions.len() - 1 - back]
            } else {
                counts.add(FaultKind::SectorLost);
                continue;
            };
            if one_in(rng, faults.torn) {
                counts.add(FaultKind::SectorTorn);
                self.tear(start, chosen, rng);
            } else {
                place(&mut self.medium, start, chosen);
            }
        }
    }

    /// Only the front or only the back of `version` reaches the medium.
    fn tear(&mut self, start: usize, version: &[u8], rng: &mut Rng) {
        let cut = rng.below(version.len() as u64 + 1) as usize;
        if one_in(rng, 2) {
            place(&mut self.medium, start, &version[..cut]);
        } else {
            place(&mut self.medium, start + cut, &version[cut..]);
        }
    }

    fn settle_length(&mut self, survival: Survival, rng: &mut Rng, counts: &mut FaultCounts) {
        let Some(&newest) = self.lengths.last() else { return };
        let known = self.lengths.len() as u64;
        let length = match survival {
            Survival::Nothing => self.medium.len(),
            Survival::Everything => newest,
            Survival::Each(_) => match rng.below(known + 1) {
                0 => self.medium.len(),
                n => self.lengths[n as usize - 1],
            },
        };
        if length != newest {
            counts.add(FaultKind::LengthLost);
        }
        self.medium.resize(length, 0);
        self.lengths.clear();
    }

    /// The machine starts again: reads see the medium.
    pub(super) fn restart(&mut self, faults: &Faults, rng: &mut Rng, counts: &mut FaultCounts) {
        self.lose_some(faults, rng, counts);
        self.cache.clone_from(&self.medium);
        self.locked = false;
    }

    /// Bytes on the medium.
    pub(super) fn medium_bytes(&self) -> usize {
        self.medium.len()
    }

    /// Flips bit `bit` of byte `at` of the medium; the cache follows at the next restart.
    pub(super) fn flip(&mut self, at: usize, bit: u32) {
        self.medium[at] ^= 1 << bit;
    }

    /// The first byte that is not zero at or after `at` on the medium, if there is any.
    pub(super) fn written_from(&self, at: usize) -> Option<usize> {
        let found = self.medium[at..].iter().position(|&byte| byte != 0);
        found.map(|behind| at + behind)
    }
}

fn survives(survival: Survival, rng: &mut Rng) -> bool {
    match survival {
        Survival::Nothing => false,
        Survival::Everything => true,
        Survival::Each(chance) => rng.below(1_024) < u64::from(chance),
    }
}

/// Copies what of `bytes` lies within `medium`.
fn place(medium: &mut [u8], start: usize, bytes: &[u8]) {
    let end = (start + bytes.len()).min(medium.len());
    if start < end {
        medium[start..end].copy_from_slice(&bytes[..end - start]);
    }
}
