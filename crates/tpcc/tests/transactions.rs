//! Each transaction by itself.

mod support;

use entresol_store::{Direction, Lock};
use entresol_tpcc::Database;
use entresol_tpcc::consistency::digest;
use entresol_tpcc::random::{Purpose, Random, Seed};
use entresol_tpcc::schema::*;
use entresol_tpcc::transactions::*;
use support::{assert_consistent, load_tiny, new_store, terminal};
use zerocopy::big_endian::{U32, U64};

const WAREHOUSE: WarehouseId = WarehouseId::new(1);
const DISTRICT: DistrictId = DistrictId::new(3);
const CUSTOMER: CustomerId = CustomerId::new(5);

/// A copy of a row.
fn read<K: Record, R: Record>(database: &Database, relation: &Relation<K, R>, key: &K) -> Option<R> {
    let mut txn = database.store().begin();
    relation.get(&mut txn, key, Lock::None, &mut Vec::new()).unwrap().copied()
}

fn district(database: &Database) -> DistrictRow {
    read(database, &database.tables().districts, &DistrictKey { warehouse: WAREHOUSE, district: DISTRICT })
        .unwrap()
}

fn customer(database: &Database, customer: CustomerId) -> CustomerRow {
    let key = CustomerKey { warehouse: WAREHOUSE, district: DISTRICT, customer };
    read(database, &database.tables().customers, &key).unwrap()
}

fn stock(database: &Database, warehouse: u32, item: u32) -> StockRow {
    let key = StockKey { warehouse: WarehouseId::new(warehouse), item: ItemId::new(item) };
    read(database, &database.tables().stock, &key).unwrap()
}

fn line(item: u32, supply: u32, quantity: u8) -> LineInput {
    LineInput { item: ItemId::new(item), supply: WarehouseId::new(supply), quantity }
}

fn history_key(sequence: u64) -> HistoryKey {
    HistoryKey { session: U32::new(1), sequence: U64::new(sequence) }
}

#[test]
fn new_order_writes_order_lines_and_stock() {
    let database = load_tiny(&new_store(), 2, 1);
    // Not sorted, one item twice, one from the other warehouse.
    let lines = [line(900, 1, 3), line(7, 2, 10), line(8, 1, 1), line(900, 1, 4), line(1, 1, 2)];
    let before = lines.map(|line| stock(&database, line.supply.get(), line.item.get()));
    let old_district = district(&database);

    let input = NewOrderInput::new(WAREHOUSE, DISTRICT, CUSTOMER, &lines);
    let outcome = new_order(&database, &mut Buffers::default(), &input).unwrap();
    let NewOrderOutcome::Committed(output) = outcome else { panic!("{outcome:?}") };

    let order = old_district.next_order;
    assert_eq!(output.order, order);
    assert_eq!(district(&database).next_order, order.next());
    let key = OrderKey { warehouse: WAREHOUSE, district: DISTRICT, order };
    let row = read(&database, &database.tables().orders, &key).unwrap();
    assert_eq!((row.customer, row.lines, row.all_local), (CUSTOMER, 5, 0));
    assert!(row.carrier.is_null());
    let key = NewOrderKey { warehouse: WAREHOUSE, district: DISTRICT, order };
    assert!(read(&database, &database.tables().new_orders, &key).is_some());

    let mut sum = Cents::ZERO;
    for (number, (input, output)) in (1..).zip(lines.iter().zip(output.lines())) {
        let key =
            OrderLineKey { warehouse: WAREHOUSE, district: DISTRICT, order, line: LineNumber::new(number) };
        let row = read(&database, &database.tables().order_lines, &key).unwrap();
        let item = read(&database, &database.tables().items, &ItemKey { item: input.item }).unwrap();
        assert_eq!((row.item, row.supply, row.quantity), (input.item, input.supply, input.quantity));
        assert_eq!(row.amount, item.price * input.quantity);
        assert_eq!((output.price, output.amount), (item.price, row.amount));
        let stock = stock(&database, input.supply.get(), input.item.get());
        assert_eq!(&row.district_info, stock.district_info(DISTRICT));
        assert_eq!(output.brand, item.data.contains(b"ORIGINAL") && stock.data.contains(b"ORIGINAL"));
        assert!(row.delivery.is_null());
        sum += row.amount;
    }
    let after = lines.map(|line| stock(&database, line.supply.get(), line.item.get()));
    let restocked = |quantity: i16, taken: i16| {
        if quantity - taken >= 10 { quantity - taken } else { quantity - taken + 91 }
    };
    for at in [1, 2, 4] {
        let taken = i16::from(lines[at].quantity);
        assert_eq!(after[at].quantity.get(), restocked(before[at].quantity.get(), taken));
        assert_eq!(after[at].ytd.get(), u32::from(lines[at].quantity));
        assert_eq!(after[at].orders.get(), 1);
        assert_eq!(after[at].remote_orders.get(), u32::from(at == 1));
    }
    assert_eq!(after[0].quantity.get(), restocked(restocked(before[0].quantity.get(), 3), 4));
    assert_eq!((after[0].ytd.get(), after[0].orders.get()), (7, 2));

    let warehouse =
        read(&database, &database.tables().warehouses, &WarehouseKey { warehouse: WAREHOUSE }).unwrap();
    let factor = (1.0 - f64::from(customer(&database, CUSTOMER).discount.get()) / 10_000.0)
        * (1.0 + f64::from(warehouse.tax.get() + old_district.tax.get()) / 10_000.0);
    let expected = sum.get() as f64 * factor;
    assert!((output.total.get() as f64 - expected).abs() <= 1.0, "{} is not {expected}", output.total.get());
    assert_consistent(&database);
}

#[test]
fn new_order_with_an_unused_item_changes_nothing() {
    let database = load_tiny(&new_store(), 1, 1);
    let before = digest(&database).unwrap();
    let mut buffers = Buffers::default();
    let lines = [line(3, 1, 1), line(2, 1, 1), line(1_001, 1, 1)];
    let input = NewOrderInput::new(WAREHOUSE, DISTRICT, CUSTOMER, &lines);
    assert_eq!(new_order(&database, &mut buffers, &input).unwrap(), NewOrderOutcome::RolledBack);
    assert_eq!(digest(&database).unwrap(), before);
    // The digest does see a change.
    let input = NewOrderInput::new(WAREHOUSE, DISTRICT, CUSTOMER, &lines[..2]);
    assert!(matches!(new_order(&database, &mut buffers, &input).unwrap(), NewOrderOutcome::Committed(_)));
    assert_ne!(digest(&database).unwrap(), before);
}

#[test]
fn payment_reaches_customer_district_warehouse_and_history() {
    let database = load_tiny(&new_store(), 2, 1);
    let home = DistrictId::new(8);
    let key = CustomerKey { warehouse: WarehouseId::new(2), district: home, customer: CUSTOMER };
    let input = PaymentInput {
        warehouse: WAREHOUSE,
        district: DISTRICT,
        customer_warehouse: key.warehouse,
        customer_district: home,
        customer: CustomerChoice::Id(CUSTOMER),
        amount: Cents::new(12_345),
    };
    let before = read(&database, &database.tables().customers, &key).unwrap();
    let old_till = district(&database);
    let output = payment(&database, &mut Buffers::default(), &input, history_key(1)).unwrap();
    let after = read(&database, &database.tables().customers, &key).unwrap();
    assert_eq!(after.balance, before.balance - input.amount);
    assert_eq!(after.ytd_payment, before.ytd_payment + input.amount);
    assert_eq!(after.payments.get(), before.payments.get() + 1);
    assert_eq!((output.customer, output.balance), (CUSTOMER, after.balance));
    assert_eq!(district(&database).ytd, old_till.ytd + input.amount);
    let paid = read(&database, &database.tables().history, &history_key(1)).unwrap();
    assert_eq!((paid.customer, paid.customer_district, paid.district), (CUSTOMER, home, DISTRICT));
    assert_eq!((paid.customer_warehouse, paid.warehouse), (key.warehouse, WAREHOUSE));
    assert_eq!(paid.amount, input.amount);
    assert_consistent(&database);
}

#[test]
fn bad_credit_is_noted_and_good_is_not() {
    let database = load_tiny(&new_store(), 1, 1);
    let mut buffers = Buffers::default();
    let mut seen = [0, 0];
    for number in 1..=60 {
        let who = CustomerId::new(number);
        let before = customer(&database, who);
        let input = PaymentInput {
            warehouse: WAREHOUSE,
            district: DISTRICT,
            customer_warehouse: WAREHOUSE,
            customer_district: DISTRICT,
            customer: CustomerChoice::Id(who),
            amount: Cents::whole(5),
        };
        let output = payment(&database, &mut buffers, &input, history_key(u64::from(number))).unwrap();
        let after = customer(&database, who);
        let bad = before.credit.as_bytes() == b"BC";
        seen[usize::from(bad)] += 1;
        assert_eq!(output.bad_credit, bad);
        let note = format!("{number} 3 1 3 1 5.00|");
        assert_eq!(after.data.as_bytes().starts_with(note.as_bytes()), bad);
        assert_eq!(after.data == before.data, !bad);
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?} customers of good and bad credit");
    assert_consistent(&database);
}

#[test]
fn a_customer_by_name_is_the_middle_one() {
    let database = load_tiny(&new_store(), 1, 1);
    // All customers of one district get one last name, so that the middle is known from the first names
    // alone.
    let mut firsts = Vec::new();
    let last = Text::new(b"SAME");
    let mut txn = database.store().begin();
    for number in 1..=60 {
        let row = customer(&database, CustomerId::new(number));
        let key = |last| CustomerNameKey {
            warehouse: WAREHOUSE,
            district: DISTRICT,
            last,
            first: row.first,
            customer: CustomerId::new(number),
        };
        let names = &database.tables().customer_names;
        assert!(names.delete(&mut txn, &key(row.last)).unwrap());
        if number <= 4 {
            names.insert(&mut txn, &key(last), &()).unwrap();
            firsts.push((row.first, CustomerId::new(number)));
        }
    }
    txn.commit().unwrap();
    firsts.sort_unstable();
    let input = OrderStatusInput {
        warehouse: WAREHOUSE,
        district: DISTRICT,
        customer: CustomerChoice::LastName(last),
    };
    let output = order_status(&database, &mut Buffers::default(), &input).unwrap();
    assert_eq!(output.customer, firsts[1].1, "the second of four");
    let nobody = OrderStatusInput { customer: CustomerChoice::LastName(Text::new(b"NOBODY")), ..input };
    assert!(order_status(&database, &mut Buffers::default(), &nobody).is_err());
}

#[test]
fn order_status_shows_the_newest_order() {
    let database = load_tiny(&new_store(), 1, 1);
    let mut buffers = Buffers::default();
    let input =
        OrderStatusInput { warehouse: WAREHOUSE, district: DISTRICT, customer: CustomerChoice::Id(CUSTOMER) };
    let loaded = order_status(&database, &mut buffers, &input).unwrap();
    assert!(loaded.order < OrderId::new(61));
    let lines = [line(10, 1, 1), line(20, 1, 2)];
    new_order(&database, &mut buffers, &NewOrderInput::new(WAREHOUSE, DISTRICT, CUSTOMER, &lines)).unwrap();
    // A later order of somebody else is not shown.
    let other = CustomerId::new(6);
    new_order(&database, &mut buffers, &NewOrderInput::new(WAREHOUSE, DISTRICT, other, &lines[..1])).unwrap();
    let newest = order_status(&database, &mut buffers, &input).unwrap();
    assert_eq!(newest.order, OrderId::new(61));
    assert!(newest.carrier.is_null());
    assert_eq!(newest.balance, customer(&database, CUSTOMER).balance);
    let items: Vec<_> = buffers.lines().iter().map(|(key, row)| (key.line.get(), row.item.get())).collect();
    assert_eq!(items, [(1, 10), (2, 20)]);
}

#[test]
fn delivery_takes_the_oldest_of_each_district_until_none_is_left() {
    let database = load_tiny(&new_store(), 1, 1);
    let mut buffers = Buffers::default();
    let input = DeliveryInput { warehouse: WAREHOUSE, carrier: CarrierId::new(7) };
    // 60 orders, the newest 18 undelivered.
    for round in 0..18 {
        let order = OrderId::new(43 + round);
        let key = OrderKey { warehouse: WAREHOUSE, district: DISTRICT, order };
        let row = read(&database, &database.tables().orders, &key).unwrap();
        let before = customer(&database, row.customer);
        let output = delivery(&database, &mut buffers, &input).unwrap();
        assert_eq!(output.orders, [Some(order); 10]);
        let amount: Cents = delivered_amount(&database, order);
        let after = customer(&database, row.customer);
        assert_eq!(after.balance, before.balance + amount);
        assert_eq!(after.deliveries.get(), before.deliveries.get() + 1);
        assert_eq!(read(&database, &database.tables().orders, &key).unwrap().carrier, CarrierId::new(7));
        let waiting = NewOrderKey { warehouse: WAREHOUSE, district: DISTRICT, order };
        assert!(read(&database, &database.tables().new_orders, &waiting).is_none());
    }
    assert_consistent(&database);
    assert_eq!(delivery(&database, &mut buffers, &input).unwrap().orders, [None; 10]);
}

/// What the order's lines come to; all must have been delivered.
fn delivered_amount(database: &Database, order: OrderId) -> Cents {
    let mut sum = Cents::ZERO;
    let bound = |order| OrderLineKey::first_of(WAREHOUSE, DISTRICT, order);
    let mut txn = database.store().begin();
    let lines = &database.tables().order_lines;
    lines
        .scan(&mut txn, &bound(order), &bound(order.next()), Direction::Forward, Lock::None, |_, row| {
            assert!(!row.delivery.is_null());
            sum += row.amount;
            true
        })
        .unwrap();
    sum
}

#[test]
fn stock_level_counts_distinct_low_items_of_the_last_twenty_orders() {
    let database = load_tiny(&new_store(), 1, 1);
    let mut buffers = Buffers::default();
    let mut items = std::collections::BTreeSet::new();
    let lines = &database.tables().order_lines;
    let bound = |order| OrderLineKey::first_of(WAREHOUSE, DISTRICT, OrderId::new(order));
    let mut txn = database.store().begin();
    lines
        .scan(&mut txn, &bound(41), &bound(61), Direction::Forward, Lock::None, |_, row| {
            items.insert(row.item.get());
            true
        })
        .unwrap();
    for threshold in [10, 15, 50, 101] {
        let low = items.iter().filter(|&&item| stock(&database, 1, item).quantity.get() < threshold).count();
        let input = StockLevelInput { warehouse: WAREHOUSE, district: DISTRICT, threshold };
        let output = stock_level(&database, &mut buffers, &input).unwrap();
        assert_eq!((output.low, output.items), (low as u32, items.len() as u32), "below {threshold}");
    }
}

#[test]
fn inputs_have_the_specified_shares() {
    let database = load_tiny(&new_store(), 4, 1);
    let terminal = terminal(&database);
    let mut random = Random::stream(Seed(1), Purpose::Client, 0, 0);
    let draws = 20_000;
    let [mut rollbacks, mut lines, mut remote_lines, mut remote_payments, mut by_name] = [0; 5];
    for _ in 0..draws {
        let order = NewOrderInput::generate(&mut random, &terminal);
        assert_eq!(order.warehouse(), terminal.warehouse);
        lines += order.lines().len();
        remote_lines += order.lines().iter().filter(|line| line.supply != terminal.warehouse).count();
        rollbacks += usize::from(order.lines().iter().any(|line| line.item.get() > 1_000));
        assert!(order.lines().iter().all(|line| (1..=10).contains(&line.quantity)));
        let payment = PaymentInput::generate(&mut random, &terminal);
        if payment.customer_warehouse != terminal.warehouse {
            remote_payments += 1;
        } else {
            assert_eq!(payment.customer_district, payment.district);
        }
        by_name += usize::from(matches!(payment.customer, CustomerChoice::LastName(_)));
    }
    let share = |count: usize, of: usize| count as f64 * 100.0 / of as f64;
    assert!((9.9..10.1).contains(&(lines as f64 / f64::from(draws))), "{lines} lines");
    assert!((0.75..1.25).contains(&share(rollbacks, draws as usize)), "{rollbacks} roll back");
    assert!((0.9..1.1).contains(&share(remote_lines, lines)), "{remote_lines} of {lines} lines are remote");
    assert!(
        (14.0..16.0).contains(&share(remote_payments, draws as usize)),
        "{remote_payments} remote payments"
    );
    assert!((58.5..61.5).contains(&share(by_name, draws as usize)), "{by_name} by name");
}
