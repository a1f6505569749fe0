//! Loads the generated rows into SQLite, by one prepared INSERT per table.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Statement, params};

use super::schema;
use crate::workload::tpcc::{DISTRICTS, load, rows};

/// The parameter that is this text, without a check that it is UTF-8: rows hold ASCII only.
pub(super) fn text(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(bytes))
}

/// One INSERT per table.
struct Inserts<'c> {
    warehouse: Statement<'c>,
    district: Statement<'c>,
    customer: Statement<'c>,
    history: Statement<'c>,
    new_order: Statement<'c>,
    orders: Statement<'c>,
    order_line: Statement<'c>,
    item: Statement<'c>,
    stock: Statement<'c>,
}

/// Loads warehouses 1 to `warehouses`; calls `progress` after each.
pub(super) fn load(
    connection: &Connection,
    seed: u64,
    warehouses: i32,
    progress: &mut dyn FnMut(f64),
) -> Result<()> {
    let mut inserts = Inserts::prepare(connection)?;
    for item in load::items(seed) {
        inserts.item(&item)?;
    }
    for w_id in 1..=warehouses {
        inserts.warehouse(&load::warehouse(seed, w_id))?;
        for stock in load::stock(seed, w_id) {
            inserts.stock(&stock)?;
        }
        for district in load::districts(seed, w_id) {
            inserts.district(&district)?;
        }
        for d_id in 1..=DISTRICTS {
            inserts.district_parts(seed, w_id, d_id)?;
        }
        progress(f64::from(w_id) / f64::from(warehouses));
    }
    Ok(())
}

/// An INSERT into `table` that names its columns.
fn insert<'c>(connection: &'c Connection, table: &str, columns: &str) -> Result<Statement<'c>> {
    let marks = vec!["?"; columns.split(',').count()].join(", ");
    connection.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({marks})"))
}

impl<'c> Inserts<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self> {
        let insert = |table, columns| insert(connection, table, columns);
        let stock = "s_key, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, s_dist_01, \
                     s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, \
                     s_dist_09, s_dist_10";
        let customer = "c_key, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, \
                        c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, \
                        c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data";
        let district = "d_key, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, \
                        d_ytd, d_next_o_id";
        let history = "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data";
        let lines = "ol_key, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, \
                     ol_dist_info";
        Ok(Self {
            warehouse: insert(
                "warehouse",
                "w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd",
            )?,
            district: insert("district", district)?,
            customer: insert("customer", customer)?,
            history: insert("history", history)?,
            new_order: insert("new_order", "no_key")?,
            orders: insert(
                "orders",
                "o_key, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local",
            )?,
            order_line: insert("order_line", lines)?,
            item: insert("item", "i_id, i_im_id, i_name, i_price, i_data")?,
            stock: insert("stock", stock)?,
        })
    }

    fn district_parts(&mut self, seed: u64, w_id: i32, d_id: i16) -> Result<()> {
        for customer in load::customers(seed, w_id, d_id) {
            self.customer(&customer)?;
        }
        for h in load::history(seed, w_id, d_id) {
            self.history.execute(params![
                h.h_c_id,
                h.h_c_d_id,
                h.h_c_w_id,
                h.h_d_id,
                h.h_w_id,
                h.h_date,
                h.h_amount,
                text(h.h_data.as_bytes()),
            ])?;
        }
        for order in load::orders(seed, w_id, d_id) {
            self.order(seed, &order)?;
        }
        for new in load::new_orders(w_id, d_id) {
            self.new_order.execute([schema::order(w_id, d_id, new.no_o_id)])?;
        }
        Ok(())
    }

    fn item(&mut self, i: &rows::Item) -> Result<usize> {
        self.item.execute(params![
            i.i_id,
            i.i_im_id,
            text(i.i_name.as_bytes()),
            i.i_price,
            text(i.i_data.as_bytes()),
        ])
    }

    fn warehouse(&mut self, w: &rows::Warehouse) -> Result<usize> {
        self.warehouse.execute(params![
            w.w_id,
            text(w.w_name.as_bytes()),
            text(w.w_street_1.as_bytes()),
            text(w.w_street_2.as_bytes()),
            text(w.w_city.as_bytes()),
            text(w.w_state.as_bytes()),
            text(w.w_zip.as_bytes()),
            w.w_tax,
            w.w_ytd,
        ])
    }

    fn district(&mut self, d: &rows::District) -> Result<usize> {
        self.district.execute(params![
            schema::district(d.d_w_id, d.d_id),
            text(d.d_name.as_bytes()),
            text(d.d_street_1.as_bytes()),
            text(d.d_street_2.as_bytes()),
            text(d.d_city.as_bytes()),
            text(d.d_state.as_bytes()),
            text(d.d_zip.as_bytes()),
            d.d_tax,
            d.d_ytd,
            d.d_next_o_id,
        ])
    }

    fn customer(&mut self, c: &rows::Customer) -> Result<usize> {
        self.customer.execute(params![
            schema::customer(c.c_w_id, c.c_d_id, c.c_id),
            text(c.c_first.as_bytes()),
            text(c.c_middle.as_bytes()),
            text(c.c_last.as_bytes()),
            text(c.c_street_1.as_bytes()),
            text(c.c_street_2.as_bytes()),
            text(c.c_city.as_bytes()),
            text(c.c_state.as_bytes()),
            text(c.c_zip.as_bytes()),
            text(c.c_phone.as_bytes()),
            c.c_since,
            text(c.c_credit.as_bytes()),
            c.c_credit_lim,
            c.c_discount,
            c.c_balance,
            c.c_ytd_payment,
            c.c_payment_cnt,
            c.c_delivery_cnt,
            text(c.c_data.as_bytes()),
        ])
    }

    fn order(&mut self, seed: u64, o: &rows::Order) -> Result<()> {
        let key = schema::order(o.o_w_id, o.o_d_id, o.o_id);
        self.orders.execute(params![
            key,
            o.o_c_id,
            o.o_entry_d,
            o.o_carrier_id,
            o.o_ol_cnt,
            o.o_all_local,
        ])?;
        for line in load::lines_of(seed, o) {
            self.order_line.execute(params![
                schema::order_line(key, line.ol_number),
                line.ol_i_id,
                line.ol_supply_w_id,
                line.ol_delivery_d,
                line.ol_quantity,
                line.ol_amount,
                text(line.ol_dist_info.as_bytes()),
            ])?;
        }
        Ok(())
    }

    fn stock(&mut self, s: &rows::Stock) -> Result<usize> {
        let [d01, d02, d03, d04, d05, d06, d07, d08, d09, d10] = s.s_dist;
        self.stock.execute(params![
            schema::stock(s.s_w_id, s.s_i_id),
            s.s_quantity,
            s.s_ytd,
            s.s_order_cnt,
            s.s_remote_cnt,
            text(s.s_data.as_bytes()),
            text(d01.as_bytes()),
            text(d02.as_bytes()),
            text(d03.as_bytes()),
            text(d04.as_bytes()),
            text(d05.as_bytes()),
            text(d06.as_bytes()),
            text(d07.as_bytes()),
            text(d08.as_bytes()),
            text(d09.as_bytes()),
            text(d10.as_bytes()),
        ])
    }
}
