//! New Order (2.4): a customer orders five to fifteen items.
//!
//! # Calls (LG-34, LG-35)
//! With ten lines: 23 look-ups and 23 pins (10 items, district, warehouse, customer, 10 stocks), 11
//! updates (district, 10 stocks), 12 creates (10 lines, order, new order), 13 index entries (10
//! lines, order, new order twice). The standard index set adds the order by customer.
//!
//! # Order
//! Items are looked up first, in lock step, while the customer's place in its index is on its way;
//! one that does not exist ends the transaction there. The stocks are looked up before the first
//! write too, and their rows asked for while the district, the warehouse and the customer are read.
//! Where the order will be entered is asked for as soon as its number is known. Rows that will be
//! changed are looked up for update; New Order and Payment reach customer, district and warehouse in
//! the same order, so that they do not wait for each other in a circle.
//!
//! # Looking ahead
//! Asks for the places of items, stocks and customer in their indexes, then for their rows, and notes where
//! those lie: the transaction looks none of them up again.

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Committed, Reading, Stop, Writing};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Store, Table};

use super::{INVALID_ITEM_REASON, existing};
use crate::workload::loading::Fill;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::ORDER_LINES_MAX;
use crate::workload::tpcc::input::{LineInput, NewOrderInput};
use crate::workload::tpcc::schema::{
    Customer, CustomerKey, District, DistrictKey, Item, ItemKey, NewOrder as NewOrderTable,
    NewOrderByWarehouse, NewOrderKey, NewOrderRow, OrderLine, OrderLineKey, OrderLineRow, OrderRow,
    Orders, OrdersByCustomer, OrdersKey, Stock, StockKey, Warehouse, WarehouseKey,
};
use crate::workload::tpcc::text::{Text, is_original};

/// What a New Order returns to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderAnswer {
    /// O_ID.
    pub o_id: i32,
    /// The order's total with discount and taxes, in cents, halves rounded up.
    pub total: i64,
    /// Bit n − 1 is set where line n's item is brand-generic "B": both I_DATA and S_DATA say
    /// "ORIGINAL".
    pub brand: u16,
    /// C_LAST.
    pub c_last: Text<16>,
    /// C_CREDIT.
    pub c_credit: Text<2>,
    /// C_DISCOUNT, in 1/10,000.
    pub c_discount: i64,
    /// W_TAX, in 1/10,000.
    pub w_tax: i64,
    /// D_TAX, in 1/10,000.
    pub d_tax: i64,
}

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct NewOrder {
        warehouse: Table<Warehouse>,
        district: Table<District>,
        customer: Table<Customer>,
        new_order: Table<NewOrderTable>,
        orders: Table<Orders>,
        order_line: Table<OrderLine>,
        item: Table<Item>,
        pub(super) stock: Table<Stock>,
        warehouse_key: Index<WarehouseKey>,
        district_key: Index<DistrictKey>,
        customer_key: Index<CustomerKey>,
        new_order_key: Index<NewOrderKey>,
        new_order_by_warehouse: Index<NewOrderByWarehouse>,
        orders_key: Index<OrdersKey>,
        /// The paper's index set has none.
        orders_by_customer: Option<Index<OrdersByCustomer>>,
        order_line_key: Index<OrderLineKey>,
        item_key: Index<ItemKey>,
        pub(super) stock_key: Index<StockKey>,
    }
}

pub(super) const LINES: usize = ORDER_LINES_MAX as usize;

/// What the reading phase found out about an item.
#[derive(Clone, Copy, Default)]
struct ItemRead {
    price: i64,
    original: bool,
}

/// The rows that a New Order's input names: of its customer, of each line's item, of each line's stock.
pub(super) const NAMED: usize = 1 + 2 * LINES;

const _: () = assert!(NAMED <= Hints::ROWS_MAX);

/// What an order takes over from the stock of a line: columns that no transaction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supplied {
    /// Whether S_DATA says "ORIGINAL".
    pub original: bool,
    /// S_DIST of the order's district.
    pub dist_info: Text<24>,
}

/// Where the stock of a line is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'s> {
    /// In this store: the line is taken from it.
    Here(RowId),
    /// In another one, where another part of the transaction takes the line from it.
    Elsewhere(&'s Supplied),
}

impl Procedure for NewOrder {
    type Input = NewOrderInput;
    type Answer = NewOrderAnswer;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        let of_items = store.removals(&self.item_key)?;
        Some(of_items + store.removals(&self.customer_key)? + store.removals(&self.stock_key)?)
    }

    /// The customer, the items and the stocks.
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &NewOrderInput, ahead: Ahead, hints: &mut Hints) {
        match ahead {
            Ahead::Keys => self.prefetch_named(store, input),
            Ahead::Rows => self.find_named(store, input, hints),
        }
    }

    #[inline]
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &NewOrderInput,
    ) -> Result<Committed<NewOrderAnswer>, Stop> {
        self.run_located(tx, input, &[])
    }

    #[inline]
    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &NewOrderInput,
        located: &[RowId],
    ) -> Result<Committed<NewOrderAnswer>, Stop> {
        let count = 1 + 2 * input.lines().len();
        let mut looked_up;
        let rows = if located.len() == count {
            located
        } else {
            looked_up = [RowId::new(0); NAMED];
            if !self.look_up_named(&mut tx, input, &mut looked_up)? {
                return tx.abort(INVALID_ITEM_REASON);
            }
            &looked_up[..count]
        };
        let (items, stocks) = rows[1..].split_at(input.lines().len());
        let is_ahead = !located.is_empty();
        self.place(tx, input, (rows[0], items, is_ahead), |place| Source::Here(stocks[place]))
    }
}

/// The sum of the lines with discount and taxes, in cents, halves rounded up.
pub(super) fn total(sum: i64, answer: &NewOrderAnswer) -> i64 {
    const ONE: i64 = 10_000;
    let discounted = sum * (ONE - answer.c_discount);
    (discounted * (ONE + answer.w_tax + answer.d_tax) + ONE * ONE / 2) / (ONE * ONE)
}

impl NewOrder {
    /// Asks for the places in their indexes of all rows that the input names.
    #[inline(always)]
    fn prefetch_named<S: Store>(&self, store: &S, input: &NewOrderInput) {
        store.prefetch_lookup(&self.customer_key, (input.w_id, input.d_id, input.c_id));
        if let Some(row) = store.find_ahead(&self.district_key, (input.w_id, input.d_id)) {
            store.prefetch(&self.district, row, District::ORDERED);
        }
        for line in input.lines() {
            store.prefetch_lookup(&self.stock_key, (line.supply_w_id, line.i_id));
        }
        for line in input.lines() {
            store.prefetch_lookup(&self.item_key, line.i_id);
        }
    }

    /// Finds all rows that the input names, then asks for them: those that lie far apart right behind
    /// each other, because the processor waits for where their pages are, and for several together.
    /// Nothing if one of them is not there.
    #[inline(always)]
    fn find_named<S: Store>(&self, store: &S, input: &NewOrderInput, hints: &mut Hints) {
        let mut found = |row: Option<RowId>| row.map(|row| hints.push(row)).is_some();
        let (lines, customer_key) = (input.lines(), (input.w_id, input.d_id, input.c_id));
        let stock_key = |line: &LineInput| (line.supply_w_id, line.i_id);
        let are_found = found(store.find_ahead(&self.customer_key, customer_key))
            && lines.iter().all(|line| found(store.find_ahead(&self.item_key, line.i_id)))
            && lines.iter().all(|line| found(store.find_ahead(&self.stock_key, stock_key(line))));
        if !are_found {
            return;
        }
        let [customer, rows @ ..] = hints.noted() else { return };
        let (items, stocks) = rows.split_at(lines.len());
        let dist = Fields::none().with(Stock::DIST[input.d_id as usize - 1]);
        store.prefetch(&self.customer, *customer, Customer::ACCOUNT);
        stocks.iter().for_each(|row| store.prefetch(&self.stock, *row, Stock::ORDERED));
        stocks.iter().for_each(|row| store.prefetch(&self.stock, *row, dist));
        items.iter().for_each(|row| store.prefetch(&self.item, *row, Item::SOLD));
        self.prefetch_order(store, input);
    }

    /// Asks for the leaves that the order and its lines will be entered into, or for neighbours of
    /// these: orders that come first take the numbers from here on.
    #[inline(always)]
    fn prefetch_order<S: Store>(&self, store: &S, input: &NewOrderInput) {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let district = store.find_ahead(&self.district_key, (w_id, d_id));
        let Some(Ok(district)) = district.map(|row| store.pin(&self.district, row)) else { return };
        let o_id = district.get(District::D_NEXT_O_ID);
        store.prefetch_insert(&self.order_line_key, (w_id, d_id, o_id, 1));
        store.prefetch_insert(&self.new_order_by_warehouse, (w_id, o_id, d_id));
        store.prefetch_insert(&self.orders_key, (w_id, d_id, o_id));
        store.prefetch_insert(&self.new_order_key, (w_id, d_id, o_id));
    }

    /// Orders, when customer, items and stocks have been looked up. `source` is called for each line, in order, with
    /// its place.
    #[inline(always)]
    pub(super) fn place<'s, S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &NewOrderInput,
        (customer, items, is_ahead): (RowId, &[RowId], bool),
        source: impl FnMut(usize) -> Source<'s>,
    ) -> Result<Committed<NewOrderAnswer>, Stop> {
        let (district, mut answer) = self.read_parties(&mut tx, input, customer)?;
        if !is_ahead {
            self.prefetch_entries(&tx, input, answer.o_id);
        }
        let items = self.read_items(&tx, items)?;

        let mut tx = tx.write();
        tx.update(&self.district, district, District::ORDERED, |row| {
            row.set(District::D_NEXT_O_ID, answer.o_id + 1);
        })?;
        let sum = self.order_lines(&mut tx, input, (&items, source), &mut answer)?;
        self.order(&mut tx, input, answer.o_id)?;
        answer.total = total(sum, &answer);
        tx.commit(answer)
    }

    /// Looks up all rows that the input names, and asks for them; says whether all items exist.
    #[inline(always)]
    fn look_up_named<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &NewOrderInput,
        rows: &mut [RowId; NAMED],
    ) -> Result<bool> {
        if !self.look_up_customer_and_items(tx, input, rows)? {
            return Ok(false);
        }
        let stocks = &mut rows[1 + input.lines().len()..];
        self.look_up_stocks(tx, input, stocks)?;
        Ok(true)
    }

    /// The same but for the stocks.
    #[inline(always)]
    pub(super) fn look_up_customer_and_items<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &NewOrderInput,
        rows: &mut [RowId; NAMED],
    ) -> Result<bool> {
        let lines = input.lines();
        let customer_key = (input.w_id, input.d_id, input.c_id);
        tx.prefetch_lookup(&self.customer_key, customer_key);
        let mut found_items = [None; LINES];
        self.look_up_items(tx, lines, &mut found_items)?;
        let [customer, rows @ ..] = rows;
        for (row, found) in rows[..lines.len()].iter_mut().zip(&found_items) {
            let Some(found) = *found else { return Ok(false) };
            tx.prefetch(&self.item, found, Item::SOLD);
            *row = found;
        }
        *customer = existing(&self.customer, tx.lookup(&self.customer_key, customer_key)?)?;
        tx.prefetch(&self.customer, *customer, Customer::ACCOUNT);
        Ok(true)
    }

    #[inline(always)]
    fn look_up_items<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        lines: &[LineInput],
        found: &mut [Option<RowId>; LINES],
    ) -> Result<()> {
        let mut keys = [0; LINES];
        for (key, line) in keys.iter_mut().zip(lines) {
            *key = line.i_id;
        }
        tx.lookup_many(&self.item_key, &keys[..lines.len()], &mut found[..lines.len()])
    }

    /// Looks the lines' stocks up and asks for their rows.
    #[inline(always)]
    pub(super) fn look_up_stocks<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &NewOrderInput,
        rows: &mut [RowId],
    ) -> Result<()> {
        let lines = input.lines();
        let mut keys = [(0, 0); LINES];
        for (key, line) in keys.iter_mut().zip(lines) {
            *key = (line.supply_w_id, line.i_id);
        }
        let mut found = [None; LINES];
        tx.lookup_many_for_update(
            &self.stock_key,
            &keys[..lines.len()],
            &mut found[..lines.len()],
        )?;
        let dist = Fields::none().with(Stock::DIST[input.d_id as usize - 1]);
        for (row, found) in rows.iter_mut().zip(&found[..lines.len()]) {
            *row = existing(&self.stock, *found)?;
            tx.prefetch(&self.stock, *row, Stock::ORDERED);
            tx.prefetch(&self.stock, *row, dist);
        }
        Ok(())
    }

    /// Asks for the leaves that the order and its lines will be entered into, but for those of a
    /// district's newest orders, which are few and in the cache.
    #[inline(always)]
    fn prefetch_entries<S: Store>(&self, tx: &Reading<'_, S>, input: &NewOrderInput, o_id: i32) {
        let (w_id, d_id) = (input.w_id, input.d_id);
        tx.prefetch_insert(&self.order_line_key, (w_id, d_id, o_id, 1));
        tx.prefetch_insert(&self.new_order_by_warehouse, (w_id, o_id, d_id));
        if let Some(by_customer) = &self.orders_by_customer {
            tx.prefetch_insert(by_customer, (w_id, d_id, input.c_id, o_id));
        }
    }

    /// Reads district, warehouse and customer: the district's row, and the answer as far as known.
    #[inline(always)]
    fn read_parties<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &NewOrderInput,
        customer: RowId,
    ) -> Result<(RowId, NewOrderAnswer)> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let district = tx.lookup_for_update(&self.district_key, (w_id, d_id))?;
        let district = existing(&self.district, district)?;
        let warehouse = existing(&self.warehouse, tx.lookup(&self.warehouse_key, w_id)?)?;
        let (o_id, d_tax) = {
            let row = tx.pin(&self.district, district)?;
            (row.get(District::D_NEXT_O_ID), row.get(District::D_TAX))
        };
        let w_tax = tx.pin(&self.warehouse, warehouse)?.get(Warehouse::W_TAX);
        let row = tx.pin(&self.customer, customer)?;
        let answer = NewOrderAnswer {
            o_id,
            total: 0,
            brand: 0,
            c_last: Text::from_row(row.get(Customer::C_LAST)),
            c_credit: Text::from_row(row.get(Customer::C_CREDIT)),
            c_discount: row.get(Customer::C_DISCOUNT),
            w_tax,
            d_tax,
        };
        Ok((district, answer))
    }

    #[inline(always)]
    fn read_items<S: Store>(
        &self,
        tx: &Reading<'_, S>,
        rows: &[RowId],
    ) -> Result<[ItemRead; LINES]> {
        let mut items = [ItemRead::default(); LINES];
        for (item, row) in items.iter_mut().zip(rows) {
            let row = tx.pin(&self.item, *row)?;
            let original = is_original(row.get(Item::I_DATA));
            *item = ItemRead { price: row.get(Item::I_PRICE), original };
        }
        Ok(items)
    }

    /// Takes every line from its stock and stores it; the sum of the lines' amounts.
    #[inline(always)]
    fn order_lines<'s, S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        input: &NewOrderInput,
        (items, mut source): (&[ItemRead; LINES], impl FnMut(usize) -> Source<'s>),
        answer: &mut NewOrderAnswer,
    ) -> Result<i64> {
        let lines = input.lines();
        let mut rows = [RowId::new(0); LINES];
        let mut sum = 0;
        for (place, line) in lines.iter().enumerate() {
            let item = items[place];
            let dist_info;
            match source(place) {
                Source::Here(stock) => {
                    {
                        let row = tx.pin(&self.stock, stock)?;
                        // Nine items in ten are no originals: their S_DATA need not be searched.
                        if item.original && is_original(row.get(Stock::S_DATA)) {
                            answer.brand |= 1 << place;
                        }
                        dist_info = Text::from_row(row.get(Stock::DIST[input.d_id as usize - 1]));
                    }
                    self.take_from_stock(tx, stock, line, line.supply_w_id != input.w_id)?;
                }
                Source::Elsewhere(supplied) => {
                    answer.brand |= u16::from(item.original && supplied.original) << place;
                    dist_info = supplied.dist_info;
                }
            }
            let quantity = i64::from(line.quantity);
            let order_line = OrderLineRow {
                ol_o_id: answer.o_id,
                ol_d_id: input.d_id,
                ol_w_id: input.w_id,
                ol_number: place as i16 + 1,
                ol_i_id: line.i_id,
                ol_supply_w_id: line.supply_w_id,
                ol_delivery_d: None,
                ol_quantity: quantity,
                ol_amount: quantity * item.price,
                ol_dist_info: dist_info,
            };
            sum += order_line.ol_amount;
            rows[place] = tx.create(&self.order_line, |row| order_line.fill(row))?;
        }
        let (w_id, d_id, o_id) = (input.w_id, input.d_id, answer.o_id);
        let key = |place| (w_id, d_id, o_id, place as i16 + 1);
        tx.insert_run(&self.order_line_key, &rows[..lines.len()], key)?;
        Ok(sum)
    }

    /// 2.4.2.2: the stock's quantity and counts, as this transaction left them so far.
    #[inline(always)]
    pub(super) fn take_from_stock<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        stock: RowId,
        line: &LineInput,
        remote: bool,
    ) -> Result<()> {
        let quantity = i64::from(line.quantity);
        tx.update(&self.stock, stock, Stock::ORDERED, |row| {
            let left = row.get(Stock::S_QUANTITY) - quantity;
            row.set(Stock::S_QUANTITY, if left < 10 { left + 91 } else { left });
            row.set(Stock::S_YTD, row.get(Stock::S_YTD) + quantity);
            row.set(Stock::S_ORDER_CNT, row.get(Stock::S_ORDER_CNT) + 1);
            row.set(Stock::S_REMOTE_CNT, row.get(Stock::S_REMOTE_CNT) + i64::from(remote));
        })
    }

    /// Stores the order and marks it as new.
    #[inline(always)]
    fn order<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        input: &NewOrderInput,
        o_id: i32,
    ) -> Result<()> {
        let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
        let local = input.lines().iter().all(|line| line.supply_w_id == w_id);
        let order = OrderRow {
            o_id,
            o_d_id: d_id,
            o_w_id: w_id,
            o_c_id: c_id,
            o_entry_d: input.entry_d,
            o_carrier_id: None,
            o_ol_cnt: input.lines().len() as i64,
            o_all_local: i64::from(local),
        };
        let row = tx.create(&self.orders, |row| order.fill(row))?;
        tx.insert(&self.orders_key, (w_id, d_id, o_id), row)?;
        if let Some(by_customer) = &self.orders_by_customer {
            tx.insert(by_customer, (w_id, d_id, c_id, o_id), row)?;
        }
        let new_order = NewOrderRow { no_o_id: o_id, no_d_id: d_id, no_w_id: w_id };
        let row = tx.create(&self.new_order, |row| new_order.fill(row))?;
        tx.insert(&self.new_order_key, (w_id, d_id, o_id), row)?;
        tx.insert(&self.new_order_by_warehouse, (w_id, o_id, d_id), row)
    }
}
