//! Many clients at once, in simulations with random scheduling.

mod support;

use entresol_store::{Lock, Txn};
use entresol_tpcc::consistency::{Depth, check, digest};
use entresol_tpcc::driver::{Effect, Home, Mix, Pace};
use entresol_tpcc::schema::*;
use entresol_tpcc::transactions::{Buffers, DeliveryInput, delivery};
use entresol_tpcc::{
    Acknowledged, Database, Kind, RunConfig, Seed, Statistics, TpccError, run, start, verify_acknowledged,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{assert_consistent, load_tiny, new_store, simulate};

/// A record of what is acknowledged, outside the database.
type Record = Arc<Mutex<Vec<Acknowledged>>>;

fn recorded(clients: u32, transactions: u64) -> (RunConfig, Record) {
    let record = Record::default();
    let writer = record.clone();
    let config = RunConfig {
        transactions_per_client: Some(transactions),
        acknowledge: Some(Arc::new(move |acknowledged: &Acknowledged| {
            writer.lock().unwrap().push(*acknowledged)
        })),
        ..RunConfig::new(clients, Seed(5))
    };
    (config, record)
}

/// Runs 8 clients on 2 warehouses; returns what they did, the record and the digest of the database.
fn one_run(schedule: u64) -> (Statistics, Vec<Acknowledged>, u64) {
    simulate(schedule, move || {
        let database = load_tiny(&new_store(), 2, 1);
        let (config, record) = recorded(8, 46);
        let statistics = run(&database, &config, None).unwrap();
        assert_consistent(&database);
        let record = record.lock().unwrap().clone();
        let verification = verify_acknowledged(&database, &record).unwrap();
        assert_eq!((verification.checked, verification.lost), (record.len() as u64, 0), "{verification}");
        (statistics, record, digest(&database).unwrap())
    })
}

#[test]
fn stays_consistent_under_any_schedule() {
    let mut digests = Vec::new();
    for schedule in 0..5 {
        let (statistics, record, digest) = one_run(schedule);
        let done: Vec<_> = statistics.kinds.iter().map(|kind| kind.committed + kind.rolled_back).collect();
        assert_eq!(done, [160, 160, 16, 16, 16], "two decks for each of eight clients");
        assert_eq!(statistics.committed(), record.len() as u64);
        assert_eq!(statistics.kinds.iter().map(|kind| kind.latency_us.len()).sum::<u64>(), 8 * 46);
        assert_eq!(statistics.deadlocks(), 0, "the order of locks rules out deadlocks");
        digests.push(digest);
    }
    digests.sort_unstable();
    digests.dedup();
    assert!(digests.len() > 1, "five schedules never led to another order of transactions");
}

#[test]
fn repeats_to_the_last_digit() {
    let (statistics, record, digest) = one_run(11);
    let (again, record_again, digest_again) = one_run(11);
    assert_eq!(digest, digest_again);
    assert_eq!(record, record_again);
    assert_eq!(statistics.to, again.to);
    assert_eq!(statistics.new_orders_per_second, again.new_orders_per_second);
}

#[test]
fn inputs_do_not_depend_on_the_schedule() {
    let orders = |schedule| {
        let (_, mut record, _) = one_run(schedule);
        record.sort_by_key(|acknowledged| (acknowledged.client, acknowledged.sequence));
        record
            .into_iter()
            .filter_map(|acknowledged| match acknowledged.effect {
                Effect::NewOrder { key, customer, lines } => {
                    Some((acknowledged.client, acknowledged.sequence, key.district, customer, lines))
                }
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let first = orders(1);
    assert!(first.len() > 100);
    assert_eq!(first, orders(2));
}

#[test]
fn runs_follow_each_other() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 1, 1);
        for _ in 0..3 {
            // The same seed: the same payments would collide in HISTORY if sessions did not differ.
            let (config, record) = recorded(4, 23);
            run(&database, &config, None).unwrap();
            let record = record.lock().unwrap().clone();
            assert!(verify_acknowledged(&database, &record).unwrap().losses.is_empty());
        }
        assert_consistent(&Database::open(database.store()).unwrap());
    });
}

#[test]
fn runs_for_a_time_and_shows_windows() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 3, 1);
        let config = RunConfig {
            mix: Mix::BENCHMARK_SQL,
            home: Home::Anywhere,
            pace: Pace::Think(Duration::from_millis(20)),
            ..RunConfig::new(4, Seed(1))
        };
        let clients = start(&database, &config).unwrap();
        clients.sleep(Duration::from_secs(3));
        let warm = clients.snapshot();
        clients.sleep(Duration::from_secs(5));
        let window = clients.snapshot().since(&warm);
        assert_eq!(window.duration(), Duration::from_secs(5));
        clients.stop();
        let all = clients.finish().unwrap();
        // Four clients and a transaction each 20 ms or a little more.
        let total = window.committed();
        assert!((600..1_100).contains(&total), "{total} transactions in five seconds");
        let orders = window.of(Kind::NewOrder).committed;
        assert_eq!(window.tpm_c(), orders as f64 * 12.0);
        let series = &all.new_orders_per_second;
        assert_eq!(
            series.iter().map(|&count| u64::from(count)).sum::<u64>(),
            all.of(Kind::NewOrder).committed
        );
        assert_eq!(series[3..8].iter().map(|&count| u64::from(count)).sum::<u64>(), orders);
        assert_consistent(&database);
    });
}

#[test]
fn standard_pace_is_slow() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 1, 1);
        let config = RunConfig { pace: Pace::Standard, ..RunConfig::new(10, Seed(1)) };
        let statistics = run(&database, &config, Some(Duration::from_secs(600))).unwrap();
        // Clause 4.2: at most 12.86 tpmC from the ten terminals of a warehouse.
        assert!((9.0..=14.0).contains(&statistics.tpm_c()), "{statistics}");
    });
}

#[test]
fn victims_of_deadlocks_run_again() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 1, 1);
        // One intruder holds a district, so that payments there wait with their customers locked. The other
        // holds the warehouse and then wants these customers. When the first lets go, a payment that asks for
        // the warehouse closes the cycle.
        let intruders = [true, false].map(|first| {
            let database = database.clone();
            entresol_runtime::spawn("intruder", move || {
                for round in 0..60 {
                    entresol_runtime::sleep_until(entresol_runtime::Time(round * 400_000));
                    let mut txn = database.store().begin();
                    let _ = intrude(&database, &mut txn, DistrictId::new(round as u8 % 10 + 1), first);
                    txn.abort().unwrap();
                }
            })
        });
        let (config, record) = recorded(8, 46);
        let config = RunConfig { pace: Pace::Think(Duration::from_micros(300)), ..config };
        let statistics = run(&database, &config, None).unwrap();
        for intruder in intruders {
            intruder.join();
        }
        assert!(statistics.of(Kind::Payment).deadlocks > 0, "{statistics}");
        assert_eq!(record.lock().unwrap().len() as u64, statistics.committed());
        assert_consistent(&database);
    });
}

/// Takes locks in the wrong order; fails if it becomes a deadlock's victim itself.
fn intrude(database: &Database, txn: &mut Txn, district: DistrictId, first: bool) -> Result<(), TpccError> {
    let mut row = Vec::new();
    let warehouse = WarehouseId::new(1);
    let tables = database.tables();
    if first {
        tables.districts.get(txn, &DistrictKey { warehouse, district }, Lock::Exclusive, &mut row)?;
        entresol_runtime::sleep(Duration::from_micros(200));
        return Ok(());
    }
    tables.warehouses.get(txn, &WarehouseKey { warehouse }, Lock::Exclusive, &mut row)?;
    entresol_runtime::sleep(Duration::from_micros(100));
    for customer in (1..=60).map(CustomerId::new) {
        let key = CustomerKey { warehouse, district, customer };
        tables.customers.get(txn, &key, Lock::Exclusive, &mut row)?;
    }
    Ok(())
}

#[test]
fn a_failing_client_ends_the_run() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 1, 1);
        let mut txn = database.store().begin();
        let key = DistrictKey { warehouse: WarehouseId::new(1), district: DistrictId::new(2) };
        assert!(database.tables().districts.delete(&mut txn, &key).unwrap());
        txn.commit().unwrap();
        let error =
            run(&database, &RunConfig::new(4, Seed(1)), Some(Duration::from_secs(3_600))).unwrap_err();
        assert!(matches!(error, TpccError::MissingRow { table: "district", .. }), "{error}");
        assert!(entresol_runtime::now().0 < 60_000_000_000, "the others went on");
    });
}

#[test]
fn deliveries_of_a_warehouse_wait_for_each_other() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 2, 1);
        let mut txn = database.store().begin();
        let lock = NewOrderKey::delivery_lock(WarehouseId::new(1));
        assert!(
            database
                .tables()
                .new_orders
                .get(&mut txn, &lock, Lock::Exclusive, &mut Vec::new())
                .unwrap()
                .is_none()
        );
        let ends = [1, 1, 2].map(|warehouse| {
            let (database, end) = (database.clone(), Arc::new(Mutex::new(None)));
            let note = end.clone();
            entresol_runtime::spawn("delivery", move || {
                let input =
                    DeliveryInput { warehouse: WarehouseId::new(warehouse), carrier: CarrierId::new(1) };
                let output = delivery(&database, &mut Buffers::default(), &input).unwrap();
                *note.lock().unwrap() = output.orders[0];
            });
            end
        });
        entresol_runtime::sleep(Duration::from_millis(1));
        let [first, second, other] = ends.each_ref().map(|end| end.lock().unwrap().is_some());
        assert!(!first && !second && other, "only the other warehouse is free to deliver");
        txn.commit().unwrap();
        entresol_runtime::sleep(Duration::from_millis(1));
        let mut delivered: Vec<_> = ends[..2].iter().map(|end| end.lock().unwrap().unwrap().get()).collect();
        delivered.sort_unstable();
        assert_eq!(delivered, [43, 44], "the oldest two");
        assert_consistent(&database);
    });
}

#[test]
fn threads_do_as_well() {
    let database = load_tiny(&new_store(), 2, 1);
    let (config, record) = recorded(6, 46);
    let statistics = run(&database, &config, None).unwrap();
    assert_eq!(statistics.committed(), record.lock().unwrap().len() as u64);
    assert_consistent(&database);
    let verification = verify_acknowledged(&database, &*record.lock().unwrap()).unwrap();
    assert_eq!(verification.lost, 0, "{verification}");
}

#[test]
fn losses_are_found() {
    simulate(1, || {
        let database = load_tiny(&new_store(), 1, 1);
        let (config, record) = recorded(4, 46);
        run(&database, &config, None).unwrap();
        let record = record.lock().unwrap().clone();
        let find = |wanted: fn(&Effect) -> bool| {
            let found = record.iter().rev().find(|acknowledged| wanted(&acknowledged.effect));
            *found.expect("the run had such a transaction")
        };
        let order = find(|effect| matches!(effect, Effect::NewOrder { .. }));
        let payment = find(|effect| matches!(effect, Effect::Payment { .. }));
        let delivery =
            find(|effect| matches!(effect, Effect::Delivery { orders, .. } if orders[4].is_some()));

        let mut txn = database.store().begin();
        let tables = database.tables();
        let Effect::NewOrder { key: OrderKey { warehouse, district, order: number }, .. } = order.effect
        else {
            unreachable!()
        };
        let line = OrderLineKey { warehouse, district, order: number, line: LineNumber::new(2) };
        assert!(tables.order_lines.delete(&mut txn, &line).unwrap());
        let Effect::Payment { key, .. } = payment.effect else { unreachable!() };
        assert!(tables.history.delete(&mut txn, &key).unwrap());
        let Effect::Delivery { warehouse, orders, .. } = delivery.effect else { unreachable!() };
        let key = NewOrderKey { warehouse, district: DistrictId::new(5), order: orders[4].unwrap() };
        tables.new_orders.insert(&mut txn, &key, &()).unwrap();
        txn.commit().unwrap();

        let verification = verify_acknowledged(&database, &record).unwrap();
        let lost: Vec<_> = verification.losses.iter().map(|loss| loss.acknowledged).collect();
        assert_eq!(verification.lost, 3, "{verification}");
        for expected in [order, payment, delivery] {
            assert!(lost.contains(&expected), "{verification}");
        }
        assert!(!check(&database, Depth::Orders).unwrap().is_consistent());
    });
}
