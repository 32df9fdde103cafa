//! The nine tables and two secondary indexes (clause 1.3), each a table of the store.
//!
//! Keys and rows are fixed-size types with the same layout in memory and in the store: identifiers
//! big-endian, so that keys compare as bytes; other numbers little-endian; text padded with zero bytes.
//! Including the key, rows are about as wide as the specification estimates in clause 4.2.2 (stock 312 bytes,
//! customer 666, order line 59).

mod catalog;
mod customer;
mod district;
mod history;
mod id;
mod item;
mod new_order;
mod order;
mod order_line;
mod relation;
mod stock;
mod tables;
mod text;
mod value;
mod warehouse;

pub use catalog::{CatalogKey, CatalogRow};
pub use customer::{CustomerKey, CustomerNameKey, CustomerRow};
pub use district::{DistrictKey, DistrictRow};
pub use history::{HistoryKey, HistoryRow};
pub use id::{CarrierId, CustomerId, DistrictId, ItemId, LineNumber, OrderId, WarehouseId};
pub use item::{ItemKey, ItemRow};
pub use new_order::NewOrderKey;
pub use order::{CustomerOrderKey, OrderKey, OrderRow};
pub use order_line::{OrderLineKey, OrderLineRow};
pub use relation::{Record, Relation};
pub use stock::{StockKey, StockRow};
pub use tables::Tables;
pub use text::Text;
pub use value::{Address, Cents, Rate, Timestamp};
pub use warehouse::{WarehouseKey, WarehouseRow};
