//! Transaction inputs: the shares of the six core workloads, and which record each transaction is about.
//!
//! | mix | transactions | record |
//! |---|---|---|
//! | a | half read, half update | zipfian |
//! | b | 95 % read, 5 % update | zipfian |
//! | c | read | zipfian |
//! | d | 95 % read, 5 % insert | latest |
//! | e | 95 % scan of 1 to 100 records, 5 % insert | zipfian |
//! | f | half read, half read-modify-write | zipfian |
//!
//! Zipf's law has the exponent 0.99; popular records are scattered over all keys by a hash, except with *latest*,
//! where the newest is the most popular. Reads are of all fields, an update writes one. Only *latest* reads inserted
//! records.

use tombolo_engine::rng::Rng;

use super::schema::{Record, Value, value};
use super::{INSERT, MODIFY, READ, SCAN, Scale, UPDATE, rng};
use crate::workload::zipf::Zipf;
use crate::workload::{Kind, WorkloadInput};

/// The most records of a scan.
pub const SCAN_MAX: usize = 100;
/// The exponent of Zipf's law.
const SKEW: f64 = 0.99;

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// What it does.
    pub kind: Kind,
    /// The field that is written.
    pub field: u8,
    /// How many records are scanned.
    pub count: u8,
    /// The record, or the first of a scan.
    pub key: i32,
    /// What is written.
    pub value: Value,
}

impl WorkloadInput for Input {
    #[inline]
    fn kind(&self) -> Kind {
        self.kind
    }

    fn aborts(&self) -> bool {
        false
    }
}

/// An endless stream of inputs.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    scale: Scale,
    /// The newest record.
    newest: i32,
    /// Over the records that were loaded; with *latest* over all.
    popularity: Zipf,
}

impl Generator {
    /// The inputs of a database.
    pub fn new(scale: Scale) -> Self {
        let popularity = Zipf::new(scale.records.into(), SKEW);
        Self { rng: rng(scale.seed, 1, 0), scale, newest: scale.records as i32, popularity }
    }

    fn kind(&mut self) -> Kind {
        let percent = self.rng.below(100);
        match self.scale.mix {
            0 if percent < 50 => UPDATE,
            1 if percent < 5 => UPDATE,
            3 | 4 if percent < 5 => INSERT,
            4 => SCAN,
            5 if percent < 50 => MODIFY,
            _ => READ,
        }
    }

    fn key(&mut self, kind: Kind) -> i32 {
        let is_latest = self.scale.mix == 3;
        if kind == INSERT {
            self.newest += 1;
            if is_latest {
                self.popularity.grow();
            }
            return self.newest;
        }
        let rank = self.popularity.draw(&mut self.rng) - 1;
        if is_latest {
            return self.newest - rank as i32;
        }
        let scattered = Rng::from_seed(rank).below(self.scale.records.into());
        1 + scattered as i32
    }
}

impl Iterator for Generator {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let kind = self.kind();
        let key = self.key(kind);
        let field = self.rng.below(Record::FIELDS.len() as u64) as u8;
        let count = self.rng.between(1, SCAN_MAX as i64) as u8;
        let is_written = [UPDATE, INSERT, MODIFY].contains(&kind);
        let value = match is_written {
            true => value(key, || b'a' + self.rng.below(26) as u8),
            false => [0; _],
        };
        Some(Input { kind, field, count, key, value })
    }
}
