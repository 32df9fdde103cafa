//! Keys compare as bytes like the tuples of their parts.

use entresol_tpcc::schema::{
    CustomerId, CustomerNameKey, CustomerOrderKey, DistrictId, HistoryKey, ItemId, LineNumber, OrderId,
    OrderLineKey, StockKey, Text, WarehouseId,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U32, U64};

/// Numbers that differ in various bytes, so that the wrong byte order shows.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..4u32, 250..260u32, 65_530..65_540u32, any::<u32>()]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b'A'), Just(b'B'), Just(b'Z')], 0..6)
}

proptest! {
    #[test]
    fn order_lines(a in (number(), 1..=10u8, number(), 0..=15u8), b in (number(), 1..=10u8, number(), 0..=15u8)) {
        let key = |(warehouse, district, order, line)| OrderLineKey {
            warehouse: WarehouseId::new(warehouse),
            district: DistrictId::new(district),
            order: OrderId::new(order),
            line: LineNumber::new(line),
        };
        prop_assert_eq!(key(a).as_bytes().cmp(key(b).as_bytes()), a.cmp(&b));
        prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
    }

    #[test]
    fn stock(a in (number(), number()), b in (number(), number())) {
        let key = |(warehouse, item)| StockKey { warehouse: WarehouseId::new(warehouse), item: ItemId::new(item) };
        prop_assert_eq!(key(a).as_bytes().cmp(key(b).as_bytes()), a.cmp(&b));
    }

    #[test]
    fn orders_by_customer(a in (1..=10u8, number(), number()), b in (1..=10u8, number(), number())) {
        let key = |(district, customer, order)| CustomerOrderKey {
            warehouse: WarehouseId::new(1),
            district: DistrictId::new(district),
            customer: CustomerId::new(customer),
            order: OrderId::new(order),
        };
        prop_assert_eq!(key(a).as_bytes().cmp(key(b).as_bytes()), a.cmp(&b));
    }

    #[test]
    fn history(a in (number(), any::<u64>()), b in (number(), any::<u64>())) {
        let key = |(session, sequence)| HistoryKey { session: U32::new(session), sequence: U64::new(sequence) };
        prop_assert_eq!(key(a).as_bytes().cmp(key(b).as_bytes()), a.cmp(&b));
    }

    #[test]
    fn customers_by_name(a in (name(), name(), number()), b in (name(), name(), number())) {
        let key = |(last, first, customer): &(Vec<u8>, Vec<u8>, u32)| CustomerNameKey {
            warehouse: WarehouseId::new(1),
            district: DistrictId::new(1),
            last: Text::new(last),
            first: Text::new(first),
            customer: CustomerId::new(*customer),
        };
        prop_assert_eq!(key(&a).as_bytes().cmp(key(&b).as_bytes()), a.cmp(&b));
    }
}
