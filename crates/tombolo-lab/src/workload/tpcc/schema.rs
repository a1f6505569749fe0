//! The nine tables with their rows and indexes, declared (1.3; LG-29, LG-34).
//!
//! # Widths
//! Every column of the specification at full width. Identifiers carry ranges so narrow that the key
//! of every index but *customer by name* packs into one 64-bit integer: 65,535 warehouses, 15
//! districts, 4,095 customers of a district, 2^31 − 1 orders of a district. The specification's
//! N(p, s) means "at least": sums and counts that every transaction raises are wider here
//! (N(16, 2) and N(9)), because a fast run would pass N(4) within a minute.
//!
//! # Layout
//! *Hot* columns lie in front, in schema order, so that what New Order and Payment read and write
//! of a row shares one cache line. Columns that one update changes are neighbours: undo copies
//! exactly the bytes between them.
//!
//! # Index sets
//! The paper's is that of its Figure 4: the primary keys, and a second index on NEW_ORDER. The
//! standard mix needs two more: customers by name, orders by customer. HISTORY has none.

use tombolo_storage::index;
use tombolo_storage::row::{Column, Fields, RowMut};
use tombolo_storage::schema::{DeclaredTable, TableDef};
use tombolo_storage::types::{Char, Decimal, Integer, Nullable, SmallInt, Timestamp, Varchar};

use super::input::Mix;
use super::rows::{Plain, table_of_rows};
use crate::workload::loading::Fill;

/// The most warehouses: W_ID's declared range.
pub const WAREHOUSES_MAX: i32 = 65_535;

table_of_rows! {
    /// WAREHOUSE.
    pub struct Warehouse of WarehouseRow = "warehouse" {
        w_id = W_ID: Integer [0..=65_535] => hot;
        w_name = W_NAME: Varchar<10> => hot;
        w_street_1 = W_STREET_1: Varchar<20>;
        w_street_2 = W_STREET_2: Varchar<20>;
        w_city = W_CITY: Varchar<20>;
        w_state = W_STATE: Char<2>;
        w_zip = W_ZIP: Char<9>;
        w_tax = W_TAX: Decimal<4, 4> => hot;
        w_ytd = W_YTD: Decimal<16, 2> => hot;
    }
}
index! {
    /// WAREHOUSE's primary key.
    pub struct WarehouseKey = "warehouse_pk" on Warehouse (W_ID: Integer) unique Tree;
}
impl Warehouse {
    /// What a Payment changes.
    pub const PAID: Fields<Self> = Fields::none().with(Self::W_YTD);
}

table_of_rows! {
    /// DISTRICT.
    pub struct District of DistrictRow = "district" {
        d_id = D_ID: SmallInt [0..=15] => hot;
        d_w_id = D_W_ID: Integer [0..=65_535] => hot;
        d_name = D_NAME: Varchar<10> => hot;
        d_street_1 = D_STREET_1: Varchar<20>;
        d_street_2 = D_STREET_2: Varchar<20>;
        d_city = D_CITY: Varchar<20>;
        d_state = D_STATE: Char<2>;
        d_zip = D_ZIP: Char<9>;
        d_tax = D_TAX: Decimal<4, 4> => hot;
        d_ytd = D_YTD: Decimal<16, 2> => hot;
        d_next_o_id = D_NEXT_O_ID: Integer [0..=2_147_483_647] => hot;
    }
}
index! {
    /// DISTRICT's primary key.
    pub struct DistrictKey = "district_pk" on District
        (D_W_ID: Integer, D_ID: SmallInt) unique Tree;
}
impl District {
    /// What a Payment changes.
    pub const PAID: Fields<Self> = Fields::none().with(Self::D_YTD);
    /// What a New Order changes.
    pub const ORDERED: Fields<Self> = Fields::none().with(Self::D_NEXT_O_ID);
}

table_of_rows! {
    /// CUSTOMER.
    pub struct Customer of CustomerRow = "customer" {
        c_id = C_ID: Integer [0..=4_095] => hot;
        c_d_id = C_D_ID: SmallInt [0..=15] => hot;
        c_w_id = C_W_ID: Integer [0..=65_535] => hot;
        c_first = C_FIRST: Varchar<16>;
        c_middle = C_MIDDLE: Char<2>;
        c_last = C_LAST: Varchar<16> => hot;
        c_street_1 = C_STREET_1: Varchar<20>;
        c_street_2 = C_STREET_2: Varchar<20>;
        c_city = C_CITY: Varchar<20>;
        c_state = C_STATE: Char<2>;
        c_zip = C_ZIP: Char<9>;
        c_phone = C_PHONE: Char<16>;
        c_since = C_SINCE: Timestamp;
        c_credit = C_CREDIT: Char<2> => hot;
        c_credit_lim = C_CREDIT_LIM: Decimal<12, 2> => hot;
        c_discount = C_DISCOUNT: Decimal<4, 4> => hot;
        c_balance = C_BALANCE: Decimal<16, 2> => hot;
        c_ytd_payment = C_YTD_PAYMENT: Decimal<16, 2> => hot;
        c_payment_cnt = C_PAYMENT_CNT: Decimal<9, 0> => hot;
        c_delivery_cnt = C_DELIVERY_CNT: Decimal<9, 0> => hot;
        c_data = C_DATA: Varchar<500> => hot;
    }
}
index! {
    /// CUSTOMER's primary key.
    pub struct CustomerKey = "customer_pk" on Customer
        (C_W_ID: Integer, C_D_ID: SmallInt, C_ID: Integer) unique Tree;
}
index! {
    /// Customers of a district by name.
    pub struct CustomerByName = "customer_by_name" on Customer
        (C_W_ID: Integer, C_D_ID: SmallInt, C_LAST: Varchar<16>, C_FIRST: Varchar<16>)
        multiple Tree;
}
impl Customer {
    /// What a New Order reads and a Payment reads and changes: the row's first cache line.
    pub const ACCOUNT: Fields<Self> = Fields::none().with(Self::C_ID).with(Self::C_DELIVERY_CNT);
    /// What a Payment changes of a customer with good credit.
    pub const PAID: Fields<Self> = Fields::none().with(Self::C_BALANCE).with(Self::C_PAYMENT_CNT);
    /// What a Payment changes of a customer with bad credit.
    pub const PAID_BAD: Fields<Self> = Self::PAID.with(Self::C_DATA);
    /// What a Delivery changes.
    pub const DELIVERED: Fields<Self> =
        Fields::none().with(Self::C_BALANCE).with(Self::C_DELIVERY_CNT);
}

table_of_rows! {
    /// HISTORY.
    pub struct History of HistoryRow = "history" {
        h_c_id = H_C_ID: Integer;
        h_c_d_id = H_C_D_ID: SmallInt;
        h_c_w_id = H_C_W_ID: Integer;
        h_d_id = H_D_ID: SmallInt;
        h_w_id = H_W_ID: Integer;
        h_date = H_DATE: Timestamp;
        h_amount = H_AMOUNT: Decimal<6, 2>;
        h_data = H_DATA: Varchar<24>;
    }
}

table_of_rows! {
    /// NEW_ORDER.
    pub struct NewOrder of NewOrderRow = "new_order" {
        no_o_id = NO_O_ID: Integer [0..=2_147_483_647];
        no_d_id = NO_D_ID: SmallInt [0..=15];
        no_w_id = NO_W_ID: Integer [0..=65_535];
    }
}
index! {
    /// NEW_ORDER's primary key.
    pub struct NewOrderKey = "new_order_pk" on NewOrder
        (NO_W_ID: Integer, NO_D_ID: SmallInt, NO_O_ID: Integer) unique Tree;
}
index! {
    /// Figure 4's secondary index: a warehouse's waiting orders, the oldest numbers first.
    pub struct NewOrderByWarehouse = "new_order_by_warehouse" on NewOrder
        (NO_W_ID: Integer, NO_O_ID: Integer, NO_D_ID: SmallInt) unique Tree;
}

table_of_rows! {
    /// ORDERS.
    pub struct Orders of OrderRow = "orders" {
        o_id = O_ID: Integer [0..=2_147_483_647];
        o_d_id = O_D_ID: SmallInt [0..=15];
        o_w_id = O_W_ID: Integer [0..=65_535];
        o_c_id = O_C_ID: Integer [0..=4_095];
        o_entry_d = O_ENTRY_D: Timestamp;
        o_carrier_id = O_CARRIER_ID: Nullable<SmallInt> => hot;
        o_ol_cnt = O_OL_CNT: Decimal<2, 0>;
        o_all_local = O_ALL_LOCAL: Decimal<1, 0>;
    }
}
index! {
    /// ORDERS' primary key.
    pub struct OrdersKey = "orders_pk" on Orders
        (O_W_ID: Integer, O_D_ID: SmallInt, O_ID: Integer) unique Tree;
}
index! {
    /// A customer's orders.
    pub struct OrdersByCustomer = "orders_by_customer" on Orders
        (O_W_ID: Integer, O_D_ID: SmallInt, O_C_ID: Integer, O_ID: Integer) unique Tree;
}
impl Orders {
    /// What a Delivery changes.
    pub const DELIVERED: Fields<Self> = Fields::none().with(Self::O_CARRIER_ID);
    /// O_OL_CNT, which nothing but tampering changes.
    pub const LINES: Fields<Self> = Fields::none().with(Self::O_OL_CNT);
}

table_of_rows! {
    /// ORDER_LINE.
    pub struct OrderLine of OrderLineRow = "order_line" {
        ol_o_id = OL_O_ID: Integer [0..=2_147_483_647];
        ol_d_id = OL_D_ID: SmallInt [0..=15];
        ol_w_id = OL_W_ID: Integer [0..=65_535];
        ol_number = OL_NUMBER: SmallInt [0..=15];
        ol_i_id = OL_I_ID: Integer;
        ol_supply_w_id = OL_SUPPLY_W_ID: Integer;
        ol_delivery_d = OL_DELIVERY_D: Nullable<Timestamp> => hot;
        ol_quantity = OL_QUANTITY: Decimal<2, 0>;
        ol_amount = OL_AMOUNT: Decimal<6, 2>;
        ol_dist_info = OL_DIST_INFO: Char<24>;
    }
}
index! {
    /// ORDER_LINE's primary key.
    pub struct OrderLineKey = "order_line_pk" on OrderLine
        (OL_W_ID: Integer, OL_D_ID: SmallInt, OL_O_ID: Integer, OL_NUMBER: SmallInt) unique Tree;
}
impl OrderLine {
    /// What a Delivery changes.
    pub const DELIVERED: Fields<Self> = Fields::none().with(Self::OL_DELIVERY_D);
    /// The whole row: a line fits a cache line.
    pub const WHOLE: Fields<Self> = Fields::whole(<Self as DeclaredTable>::SIZE);
}

table_of_rows! {
    /// ITEM.
    pub struct Item of ItemRow = "item" {
        i_id = I_ID: Integer [0..=1_048_575];
        i_im_id = I_IM_ID: Integer;
        i_name = I_NAME: Varchar<24>;
        i_price = I_PRICE: Decimal<5, 2> => hot;
        i_data = I_DATA: Varchar<50> => hot;
    }
}
index! {
    /// ITEM's primary key.
    pub struct ItemKey = "item_pk" on Item (I_ID: Integer) unique Tree;
}
impl Item {
    /// What a New Order reads.
    pub const SOLD: Fields<Self> = Fields::none().with(Self::I_PRICE).with(Self::I_DATA);
}

table_of_rows! {
    /// STOCK.
    pub struct Stock of StockRow = "stock" {
        s_i_id = S_I_ID: Integer [0..=1_048_575];
        s_w_id = S_W_ID: Integer [0..=65_535];
        s_quantity = S_QUANTITY: Decimal<4, 0> => hot;
        s_dist_01 = S_DIST_01: Char<24>;
        s_dist_02 = S_DIST_02: Char<24>;
        s_dist_03 = S_DIST_03: Char<24>;
        s_dist_04 = S_DIST_04: Char<24>;
        s_dist_05 = S_DIST_05: Char<24>;
        s_dist_06 = S_DIST_06: Char<24>;
        s_dist_07 = S_DIST_07: Char<24>;
        s_dist_08 = S_DIST_08: Char<24>;
        s_dist_09 = S_DIST_09: Char<24>;
        s_dist_10 = S_DIST_10: Char<24>;
        s_ytd = S_YTD: Decimal<9, 0> => hot;
        s_order_cnt = S_ORDER_CNT: Decimal<9, 0> => hot;
        s_remote_cnt = S_REMOTE_CNT: Decimal<9, 0> => hot;
        s_data = S_DATA: Varchar<50> => hot;
    }
}
index! {
    /// STOCK's primary key.
    pub struct StockKey = "stock_pk" on Stock (S_W_ID: Integer, S_I_ID: Integer) unique Tree;
}
impl Stock {
    /// What a New Order changes.
    pub const ORDERED: Fields<Self> =
        Fields::none().with(Self::S_QUANTITY).with(Self::S_REMOTE_CNT);
    /// S_DIST_01 to S_DIST_10.
    pub const DIST: [Column<Self, Char<24>>; 10] = [
        Self::S_DIST_01,
        Self::S_DIST_02,
        Self::S_DIST_03,
        Self::S_DIST_04,
        Self::S_DIST_05,
        Self::S_DIST_06,
        Self::S_DIST_07,
        Self::S_DIST_08,
        Self::S_DIST_09,
        Self::S_DIST_10,
    ];
}

#[cfg(test)]
impl StockRow {
    /// S_DIST_01 to S_DIST_10.
    pub(super) fn s_dist(&self) -> [super::text::Text<24>; 10] {
        [
            self.s_dist_01,
            self.s_dist_02,
            self.s_dist_03,
            self.s_dist_04,
            self.s_dist_05,
            self.s_dist_06,
            self.s_dist_07,
            self.s_dist_08,
            self.s_dist_09,
            self.s_dist_10,
        ]
    }
}

/// The tables with the indexes that `mix` needs.
#[must_use]
pub fn tables(mix: Mix) -> Vec<TableDef> {
    let customer = TableDef::of::<Customer>().with::<CustomerKey>();
    let orders = TableDef::of::<Orders>().with::<OrdersKey>();
    let (customer, orders) = match mix {
        Mix::Paper => (customer, orders),
        Mix::Standard => (customer.with::<CustomerByName>(), orders.with::<OrdersByCustomer>()),
    };
    vec![
        TableDef::of::<Warehouse>().with::<WarehouseKey>(),
        TableDef::of::<District>().with::<DistrictKey>(),
        customer,
        TableDef::of::<History>(),
        TableDef::of::<NewOrder>().with::<NewOrderKey>().with::<NewOrderByWarehouse>(),
        orders,
        TableDef::of::<OrderLine>().with::<OrderLineKey>(),
        TableDef::of::<Item>().with::<ItemKey>(),
        TableDef::of::<Stock>().with::<StockKey>(),
    ]
}

#[cfg(test)]
mod tests {
    use tombolo_storage::key::packed_bits;
    use tombolo_storage::schema::DeclaredIndex;

    use super::*;

    #[test]
    fn definitions_are_valid_and_index_sets_are_those_named() {
        for (mix, indexes) in [(Mix::Paper, 9), (Mix::Standard, 11)] {
            let tables = tables(mix);
            tables.iter().for_each(|table| table.validate().unwrap());
            assert_eq!(tables.len(), 9);
            assert_eq!(tables.iter().map(|table| table.indexes.len()).sum::<usize>(), indexes);
            assert_eq!(tables.iter().filter(|table| table.indexes.is_empty()).count(), 1);
        }
    }

    #[test]
    fn all_keys_but_the_name_pack_into_64_bits() {
        let packed = [
            WarehouseKey::PARTS,
            DistrictKey::PARTS,
            CustomerKey::PARTS,
            NewOrderKey::PARTS,
            NewOrderByWarehouse::PARTS,
            OrdersKey::PARTS,
            OrdersByCustomer::PARTS,
            OrderLineKey::PARTS,
            ItemKey::PARTS,
            StockKey::PARTS,
        ];
        assert!(packed.iter().all(|parts| packed_bits(parts).is_some()));
        assert_eq!(packed_bits(CustomerByName::PARTS), None);
    }

    #[test]
    fn what_transactions_touch_shares_a_cache_line() {
        assert!(Customer::ACCOUNT.start() == 0 && Customer::ACCOUNT.end() <= 64);
        assert!(Item::SOLD.start() == 0 && Item::SOLD.end() <= 64);
        assert!(Stock::ORDERED.start() == 0 && Stock::ORDERED.end() <= 16);
        assert!(OrderLine::WHOLE.end() <= 64);
        assert!(District::ORDERED.end() <= 64 && Warehouse::PAID.end() <= 64);
    }
}
