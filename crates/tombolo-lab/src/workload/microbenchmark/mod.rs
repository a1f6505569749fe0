//! The microbenchmark of *OLTP on Hardware Islands*, `rows`: each transaction reads N rows, or updates N rows, of one
//! table (ISL-19), chosen uniformly or by Zipf's law (ISL-27).
//!
//! # Map
//! [`schema`] has the table, [`settings`] how large and how skewed, [`input`] which rows, [`transaction`] what is done
//! with them. Not here: several instances, and rows of other instances than the caller's.

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
use super::log_bytes::updated;
use super::{Check, Kind, Workload, WorkloadInput};
use crate::failure::Failure;
use crate::numbers::separated;
use crate::settings::SEED;
use input::{Generator, Input};
use schema::Item;
use settings::{ROWS, SETTINGS, SKEW};
use transaction::Transactions;

/// Rows are read.
pub const READ: Kind = Kind::at(0);
/// Rows are updated.
pub const UPDATE: Kind = Kind::at(1);
/// The most rows of a transaction.
pub const ROWS_MAX: usize = 100;
/// The rows of a transaction where no number is set.
const ROWS_READ: u32 = 10;

/// How large a database is, what runs on it, and the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The seed of every text and choice.
    pub seed: u64,
    /// Rows that are loaded.
    pub rows: u32,
    /// Rows that a transaction reads, if it updates none.
    pub read: u32,
    /// Rows that a transaction updates.
    pub update: u32,
    /// The exponent of Zipf's law, in hundredths.
    pub skew: u32,
}

impl Scale {
    /// The rows that a transaction touches.
    fn touched(&self) -> usize {
        self.read.max(self.update) as usize
    }
}

/// The random numbers of the part `part` of what is numbered `of`: 0 for rows, 1 for inputs.
fn rng(seed: u64, of: u64, part: u64) -> Rng {
    const MICROBENCHMARK: u64 = 300;
    Rng::stream(seed, &[MICROBENCHMARK, of, part])
}

impl Workload for Scale {
    const NAME: &'static str = "rows";
    const KINDS: &'static [&'static str] = &["read", "update"];
    const EXAMPLES: &'static [&'static str] =
        &["tombolo run rows --update 10 --skew 0.5 --profile conventional --threads 2"];
    const TABLE: &'static str = Item::NAME;
    const LOG_BYTES_MAX: usize = ROWS_MAX * updated(Item::UPDATED);
    type Input = Input;
    type Transactions = Transactions;
    type Answer = i64;
    type Reply = i64;
    type NewRows = ();

    fn settings() -> &'static [&'static Setting] {
        SETTINGS
    }

    fn planned(given: &Settings, _: usize) -> Result<Self, Failure> {
        let count = |setting| given.count(setting) as u32;
        let (seed, rows, skew) = (given.count(&SEED), count(&ROWS), count(&SKEW));
        let (read, update) = match (count(&settings::READ), count(&settings::UPDATE)) {
            (0, 0) => (ROWS_READ, 0),
            numbers => numbers,
        };
        let scale = Self { seed, rows, read, update, skew };
        if read > 0 && update > 0 {
            return Err(Failure::usage(format!(
                "a transaction of rows reads or updates rows: give --read {read} or --update {update}"
            )));
        }
        if scale.touched() > rows as usize {
            return Err(Failure::usage(format!(
                "a transaction cannot touch {} of {rows} rows: give more --rows",
                scale.touched()
            )));
        }
        Ok(scale)
    }

    fn values(&self) -> Vec<u64> {
        [self.rows, self.read, self.update, self.skew].map(u64::from).to_vec()
    }

    fn size(values: &[u64]) -> String {
        format!("{} rows", separated(values[0]))
    }

    fn rows_after(&self, table: &str, _: u64) -> u64 {
        if table == Item::NAME { self.rows.into() } else { 0 }
    }

    fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        Generator::new(*self)
    }

    fn counted(&self) -> (&'static [Kind], Kind) {
        if self.update > 0 { (&[UPDATE], UPDATE) } else { (&[READ], READ) }
    }

    labelled!(Item, rows);
    one_procedure!();

    #[inline]
    fn log_bytes_max(input: &Input) -> usize {
        if input.kind() == UPDATE { input.keys().len() * updated(Item::UPDATED) } else { 0 }
    }

    fn new_rows(_: &[Input]) {}

    fn by_table((): ()) -> impl Iterator<Item = (&'static str, usize)> {
        std::iter::empty()
    }

    #[cfg(test)]
    fn tested() -> Vec<Self> {
        let touching = |(read, update)| Self { seed: 1, rows: 2_000, read, update, skew: 90 };
        [(3, 0), (0, 3), (0, 100)].map(touching).to_vec()
    }
}
