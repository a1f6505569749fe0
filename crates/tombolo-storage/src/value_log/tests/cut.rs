//! Recovery up to a group that is not the last one: what is behind is cut off, whenever that is interrupted.

use super::*;

/// The groups behind the cut say that those before them were durable, also in another segment. They go the newest
/// first, so that no crash leaves one of them behind another that was written over.
#[test]
fn a_crash_while_groups_are_cut_off_leaves_a_whole_log() {
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let disk = CrashDisk::default();
        let mut writer = create(&disk);
        let mut written = Groups::new();
        for _ in 0..4 + random.next() % 6 {
            let bytes = 100 + random.next() as usize % 4_000;
            let records = records(random, bytes);
            let number = writer.append_group(&[&records], 1, None).unwrap();
            writer.sync().unwrap();
            written.push((number, records));
        }
        drop(writer);
        // Openings begin epochs, with groups that say that all before them are durable.
        (0..1 + random.next() % 3).for_each(|_| drop(recovered(&disk)));
        let kept = written.len() - 1 - random.next() as usize % 2;
        let options = RecoverOptions { last: Some(written[kept - 1].0), ..Default::default() };
        for calls in 0.. {
            let cut = disk.kill();
            cut.fail_after(Some(calls));
            let done = recover_with(&cut, options);
            let is_done = done.is_ok();
            drop(done);
            let (_, found) = recovered(&cut.crash(random));
            assert!(found.len() >= kept, "seed {seed}, call {calls}");
            assert_eq!(found[..], written[..found.len()], "seed {seed}, call {calls}");
            if is_done {
                assert_eq!(found.len(), kept, "seed {seed}");
                break;
            }
        }
    }
}
