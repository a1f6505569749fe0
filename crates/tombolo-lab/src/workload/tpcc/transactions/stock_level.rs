//! Stock Level (2.8): how many items of a district's last twenty orders run low. Reads only.

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Order, Store, Table};

use super::existing;
use super::row_list::RowList;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::ORDER_LINES_MAX;
use crate::workload::tpcc::input::StockLevelInput;
use crate::workload::tpcc::schema::{
    District, DistrictKey, OrderLine, OrderLineKey, Stock, StockKey,
};

/// The orders looked at, newest first.
const ORDERS: i32 = 20;
/// The most lines of that many orders.
const LINES: usize = ORDERS as usize * ORDER_LINES_MAX as usize;
/// The stocks looked up together.
const TOGETHER: usize = 16;

/// What a Stock Level returns to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelAnswer {
    /// The number of different items with less stock than the threshold.
    pub low: u32,
}

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct StockLevel {
        district: Table<District>,
        order_line: Table<OrderLine>,
        stock: Table<Stock>,
        district_key: Index<DistrictKey>,
        order_line_key: Index<OrderLineKey>,
        stock_key: Index<StockKey>,
    }
}

impl Procedure for StockLevel {
    type Input = StockLevelInput;
    type Answer = StockLevelAnswer;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline]
    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &StockLevelInput,
    ) -> Result<Committed<StockLevelAnswer>, Stop> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let district = existing(&self.district, tx.lookup(&self.district_key, (w_id, d_id))?)?;
        let next = tx.pin(&self.district, district)?.get(District::D_NEXT_O_ID);
        let mut lines = RowList::<LINES>::new();
        let last = Range::between((w_id, d_id, next - ORDERS), (w_id, d_id, next - 1));
        tx.scan(&self.order_line_key, last, Order::Forward, |row| lines.push(row))?;
        for line in lines.iter() {
            tx.prefetch(&self.order_line, *line, OrderLine::WHOLE);
        }
        // Few items run low, so duplicates are sought among those only.
        let mut low_items = [0; LINES];
        let mut low = 0;
        for lines in lines.chunks(TOGETHER) {
            self.low_items(&mut tx, input, lines, |item| {
                low_items[low] = item;
                low += 1;
            })?;
        }
        low_items[..low].sort_unstable();
        let different = low_items[..low].chunk_by(|item, next| item == next).count();
        tx.commit(StockLevelAnswer { low: different as u32 })
    }
}

impl StockLevel {
    /// Gives `found` the items of up to [`TOGETHER`] lines that run low.
    #[inline(always)]
    fn low_items<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &StockLevelInput,
        lines: &[RowId],
        mut found: impl FnMut(i32),
    ) -> Result<()> {
        let mut keys = [(0, 0); TOGETHER];
        for (key, line) in keys.iter_mut().zip(lines) {
            let i_id = tx.pin(&self.order_line, *line)?.get(OrderLine::OL_I_ID);
            *key = (input.w_id, i_id);
        }
        let keys = &keys[..lines.len()];
        let mut stocks = [None; TOGETHER];
        let stocks = &mut stocks[..lines.len()];
        tx.lookup_many(&self.stock_key, keys, stocks)?;
        for stock in stocks.iter() {
            tx.prefetch(&self.stock, existing(&self.stock, *stock)?, Stock::ORDERED);
        }
        for (stock, key) in stocks.iter().zip(keys) {
            let row = tx.pin(&self.stock, existing(&self.stock, *stock)?)?;
            if row.get(Stock::S_QUANTITY) < input.threshold {
                found(key.1);
            }
        }
        Ok(())
    }
}
