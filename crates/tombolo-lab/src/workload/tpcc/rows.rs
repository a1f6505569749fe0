//! The nine tables' rows as plain values, columns in schema order (1.3; LG-29).
//!
//! This is what the generator makes and what tests compute with, and what the loader and transactions write into a
//! store's row, column by column. A column that is left out would keep its zero; a test reads every row back and
//! compares all of them. How a row lies in a store is the store's affair, declared elsewhere.
//!
//! # Types
//! Identifiers are `i32`, except a district's, a carrier's and a line's number: `i16`. Every exact
//! decimal N(p, s) is an `i64` counting units of 10^−s: cents for money, 1/10,000 for rates, one
//! for counts. A time is an `i64`, microseconds since 2000-01-01 00:00:00. A column that may be
//! null is an [`Option`]. Strings are [`Text`] of the column's full width.

use tombolo_storage::row::{Column, RowMut};
use tombolo_storage::types::{ColumnType, InlineType};

use super::schema;
use super::text::Text;
use crate::workload::loading::Fill;

/// What a field is written to: its column, or its columns.
trait Written<R, C> {
    fn write(&self, row: &mut RowMut<'_, R>, to: C);
}

macro_rules! written_as_it_is {
    ($($type:ty),*) => {$(
        impl<R, T: InlineType + for<'a> ColumnType<Value<'a> = $type>> Written<R, Column<R, T>> for $type {
            #[inline(always)]
            fn write(&self, row: &mut RowMut<'_, R>, to: Column<R, T>) {
                row.set(to, *self);
            }
        }
    )*};
}
written_as_it_is! { i16, i32, i64, Option<i16>, Option<i64> }

impl<R, T, const N: usize> Written<R, Column<R, T>> for Text<N>
where
    T: InlineType + for<'a> ColumnType<Value<'a> = &'a [u8]>,
{
    #[inline(always)]
    fn write(&self, row: &mut RowMut<'_, R>, to: Column<R, T>) {
        row.set(to, self.as_bytes());
    }
}

impl<R, C, V: Written<R, C>, const N: usize> Written<R, [C; N]> for [V; N] {
    #[inline(always)]
    fn write(&self, row: &mut RowMut<'_, R>, to: [C; N]) {
        self.iter().zip(to).for_each(|(value, column)| value.write(row, column));
    }
}

/// Declares a row: its fields, each with its column.
macro_rules! row {
    (
        $(#[$doc:meta])*
        pub struct $name:ident of $table:ty {
            $($(#[$field_doc:meta])* pub $field:ident: $type:ty = $column:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Fill<$table> for $name {
            #[inline(always)]
            fn fill(&self, row: &mut RowMut<'_, $table>) {
                $(self.$field.write(row, <$table>::$column);)*
            }
        }
    };
}

row! {
    /// A row of WAREHOUSE.
    pub struct Warehouse of schema::Warehouse {
        /// W_ID, the primary key.
        pub w_id: i32 = W_ID,
        /// W_NAME.
        pub w_name: Text<10> = W_NAME,
        /// W_STREET_1.
        pub w_street_1: Text<20> = W_STREET_1,
        /// W_STREET_2.
        pub w_street_2: Text<20> = W_STREET_2,
        /// W_CITY.
        pub w_city: Text<20> = W_CITY,
        /// W_STATE.
        pub w_state: Text<2> = W_STATE,
        /// W_ZIP.
        pub w_zip: Text<9> = W_ZIP,
        /// W_TAX, in 1/10,000.
        pub w_tax: i64 = W_TAX,
        /// W_YTD, in cents.
        pub w_ytd: i64 = W_YTD,
    }
}

row! {
    /// A row of DISTRICT.
    pub struct District of schema::District {
        /// D_ID, the second part of the primary key.
        pub d_id: i16 = D_ID,
        /// D_W_ID, the first part of the primary key.
        pub d_w_id: i32 = D_W_ID,
        /// D_NAME.
        pub d_name: Text<10> = D_NAME,
        /// D_STREET_1.
        pub d_street_1: Text<20> = D_STREET_1,
        /// D_STREET_2.
        pub d_street_2: Text<20> = D_STREET_2,
        /// D_CITY.
        pub d_city: Text<20> = D_CITY,
        /// D_STATE.
        pub d_state: Text<2> = D_STATE,
        /// D_ZIP.
        pub d_zip: Text<9> = D_ZIP,
        /// D_TAX, in 1/10,000.
        pub d_tax: i64 = D_TAX,
        /// D_YTD, in cents.
        pub d_ytd: i64 = D_YTD,
        /// D_NEXT_O_ID, the number the next order of the district gets.
        pub d_next_o_id: i32 = D_NEXT_O_ID,
    }
}

row! {
    /// A row of CUSTOMER.
    pub struct Customer of schema::Customer {
        /// C_ID, the third part of the primary key.
        pub c_id: i32 = C_ID,
        /// C_D_ID, the second part of the primary key.
        pub c_d_id: i16 = C_D_ID,
        /// C_W_ID, the first part of the primary key.
        pub c_w_id: i32 = C_W_ID,
        /// C_FIRST.
        pub c_first: Text<16> = C_FIRST,
        /// C_MIDDLE.
        pub c_middle: Text<2> = C_MIDDLE,
        /// C_LAST.
        pub c_last: Text<16> = C_LAST,
        /// C_STREET_1.
        pub c_street_1: Text<20> = C_STREET_1,
        /// C_STREET_2.
        pub c_street_2: Text<20> = C_STREET_2,
        /// C_CITY.
        pub c_city: Text<20> = C_CITY,
        /// C_STATE.
        pub c_state: Text<2> = C_STATE,
        /// C_ZIP.
        pub c_zip: Text<9> = C_ZIP,
        /// C_PHONE.
        pub c_phone: Text<16> = C_PHONE,
        /// C_SINCE.
        pub c_since: i64 = C_SINCE,
        /// C_CREDIT: "GC" (good) or "BC" (bad).
        pub c_credit: Text<2> = C_CREDIT,
        /// C_CREDIT_LIM, in cents.
        pub c_credit_lim: i64 = C_CREDIT_LIM,
        /// C_DISCOUNT, in 1/10,000.
        pub c_discount: i64 = C_DISCOUNT,
        /// C_BALANCE, in cents.
        pub c_balance: i64 = C_BALANCE,
        /// C_YTD_PAYMENT, in cents.
        pub c_ytd_payment: i64 = C_YTD_PAYMENT,
        /// C_PAYMENT_CNT.
        pub c_payment_cnt: i64 = C_PAYMENT_CNT,
        /// C_DELIVERY_CNT.
        pub c_delivery_cnt: i64 = C_DELIVERY_CNT,
        /// C_DATA.
        pub c_data: Text<500> = C_DATA,
    }
}

row! {
    /// A row of HISTORY, the one table without a key.
    pub struct History of schema::History {
        /// H_C_ID, the customer.
        pub h_c_id: i32 = H_C_ID,
        /// H_C_D_ID, the customer's district.
        pub h_c_d_id: i16 = H_C_D_ID,
        /// H_C_W_ID, the customer's warehouse.
        pub h_c_w_id: i32 = H_C_W_ID,
        /// H_D_ID, the district paid to.
        pub h_d_id: i16 = H_D_ID,
        /// H_W_ID, the warehouse paid to.
        pub h_w_id: i32 = H_W_ID,
        /// H_DATE.
        pub h_date: i64 = H_DATE,
        /// H_AMOUNT, in cents.
        pub h_amount: i64 = H_AMOUNT,
        /// H_DATA.
        pub h_data: Text<24> = H_DATA,
    }
}

row! {
    /// A row of NEW_ORDER: an order that is not yet delivered.
    pub struct NewOrder of schema::NewOrder {
        /// NO_O_ID, the third part of the primary key.
        pub no_o_id: i32 = NO_O_ID,
        /// NO_D_ID, the second part of the primary key.
        pub no_d_id: i16 = NO_D_ID,
        /// NO_W_ID, the first part of the primary key.
        pub no_w_id: i32 = NO_W_ID,
    }
}

row! {
    /// A row of ORDERS.
    pub struct Order of schema::Orders {
        /// O_ID, the third part of the primary key.
        pub o_id: i32 = O_ID,
        /// O_D_ID, the second part of the primary key.
        pub o_d_id: i16 = O_D_ID,
        /// O_W_ID, the first part of the primary key.
        pub o_w_id: i32 = O_W_ID,
        /// O_C_ID.
        pub o_c_id: i32 = O_C_ID,
        /// O_ENTRY_D.
        pub o_entry_d: i64 = O_ENTRY_D,
        /// O_CARRIER_ID, null until delivered.
        pub o_carrier_id: Option<i16> = O_CARRIER_ID,
        /// O_OL_CNT, the number of lines.
        pub o_ol_cnt: i64 = O_OL_CNT,
        /// O_ALL_LOCAL: 1 if every line is supplied by the home warehouse, else 0.
        pub o_all_local: i64 = O_ALL_LOCAL,
    }
}

row! {
    /// A row of ORDER_LINE.
    pub struct OrderLine of schema::OrderLine {
        /// OL_O_ID, the third part of the primary key.
        pub ol_o_id: i32 = OL_O_ID,
        /// OL_D_ID, the second part of the primary key.
        pub ol_d_id: i16 = OL_D_ID,
        /// OL_W_ID, the first part of the primary key.
        pub ol_w_id: i32 = OL_W_ID,
        /// OL_NUMBER, the fourth part of the primary key.
        pub ol_number: i16 = OL_NUMBER,
        /// OL_I_ID.
        pub ol_i_id: i32 = OL_I_ID,
        /// OL_SUPPLY_W_ID.
        pub ol_supply_w_id: i32 = OL_SUPPLY_W_ID,
        /// OL_DELIVERY_D, null until delivered.
        pub ol_delivery_d: Option<i64> = OL_DELIVERY_D,
        /// OL_QUANTITY.
        pub ol_quantity: i64 = OL_QUANTITY,
        /// OL_AMOUNT, in cents.
        pub ol_amount: i64 = OL_AMOUNT,
        /// OL_DIST_INFO.
        pub ol_dist_info: Text<24> = OL_DIST_INFO,
    }
}

row! {
    /// A row of ITEM.
    pub struct Item of schema::Item {
        /// I_ID, the primary key.
        pub i_id: i32 = I_ID,
        /// I_IM_ID, the image of the item.
        pub i_im_id: i32 = I_IM_ID,
        /// I_NAME.
        pub i_name: Text<24> = I_NAME,
        /// I_PRICE, in cents.
        pub i_price: i64 = I_PRICE,
        /// I_DATA.
        pub i_data: Text<50> = I_DATA,
    }
}

row! {
    /// A row of STOCK.
    pub struct Stock of schema::Stock {
        /// S_I_ID, the second part of the primary key.
        pub s_i_id: i32 = S_I_ID,
        /// S_W_ID, the first part of the primary key.
        pub s_w_id: i32 = S_W_ID,
        /// S_QUANTITY.
        pub s_quantity: i64 = S_QUANTITY,
        /// S_DIST_01 … S_DIST_10: what a line of an order of that district says about the item.
        pub s_dist: [Text<24>; 10] = DIST,
        /// S_YTD.
        pub s_ytd: i64 = S_YTD,
        /// S_ORDER_CNT.
        pub s_order_cnt: i64 = S_ORDER_CNT,
        /// S_REMOTE_CNT.
        pub s_remote_cnt: i64 = S_REMOTE_CNT,
        /// S_DATA.
        pub s_data: Text<50> = S_DATA,
    }
}
