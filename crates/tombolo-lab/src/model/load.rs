//! Transactions of the model: how many rows, and of which islands (ISL-19, ISL-20, ISL-27).
//!
//! Not here: what a row costs.

use tombolo_engine::rng::Rng;

use crate::workload::zipf::Zipf;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads or updates that many rows.
    Rows {
        /// How many.
        touched: usize,
        /// Whether it updates them.
        is_update: bool,
    },
    /// TPC-C's Payment on rows of one warehouse: district, warehouse and customer are found, then changed, and a row is
    /// made (LG-34).
    Payment {
        /// Warehouses of the database, spread evenly over the islands.
        warehouses: u64,
    },
}

/// The load: the transactions of callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Their transactions.
    pub kind: Kind,
    /// How many percent use one row of an island and others of all rows.
    pub multisite_percent: u64,
    /// Rows of the database, spread over the islands by ranges.
    pub rows: u64,
    /// The exponent of Zipf's law, if rows are drawn by it: then a transaction's first row decides on its island, and
    /// the most popular rows are on the first. Otherwise each caller belongs to an island, and rows are alike.
    pub skew: Option<f64>,
    /// Callers for each core.
    pub callers_per_core: usize,
}

impl Load {
    /// Rows updated, or read, all alike, by one caller of each core, in the paper's small database (ISL-19).
    pub const fn rows(touched: usize, is_update: bool, multisite_percent: u64) -> Self {
        let kind = Kind::Rows { touched, is_update };
        Self { kind, multisite_percent, rows: 240_000, skew: None, callers_per_core: 1 }
    }

    /// Payments, all local, by one caller of each core.
    pub const fn payment(warehouses: u64) -> Self {
        let kind = Kind::Payment { warehouses };
        Self { kind, multisite_percent: 0, rows: 0, skew: None, callers_per_core: 1 }
    }

    /// Whether its transactions change rows.
    pub const fn is_update(&self) -> bool {
        matches!(self.kind, Kind::Payment { .. } | Kind::Rows { is_update: true, .. })
    }
}

/// A part of a transaction: an island, and the rows it uses there, in the order in which it locks them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) island: usize,
    pub(super) rows: Vec<u64>,
}

/// Makes transactions.
pub(super) struct Maker {
    load: Load,
    islands: u64,
    /// Over all rows, and over the rows of an island.
    zipf: Option<(Zipf, Zipf)>,
}

impl Maker {
    pub(super) fn new(load: Load, islands: usize) -> Self {
        let islands = islands as u64;
        let own = |rows: u64| (rows / islands).max(1);
        let zipf =
            load.skew.map(|skew| (Zipf::new(load.rows, skew), Zipf::new(own(load.rows), skew)));
        Self { load, islands, zipf }
    }

    /// The parts of a transaction of a caller of `island`, the home part first.
    pub(super) fn make(&self, island: usize, rng: &mut Rng) -> Vec<Part> {
        match self.load.kind {
            Kind::Payment { warehouses } => {
                let own = (warehouses / self.islands).max(1);
                let warehouse = island as u64 * own + rng.below(own);
                let district = warehouse * 10 + rng.below(10);
                let customer = district * 3_000 + rng.below(3_000);
                // Three tables: their keys do not meet.
                let rows = vec![(1 << 40) + district, warehouse, (2 << 40) + customer];
                vec![Part { island, rows }]
            }
            Kind::Rows { touched, .. } => self.rows(touched, island, rng),
        }
    }

    fn rows(&self, touched: usize, island: usize, rng: &mut Rng) -> Vec<Part> {
        let own = self.load.rows / self.islands;
        let of = |row: u64| ((row / own).min(self.islands - 1)) as usize;
        let first = match &self.zipf {
            Some((all, _)) => all.draw(rng) - 1,
            None => island as u64 * own + rng.below(own),
        };
        let home = of(first);
        let is_multisite = rng.below(100) < self.load.multisite_percent;
        let mut parts = vec![Part { island: home, rows: vec![first] }];
        let mut drawn = 1;
        while drawn < touched {
            let row = match (&self.zipf, is_multisite) {
                (Some((all, _)), true) => all.draw(rng) - 1,
                (Some((_, own_rows)), false) => home as u64 * own + own_rows.draw(rng) - 1,
                (None, true) => rng.below(self.load.rows),
                (None, false) => home as u64 * own + rng.below(own),
            };
            match parts.iter_mut().find(|part| part.island == of(row)) {
                Some(part) if part.rows.contains(&row) => continue,
                Some(part) => part.rows.push(row),
                None => parts.push(Part { island: of(row), rows: vec![row] }),
            }
            drawn += 1;
        }
        // In one order for all, so that local transactions do not wait for each other in a circle.
        parts.iter_mut().for_each(|part| part.rows.sort_unstable());
        parts
    }
}
