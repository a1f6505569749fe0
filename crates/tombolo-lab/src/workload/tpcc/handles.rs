//! All tables and indexes of TPC-C, resolved once: for the loader, the checks and the tampering.
//!
//! Transactions hold only the handles they use.

use tombolo_storage::store::{Index, Table};

use super::schema;

handles! {
    /// All tables and indexes, resolved.
    #[derive(Debug)]
    pub(super) struct Handles {
        pub(super) warehouse: Table<schema::Warehouse>,
        pub(super) district: Table<schema::District>,
        pub(super) customer: Table<schema::Customer>,
        pub(super) history: Table<schema::History>,
        pub(super) new_order: Table<schema::NewOrder>,
        pub(super) orders: Table<schema::Orders>,
        pub(super) order_line: Table<schema::OrderLine>,
        pub(super) item: Table<schema::Item>,
        pub(super) stock: Table<schema::Stock>,
        pub(super) warehouse_key: Index<schema::WarehouseKey>,
        pub(super) district_key: Index<schema::DistrictKey>,
        pub(super) customer_key: Index<schema::CustomerKey>,
        /// The paper's index set has none.
        pub(super) customer_by_name: Option<Index<schema::CustomerByName>>,
        pub(super) new_order_key: Index<schema::NewOrderKey>,
        pub(super) new_order_by_warehouse: Index<schema::NewOrderByWarehouse>,
        pub(super) orders_key: Index<schema::OrdersKey>,
        /// The paper's index set has none.
        pub(super) orders_by_customer: Option<Index<schema::OrdersByCustomer>>,
        pub(super) order_line_key: Index<schema::OrderLineKey>,
        pub(super) item_key: Index<schema::ItemKey>,
        pub(super) stock_key: Index<schema::StockKey>,
    }
}
