//! A sync that failed is not believed by the next process either.
//!
//! Linux calls pages clean that it could not write: the next process reads them from the system's memory, a
//! sync of its own succeeds, and after a power failure they are gone. Recovery has to write again everything
//! that is not known to be durable.

#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

use std::sync::Arc;

use tombolo_sim::clock::SimClock;
use tombolo_sim::faults::{Faults, FaultyDisk, Survival};
use tombolo_sim::trace::Trace;
use tombolo_storage::value_log::{
    GroupNumber, LogKind, LogSettings, LogWriter, RecoverOptions, Recovered, recover,
};

const SETTINGS: LogSettings = LogSettings {
    kind: LogKind::Value,
    segment_bytes: 32 << 10,
    segment_bytes_first: u64::MAX,
    block_bytes: 512,
    segments_ahead: 1,
    log_bytes_max: u64::MAX,
    direct: true,
    salt: 1,
};

fn recovered(disk: &FaultyDisk) -> (Recovered, Vec<Vec<u8>>) {
    let mut groups = Vec::new();
    let mut replay = |_: GroupNumber, records: &[u8]| {
        groups.push(records.to_vec());
        Ok(())
    };
    let disk = Arc::new(disk.clone());
    let options = RecoverOptions::default();
    let recovered = recover(disk, SETTINGS, options, &mut replay, &mut |_| {}).unwrap();
    (recovered, groups)
}

#[test]
fn what_a_failed_sync_left_in_memory_is_written_again() {
    // Nothing that was not synced survives; files are opened through the system's memory.
    let faults = Faults { survival: Survival::Nothing, ..Faults::crashes_only() };
    let disk = FaultyDisk::new(1, faults, SimClock::new(), Trace::new(false));
    let mut writer = LogWriter::create(Arc::new(disk.clone()), SETTINGS).unwrap();
    writer.append_group(&[b"first"], 1, None).unwrap();
    writer.sync().unwrap();
    writer.append_group(&[b"second"], 1, None).unwrap();
    disk.set_faults(Faults { sync_fails: 1, ..faults });
    assert!(writer.sync().is_err());
    drop(writer);
    disk.set_faults(faults);

    // The process starts again, the machine runs on: the group is there to be read, and so it is
    // part of the log; what is acknowledged from here on stands on it.
    disk.restart_process();
    let (mut next, groups) = recovered(&disk);
    assert_eq!(groups, [b"first".to_vec(), b"second".to_vec()]);
    next.writer.append_group(&[b"third"], 1, None).unwrap();
    next.writer.sync().unwrap();
    drop(next);

    disk.restart();
    let (_, groups) = recovered(&disk);
    assert_eq!(groups, [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
}
