//! A recorded trace as a workload: what is in it, and how its calls would lie on islands (ISL-4).
//!
//! Tables that no call of the trace writes are taken to be on each island, and rows without a key to be where their
//! call runs. A call is multisite if it uses rows of several keys; whether it is distributed depends on how many
//! islands there are. Keys are spread by their hash, as the library spreads them: a trace has no keys, only hashes, so
//! that ranges cannot be judged.
//!
//! Not here: recording (the library), running its calls (`replay.rs`), advice (`advice/`).

pub mod replay;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tombolo_engine::trace::{Access, Call, Trace, TracedTable};

use crate::failure::Failure;
use crate::numbers::rounded;

/// Numbers of islands whose share of distributed calls is reported.
const ISLANDS: [usize; 4] = [2, 4, 8, 16];

/// What is in a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct TraceSummary {
    pub file: String,
    pub calls: u64,
    pub aborted: u64,
    pub lost: u64,
    pub torn: Option<String>,
    pub recorded_s: f64,
    pub procedures: Vec<ProcedureSummary>,
    pub tables: Vec<TableSummary>,
    pub distributed: Vec<Distributed>,
}

/// What the calls of one procedure do, on average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct ProcedureSummary {
    pub procedure: String,
    pub calls: u64,
    pub us: f64,
    pub rows_scanned: f64,
    pub rows_read: f64,
    pub rows_updated: f64,
    pub rows_inserted: f64,
    pub rows_deleted: f64,
    pub multisite_percent: f64,
}

/// How a table is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct TableSummary {
    pub table: String,
    pub key: Option<String>,
    pub rows_read: u64,
    pub rows_written: u64,
    pub keys: u64,
    pub top_key_percent: f64,
    pub place: Place,
}

/// Where the rows of a table should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On each island: no call writes them.
    Everywhere,
    /// On the island of their key.
    Spread,
    /// They have no key: on the island of the call that makes them.
    WithTheCall,
    /// No call used it.
    Unused,
}

/// With so many islands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct Distributed {
    pub islands: usize,
    pub percent: f64,
    pub busiest_percent: f64,
}

/// A trace whose calls can be placed.
#[derive(Debug)]
pub struct Workload {
    trace: Trace,
    places: Vec<Place>,
    /// The number by which the library spreads a key.
    spread: fn(u64) -> u64,
    /// The keys of each call, each once, with how many of its rows have them, in the order in which it used them.
    keys: Vec<Vec<(u64, u64)>>,
}

const fn is_write(access: Access) -> bool {
    matches!(access, Access::Updated | Access::Created | Access::Deleted)
}

fn percent(part: u64, of: u64) -> f64 {
    rounded(100.0 * part as f64 / of.max(1) as f64, 2)
}

impl Workload {
    /// A trace, with the number by which the library spreads a key.
    ///
    /// # Errors
    /// When no call of it used a row.
    pub fn new(trace: Trace, spread: fn(u64) -> u64) -> Result<Self, Failure> {
        let (mut used, mut written) = (BTreeSet::new(), BTreeSet::new());
        for touched in trace.calls.iter().flat_map(|call| &call.touched) {
            used.insert(touched.table);
            if is_write(touched.access) {
                written.insert(touched.table);
            }
        }
        if used.is_empty() {
            return Err(Failure::usage("no call of the trace used a row: record a longer one"));
        }
        let place = |(number, table): (usize, &TracedTable)| {
            let number = number as u32;
            match (used.contains(&number), written.contains(&number), &table.key) {
                (false, ..) => Place::Unused,
                (_, false, _) => Place::Everywhere,
                (_, _, Some(_)) => Place::Spread,
                (_, _, None) => Place::WithTheCall,
            }
        };
        let places: Vec<Place> = trace.tables.iter().enumerate().map(place).collect();
        let keys = trace.calls.iter().map(|call| keys_of(call, &places)).collect();
        Ok(Self { trace, places, spread, keys })
    }

    /// The island of a key among so many.
    fn island(&self, key: u64, islands: usize) -> usize {
        ((u128::from((self.spread)(key)) * islands as u128) >> u64::BITS) as usize
    }

    /// The island with most of a call's rows, on which it begins; one without a key could begin on any.
    fn home(&self, call: usize, islands: usize) -> usize {
        let mut rows = Vec::new();
        for &(key, of_key) in &self.keys[call] {
            add_rows(&mut rows, self.island(key, islands), of_key);
        }
        most_rows(&rows).unwrap_or(call % islands)
    }

    /// The key of most of a call's rows.
    fn main_key(&self, call: usize) -> Option<u64> {
        most_rows(&self.keys[call])
    }

    /// How many islands a call uses.
    fn participants(&self, call: usize, islands: usize) -> usize {
        let of = self.keys[call].iter().map(|(key, _)| self.island(*key, islands));
        of.collect::<BTreeSet<_>>().len().max(1)
    }

    fn is_multisite(&self, call: usize) -> bool {
        self.keys[call].len() > 1
    }

    fn calls(&self) -> std::ops::Range<usize> {
        0..self.trace.calls.len()
    }

    /// The share of calls that use rows of several keys, in percent.
    pub fn multisite_percent(&self) -> u64 {
        let multisite = self.calls().filter(|call| self.is_multisite(*call)).count();
        (100.0 * multisite as f64 / self.trace.calls.len() as f64).round() as u64
    }

    /// The share of multisite calls that are distributed over so many islands, and how many of those each uses.
    pub fn spread_over(&self, islands: usize) -> (f64, f64) {
        let (mut all, mut distributed, mut used) = (0, 0, 0);
        for call in self.calls().filter(|call| self.is_multisite(*call)) {
            let participants = self.participants(call, islands);
            all += 1;
            if participants > 1 {
                distributed += 1;
                used += participants;
            }
        }
        match distributed {
            0 => (0.0, 1.0),
            _ => (f64::from(distributed) / f64::from(all), used as f64 / f64::from(distributed)),
        }
    }

    /// The calls that begin on the island with the most of them, as a share of all.
    fn busiest(&self, islands: usize) -> f64 {
        let mut of = vec![0u64; islands];
        self.calls().for_each(|call| of[self.home(call, islands)] += 1);
        of.iter().copied().max().unwrap_or_default() as f64 / self.trace.calls.len() as f64
    }

    /// Rows of a call on average, whether most of them are written, and rows that are used at all.
    pub fn as_rows(&self) -> (usize, bool, u64) {
        let (mut rows, mut written, mut places) = (0, 0, BTreeSet::new());
        for touched in self.trace.calls.iter().flat_map(|call| &call.touched) {
            rows += touched.rows;
            written += if is_write(touched.access) { touched.rows } else { 0 };
            places.insert((touched.table, touched.key));
        }
        let each = (rows as f64 / self.trace.calls.len() as f64).round();
        (each.clamp(1.0, 100.0) as usize, 2 * written >= rows, places.len() as u64)
    }

    /// What is in it, from this file.
    pub fn summary(&self, file: &str) -> TraceSummary {
        let Trace { calls, end, torn, .. } = &self.trace;
        let last_us = calls.last().map_or(0, |call| call.began_us + call.ran_ns / 1_000);
        let recorded_us = end.map_or(last_us, |end| end.recorded_us);
        let distributed = |&islands: &usize| {
            let all = self.calls().filter(|call| self.participants(*call, islands) > 1).count();
            Distributed {
                islands,
                percent: percent(all as u64, calls.len() as u64),
                busiest_percent: rounded(100.0 * self.busiest(islands), 2),
            }
        };
        TraceSummary {
            file: file.to_owned(),
            calls: calls.len() as u64,
            aborted: calls.iter().filter(|call| call.is_aborted).count() as u64,
            lost: end.map_or(0, |end| end.lost),
            torn: torn.clone(),
            recorded_s: rounded(recorded_us as f64 / 1e6, 3),
            procedures: self.procedures(),
            tables: self.tables(),
            distributed: ISLANDS.iter().map(distributed).collect(),
        }
    }

    /// The procedures, those with most calls first.
    fn procedures(&self) -> Vec<ProcedureSummary> {
        let mut all = Vec::new();
        for (number, name) in self.trace.procedures.iter().enumerate() {
            let is_own = |call: &usize| self.trace.calls[*call].procedure as usize == number;
            let (mut calls, mut ns, mut multisite) = (0u64, 0u64, 0);
            let mut rows: BTreeMap<Access, u64> = BTreeMap::new();
            for call in self.calls().filter(is_own) {
                calls += 1;
                ns += self.trace.calls[call].ran_ns;
                multisite += u64::from(self.is_multisite(call));
                for touched in &self.trace.calls[call].touched {
                    *rows.entry(touched.access).or_default() += touched.rows;
                }
            }
            let each = |sum: u64| rounded(sum as f64 / calls.max(1) as f64, 2);
            let rows = |access| each(rows.get(&access).copied().unwrap_or_default());
            all.push(ProcedureSummary {
                procedure: name.clone(),
                calls,
                us: rounded(ns as f64 / 1e3 / calls.max(1) as f64, 2),
                rows_scanned: rows(Access::Scanned),
                rows_read: rows(Access::Read),
                rows_updated: rows(Access::Updated),
                rows_inserted: rows(Access::Created),
                rows_deleted: rows(Access::Deleted),
                multisite_percent: percent(multisite, calls),
            });
        }
        all.sort_by_key(|of| std::cmp::Reverse(of.calls));
        all
    }

    fn tables(&self) -> Vec<TableSummary> {
        let table = |(number, table): (usize, &TracedTable)| {
            let all = self.trace.calls.iter().flat_map(|call| &call.touched);
            let (mut read, mut written) = (0, 0);
            let mut keys: BTreeMap<u64, u64> = BTreeMap::new();
            for touched in all.filter(|touched| touched.table as usize == number) {
                *if is_write(touched.access) { &mut written } else { &mut read } += touched.rows;
                touched.key.iter().for_each(|key| *keys.entry(*key).or_default() += touched.rows);
            }
            TableSummary {
                table: table.name.clone(),
                key: table.key.clone(),
                rows_read: read,
                rows_written: written,
                keys: keys.len() as u64,
                top_key_percent: percent(keys.values().copied().max().unwrap_or(0), read + written),
                place: self.places[number],
            }
        };
        self.trace.tables.iter().enumerate().map(table).collect()
    }
}

/// The keys of a call's rows in tables that are spread, each once, with their rows.
fn keys_of(call: &Call, places: &[Place]) -> Vec<(u64, u64)> {
    let mut keys = Vec::new();
    for touched in &call.touched {
        if let Some(key) = touched.key.filter(|_| places[touched.table as usize] == Place::Spread) {
            add_rows(&mut keys, key, touched.rows);
        }
    }
    keys
}

/// Adds rows of a key, or of an island.
fn add_rows<T: PartialEq>(all: &mut Vec<(T, u64)>, of: T, rows: u64) {
    match all.iter_mut().find(|(known, _)| *known == of) {
        Some((_, known)) => *known += rows,
        None => all.push((of, rows)),
    }
}

/// That with most rows; of several, the first.
fn most_rows<T: Copy>(all: &[(T, u64)]) -> Option<T> {
    // `max_by_key` answers the last of several.
    all.iter().rev().max_by_key(|(_, rows)| *rows).map(|(of, _)| *of)
}

#[cfg(test)]
pub(super) mod tests;
