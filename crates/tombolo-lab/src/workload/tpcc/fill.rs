//! How a generated row is written into a store's row, column by column.
//!
//! Used where a whole row is at hand: by the loader and by transactions that create one. A column
//! that is left out would keep its zero; a test reads every row back and compares all of them.

use tombolo_storage::row::RowMut;

use super::{rows, schema};
use crate::workload::loading::Fill;

impl Fill<schema::Warehouse> for rows::Warehouse {
    fn fill(&self, row: &mut RowMut<'_, schema::Warehouse>) {
        use schema::Warehouse as T;
        row.set(T::W_ID, self.w_id);
        row.set(T::W_NAME, self.w_name.as_bytes());
        row.set(T::W_STREET_1, self.w_street_1.as_bytes());
        row.set(T::W_STREET_2, self.w_street_2.as_bytes());
        row.set(T::W_CITY, self.w_city.as_bytes());
        row.set(T::W_STATE, self.w_state.as_bytes());
        row.set(T::W_ZIP, self.w_zip.as_bytes());
        row.set(T::W_TAX, self.w_tax);
        row.set(T::W_YTD, self.w_ytd);
    }
}

impl Fill<schema::District> for rows::District {
    fn fill(&self, row: &mut RowMut<'_, schema::District>) {
        use schema::District as T;
        row.set(T::D_ID, self.d_id);
        row.set(T::D_W_ID, self.d_w_id);
        row.set(T::D_NAME, self.d_name.as_bytes());
        row.set(T::D_STREET_1, self.d_street_1.as_bytes());
        row.set(T::D_STREET_2, self.d_street_2.as_bytes());
        row.set(T::D_CITY, self.d_city.as_bytes());
        row.set(T::D_STATE, self.d_state.as_bytes());
        row.set(T::D_ZIP, self.d_zip.as_bytes());
        row.set(T::D_TAX, self.d_tax);
        row.set(T::D_YTD, self.d_ytd);
        row.set(T::D_NEXT_O_ID, self.d_next_o_id);
    }
}

impl Fill<schema::Customer> for rows::Customer {
    fn fill(&self, row: &mut RowMut<'_, schema::Customer>) {
        use schema::Customer as T;
        row.set(T::C_ID, self.c_id);
        row.set(T::C_D_ID, self.c_d_id);
        row.set(T::C_W_ID, self.c_w_id);
        row.set(T::C_FIRST, self.c_first.as_bytes());
        row.set(T::C_MIDDLE, self.c_middle.as_bytes());
        row.set(T::C_LAST, self.c_last.as_bytes());
        row.set(T::C_STREET_1, self.c_street_1.as_bytes());
        row.set(T::C_STREET_2, self.c_street_2.as_bytes());
        row.set(T::C_CITY, self.c_city.as_bytes());
        row.set(T::C_STATE, self.c_state.as_bytes());
        row.set(T::C_ZIP, self.c_zip.as_bytes());
        row.set(T::C_PHONE, self.c_phone.as_bytes());
        row.set(T::C_SINCE, self.c_since);
        row.set(T::C_CREDIT, self.c_credit.as_bytes());
        row.set(T::C_CREDIT_LIM, self.c_credit_lim);
        row.set(T::C_DISCOUNT, self.c_discount);
        row.set(T::C_BALANCE, self.c_balance);
        row.set(T::C_YTD_PAYMENT, self.c_ytd_payment);
        row.set(T::C_PAYMENT_CNT, self.c_payment_cnt);
        row.set(T::C_DELIVERY_CNT, self.c_delivery_cnt);
        row.set(T::C_DATA, self.c_data.as_bytes());
    }
}

impl Fill<schema::History> for rows::History {
    #[inline(always)]
    fn fill(&self, row: &mut RowMut<'_, schema::History>) {
        use schema::History as T;
        row.set(T::H_C_ID, self.h_c_id);
        row.set(T::H_C_D_ID, self.h_c_d_id);
        row.set(T::H_C_W_ID, self.h_c_w_id);
        row.set(T::H_D_ID, self.h_d_id);
        row.set(T::H_W_ID, self.h_w_id);
        row.set(T::H_DATE, self.h_date);
        row.set(T::H_AMOUNT, self.h_amount);
        row.set(T::H_DATA, self.h_data.as_bytes());
    }
}

impl Fill<schema::NewOrder> for rows::NewOrder {
    #[inline(always)]
    fn fill(&self, row: &mut RowMut<'_, schema::NewOrder>) {
        use schema::NewOrder as T;
        row.set(T::NO_O_ID, self.no_o_id);
        row.set(T::NO_D_ID, self.no_d_id);
        row.set(T::NO_W_ID, self.no_w_id);
    }
}

impl Fill<schema::Orders> for rows::Order {
    #[inline(always)]
    fn fill(&self, row: &mut RowMut<'_, schema::Orders>) {
        use schema::Orders as T;
        row.set(T::O_ID, self.o_id);
        row.set(T::O_D_ID, self.o_d_id);
        row.set(T::O_W_ID, self.o_w_id);
        row.set(T::O_C_ID, self.o_c_id);
        row.set(T::O_ENTRY_D, self.o_entry_d);
        row.set(T::O_CARRIER_ID, self.o_carrier_id);
        row.set(T::O_OL_CNT, self.o_ol_cnt);
        row.set(T::O_ALL_LOCAL, self.o_all_local);
    }
}

impl Fill<schema::OrderLine> for rows::OrderLine {
    #[inline(always)]
    fn fill(&self, row: &mut RowMut<'_, schema::OrderLine>) {
        use schema::OrderLine as T;
        row.set(T::OL_O_ID, self.ol_o_id);
        row.set(T::OL_D_ID, self.ol_d_id);
        row.set(T::OL_W_ID, self.ol_w_id);
        row.set(T::OL_NUMBER, self.ol_number);
        row.set(T::OL_I_ID, self.ol_i_id);
        row.set(T::OL_SUPPLY_W_ID, self.ol_supply_w_id);
        row.set(T::OL_DELIVERY_D, self.ol_delivery_d);
        row.set(T::OL_QUANTITY, self.ol_quantity);
        row.set(T::OL_AMOUNT, self.ol_amount);
        row.set(T::OL_DIST_INFO, self.ol_dist_info.as_bytes());
    }
}

impl Fill<schema::Item> for rows::Item {
    fn fill(&self, row: &mut RowMut<'_, schema::Item>) {
        use schema::Item as T;
        row.set(T::I_ID, self.i_id);
        row.set(T::I_IM_ID, self.i_im_id);
        row.set(T::I_NAME, self.i_name.as_bytes());
        row.set(T::I_PRICE, self.i_price);
        row.set(T::I_DATA, self.i_data.as_bytes());
    }
}

impl Fill<schema::Stock> for rows::Stock {
    fn fill(&self, row: &mut RowMut<'_, schema::Stock>) {
        use schema::Stock as T;
        row.set(T::S_I_ID, self.s_i_id);
        row.set(T::S_W_ID, self.s_w_id);
        row.set(T::S_QUANTITY, self.s_quantity);
        for (column, dist) in T::DIST.into_iter().zip(&self.s_dist) {
            row.set(column, dist.as_bytes());
        }
        row.set(T::S_YTD, self.s_ytd);
        row.set(T::S_ORDER_CNT, self.s_order_cnt);
        row.set(T::S_REMOTE_CNT, self.s_remote_cnt);
        row.set(T::S_DATA, self.s_data.as_bytes());
    }
}
