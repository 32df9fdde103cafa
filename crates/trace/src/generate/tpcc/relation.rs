//! The relations, and how large they are when freshly loaded.

/// Tables and indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Relation {
    Warehouse,
    WarehousePkey,
    District,
    DistrictPkey,
    Customer,
    CustomerPkey,
    /// By warehouse, district, last and first name.
    IdxCustomer,
    History,
    /// By warehouse of the payment.
    IdxHistoryWarehouse,
    /// By warehouse of the customer.
    IdxHistoryCustomer,
    NewOrder,
    NewOrderPkey,
    Orders,
    OrdersPkey,
    /// By warehouse, district, customer.
    IdxOrder,
    OrderLine,
    OrderLinePkey,
    Stock,
    StockPkey,
    Item,
    ItemPkey,
}

use Relation as R;

impl Relation {
    /// All, by their number.
    pub const ALL: [Relation; 21] = [
        R::Warehouse,
        R::WarehousePkey,
        R::District,
        R::DistrictPkey,
        R::Customer,
        R::CustomerPkey,
        R::IdxCustomer,
        R::History,
        R::IdxHistoryWarehouse,
        R::IdxHistoryCustomer,
        R::NewOrder,
        R::NewOrderPkey,
        R::Orders,
        R::OrdersPkey,
        R::IdxOrder,
        R::OrderLine,
        R::OrderLinePkey,
        R::Stock,
        R::StockPkey,
        R::Item,
        R::ItemPkey,
    ];

    /// The name that go-tpc gives it.
    pub const fn name(self) -> &'static str {
        match self {
            R::Warehouse => "warehouse",
            R::WarehousePkey => "warehouse_pkey",
            R::District => "district",
            R::DistrictPkey => "district_pkey",
            R::Customer => "customer",
            R::CustomerPkey => "customer_pkey",
            R::IdxCustomer => "idx_customer",
            R::History => "history",
            R::IdxHistoryWarehouse => "idx_h_w_id",
            R::IdxHistoryCustomer => "idx_h_c_w_id",
            R::NewOrder => "new_order",
            R::NewOrderPkey => "new_order_pkey",
            R::Orders => "orders",
            R::OrdersPkey => "orders_pkey",
            R::IdxOrder => "idx_order",
            R::OrderLine => "order_line",
            R::OrderLinePkey => "order_line_pkey",
            R::Stock => "stock",
            R::StockPkey => "stock_pkey",
            R::Item => "item",
            R::ItemPkey => "item_pkey",
        }
    }

    /// Rows of a table's page, or entries of an index's leaf, when loaded: of the capture, pages after its
    /// load were counted.
    pub const fn per_page(self) -> f64 {
        match self {
            // Updates bloat these two: pages that a scan met on the average.
            R::Warehouse => 3.0,
            R::District => 16.0,
            R::WarehousePkey | R::DistrictPkey => 366.0,
            R::Customer => 12.4,
            R::CustomerPkey => 254.0,
            R::IdxCustomer => 110.0,
            R::History => 91.0,
            R::IdxHistoryWarehouse | R::IdxHistoryCustomer => 1067.0,
            R::NewOrder => 173.0,
            R::NewOrderPkey => 200.0,
            R::Orders => 122.0,
            R::OrdersPkey => 240.0,
            R::IdxOrder => 181.0,
            R::OrderLine => 84.0,
            R::OrderLinePkey => 249.0,
            R::Stock => 23.0,
            R::StockPkey | R::ItemPkey => 364.0,
            R::Item => 77.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_relation_is_its_place() {
        assert!(Relation::ALL.iter().enumerate().all(|(place, relation)| *relation as usize == place));
    }
}
