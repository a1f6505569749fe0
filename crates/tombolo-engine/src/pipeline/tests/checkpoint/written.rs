//! Checkpoints are written, and the log goes when they are complete.

use super::*;

#[test]
fn closing_leaves_nothing_to_replay() {
    for (parts, copy) in WAYS {
        let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
        let mut paid = BTreeMap::new();
        for round in 1..=3_i64 {
            let mut database = Database::open(&disks, how);
            assert_eq!(database.replayed, 0);
            database.pay(70);
            (0..7).for_each(|id| *paid.entry(id).or_default() = round * 10);
            let closed = database.close();
            assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
            let counted = closed.statistics.checkpoint;
            assert!(counted.count == 1 && counted.bytes > 0, "{counted:?}");
            drop((closed.executor, closed.log));
            assert_eq!(verify(&disks, how, &paid), 0);
        }
        // Nothing was logged: nothing is written.
        assert_eq!(Database::open(&disks, how).close().statistics.checkpoint.bytes, 0);
    }
}

/// A checkpoint is as old as the oldest that a part handed in for it: what the other part installed
/// since is in the last one, also where the part that is behind has to wake one that has no news.
#[test]
fn closing_leaves_nothing_to_replay_where_one_part_handed_in_before_the_other() {
    for (parts, copy) in WAYS {
        for early in 0..parts {
            let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
            let mut database = Database::open(&disks, how);
            database.pay(100);
            let asked = database.pipeline().checkpoint();
            let now_ns = database.clock.now_ns();
            let mut of_checkpoints =
                database.stages.iter_mut().filter(|stage| stage.kind() == Checkpoint);
            let early = of_checkpoints.nth(early).unwrap();
            while early.step(now_ns) == Step::Progress {}
            database.pay(500);
            database.step(10_000, |_| true);
            assert_eq!(asked.poll(), Some(Ok(())));
            let paid = database.paid.clone();
            let closed = database.close();
            assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
            assert_eq!(closed.statistics.checkpoint.count, 2);
            drop((closed.executor, closed.log));
            assert_eq!(verify(&disks, how, &paid), 0);
        }
    }
}

#[test]
fn closing_without_one_leaves_the_log() {
    let policy = CheckpointPolicy { at_close: false, ..POLICY };
    let (disks, how) = (Disks::default(), How { policy, ..HOW });
    let mut database = Database::open(&disks, how);
    database.pay(70);
    let paid = database.paid.clone();
    assert_eq!(database.close().statistics.checkpoint.count, 0);
    assert!(verify(&disks, how, &paid) > 70 * 20);
}

#[test]
fn a_demand_is_met_by_a_checkpoint_that_holds_what_was_answered() {
    for (parts, copy) in WAYS {
        let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
        let mut database = Database::open(&disks, how);
        database.pay(100);
        let asked = database.pipeline().checkpoint();
        assert_eq!(asked.poll(), None);
        while asked.poll().is_none() {
            database.step(1, |kind| kind == Checkpoint);
            database.pay(1); // it continues meanwhile
        }
        assert_eq!(asked.poll(), Some(Ok(())));
        asked.wait().unwrap();
        let (paid, counted) = (database.paid.clone(), database.statistics());
        assert!(counted.count == 1 && !counted.is_writing && counted.wall_ns > 0, "{counted:?}");
        drop((database, asked));
        let meanwhile = paid.values().sum::<i64>() as u64 - 100;
        assert!(verify(&disks, how, &paid) <= meanwhile * 100);
    }
}

/// Rows that were copied in place are written when the log is durable; where no call waits for the log, the
/// checkpoint makes it so.
#[test]
fn a_checkpoint_does_not_wait_for_the_time_limit_of_async_calls() {
    for (parts, copy) in WAYS {
        let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
        let mut database = Database::open(&disks, how);
        database.pay(100);
        database.caller.try_submit(1, 0, Durability::Async).unwrap();
        let begun_ns = database.clock.now_ns();
        let asked = database.pipeline().checkpoint();
        while asked.poll().is_none() {
            database.step(1, |_| true);
        }
        let took_ns = database.clock.now_ns() - begun_ns;
        assert!(took_ns < options().group.async_loss_ns_max / 4, "{copy:?}: {took_ns} ns");
    }
}

#[test]
fn without_an_image_there_is_none() {
    let world = World::new(options());
    let asked = world.pipeline().checkpoint();
    assert_eq!(asked.wait(), Err(CheckpointRefusal::Off));
    assert_eq!(world.pipeline().checkpoint_failure(), None);
}

/// The log is given back when the catalogue says so, and by the logging stage.
#[test]
fn a_log_with_a_limit_goes_on_for_ever() {
    for (parts, copy) in WAYS {
        let policy = CheckpointPolicy { log_bytes: SEGMENT_BYTES, ..POLICY };
        let how = How { parts, copy, policy, log_bytes_max: 5 * SEGMENT_BYTES };
        let disks = Disks::default();
        let mut database = Database::open(&disks, how);
        for _ in 0..60 {
            database.pay(25);
            database.step(1_000, |_| true);
        }
        let counted = database.statistics();
        assert!(counted.count >= 4 && counted.put_off == 0, "{counted:?}");
        let paid = database.paid.clone();
        drop(database);
        let replayed = verify(&disks, how, &paid);
        assert!(replayed < 3 * SEGMENT_BYTES, "{replayed}");
    }
}

/// A caller alone: each group takes a block, however little is in it.
#[test]
fn a_checkpoint_is_due_by_what_the_log_takes() {
    for (parts, copy) in WAYS {
        let policy = CheckpointPolicy { log_bytes: 2 * SEGMENT_BYTES, ..POLICY };
        let disks = Disks::default();
        let mut database = Database::open(&disks, How { parts, copy, policy, ..HOW });
        for _ in 0..150 {
            database.pay(1);
            database.step(1_000, |_| true);
        }
        assert_eq!(database.statistics().count, 2, "150 blocks of 512 bytes, and headers");
    }
}

/// Opening a database looks through all files of its log.
#[test]
fn a_database_that_was_closed_keeps_no_log_that_nobody_needs() {
    let disks = Disks::default();
    let mut database = Database::open(&disks, HOW);
    for _ in 0..40 {
        database.pay(25);
    }
    let segments = || {
        let names = disks[0].list().unwrap();
        names.iter().filter(|name| name.starts_with("log-")).count()
    };
    let before = segments();
    let paid = database.paid.clone();
    assert!(database.close().poison.is_none());
    assert!(before > 4 && segments() <= 2, "{} of {before} segments", segments());
    assert_eq!(verify(&disks, HOW, &paid), 0);
}

/// The setting would never begin one, and then the log would be full.
#[test]
fn a_log_that_runs_short_of_room_is_made_shorter() {
    let disks = Disks::default();
    let how = How { log_bytes_max: 4 * SEGMENT_BYTES, ..HOW };
    let mut database = Database::open(&disks, how);
    for _ in 0..60 {
        database.pay(25);
        database.step(1_000, |_| true);
    }
    assert!(database.statistics().count >= 2, "{:?}", database.statistics());
}

#[test]
fn nothing_is_released_before_the_checkpoint_is_complete() {
    let policy = CheckpointPolicy { log_bytes: SEGMENT_BYTES, ..POLICY };
    let how = How { policy, log_bytes_max: 4 * SEGMENT_BYTES, ..HOW };
    let disks = Disks::default();
    let mut database = Database::open(&disks, how);
    let segments = |disk: &MemDisk| {
        let names = disk.list().unwrap();
        names.iter().filter(|name| name.starts_with("log-")).count()
    };
    // Until the limit is met: the checkpoint stage is not stepped.
    while segments(&disks[0]) < 4 {
        database.pay(5);
    }
    database.caller.try_submit(1, 1, Durability::Group).unwrap();
    let mut refused = Vec::new();
    for _ in 0..10_000 {
        database.step(1, |kind| kind != Checkpoint);
        database.caller.take(&mut refused);
        match refused.last() {
            Some((_, Reply::Refused(Refusal::LogFull))) => break,
            Some((_, Reply::Durable(_))) => {
                *database.paid.entry(1).or_default() += 1;
                database.caller.try_submit(1, 1, Durability::Group).unwrap();
            }
            other => assert!(other.is_none(), "{other:?}"),
        }
        refused.clear();
    }
    assert_eq!(refused.len(), 1);
    assert_eq!(database.statistics().count, 0);
    database.step(10_000, |_| true);
    assert!(database.statistics().count > 0);
    database.pay(20);
    let paid = database.paid.clone();
    drop(database);
    verify(&disks, how, &paid);
}

#[test]
fn past_its_bound_the_queue_holds_positions_and_the_log_is_read() {
    for (parts, copy) in WAYS {
        let policy = CheckpointPolicy { queue_bytes_max: 2_000, ..POLICY };
        let (disks, how) = (Disks::default(), How { parts, copy, policy, ..HOW });
        let mut database = Database::open(&disks, how);
        for round in 0..10 {
            database.pay(100);
            // Sometimes in the middle of reading.
            database.step(round % 3, |kind| kind == Checkpoint);
        }
        assert_eq!(database.checkpoint(), Ok(()));
        let counted = database.statistics();
        // Without a second copy there is nothing to be read back for.
        let is_read = counted.read_back_bytes > 20_000;
        assert_eq!(is_read, copy == SecondCopy::Memory, "{counted:?}");
        let paid = database.paid.clone();
        drop(database);
        assert!(verify(&disks, how, &paid) <= 5 * 40);
    }
}

/// Without a second copy a checkpoint takes the memory of the blocks that are being copied and written, however
/// much has changed; the last one copies from what the execution stage has left.
#[test]
fn without_a_second_copy_blocks_in_flight_are_all_that_is_kept() {
    for (parts, queue_bytes_max) in [(1, u64::MAX), (2, u64::MAX), (1, 1_000), (2, 1_000)] {
        let policy = CheckpointPolicy { queue_bytes_max, ..POLICY };
        let copy = SecondCopy::None;
        let (disks, how) = (Disks::default(), How { parts, copy, policy, ..HOW });
        let mut database = Database::open(&disks, how);
        for round in 1..=3 {
            database.pay(400);
            let before = database.statistics().count;
            assert_eq!(database.checkpoint(), Ok(()));
            let counted = database.statistics();
            assert_eq!(counted.count, before + 1, "round {round}: {counted:?}");
            assert!((1..100_000).contains(&counted.copy_bytes_max), "{counted:?}");
            assert_eq!(counted.read_back_bytes, 0, "nothing is installed");
        }
        database.pay(410);
        let paid = database.paid.clone();
        let closed = database.close();
        assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
        drop((closed.executor, closed.log));
        assert_eq!(verify(&disks, how, &paid), 0);
    }
}

/// A pipeline that is to close without a checkpoint does so, also where nothing is installed.
#[test]
fn closing_without_one_writes_none() {
    for queue_bytes_max in [u64::MAX, 1_000] {
        let policy = CheckpointPolicy { at_close: false, queue_bytes_max, ..POLICY };
        let copy = SecondCopy::None;
        let (disks, how) = (Disks::default(), How { copy, policy, ..HOW });
        let mut database = Database::open(&disks, how);
        database.pay(700);
        let paid = database.paid.clone();
        let closed = database.close();
        assert_eq!((closed.poison, closed.checkpoint_failure), (None, None));
        assert!(closed.statistics.checkpoint.count == 0, "{:?}", closed.statistics.checkpoint);
        drop((closed.executor, closed.log));
        assert!(verify(&disks, how, &paid) > 0);
    }
}

/// A database is loaded into store and log, and its pipeline starts then.
#[test]
fn what_was_logged_before_the_pipeline_is_read_from_the_log() {
    let disks = Disks::default();
    let (mut bank, mut writer, checkpointing, _) = opened(&disks, HOW);
    let mut log = LogBuffer::new();
    for n in 0..500 {
        bank.pay(n % 7).unwrap();
        if n % 50 == 49 {
            bank.take_log(&mut log);
            writer.append_group(&[log.as_slice()], log.transactions(), None).unwrap();
            log.clear();
        }
    }
    writer.sync().unwrap();
    let expected = bank.contents().0;
    let log = Box::new(ValueLogGroups::new(writer));
    let options = Options { checkpoint: POLICY, ..options() };
    let builder = Builder::new(bank, options).log(log).checkpoints(checkpointing, 0);
    let clock = Arc::new(TickingClock::default());
    let (pipeline, stages) = builder.assemble(clock.clone());
    let caller = pipeline.caller(1);
    let (pipeline, paid) = (Some(pipeline), BTreeMap::new());
    let mut database = Database { pipeline, stages, clock, caller, replayed: 0, paid };
    assert_eq!(database.checkpoint(), Ok(()));
    drop(database);
    // The group that the image is complete as of is replayed once more.
    assert!(verify(&disks, HOW, &expected) <= 50 * 40);
}

/// While the log is flushed, a batch of blocks is followed by a pause; alone it is not.
#[test]
fn blocks_leave_the_device_to_the_log() {
    let policy = CheckpointPolicy { device_percent: 10, ..POLICY };
    let (disks, how) = (Disks::default(), How { policy, ..HOW });
    let mut database = Database::open(&disks, how);
    database.pay(2_000);
    assert_eq!(database.pipeline().checkpoint().poll(), None);
    let mut pauses = 0;
    for _ in 0..500 {
        let now_ns = database.clock.now_ns();
        let stages = database.stages.iter_mut().filter(|stage| stage.kind() == Checkpoint);
        let steps: Vec<Step> = stages.map(|stage| stage.step(now_ns)).collect();
        if let Step::IdleUntil(Some(until_ns)) = steps[0] {
            assert!((now_ns..now_ns + 100_000).contains(&until_ns), "{now_ns} to {until_ns}");
            pauses += 1;
            database.clock.0.fetch_max(until_ns, Ordering::Relaxed);
            if pauses < 5 {
                database.pay(1);
            }
        }
        if database.statistics().count == 1 {
            break;
        }
    }
    assert_eq!(pauses, 5);
    assert_eq!(database.statistics().count, 1);
}

/// With threads: callers, checkpoints all the time, and one asked for.
#[test]
fn checkpoints_are_written_beside_transactions() {
    let spreads = [Spread::One, Spread::Coalesced, Spread::Carried, Spread::Each];
    for (spread, copy) in spreads
        .into_iter()
        .flat_map(|spread| [SecondCopy::Memory, SecondCopy::None].map(|copy| (spread, copy)))
    {
        let policy = CheckpointPolicy { log_bytes: 2_000, device_percent: 50, ..POLICY };
        let (disks, how) = (Disks::default(), How { parts: 2, copy, policy, ..HOW });
        let pipeline = started(&disks, how, spread);
        crate::threads::on_each(0..3, |id| {
            let mut caller = pipeline.caller(1);
            for n in 1..=200 {
                assert_eq!(caller.call(id, Durability::Group), Reply::Durable(Ok(n)));
            }
            pipeline.checkpoint().wait().unwrap();
        });
        let closed = pipeline.close();
        let counted = closed.statistics.checkpoint;
        assert!(counted.count >= 2 && closed.statistics.busy.checkpoint_ns > 0, "{counted:?}");
        drop((closed.executor, closed.log));
        // At most the group that the image is complete as of.
        assert!(verify(&disks, how, &(0..3).map(|id| (id, 200)).collect()) <= 3 * 40);
    }
}

#[test]
fn a_hold_keeps_the_next_checkpoint_off_and_the_log_whole() {
    for (parts, copy) in WAYS {
        let (disks, how) = (Disks::default(), How { parts, copy, ..HOW });
        let mut database = Database::open(&disks, how);
        let hold = database.pipeline().holding()().unwrap();
        let second = database.pipeline().holding()().unwrap();
        let first_group = database.pipeline().durable_group();
        database.pay(2_000);
        assert!(database.pipeline().durable_group() > first_group);
        let asked = database.pipeline().checkpoint();
        database.step(10_000, |_| true);
        assert_eq!((asked.poll(), database.statistics().is_writing), (None, false));
        drop(hold);
        database.step(10_000, |_| true);
        assert_eq!(asked.poll(), None, "there is another hold");
        drop(second);
        database.step(10_000, |_| true);
        assert_eq!(asked.poll(), Some(Ok(())));
        // One that has begun is not held.
        database.pay(100);
        let asked = database.pipeline().checkpoint();
        while !database.statistics().is_writing {
            database.step(1, |_| true);
        }
        let (holding, is_held) = (database.pipeline().holding(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let hold = holding().unwrap();
                is_held.store(1, Ordering::SeqCst);
                hold
            });
            while is_held.load(Ordering::SeqCst) == 0 {
                database.step(1, |_| true);
            }
        });
        assert_eq!(asked.poll(), Some(Ok(())));
        let paid = database.paid.clone();
        database.close();
        verify(&disks, how, &paid);
    }
}
