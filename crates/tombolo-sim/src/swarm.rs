//! Settings drawn per seed: each seed switches some faults on and others off and makes some sizes
//! tiny, so that many seeds reach combinations that no fixed setting would. The settings of the database
//! are drawn anew in each life (`Swarm::change`).
//!
//! Not here: the faults' meaning (`faults/kinds.rs`), the code that uses the settings.

use tombolo_engine::link::MemoryFaults;
use tombolo_engine::rng::Rng;
use tombolo_storage::memory::image::{ImageSettings, SecondCopy};
use tombolo_storage::value_log::GroupNumber;

use crate::faults::{Faults, Survival, one_in};
use crate::workload::model::TABLES;
use crate::workload::request::Kinds;

/// Of the seeds with values in the log, one in this many adds columns.
const COLUMNS: u32 = 6;

/// The same for request ids.
const IDS: u32 = 8;

/// Whether the lives of a seed have a DB′.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPlace {
    /// All of them, in memory.
    Memory,
    /// None: blocks are copied from the rows.
    None,
    /// Some of them.
    Either,
}

impl CopyPlace {
    /// The setting of a life that begins with an image that is complete as of this group.
    fn at(self, group: GroupNumber) -> SecondCopy {
        match self {
            Self::None => SecondCopy::None,
            Self::Either if group.is_multiple_of(2) => SecondCopy::None,
            Self::Memory | Self::Either => SecondCopy::Memory,
        }
    }
}

/// The settings of one seed's world.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// The disk's faults.
    pub faults: Faults,
    /// Transactions after which a seed may end.
    pub transactions: u64,
    /// The most transactions of one life, from one start to the next.
    pub life_transactions_max: u64,
    /// Lives end by a crash at some I/O step; one in this many does not.
    pub lives_without_crash: u32,
    /// The most I/O steps before a crash.
    pub crash_steps_max: u64,
    /// The most crashes during one recovery.
    pub nested_crashes_max: u64,
    /// One in this many lives ends with its process, while the machine runs on.
    pub process_ends: u32,
    /// One in this many recoveries is first tried on a copy of the disk.
    pub rehearsals: u32,
    /// After one in this many recoveries a copy with a flipped bit is recovered, too.
    pub rot_rehearsals: u32,
    /// Whether checkpoints are written, if the log has values.
    pub has_checkpoints: bool,
    /// Bytes of records after which a checkpoint begins.
    pub checkpoint_log_bytes: u64,
    /// The most bytes that may wait for a checkpoint stage.
    pub checkpoint_queue_bytes: u64,
    /// The share of the device's time that blocks may take.
    pub checkpoint_percent: u64,
    /// Whether closing writes a checkpoint.
    pub checkpoint_at_close: bool,
    /// Whether another process writes checkpoints, if there is a pipeline.
    pub is_checkpoint_remote: bool,
    /// That process is killed before one in this many of its steps.
    pub remote_kills: u32,
    /// The faults of the link to that process: whether it is cut, and after how many bytes at most.
    pub remote_link: MemoryFaults,
    /// The number of directories of an image.
    pub directories: usize,
    /// The number of parts in which a checkpoint is written.
    pub checkpoint_parts: usize,
    /// Bytes of a block, and the number of blocks between two syncs.
    pub block: (u32, u32),
    /// Whether there is a DB′.
    pub second_copy: CopyPlace,
    /// One in this many lives has a disk that is nearly full.
    pub full_lives: u32,
    /// The number of clients.
    pub clients: i32,
    /// The most open requests of a client.
    pub open_requests_max: usize,
    /// Whether indexes are added while transactions run, if the log has values.
    pub adds_indexes: bool,
    /// The most transactions of a batch.
    pub batch_max: u64,
    /// The capacity of a queue of the pipeline, in transactions.
    pub queue_max: u64,
    /// The number of output stages.
    pub output_stages: usize,
    /// Whether there is an input stage.
    pub has_input_stage: bool,
    /// Whether callers run transactions and flush themselves.
    pub callers_carry: bool,
    /// Transactions at which a group is flushed.
    pub transactions_per_group: u64,
    /// Time after which a group is flushed; `None`: as soon as the device is free.
    pub time_per_group_ns: Option<u64>,
    /// Whether the log has changed values, or requests.
    pub has_values: bool,
    /// The number of parts of a replay.
    pub replay_parts: usize,
    /// Whether transactions go through the pipeline, or through one loop around the log.
    pub has_pipeline: bool,
    /// Between one in this many pairs of batches the log is synced.
    pub syncs: u32,
    /// One in this many calls is a long read.
    pub long_reads: u32,
    /// The kinds of requests.
    pub kinds: Kinds,
    /// After one in this many recoveries a file of a copy replaces the same file of a copy that has run on.
    pub mix_rehearsals: u32,
    /// The most bytes of a log segment.
    pub segment_bytes: u64,
    /// Bytes of the first segment.
    pub segment_bytes_first: u64,
    /// The salt of a new log.
    pub salt: u64,
    /// Whether the log is archived, if it has values and a pipeline writes it.
    pub has_archive: bool,
    /// The longest time before a durable group is archived.
    pub archive_time_ns: u64,
}

/// A random value of a list, each with the same probability.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// One of the frequencies `on`, in one of `often` seeds; in the others never.
fn maybe(rng: &mut Rng, often: u32, on: &[u32]) -> u32 {
    if one_in(rng, often) { pick(rng, on) } else { 0 }
}

impl Swarm {
    /// The settings of one seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut swarm = Self {
            faults: draw_faults(rng),
            transactions: 200 + rng.below(60),
            life_transactions_max: pick(rng, &[60, 100, 200]),
            lives_without_crash: pick(rng, &[0, 3, 8]),
            crash_steps_max: pick(rng, &[20, 60, 150]),
            nested_crashes_max: pick(rng, &[0, 0, 1, 2, 5]),
            process_ends: pick(rng, &[0, 0, 2, 4]),
            rehearsals: pick(rng, &[2, 6]),
            rot_rehearsals: maybe(rng, 3, &[2, 4]),
            full_lives: maybe(rng, 4, &[2, 4]),
            clients: 1 + rng.below(6) as i32,
            open_requests_max: pick(rng, &[1, 2, 8]),
            adds_indexes: one_in(rng, 3),
            batch_max: pick(rng, &[1, 2, 6, 30]),
            queue_max: pick(rng, &[1, 3, 16, 1_000]),
            output_stages: pick(rng, &[1, 1, 2]),
            has_input_stage: one_in(rng, 2),
            callers_carry: one_in(rng, 2),
            transactions_per_group: pick(rng, &[1, 5, 20, u64::MAX]),
            time_per_group_ns: pick(rng, &[None, None, Some(50_000), Some(1_000_000)]),
            has_values: !one_in(rng, 4),
            replay_parts: pick(rng, &[1, 2, 3]),
            has_pipeline: one_in(rng, 2),
            syncs: pick(rng, &[1, 2, 3, 8]),
            kinds: Kinds {
                panics: one_in(rng, 4),
                columns: false,
                ids: false,
                long_texts: one_in(rng, 2),
            },
            mix_rehearsals: maybe(rng, 4, &[2, 4]),
            segment_bytes: pick(rng, &[16 << 10, 20 << 10, 32 << 10, 48 << 10, 64 << 10]),
            segment_bytes_first: u64::MAX,
            salt: rng.next_u64(),
            long_reads: pick(rng, &[0, 0, 5, 20]),
            has_checkpoints: one_in(rng, 2),
            checkpoint_log_bytes: pick(rng, &[1, 2_000, 8_000, 32_000, 80_000]),
            checkpoint_queue_bytes: pick(rng, &[1, 2_000, 1 << 20]),
            checkpoint_percent: pick(rng, &[10, 50, 100]),
            checkpoint_at_close: one_in(rng, 2),
            checkpoint_parts: pick(rng, &[1, 1, 2, 3]),
            directories: pick(rng, &[1, 1, 2, 3]),
            block: (pick(rng, &[4_096, 4_096, 8_192]), pick(rng, &[1, 1, 2, 5])),
            is_checkpoint_remote: one_in(rng, 2),
            remote_kills: maybe(rng, 2, &[15, 60, 300]),
            remote_link: draw_link(rng),
            has_archive: one_in(rng, 2),
            archive_time_ns: pick(rng, &[1, 1_000_000, 50_000_000, 3_600_000_000_000]),
            second_copy: draw_copy(rng),
        };
        swarm.kinds.columns = swarm.has_values && one_in(rng, COLUMNS);
        swarm.kinds.ids = swarm.has_values && one_in(rng, IDS);
        // Drawn last, so that it does not change a seed's other settings.
        swarm.segment_bytes_first = pick(rng, &[16 << 10, 20 << 10, u64::MAX]);
        swarm
    }

    /// Draws new settings of the database, as its user may choose them at each opening; the number of directories may
    /// grow, but not shrink.
    pub(crate) fn change(&mut self, rng: &mut Rng) {
        let other = Self::draw(rng);
        *self = Self {
            checkpoint_log_bytes: other.checkpoint_log_bytes,
            checkpoint_queue_bytes: other.checkpoint_queue_bytes,
            checkpoint_percent: other.checkpoint_percent,
            checkpoint_at_close: other.checkpoint_at_close,
            is_checkpoint_remote: other.is_checkpoint_remote,
            directories: self.directories.max(other.directories),
            checkpoint_parts: other.checkpoint_parts,
            block: other.block,
            second_copy: other.second_copy,
            has_checkpoints: other.has_checkpoints,
            batch_max: other.batch_max,
            queue_max: other.queue_max,
            output_stages: other.output_stages,
            has_input_stage: other.has_input_stage,
            callers_carry: other.callers_carry,
            transactions_per_group: other.transactions_per_group,
            time_per_group_ns: other.time_per_group_ns,
            replay_parts: other.replay_parts,
            segment_bytes: other.segment_bytes,
            segment_bytes_first: other.segment_bytes_first,
            archive_time_ns: other.archive_time_ns,
            ..self.clone()
        };
    }

    /// The number of tables.
    pub fn tables(&self) -> usize {
        TABLES + usize::from(self.kinds.ids)
    }

    /// The image's settings in a life that begins with an image that is complete as of this group.
    pub(crate) fn image(&self, group: GroupNumber) -> ImageSettings {
        let (block_bytes, spare_blocks) = self.block;
        let copy = self.second_copy.at(group);
        ImageSettings { block_bytes, spare_blocks, copy, ..ImageSettings::default() }
    }

    /// Whether another process writes checkpoints.
    pub fn has_remote_checkpoints(&self) -> bool {
        self.has_checkpoints && self.is_checkpoint_remote && self.has_pipeline && self.has_values
    }
}

fn draw_link(rng: &mut Rng) -> MemoryFaults {
    MemoryFaults {
        capacity_bytes: pick(rng, &[1_000, 4_000, 256 << 10, 256 << 10]),
        piece_bytes: pick(rng, &[20, 1_000, usize::MAX, usize::MAX]),
        delays: pick(rng, &[0, 0, 2, 5]),
        cut_after: pick(rng, &[u64::MAX, u64::MAX, 3_000, 30_000]),
    }
}

fn draw_copy(rng: &mut Rng) -> CopyPlace {
    rng.below(4); // of an earlier setting: every other draw of a seed stays what it was
    pick(rng, &[CopyPlace::Memory, CopyPlace::None, CopyPlace::Either])
}

fn draw_faults(rng: &mut Rng) -> Faults {
    let survival = match rng.below(8) {
        0 => Survival::Nothing,
        1 => Survival::Everything,
        2..=4 => Survival::Each(512),
        5 => Survival::Each(100),
        _ => Survival::Each(960),
    };
    // Half of the seeds have no faults but crashes. Only some of the others have a medium that breaks its promises,
    // because with such a medium the oracle can demand less.
    let (faulty, lying) = (one_in(rng, 2), one_in(rng, 5));
    let honest = |rng: &mut Rng, on: &[u32]| if faulty { maybe(rng, 3, on) } else { 0 };
    let sync_fails = honest(rng, &[20, 60]);
    let write_fails = honest(rng, &[40, 100]);
    let read_fails = honest(rng, &[40, 200]);
    let read_short = honest(rng, &[40, 200]);
    let broken = |rng: &mut Rng, on: &[u32]| if lying { maybe(rng, 3, on) } else { 0 };
    Faults {
        sector_bytes: if one_in(rng, 4) { 4_096 } else { 512 },
        alignment: pick(rng, &[1, 512, 4_096]),
        survival,
        torn: maybe(rng, 2, &[2, 8]),
        sync_fails,
        write_fails,
        read_fails,
        read_short,
        sync_lies: broken(rng, &[1, 4, 20]),
        write_lost: broken(rng, &[8, 40]),
        write_misdirected: broken(rng, &[8, 40]),
        rot: broken(rng, &[1, 3]),
        latency_ns: pick(rng, &[(20_000, 120_000), (1_000, 5_000), (100_000, 4_000_000)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_on_in_some_seeds_and_off_in_most() {
        let swarms: Vec<Swarm> = (0..2_000).map(|n| Swarm::draw(&mut Rng::from_seed(n))).collect();
        type Rate = fn(&Faults) -> u32;
        let faults: [(&str, Rate); 8] = [
            ("sync fails", |faults| faults.sync_fails),
            ("write fails", |faults| faults.write_fails),
            ("read fails", |faults| faults.read_fails),
            ("read short", |faults| faults.read_short),
            ("sync lies", |faults| faults.sync_lies),
            ("write lost", |faults| faults.write_lost),
            ("write misdirected", |faults| faults.write_misdirected),
            ("rot", |faults| faults.rot),
        ];
        for (name, rate) in faults {
            let on = swarms.iter().filter(|swarm| rate(&swarm.faults) > 0).count();
            assert!((80..700).contains(&on), "{name} in {on} of 2,000 seeds");
        }
        assert!(swarms.iter().all(|swarm| swarm.transactions >= 200));
    }
}
