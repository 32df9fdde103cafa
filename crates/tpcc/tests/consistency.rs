//! The checks find what is wrong: one row changed for each condition.

mod support;

use entresol_store::{Lock, Txn};
use entresol_tpcc::Database;
use entresol_tpcc::consistency::{Condition, Depth, check, check_warehouse};
use entresol_tpcc::schema::*;
use support::{load_tiny, new_store};
use zerocopy::big_endian::{U32, U64};

const WAREHOUSE: WarehouseId = WarehouseId::new(2);
const DISTRICT: DistrictId = DistrictId::new(4);
/// Loaded as delivered.
const DELIVERED: OrderId = OrderId::new(3);
/// Loaded as undelivered.
const UNDELIVERED: OrderId = OrderId::new(50);

/// Changes one row.
fn alter<K: Record, R: Record>(
    txn: &mut Txn,
    relation: &Relation<K, R>,
    key: K,
    change: impl FnOnce(&mut R),
) {
    let mut buffer = Vec::new();
    let row = relation.require(txn, &key, Lock::Exclusive, &mut buffer).unwrap();
    change(row);
    relation.update(txn, &key, row).unwrap();
}

fn order_key(order: OrderId) -> OrderKey {
    OrderKey { warehouse: WAREHOUSE, district: DISTRICT, order }
}

fn line_key(order: OrderId) -> OrderLineKey {
    OrderLineKey { warehouse: WAREHOUSE, district: DISTRICT, order, line: LineNumber::new(1) }
}

fn new_order_key(order: OrderId) -> NewOrderKey {
    NewOrderKey { warehouse: WAREHOUSE, district: DISTRICT, order }
}

/// Loads, breaks, and returns the conditions violated, after having asked the other depths and warehouses
/// too.
fn violated(breakage: impl FnOnce(&mut Txn, &Tables)) -> Vec<Condition> {
    let store = new_store();
    let database: Database = load_tiny(&store, 2, 3);
    let mut txn = store.begin();
    breakage(&mut txn, database.tables());
    txn.commit().unwrap();

    let full = check(&database, Depth::Full).unwrap();
    assert!(!full.is_consistent(), "{full}");
    assert!(full.to_string().contains("violated at"), "{full}");
    let one = check_warehouse(&database, WAREHOUSE, Depth::Full).unwrap();
    assert_eq!(one.violations, full.violations);
    let other = check_warehouse(&database, WarehouseId::new(1), Depth::Full).unwrap();
    assert!(other.is_consistent(), "{other}");
    let mut conditions: Vec<_> = full.violations.iter().map(|violation| violation.condition).collect();
    conditions.sort_unstable();
    conditions
}

#[test]
fn totals_of_warehouse_and_district() {
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.warehouses, WarehouseKey { warehouse: WAREHOUSE }, |row| row.ytd += Cents::new(1));
    });
    assert_eq!(conditions, [Condition::WarehouseYtd, Condition::WarehouseHistory]);
    let conditions = violated(|txn, tables| {
        let key = DistrictKey { warehouse: WAREHOUSE, district: DISTRICT };
        alter(txn, &tables.districts, key, |row| row.ytd += Cents::new(1));
    });
    assert_eq!(conditions, [Condition::WarehouseYtd, Condition::DistrictHistory]);
}

#[test]
fn numbers_of_orders() {
    let conditions = violated(|txn, tables| {
        let key = DistrictKey { warehouse: WAREHOUSE, district: DISTRICT };
        alter(txn, &tables.districts, key, |row| row.next_order = row.next_order.next());
    });
    assert_eq!(conditions, [Condition::NextOrder]);
    let conditions = violated(|txn, tables| {
        assert!(tables.new_orders.delete(txn, &new_order_key(UNDELIVERED)).unwrap());
    });
    assert_eq!(conditions, [Condition::NewOrderGaps, Condition::Carrier, Condition::Deliveries]);
    let conditions = violated(|txn, tables| {
        tables.new_orders.insert(txn, &new_order_key(OrderId::new(61)), &()).unwrap();
    });
    assert_eq!(conditions, [Condition::NextOrder, Condition::Carrier, Condition::Deliveries]);
}

#[test]
fn lines_of_orders() {
    let conditions = violated(|txn, tables| {
        assert!(tables.order_lines.delete(txn, &line_key(DELIVERED)).unwrap());
    });
    assert_eq!(conditions, [Condition::LineCount, Condition::OrderLines]);
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.order_lines, line_key(UNDELIVERED), |row| row.delivery = Timestamp::LOAD);
    });
    assert_eq!(conditions, [Condition::DeliveryDate]);
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.orders, order_key(UNDELIVERED), |row| row.carrier = CarrierId::new(1));
    });
    // The order now counts as delivered, so its lines and its customer's balance do not fit either.
    assert_eq!(
        conditions,
        [Condition::Carrier, Condition::DeliveryDate, Condition::Balance, Condition::BalanceAndPayments]
    );
}

#[test]
fn money_of_customers() {
    let customer = CustomerKey { warehouse: WAREHOUSE, district: DISTRICT, customer: CustomerId::new(9) };
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.customers, customer, |row| {
            row.balance += Cents::new(1);
            row.ytd_payment -= Cents::new(1);
        });
    });
    assert_eq!(conditions, [Condition::Balance]);
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.customers, customer, |row| row.ytd_payment -= Cents::new(1));
    });
    assert_eq!(conditions, [Condition::BalanceAndPayments]);
    let conditions = violated(|txn, tables| {
        // The last payment loaded is one at the last district of the last warehouse.
        let key = HistoryKey { session: U32::ZERO, sequence: U64::new(2 * 10 * 60) };
        assert!(tables.history.delete(txn, &key).unwrap());
    });
    assert_eq!(conditions, [Condition::WarehouseHistory, Condition::DistrictHistory, Condition::Balance]);
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.customers, customer, |row| row.deliveries += 1);
    });
    assert_eq!(conditions, [Condition::Deliveries]);
}

#[test]
fn indexes() {
    let conditions = violated(|txn, tables| {
        alter(txn, &tables.orders, order_key(UNDELIVERED), |row| {
            row.customer = CustomerId::new(row.customer.get() % 60 + 1);
        });
    });
    assert_eq!(conditions, [Condition::OrderIndex]);
    let conditions = violated(|txn, tables| {
        let key = CustomerKey { warehouse: WAREHOUSE, district: DISTRICT, customer: CustomerId::new(9) };
        alter(txn, &tables.customers, key, |row| row.first = Text::new(b"Somebody Else"));
    });
    assert_eq!(conditions, [Condition::NameIndex]);
}
