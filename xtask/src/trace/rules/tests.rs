//! Good traces are counted right; every way to break a rule is noticed.

use super::{Counts, Judge, transactions};
use crate::trace::lines::{Call, Event};

const LOGGING: u32 = 1;
const OTHER: u32 = 2;
const CALLER: u32 = 3;

/// A trace under construction: two transactions lie in the log before the measured ones.
struct Trace {
    events: Vec<Event>,
    acks: Vec<u8>,
}

impl Trace {
    fn new() -> Self {
        let mut trace = Self { events: Vec::new(), acks: b"0 1\n1 1\n2 1\n".to_vec() };
        trace.sync(LOGGING, "log-000001");
        trace.write("log-000001", 7, 2, 0, 2);
        trace.sync(LOGGING, "log-000001");
        trace
    }

    fn enter(&mut self, thread: u32, name: &str, path: &str, data: Vec<u8>, bytes: u64) {
        let (name, path) = (name.to_owned(), format!("/d/{path}"));
        let call = Call { name, path, data, bytes, offset: None };
        self.events.push(Event::Enter { thread, call });
    }

    fn back(&mut self, thread: u32, value: Option<u64>) {
        self.events.push(Event::Return { thread, name: String::new(), value });
    }

    fn begin_write(&mut self, file: &str, number: u64, transactions: u64, length: u32, flags: u32) {
        let mut header = vec![0; 64];
        header[..4].copy_from_slice(b"tgr3");
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[40..48].copy_from_slice(&transactions.to_le_bytes());
        header[56..60].copy_from_slice(&length.to_le_bytes());
        header[60..64].copy_from_slice(&flags.to_le_bytes());
        self.enter(LOGGING, "pwrite64", file, header, 4096);
    }

    fn write(&mut self, file: &str, number: u64, transactions: u64, length: u32, flags: u32) {
        self.begin_write(file, number, transactions, length, flags);
        self.back(LOGGING, Some(4096));
    }

    fn sync(&mut self, thread: u32, file: &str) {
        self.enter(thread, "fdatasync", file, Vec::new(), 0);
        self.back(thread, Some(0));
    }

    /// Writes one answer, four bytes.
    fn tell(&mut self) {
        self.enter(CALLER, "write", "acks", Vec::new(), 4);
        self.back(CALLER, Some(4));
    }

    fn judge(self) -> Result<Counts, String> {
        let mut judge = Judge::new("/d/acks", &self.acks, 2);
        self.events.into_iter().try_for_each(|event| judge.see(event))?;
        judge.end()
    }

    fn broken(self, rule: &str) {
        let broken = self.judge().unwrap_err();
        assert!(broken.contains(rule), "{broken}");
    }
}

#[test]
fn a_good_trace_is_counted() {
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.sync(LOGGING, "log-000001");
    trace.tell();
    // A segment is made meanwhile by another thread.
    trace.enter(OTHER, "fallocate", "log-000002", Vec::new(), 0);
    trace.back(OTHER, Some(0));
    trace.enter(OTHER, "pwrite64", "log-000002", vec![0; 64], 1 << 20);
    trace.back(OTHER, Some(1 << 20));
    trace.sync(OTHER, "log-000002");
    trace.enter(OTHER, "fsync", "", Vec::new(), 0);
    trace.back(OTHER, Some(0));
    // A flush that continues in it.
    trace.write("log-000001", 9, 4, 100, 0);
    trace.write("log-000002", 10, 5, 100, 0);
    trace.sync(LOGGING, "log-000001");
    trace.sync(LOGGING, "log-000002");
    trace.tell();
    trace.tell();
    trace.write("log-000002", 11, 5, 0, 0);
    trace.sync(LOGGING, "log-000002");
    assert_eq!(transactions(&trace.events), 5);
    let expected = Counts {
        groups: 3,
        flushes: vec![3, 5],
        left_behind: 1,
        of_recovery: 1,
        seals: 2,
        of_segments: 1,
        answered: 3,
        transactions: 5,
        answer_writes: 3,
        has_failed: false,
        making_has_failed: false,
        of_image: 0,
        image_has_failed: false,
    };
    assert_eq!(trace.judge(), Ok(expected));
}

#[test]
fn an_answer_before_its_fdatasync_has_returned_is_noticed() {
    let rule = "1 answers are given when 0 of their calls are durable";
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.tell();
    trace.broken(rule);
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.enter(LOGGING, "fdatasync", "log-000001", Vec::new(), 0);
    trace.tell();
    trace.broken(rule);
    // One too many.
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.sync(LOGGING, "log-000001");
    trace.tell();
    trace.tell();
    trace.broken("2 answers are given when 1 of their calls are durable");
    // The second group is durable, the first is not.
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.write("log-000002", 9, 4, 100, 0);
    trace.sync(LOGGING, "log-000002");
    trace.tell();
    trace.broken(rule);
}

#[test]
fn an_fdatasync_too_few_too_many_or_too_early_is_noticed() {
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.broken("group 8 was never synced");
    let mut trace = Trace::new();
    trace.sync(LOGGING, "log-000001");
    trace.broken("fdatasync of log-000001, which covers nothing");
    let mut trace = Trace::new();
    trace.begin_write("log-000001", 8, 3, 100, 0);
    trace.sync(OTHER, "log-000001");
    trace.broken("while a group is written to it");
}

#[test]
fn nothing_follows_a_failure() {
    for call in ["pwrite64", "fdatasync"] {
        let failed = || {
            let mut trace = Trace::new();
            trace.write("log-000001", 8, 3, 100, 0);
            trace.sync(LOGGING, "log-000001");
            trace.begin_write("log-000001", 9, 4, 100, 0);
            trace.back(LOGGING, (call != "pwrite64").then_some(4096));
            if call == "fdatasync" {
                trace.enter(LOGGING, "fdatasync", "log-000001", Vec::new(), 0);
                trace.back(LOGGING, None);
            }
            trace
        };
        assert!(failed().judge().unwrap().has_failed);
        let mut trace = failed();
        trace.sync(LOGGING, "log-000001");
        trace.broken("fdatasync of log-000001 after the log had failed");
        let mut trace = failed();
        trace.tell();
        trace.broken("answers are given after the log had failed");
        let mut trace = failed();
        trace.write("log-000002", 10, 5, 100, 0);
        trace.broken("pwrite64 of log-000002 after the log had failed");
        // What the thread that makes segments does about one without groups.
        let mut trace = failed();
        trace.enter(OTHER, "pwrite64", "log-000002", vec![0; 64], 1 << 20);
        trace.back(OTHER, Some(1 << 20));
        trace.sync(OTHER, "log-000002");
        assert!(trace.judge().unwrap().has_failed);
    }
}

/// A segment cannot be made: the groups in others are as durable as before.
#[test]
fn a_failure_to_make_a_segment_is_none_of_a_group() {
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 2);
    trace.enter(OTHER, "pwrite64", "log-000002", vec![0; 64], 1 << 20);
    trace.back(OTHER, None);
    trace.sync(LOGGING, "log-000001");
    trace.tell();
    let counts = trace.judge().unwrap();
    assert_eq!((counts.has_failed, counts.making_has_failed, counts.answered), (false, true, 1));
}

#[test]
fn other_ways_to_write_are_noticed() {
    let mut trace = Trace::new();
    trace.enter(OTHER, "pwritev2", "log-000001", Vec::new(), 0);
    trace.broken("pwritev2 of log-000001, which only pwrite64 and fdatasync may touch");
    let mut trace = Trace::new();
    trace.begin_write("log-000001", 8, 3, 100, 0);
    trace.back(LOGGING, Some(512));
    trace.broken("in parts");
    let mut trace = Trace::new();
    trace.acks.clear();
    trace.tell();
    trace.broken("more was written");
}

#[test]
fn syncs_of_the_image_make_no_answer_durable() {
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.sync(OTHER, "image-000002");
    trace.tell();
    trace.broken("1 answers are given when 0");
    let mut trace = Trace::new();
    trace.write("log-000001", 8, 3, 100, 0);
    trace.sync(OTHER, "image-000002");
    trace.sync(LOGGING, "log-000001");
    trace.sync(OTHER, "checkpoint-000009");
    trace.tell();
    let counts = trace.judge().unwrap();
    assert_eq!((counts.flushes, counts.of_image, counts.answered), (vec![3], 2, 1));
}

#[test]
fn an_image_that_failed_is_left_alone_and_the_log_goes_on() {
    let failed = || {
        let mut trace = Trace::new();
        trace.enter(OTHER, "pwrite64", "image-000002", Vec::new(), 4096);
        trace.back(OTHER, None);
        trace.write("log-000001", 8, 3, 100, 0);
        trace.sync(LOGGING, "log-000001");
        trace.tell();
        trace
    };
    let counts = failed().judge().unwrap();
    assert_eq!((counts.image_has_failed, counts.has_failed, counts.answered), (true, false, 1));
    let mut trace = failed();
    trace.sync(OTHER, "checkpoint-000009");
    trace.broken("after the image had failed");
}
