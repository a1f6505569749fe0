//! The nine tables' rows as plain values, columns in schema order (1.3; LG-29).
//!
//! This is what the generator makes and what tests compute with. How a row lies in a store is the
//! store's affair, declared elsewhere.
//!
//! # Types
//! Identifiers are `i32`, except a district's, a carrier's and a line's number: `i16`. Every exact
//! decimal N(p, s) is an `i64` counting units of 10^−s: cents for money, 1/10,000 for rates, one
//! for counts. A time is an `i64`, microseconds since 2000-01-01 00:00:00. A column that may be
//! null is an [`Option`]. Strings are [`Text`] of the column's full width.

use super::text::Text;

/// A row of WAREHOUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warehouse {
    /// W_ID, the primary key.
    pub w_id: i32,
    /// W_NAME.
    pub w_name: Text<10>,
    /// W_STREET_1.
    pub w_street_1: Text<20>,
    /// W_STREET_2.
    pub w_street_2: Text<20>,
    /// W_CITY.
    pub w_city: Text<20>,
    /// W_STATE.
    pub w_state: Text<2>,
    /// W_ZIP.
    pub w_zip: Text<9>,
    /// W_TAX, in 1/10,000.
    pub w_tax: i64,
    /// W_YTD, in cents.
    pub w_ytd: i64,
}

/// A row of DISTRICT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct District {
    /// D_ID, the second part of the primary key.
    pub d_id: i16,
    /// D_W_ID, the first part of the primary key.
    pub d_w_id: i32,
    /// D_NAME.
    pub d_name: Text<10>,
    /// D_STREET_1.
    pub d_street_1: Text<20>,
    /// D_STREET_2.
    pub d_street_2: Text<20>,
    /// D_CITY.
    pub d_city: Text<20>,
    /// D_STATE.
    pub d_state: Text<2>,
    /// D_ZIP.
    pub d_zip: Text<9>,
    /// D_TAX, in 1/10,000.
    pub d_tax: i64,
    /// D_YTD, in cents.
    pub d_ytd: i64,
    /// D_NEXT_O_ID, the number the next order of the district gets.
    pub d_next_o_id: i32,
}

/// A row of CUSTOMER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Customer {
    /// C_ID, the third part of the primary key.
    pub c_id: i32,
    /// C_D_ID, the second part of the primary key.
    pub c_d_id: i16,
    /// C_W_ID, the first part of the primary key.
    pub c_w_id: i32,
    /// C_FIRST.
    pub c_first: Text<16>,
    /// C_MIDDLE.
    pub c_middle: Text<2>,
    /// C_LAST.
    pub c_last: Text<16>,
    /// C_STREET_1.
    pub c_street_1: Text<20>,
    /// C_STREET_2.
    pub c_street_2: Text<20>,
    /// C_CITY.
    pub c_city: Text<20>,
    /// C_STATE.
    pub c_state: Text<2>,
    /// C_ZIP.
    pub c_zip: Text<9>,
    /// C_PHONE.
    pub c_phone: Text<16>,
    /// C_SINCE.
    pub c_since: i64,
    /// C_CREDIT: "GC" (good) or "BC" (bad).
    pub c_credit: Text<2>,
    /// C_CREDIT_LIM, in cents.
    pub c_credit_lim: i64,
    /// C_DISCOUNT, in 1/10,000.
    pub c_discount: i64,
    /// C_BALANCE, in cents.
    pub c_balance: i64,
    /// C_YTD_PAYMENT, in cents.
    pub c_ytd_payment: i64,
    /// C_PAYMENT_CNT.
    pub c_payment_cnt: i64,
    /// C_DELIVERY_CNT.
    pub c_delivery_cnt: i64,
    /// C_DATA.
    pub c_data: Text<500>,
}

/// A row of HISTORY, the one table without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// H_C_ID, the customer.
    pub h_c_id: i32,
    /// H_C_D_ID, the customer's district.
    pub h_c_d_id: i16,
    /// H_C_W_ID, the customer's warehouse.
    pub h_c_w_id: i32,
    /// H_D_ID, the district paid to.
    pub h_d_id: i16,
    /// H_W_ID, the warehouse paid to.
    pub h_w_id: i32,
    /// H_DATE.
    pub h_date: i64,
    /// H_AMOUNT, in cents.
    pub h_amount: i64,
    /// H_DATA.
    pub h_data: Text<24>,
}

/// A row of NEW_ORDER: an order that is not yet delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// NO_O_ID, the third part of the primary key.
    pub no_o_id: i32,
    /// NO_D_ID, the second part of the primary key.
    pub no_d_id: i16,
    /// NO_W_ID, the first part of the primary key.
    pub no_w_id: i32,
}

/// A row of ORDERS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// O_ID, the third part of the primary key.
    pub o_id: i32,
    /// O_D_ID, the second part of the primary key.
    pub o_d_id: i16,
    /// O_W_ID, the first part of the primary key.
    pub o_w_id: i32,
    /// O_C_ID.
    pub o_c_id: i32,
    /// O_ENTRY_D.
    pub o_entry_d: i64,
    /// O_CARRIER_ID, null until delivered.
    pub o_carrier_id: Option<i16>,
    /// O_OL_CNT, the number of lines.
    pub o_ol_cnt: i64,
    /// O_ALL_LOCAL: 1 if every line is supplied by the home warehouse, else 0.
    pub o_all_local: i64,
}

/// A row of ORDER_LINE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLine {
    /// OL_O_ID, the third part of the primary key.
    pub ol_o_id: i32,
    /// OL_D_ID, the second part of the primary key.
    pub ol_d_id: i16,
    /// OL_W_ID, the first part of the primary key.
    pub ol_w_id: i32,
    /// OL_NUMBER, the fourth part of the primary key.
    pub ol_number: i16,
    /// OL_I_ID.
    pub ol_i_id: i32,
    /// OL_SUPPLY_W_ID.
    pub ol_supply_w_id: i32,
    /// OL_DELIVERY_D, null until delivered.
    pub ol_delivery_d: Option<i64>,
    /// OL_QUANTITY.
    pub ol_quantity: i64,
    /// OL_AMOUNT, in cents.
    pub ol_amount: i64,
    /// OL_DIST_INFO.
    pub ol_dist_info: Text<24>,
}

/// A row of ITEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// I_ID, the primary key.
    pub i_id: i32,
    /// I_IM_ID, the image of the item.
    pub i_im_id: i32,
    /// I_NAME.
    pub i_name: Text<24>,
    /// I_PRICE, in cents.
    pub i_price: i64,
    /// I_DATA.
    pub i_data: Text<50>,
}

/// A row of STOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// S_I_ID, the second part of the primary key.
    pub s_i_id: i32,
    /// S_W_ID, the first part of the primary key.
    pub s_w_id: i32,
    /// S_QUANTITY.
    pub s_quantity: i64,
    /// S_DIST_01 … S_DIST_10: what a line of an order of that district says about the item.
    pub s_dist: [Text<24>; 10],
    /// S_YTD.
    pub s_ytd: i64,
    /// S_ORDER_CNT.
    pub s_order_cnt: i64,
    /// S_REMOTE_CNT.
    pub s_remote_cnt: i64,
    /// S_DATA.
    pub s_data: Text<50>,
}
