//! All tables and indexes of TPC-C, resolved once: for the loader, the checks and the tampering.
//!
//! Transactions hold only the handles they use.

use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::{DeclaredIndex, Schema};
use tombolo_storage::store::{Index, Table, resolve_index, resolve_table};

use super::schema;

/// All tables and indexes, resolved.
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

/// The handle of an index that only the standard index set has.
///
/// # Errors
/// When there is an index of that name, but it differs.
pub(super) fn optional_index<I: DeclaredIndex>(
    schema: &Schema,
) -> Result<Option<Index<I>>, SchemaError> {
    match schema.index(I::NAME) {
        Some(_) => resolve_index(schema).map(Some),
        None => Ok(None),
    }
}

impl Handles {
    /// Resolves the handles in `schema`.
    ///
    /// # Errors
    /// When the schema lacks a table or an index of the paper's set, or defines one differently.
    pub(super) fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            warehouse: resolve_table(schema)?,
            district: resolve_table(schema)?,
            customer: resolve_table(schema)?,
            history: resolve_table(schema)?,
            new_order: resolve_table(schema)?,
            orders: resolve_table(schema)?,
            order_line: resolve_table(schema)?,
            item: resolve_table(schema)?,
            stock: resolve_table(schema)?,
            warehouse_key: resolve_index(schema)?,
            district_key: resolve_index(schema)?,
            customer_key: resolve_index(schema)?,
            customer_by_name: optional_index(schema)?,
            new_order_key: resolve_index(schema)?,
            new_order_by_warehouse: resolve_index(schema)?,
            orders_key: resolve_index(schema)?,
            orders_by_customer: optional_index(schema)?,
            order_line_key: resolve_index(schema)?,
            item_key: resolve_index(schema)?,
            stock_key: resolve_index(schema)?,
        })
    }
}
