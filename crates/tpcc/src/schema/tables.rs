//! The tables of one database.

use super::{
    CatalogKey, CatalogRow, CustomerKey, CustomerNameKey, CustomerOrderKey, CustomerRow, DistrictKey,
    DistrictRow, HistoryKey, HistoryRow, ItemKey, ItemRow, NewOrderKey, OrderKey, OrderLineKey, OrderLineRow,
    OrderRow, Relation, StockKey, StockRow, WarehouseKey, WarehouseRow,
};
use crate::error::TpccError;
use entresol_store::Store;

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $name:literal => $key:ty, $row:ty;)*) => {
        /// All tables and indexes; cheap to copy.
        #[derive(Clone, Copy)]
        pub struct Tables {
            $($(#[$doc])* pub $field: Relation<$key, $row>,)*
        }

        impl Tables {
            /// Creates empty tables.
            pub(crate) fn create(store: &Store) -> Result<Self, TpccError> {
                Ok(Self { $($field: Relation::create(store, $name)?,)* })
            }

            /// Finds the tables.
            pub(crate) fn open(store: &Store) -> Result<Self, TpccError> {
                Ok(Self { $($field: Relation::open(store, $name)?,)* })
            }

            /// The names and store tables of all tables.
            pub fn all(&self) -> Vec<(&'static str, entresol_store::Table)> {
                vec![$((self.$field.name(), self.$field.table()),)*]
            }
        }
    };
}

tables! {
    /// Scale and constants of the load.
    catalog: "tpcc_catalog" => CatalogKey, CatalogRow;
    /// ITEM.
    items: "item" => ItemKey, ItemRow;
    /// WAREHOUSE.
    warehouses: "warehouse" => WarehouseKey, WarehouseRow;
    /// DISTRICT.
    districts: "district" => DistrictKey, DistrictRow;
    /// CUSTOMER.
    customers: "customer" => CustomerKey, CustomerRow;
    /// CUSTOMER by last and first name.
    customer_names: "customer_name" => CustomerNameKey, ();
    /// HISTORY.
    history: "history" => HistoryKey, HistoryRow;
    /// STOCK.
    stock: "stock" => StockKey, StockRow;
    /// ORDER.
    orders: "orders" => OrderKey, OrderRow;
    /// ORDER by customer.
    customer_orders: "orders_customer" => CustomerOrderKey, ();
    /// NEW-ORDER.
    new_orders: "new_order" => NewOrderKey, ();
    /// ORDER-LINE.
    order_lines: "order_line" => OrderLineKey, OrderLineRow;
}
