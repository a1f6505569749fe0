//! YCSB: the six core workloads of *Benchmarking Cloud Serving Systems with YCSB* (Cooper et al., 2010), on one table
//! of records.
//!
//! # Map
//! [`schema`] has the table, [`input`] what is asked and how often, [`transaction`] what it does.

pub mod input;
pub mod schema;
pub mod settings;
pub mod transaction;

#[cfg(test)]
mod tests;

use tombolo_engine::rng::Rng;
use tombolo_engine::settings::{Setting, Settings};
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::Store;

use super::error::WorkloadError;
use super::interface::one_procedure;
use super::labelled::labelled;
use super::log_bytes::{inserted, updated};
use super::{Check, Kind, Workload};
use crate::failure::Failure;
use crate::numbers::separated;
use input::{Generator, Input};
use schema::Record;
use settings::{RECORDS, SETTINGS};
use transaction::Transactions;

use crate::settings::SEED;

/// A record is read.
pub const READ: Kind = Kind::at(0);
/// A field of a record is written.
pub const UPDATE: Kind = Kind::at(1);
/// A record is made.
pub const INSERT: Kind = Kind::at(2);
/// Records are read in the order of their keys.
pub const SCAN: Kind = Kind::at(3);
/// A record is read, and a field of it written.
pub const MODIFY: Kind = Kind::at(4);

/// How large a database is, what runs on it, and the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The seed of every value.
    pub seed: u64,
    /// Records that are loaded.
    pub records: u32,
    /// The place of the mix among [`Workload::MIXES`].
    pub mix: usize,
}

/// The random numbers of the part `part` of what is numbered `of`: 0 for records, 1 for inputs.
fn rng(seed: u64, of: u64, part: u64) -> Rng {
    const YCSB: u64 = 200;
    Rng::stream(seed, &[YCSB, of, part])
}

impl Workload for Scale {
    const NAME: &'static str = "ycsb";
    const KINDS: &'static [&'static str] =
        &["read", "update", "insert", "scan", "read_modify_write"];
    const MIXES: &'static [&'static str] = &["a", "b", "c", "d", "e", "f"];
    const MIXES_HELP: &'static str = "workload a (its default), b, c, d, e or f";
    const EXAMPLES: &'static [&'static str] =
        &["tombolo run ycsb --mix a --records 100k --seconds 2"];
    const TABLE: &'static str = Record::NAME;
    const LOG_BYTES_MAX: usize = inserted::<Record>();
    type Input = Input;
    type Transactions = Transactions;
    type Answer = u64;
    type Reply = u64;
    type NewRows = usize;

    fn settings() -> &'static [&'static Setting] {
        SETTINGS
    }

    fn planned(settings: &Settings, mix: usize) -> Result<Self, Failure> {
        Ok(Self { seed: settings.count(&SEED), records: settings.count(&RECORDS) as u32, mix })
    }

    fn values(&self) -> Vec<u64> {
        vec![self.records.into()]
    }

    fn mix(&self) -> Option<&'static str> {
        Some(Self::MIXES[self.mix])
    }

    fn size(values: &[u64]) -> String {
        format!("{} records", separated(values[0]))
    }

    /// One transaction in twenty inserts, with the mixes that do.
    fn rows_after(&self, table: &str, transactions: u64) -> u64 {
        let inserts = if [3, 4].contains(&self.mix) { transactions / 16 } else { 0 };
        if table == Record::NAME { u64::from(self.records).saturating_add(inserts) } else { 0 }
    }

    fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        Generator::new(*self)
    }

    fn counted(&self) -> (&'static [Kind], Kind) {
        let kinds: &[Kind] = match self.mix {
            0 | 1 => &[READ, UPDATE],
            2 => &[READ],
            3 => &[READ, INSERT],
            4 => &[SCAN, INSERT],
            _ => &[READ, MODIFY],
        };
        (kinds, READ)
    }

    labelled!(Record, records);
    one_procedure!();

    #[inline]
    fn log_bytes_max(input: &Input) -> usize {
        match input.kind {
            INSERT => inserted::<Record>(),
            UPDATE | MODIFY => updated(Record::UPDATED),
            _ => 0,
        }
    }

    fn new_rows(inputs: &[Input]) -> usize {
        inputs.iter().filter(|input| input.kind == INSERT).count()
    }

    fn by_table(rows: usize) -> impl Iterator<Item = (&'static str, usize)> {
        std::iter::once((Record::NAME, rows))
    }

    #[cfg(test)]
    fn tested() -> Vec<Self> {
        (0..Self::MIXES.len()).map(|mix| Self { seed: 1, records: 2_000, mix }).collect()
    }
}
