//! The log on a disk: what is synced is found, what is torn is cut, what is damaged is refused.
//!
//! Here: what the tests share.

pub(crate) mod crash_disk;
mod cut;
mod damage;
mod follow;
mod model;
mod positions;
mod space;
mod survey;
mod versions;
mod writer;

use super::*;
use crate::disk::Disk;
use crate::memory::test_random::Random;
use crate::sync::Arc;
use crash_disk::CrashDisk;

pub(super) const SETTINGS: LogSettings = LogSettings {
    kind: LogKind::Value,
    segment_bytes: 16 << 10,
    segment_bytes_first: u64::MAX,
    block_bytes: 512,
    segments_ahead: 1,
    log_bytes_max: u64::MAX,
    direct: true,
    salt: 0x5eed_5a17,
};

/// Groups as they were replayed.
type Groups = Vec<(GroupNumber, Vec<u8>)>;

fn recover_with(
    disk: &(impl Disk + Clone + 'static),
    options: RecoverOptions,
) -> Result<(Recovered, Groups), LogFailure> {
    recover_as(disk, SETTINGS, options)
}

fn recover_as(
    disk: &(impl Disk + Clone + 'static),
    settings: LogSettings,
    options: RecoverOptions,
) -> Result<(Recovered, Groups), LogFailure> {
    let mut groups = Groups::new();
    let mut replay = |number, records: &[u8]| {
        groups.push((number, records.to_vec()));
        Ok(())
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let recovered = recover(disk, settings, options, &mut replay, &mut |_| {})?;
    Ok((recovered, groups))
}

fn recovered(disk: &(impl Disk + Clone + 'static)) -> (Recovered, Groups) {
    recover_with(disk, RecoverOptions::default()).unwrap()
}

pub(super) fn create(disk: &(impl Disk + Clone + 'static)) -> LogWriter {
    LogWriter::create(Arc::new(disk.clone()), SETTINGS).unwrap()
}

/// `length` bytes that no two groups share.
fn records(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next() as u8).collect()
}

/// Group `group`, which lies there, cannot be replayed.
fn unfit((file, offset): (String, u64), group: GroupNumber, what: &str) -> LogFailure {
    LogFailure::Replay { file, offset, group, what: what.to_owned() }
}
