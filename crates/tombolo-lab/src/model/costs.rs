//! The time that each piece of a transaction's work takes on a core, in microseconds, and the source of each figure.
//!
//! The paper prints none of these times. Its engine descends from the one that *OLTP Through the Looking Glass* took
//! apart: how many instructions a Payment there takes, component by component, and cycles for each are printed
//! (LG-43, LG-47); how a component divides into calls is measured on our paged store
//! (`results/looking-glass/ladder-1w.json`, rungs without log, without locks, without latches). Lines of cache are
//! Table 1's counters (ISL-9). A message is a bound: the axis of Figure 6 ends at 70,000 a second (ISL-11).
//!
//! Not here: anything that Figures 7 to 14 show.

use serde::{Deserialize, Serialize};

/// Microseconds of a core for each piece of work, and what is waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Beginning and ending a transaction, or a part of one on a further island.
    pub management_us: f64,
    /// Finding and reading a row.
    pub read_row_us: f64,
    /// Changing it, in addition.
    pub change_row_us: f64,
    /// Making a row.
    pub create_row_us: f64,
    /// Locking a row.
    pub lock_row_us: f64,
    /// Releasing a part's locks.
    pub unlock_us: f64,
    /// Latches of an access to a row.
    pub latch_row_us: f64,
    /// A log record: of a changed row, a prepared part, a decision, a commit.
    pub log_record_us: f64,
    /// From asking that the log be durable until it is.
    pub flush_us: f64,
    /// A message to another island, both ends together: on the same socket.
    pub message_us: f64,
    /// The same across sockets.
    pub message_across_us: f64,
    /// Lines of cache that an access to a row writes and that other threads of its island write, too.
    pub shared_lines: f64,
    /// Writing such a line when this core wrote it last.
    pub line_own_us: f64,
    /// When another core of the socket did.
    pub line_near_us: f64,
    /// When a core of another socket did.
    pub line_across_us: f64,
}

/// A constant as it is listed: its name, its value, its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its field in [`Costs`].
    pub name: &'static str,
    /// Its value there.
    pub value: f64,
    /// Where it is from.
    pub source: &'static str,
}

/// Instructions of a Payment in the paper's ancestor (LG-43).
const PAYMENT: f64 = 180_000.0;
/// Cycles of an instruction there: 3.5 million for 1.73 million (LG-47).
const CYCLES: f64 = 3.5 / 1.73;
/// Shares of Payment's instructions (LG-43): keys, buffer manager and the rest together; then the others.
const EXECUTION: f64 = 0.101 + 0.298 + 0.047;
const LOGGING: f64 = 0.177;
const LOCKING: f64 = 0.252;
const LATCHING: f64 = 0.126;
/// Records of a Payment's log: three changed rows, a new one, the commit (LG-34).
const RECORDS: f64 = 5.0;

/// Instructions of a component by call in our Payment, of which each row is found three times and pinned three times,
/// three are changed and one is made (LG-34): look-ups, pins, updates, create, and begin and commit with all else.
struct ByCall {
    found: f64,
    changed: f64,
    created: f64,
    rest: f64,
}

impl ByCall {
    /// Each call's share of a component whose instructions by call are these.
    const fn of(lookups: f64, pins: f64, updates: f64, create: f64, rest: f64) -> Self {
        let all = lookups + pins + updates + create + rest;
        Self {
            found: (lookups + pins) / 3.0 / all,
            changed: updates / 3.0 / all,
            created: create / all,
            rest: rest / all,
        }
    }
}

/// The rung without log, locks and latches.
const OF_EXECUTION: ByCall = ByCall::of(1_506.0, 1_187.0, 1_422.0, 537.0, 756.0);
/// The saving of the rung without locks.
const OF_LOCKING: ByCall = ByCall::of(1_358.0, 129.0, 117.0, 434.0, 598.0);
/// The saving of the rung without latches.
const OF_LATCHING: ByCall = ByCall::of(214.0, 123.0, 111.0, 46.0, 41.0);

/// Locked instructions of our New Order, and the rows it uses: 23 found, 12 made (LG-35; decision 0041).
const SHARED_LINES: f64 = 400.0 / 35.0;
/// Million additions a second by sharing and the counters there are (ISL-9): each is a line written.
const SINGLE: f64 = 18.4;
const PER_SOCKET: f64 = 341.7 / 8.0;
const PER_CORE: f64 = 9_527.8 / 80.0;
/// The clock of the machine that Table 1 was measured on, in GHz (ISL-12).
const OCTO_GHZ: f64 = 2.13;
/// Where the axis of Figure 6 ends, in messages a second (ISL-11).
const MESSAGES: f64 = 70_000.0;

impl Costs {
    /// Of the paper's engine on cores with this clock.
    pub fn of_paper(clock_ghz: f64) -> Self {
        let us = |share: f64, of: f64| share * of * PAYMENT * CYCLES / (clock_ghz * 1e3);
        let line = |millions: f64| OCTO_GHZ / clock_ghz / millions;
        Self {
            management_us: us(EXECUTION, OF_EXECUTION.rest),
            read_row_us: us(EXECUTION, OF_EXECUTION.found),
            change_row_us: us(EXECUTION, OF_EXECUTION.changed),
            create_row_us: us(EXECUTION, OF_EXECUTION.created),
            lock_row_us: us(LOCKING, OF_LOCKING.found + OF_LOCKING.changed),
            unlock_us: us(LOCKING, OF_LOCKING.rest),
            latch_row_us: us(LATCHING, OF_LATCHING.found + OF_LATCHING.changed),
            log_record_us: us(LOGGING, 1.0 / RECORDS),
            flush_us: 0.0,
            message_us: 1e6 / MESSAGES,
            message_across_us: 1e6 / MESSAGES,
            shared_lines: SHARED_LINES,
            line_own_us: line(PER_CORE),
            line_near_us: line(PER_SOCKET),
            line_across_us: line(SINGLE),
        }
    }

    /// Each constant with the source that [`of_paper`](Self::of_paper) has it from.
    pub fn listed(&self) -> Vec<Constant> {
        let engine = "LG-43, LG-47 (printed); divided into calls as `dissect tpcc` measures here";
        let constant = |name, value, source| Constant { name, value, source };
        vec![
            constant("management_us", self.management_us, engine),
            constant("read_row_us", self.read_row_us, engine),
            constant("change_row_us", self.change_row_us, engine),
            constant("create_row_us", self.create_row_us, engine),
            constant("lock_row_us", self.lock_row_us, engine),
            constant("unlock_us", self.unlock_us, engine),
            constant("latch_row_us", self.latch_row_us, engine),
            constant("log_record_us", self.log_record_us, "LG-43, LG-34 (printed): a fifth of it"),
            constant("flush_us", self.flush_us, "ISL-12 (printed): log files in memory"),
            constant("message_us", self.message_us, "ISL-11: the axis' end, a lower bound"),
            constant("message_across_us", self.message_across_us, "the same bound"),
            constant(
                "shared_lines",
                self.shared_lines,
                "decision 0041 (measured): locked instructions",
            ),
            constant("line_own_us", self.line_own_us, "ISL-9 (printed): a counter per core"),
            constant("line_near_us", self.line_near_us, "ISL-9 (printed): a counter per socket"),
            constant("line_across_us", self.line_across_us, "ISL-9 (printed): a single counter"),
        ]
    }
}
