//! The initial database.

mod support;

use entresol_store::{Direction, Lock};
use entresol_tpcc::consistency::digest;
use entresol_tpcc::schema::{DistrictId, DistrictKey, OrderId, StockKey, WarehouseId};
use entresol_tpcc::{Database, LoadConfig, Scale, Seed, TpccError, load};
use support::{assert_consistent, count, load_tiny, new_store};

#[test]
fn has_the_cardinalities_of_its_scale() {
    let store = new_store();
    let scale = Scale { warehouses: 2, items: 300, customers: 50 };
    let mut reports = Vec::new();
    let config = LoadConfig { scale, seed: Seed(1) };
    let database = load(&store, &config, &mut |progress| reports.push(progress)).unwrap();

    let tables = database.tables();
    let rows = |table| count(&store, table);
    assert_eq!(rows(tables.items.table()), 300);
    assert_eq!(rows(tables.warehouses.table()), 2);
    assert_eq!(rows(tables.districts.table()), 20);
    assert_eq!(rows(tables.stock.table()), 600);
    for each_customer in [
        tables.customers.table(),
        tables.customer_names.table(),
        tables.history.table(),
        tables.orders.table(),
        tables.customer_orders.table(),
    ] {
        assert_eq!(rows(each_customer), 1_000);
    }
    assert_eq!(rows(tables.new_orders.table()), 20 * 15);
    let lines = rows(tables.order_lines.table());
    assert!((9_500..10_500).contains(&lines), "{lines} lines of 1,000 orders");

    let loaded: u64 = tables.all().iter().map(|(_, table)| rows(*table)).sum();
    let last = reports.last().expect("progress is reported");
    assert_eq!(last.rows, loaded - 1, "all rows but the catalog's are reported");
    assert!(last.rows.abs_diff(last.rows_total) < last.rows / 20, "{last:?}");
    assert!(reports.is_sorted_by_key(|progress| progress.rows));
    assert_eq!(reports.len(), tables.all().len() - 1);
}

#[test]
fn is_consistent_and_found_again() {
    let store = new_store();
    let database = load_tiny(&store, 2, 1);
    let report = assert_consistent(&database);
    assert!(report.rows > 2 * 10 * 60 * 15, "{report}");
    let opened = Database::open(&store).unwrap();
    assert_eq!(opened.scale(), Scale::tiny(2));
    assert_eq!(opened.load_constants(), database.load_constants());
    assert_consistent(&opened);
}

#[test]
fn depends_on_its_seed_only() {
    let digest_of = |seed| digest(&load_tiny(&new_store(), 2, seed)).unwrap();
    assert_eq!(digest_of(7), digest_of(7));
    assert_ne!(digest_of(7), digest_of(8));
}

#[test]
fn keys_are_stored_in_order_of_their_numbers() {
    let store = new_store();
    let scale = Scale { warehouses: 3, items: 400, customers: 10 };
    let database = load(&store, &LoadConfig { scale, seed: Seed(1) }, &mut |_| ()).unwrap();
    let mut keys = Vec::new();
    let mut txn = store.begin();
    let second = |warehouse| StockKey { warehouse: WarehouseId::new(warehouse), item: Default::default() };
    let stock = &database.tables().stock;
    stock
        .scan(&mut txn, &second(2), &second(3), Direction::Forward, Lock::None, |key, row| {
            assert!((10..=100).contains(&row.quantity.get()));
            assert!(row.districts.iter().all(|info| info.as_bytes().len() == 24));
            keys.push((key.warehouse.get(), key.item.get()));
            true
        })
        .unwrap();
    assert_eq!(keys, (1..=400).map(|item| (2, item)).collect::<Vec<_>>());

    let key = DistrictKey { warehouse: WarehouseId::new(3), district: DistrictId::new(10) };
    let mut row = Vec::new();
    let district = database.tables().districts.require(&mut txn, &key, Lock::None, &mut row).unwrap();
    assert_eq!(district.next_order, OrderId::new(11));
}

#[test]
fn last_names_of_a_full_district_are_as_specified() {
    // 2,200 customers: each of the thousand names once, then 1,200 names drawn unevenly.
    let store = new_store();
    let scale = Scale { warehouses: 1, items: 20, customers: 2_200 };
    let database = load(&store, &LoadConfig { scale, seed: Seed(1) }, &mut |_| ()).unwrap();
    let mut names = Vec::new();
    let mut original = (0, 0);
    let mut txn = store.begin();
    let bounds = [1, 2].map(|district| entresol_tpcc::schema::CustomerKey {
        warehouse: WarehouseId::new(1),
        district: DistrictId::new(district),
        customer: Default::default(),
    });
    database
        .tables()
        .customers
        .scan(&mut txn, &bounds[0], &bounds[1], Direction::Forward, Lock::None, |_, row| {
            names.push(row.last);
            original.0 += usize::from(row.credit.as_bytes() == b"BC");
            original.1 += row.data.as_bytes().len();
            assert!((300..=500).contains(&row.data.as_bytes().len()));
            true
        })
        .unwrap();
    assert_eq!(names.len(), 2_200);
    assert!((170..270).contains(&original.0), "{} of 2,200 have bad credit", original.0);
    let mut first: Vec<_> = names[..1_000].to_vec();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 1_000);
    let mut rest: Vec<_> = names[1_000..].to_vec();
    rest.sort_unstable();
    rest.dedup();
    assert!(rest.len() < 700, "1,200 draws hit {} names; uniform ones would hit about 699", rest.len());
}

#[test]
fn refuses_scales_and_stores_that_cannot_be() {
    let store = new_store();
    let scale = Scale { warehouses: 0, ..Scale::tiny(1) };
    let error = load(&store, &LoadConfig { scale, seed: Seed(1) }, &mut |_| ()).err().unwrap();
    assert!(matches!(error, TpccError::Scale { what: "warehouses", found: 0, .. }), "{error}");
    let error = Database::open(&store).err().unwrap();
    assert!(matches!(error, TpccError::NotLoaded { .. }), "{error}");
}
