//! A disk that fails or is full, a process that ends: nothing that was answered is lost.

use super::*;
use crate::threads::Running;

#[test]
fn an_image_that_fails_is_no_database_that_fails() {
    for operation in [Operation::Write, Operation::Sync] {
        let disks = Disks::default();
        let mut database = Database::open(&disks, HOW);
        database.pay(300);
        assert_eq!(database.checkpoint(), Ok(()));
        database.pay(300);
        disks[1].set_fault(Some(Fault { operation, after: 0, kind: ErrorKind::Other }));
        let asked = database.checkpoint();
        let Err(CheckpointRefusal::Failed(why)) = asked else { panic!("{asked:?}") };
        assert!(why.contains("the last complete checkpoint is valid"), "{why}");
        disks[1].set_fault(None);
        database.pay(300);
        assert_eq!(database.pipeline().checkpoint_failure(), Some(why.clone()));
        assert_eq!(database.checkpoint(), Err(CheckpointRefusal::Failed(why)));
        let counted = database.statistics();
        assert!(counted.has_failed && !counted.is_writing && counted.count == 1, "{counted:?}");
        assert_eq!(database.pipeline().poison(), None);
        let paid = database.paid.clone();
        let closed = database.close();
        assert!(closed.checkpoint_failure.is_some() && closed.poison.is_none());
        drop((closed.executor, closed.log));
        assert!(verify(&disks, HOW, &paid) > 0);
        // The next process writes them again.
        assert_eq!(Database::open(&disks, HOW).checkpoint(), Ok(()));
    }
}

#[test]
fn a_full_disk_puts_a_checkpoint_off() {
    let disks = Disks::default();
    let mut database = Database::open(&disks, HOW);
    database.pay(100);
    for disk in &disks {
        disk.set_capacity_bytes(Some(1 << 10));
    }
    let asked = database.checkpoint();
    let Err(CheckpointRefusal::Full(why)) = asked else { panic!("{asked:?}") };
    assert!(why.contains("full"), "{why}");
    assert_eq!(database.pipeline().checkpoint_failure(), None);
    for disk in &disks {
        disk.set_capacity_bytes(None);
    }
    database.pay(100);
    // It is not tried immediately.
    let asked = database.pipeline().checkpoint();
    database.step(1_000, |_| true);
    assert_eq!((asked.poll(), database.statistics().put_off), (None, 1));
    database.clock.0.fetch_add(2_000_000_000, Ordering::Relaxed);
    database.step(1_000, |_| true);
    assert_eq!(asked.poll(), Some(Ok(())));
    // The last one is not tried again, and reported.
    database.pay(100);
    for disk in &disks {
        disk.set_capacity_bytes(Some(1 << 10));
    }
    let closed = database.close();
    assert!(closed.poison.is_none() && closed.checkpoint_failure.is_none());
    let why = closed.checkpoint_left_out.unwrap();
    assert_eq!(why.matches("make room").count(), 1, "{why}");
}

/// Without a second copy a checkpoint that cannot begin takes no memory, whatever changes meanwhile.
#[test]
fn without_a_second_copy_nothing_is_kept_while_no_checkpoint_can_begin() {
    let (copy, policy) = (SecondCopy::None, CheckpointPolicy { log_bytes: 10_000, ..POLICY });
    let (disks, how) = (Disks::default(), How { copy, policy, ..HOW });
    let mut database = Database::open(&disks, how);
    database.pay(50);
    disks[1].set_capacity_bytes(Some(1 << 10));
    for _ in 0..60 {
        database.pay(500);
        database.clock.0.fetch_add(2_000_000_000, Ordering::Relaxed);
        database.step(1_000, |_| true);
    }
    let counted = database.statistics();
    assert!(counted.put_off > 10 && counted.copy_bytes_max < 100_000, "{counted:?}");
    disks[1].set_capacity_bytes(None);
    database.clock.0.fetch_add(2_000_000_000, Ordering::Relaxed);
    let paid = database.paid.clone();
    let closed = database.close();
    assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
    drop((closed.executor, closed.log));
    assert_eq!(verify(&disks, how, &paid), 0);
}

/// Also while the log is short of room, which is why the checkpoint began.
#[test]
fn a_disk_full_under_blocks_is_tried_once_a_second() {
    let mut under_blocks = 0;
    for after in 0..20 {
        let disks = Disks::default();
        let how = How { log_bytes_max: 4 * SEGMENT_BYTES, ..HOW };
        let mut database = Database::open(&disks, how);
        let kind = ErrorKind::StorageFull;
        disks[1].set_fault(Some(Fault { operation: Operation::Write, after, kind }));
        while database.statistics().put_off + database.statistics().count == 0 {
            database.pay(1);
            database.step(1_000, |kind| kind == Checkpoint);
        }
        if database.statistics().count == 1 {
            break; // all were written
        }
        under_blocks += u64::from(database.statistics().is_writing);
        assert_eq!(database.statistics().put_off, 1);
        disks[1].set_fault(None);
        database.step(1_000, |kind| kind == Checkpoint);
        assert_eq!(database.statistics().count, 0);
        database.clock.0.fetch_add(2_000_000_000, Ordering::Relaxed);
        database.step(1_000, |_| true);
        assert_eq!(database.statistics().count, 1);
    }
    assert!(under_blocks > 0);
}

#[test]
fn closing_on_a_full_disk_ends() {
    let disks = Disks::default();
    let mut database = Database::open(&disks, HOW);
    database.pay(100);
    disks[1].set_capacity_bytes(Some(1 << 10));
    let paid = database.paid.clone();
    let asked = database.pipeline().checkpoint();
    let closed = database.close();
    assert!(matches!(asked.wait(), Err(CheckpointRefusal::Full(_))), "{:?}", asked.poll());
    assert_eq!((closed.statistics.checkpoint.count, closed.poison), (0, None));
    drop((closed.executor, closed.log));
    disks[1].set_capacity_bytes(None);
    assert!(verify(&disks, HOW, &paid) > 0);
}

/// The same where the last checkpoint would copy from what the execution stage has left.
#[test]
fn closing_on_a_full_disk_ends_without_a_second_copy() {
    let disks = Disks::default();
    let copy = SecondCopy::None;
    let mut database = Database::open(&disks, How { copy, ..HOW });
    disks[1].set_capacity_bytes(Some(1 << 10));
    database.pay(500);
    let paid = database.paid.clone();
    let closed = database.close();
    assert_eq!((closed.statistics.checkpoint.count, closed.poison), (0, None));
    drop((closed.executor, closed.log));
    disks[1].set_capacity_bytes(None);
    assert!(verify(&disks, HOW, &paid) > 0);
}

/// On threads, each of which sleeps until it is woken: whichever part finds the disk full under its
/// blocks, the other, done or not, ends, too.
#[test]
fn closing_on_a_disk_full_under_one_parts_blocks_ends() {
    const PAYMENTS: i64 = 1_000;
    let (mut put_off, mut completed) = (0, 0);
    for (after, copy) in
        (0..40).flat_map(|after| [(after, SecondCopy::Memory), (after, SecondCopy::None)])
    {
        let (disks, how) = (Disks::default(), How { parts: 2, copy, ..HOW });
        let pipeline = started(&disks, how, Spread::Two);
        let mut caller = pipeline.caller(PAYMENTS as usize);
        for n in 0..PAYMENTS {
            caller.submit((n % 10) as i32, n as u64, Durability::Async).unwrap();
        }
        let kind = ErrorKind::StorageFull;
        disks[1].set_fault(Some(Fault { operation: Operation::Write, after, kind }));
        let (send, receive) = std::sync::mpsc::channel();
        let closing = Running::start("closing", move || _ = send.send(pipeline.close()));
        let closed = receive.recv_timeout(Duration::from_secs(30));
        let closed = closed.unwrap_or_else(|_| panic!("after {after} writes a close hangs"));
        closing.unwrap().join();
        assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
        put_off += closed.statistics.checkpoint.put_off;
        completed += closed.statistics.checkpoint.count;
        drop((closed.executor, closed.log));
        disks[1].set_fault(None);
        verify(&disks, how, &(0..10).map(|id| (id, PAYMENTS / 10)).collect());
        if completed > 0 {
            break;
        }
    }
    assert!(put_off > 2 && completed == 1, "{put_off} were put off, {completed} complete");
}

/// Whichever it is, of those that prepare and those that write: nothing waits for it.
#[test]
fn a_checkpoint_stage_that_panics_ends_checkpoints_and_nothing_else() {
    for (parts, copy) in WAYS {
        for broken in 0..2 * parts {
            let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
            let mut database = Database::open(&disks, how);
            database.pay(100);
            let asked = database.pipeline().checkpoint();
            database.step(2, |kind| kind == Checkpoint);
            let mut of_checkpoints =
                (0..).zip(&database.stages).filter(|(_, stage)| stage.kind() == Checkpoint);
            let (broken, _) = of_checkpoints.nth(broken).unwrap();
            // As its thread does it.
            drop(database.stages.remove(broken));
            database.pipeline().when_broken()(Checkpoint, "planted");
            let why = Arc::from("the checkpoint stage panicked: planted");
            assert_eq!(asked.poll(), Some(Err(CheckpointRefusal::Failed(why))));
            database.pay(100);
            let paid = database.paid.clone();
            let closed = database.close();
            assert!(closed.checkpoint_failure.is_some() && closed.poison.is_none());
            drop((closed.executor, closed.log));
            verify(&disks, how, &paid);
        }
    }
}

#[test]
fn a_restart_goes_on_with_a_checkpoint_under_way() {
    for (parts, copy) in WAYS {
        let mut ends = 0;
        for steps in 1..60 {
            let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
            let mut database = Database::open(&disks, how);
            database.pay(1_500);
            let asked = database.pipeline().checkpoint();
            database.step(steps, |kind| kind == Checkpoint || kind == StageKind::Execution);
            database.pay(20);
            ends += u64::from(asked.poll().is_some());
            let was_writing = database.statistics().is_writing;
            let mut paid = database.paid.clone();
            drop((database, asked));
            let mut database = Database::open(&disks, how);
            assert_eq!(database.statistics().is_writing, was_writing);
            assert_eq!(database.pipeline.as_mut().unwrap().statistics().executed, 0);
            database.pay(7);
            (0..7).for_each(|id| *paid.entry(id).or_default() += 1);
            assert_eq!(database.checkpoint(), Ok(()));
            assert_eq!(database.statistics().count, 1 + u64::from(was_writing));
            drop(database);
            assert!(verify(&disks, how, &paid) <= 5 * 40);
            if ends > 2 {
                break;
            }
        }
        assert!(ends > 0, "no checkpoint came to its end");
    }
}

#[test]
fn a_log_that_fails_ends_checkpoints() {
    let disks = Disks::default();
    let mut database = Database::open(&disks, HOW);
    database.pay(100);
    let fault = Fault { operation: Operation::Sync, after: 0, kind: ErrorKind::Other };
    disks[0].set_fault(Some(fault));
    let asked = database.pipeline().checkpoint();
    database.caller.try_submit(1, 1, Durability::Sync).unwrap();
    database.step(1_000, |kind| kind != Checkpoint);
    assert!(database.pipeline().poison().is_some());
    assert!(matches!(asked.wait(), Err(CheckpointRefusal::Failed(_))));
    disks[0].set_fault(None);
    assert_eq!(database.close().statistics.checkpoint.count, 0);
}
