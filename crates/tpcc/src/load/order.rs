//! ORDER, its index by customer, NEW-ORDER and ORDER-LINE.

use super::LoadConfig;
use super::place::{Place, Places};
use crate::random::{Purpose, Random};
use crate::scale::{LINES_MAX, LINES_MIN, Scale};
use crate::schema::{
    CarrierId, Cents, CustomerId, CustomerOrderKey, ItemId, LineNumber, NewOrderKey, OrderId, OrderKey,
    OrderLineKey, OrderLineRow, OrderRow, Timestamp,
};

/// The common facts of the four tables about the orders of a district; element `n` is of order `n + 1`.
#[derive(Default)]
struct DistrictOrders {
    /// A permutation of the district's customers.
    customers: Vec<u32>,
    carriers: Vec<CarrierId>,
    lines: Vec<u8>,
}

impl DistrictOrders {
    fn generate(&mut self, config: &LoadConfig, place: Place) {
        let scale = config.scale;
        let district = u32::from(place.district.get());
        let mut random = Random::stream(config.seed, Purpose::Orders, place.warehouse.get(), district);
        self.customers.clear();
        self.customers.extend(1..=scale.customers);
        random.shuffle(&mut self.customers);
        self.carriers.clear();
        self.lines.clear();
        for number in 1..=scale.customers {
            let carrier = random.uniform_u8(1, 10);
            let delivered = number < scale.first_undelivered();
            self.carriers.push(if delivered { CarrierId::new(carrier) } else { CarrierId::NULL });
            self.lines.push(random.uniform_u8(LINES_MIN, LINES_MAX));
        }
    }
}

fn all_orders(scale: Scale) -> Places {
    Places::new(scale, 1, scale.customers)
}

pub(super) fn orders(config: &LoadConfig) -> impl FnMut(&mut OrderKey, &mut OrderRow) -> bool {
    let config = *config;
    let mut places = all_orders(config.scale);
    let mut facts = DistrictOrders::default();
    move |key, row| {
        let Some(place) = places.next() else { return false };
        if places.opens(place) {
            facts.generate(&config, place);
        }
        let at = place.number as usize - 1;
        let order = OrderId::new(place.number);
        *key = OrderKey { warehouse: place.warehouse, district: place.district, order };
        *row = OrderRow {
            customer: CustomerId::new(facts.customers[at]),
            entry: Timestamp::LOAD,
            carrier: facts.carriers[at],
            lines: facts.lines[at],
            all_local: 1,
        };
        true
    }
}

pub(super) fn customer_orders(config: &LoadConfig) -> impl FnMut(&mut CustomerOrderKey, &mut ()) -> bool {
    let config = *config;
    let mut places = all_orders(config.scale);
    let mut facts = DistrictOrders::default();
    let mut order_of = Vec::new();
    move |key, ()| {
        // Here each place represents a customer, with one order.
        let Some(place) = places.next() else { return false };
        if places.opens(place) {
            facts.generate(&config, place);
            order_of.resize(facts.customers.len(), 0);
            for (order, &customer) in (1..).zip(&facts.customers) {
                order_of[customer as usize - 1] = order;
            }
        }
        *key = CustomerOrderKey {
            warehouse: place.warehouse,
            district: place.district,
            customer: CustomerId::new(place.number),
            order: OrderId::new(order_of[place.number as usize - 1]),
        };
        true
    }
}

pub(super) fn new_orders(config: &LoadConfig) -> impl FnMut(&mut NewOrderKey, &mut ()) -> bool {
    let scale = config.scale;
    let mut places = Places::new(scale, scale.first_undelivered(), scale.customers);
    move |key, ()| {
        let Some(place) = places.next() else { return false };
        let order = OrderId::new(place.number);
        *key = NewOrderKey { warehouse: place.warehouse, district: place.district, order };
        true
    }
}

pub(super) fn order_lines(config: &LoadConfig) -> impl FnMut(&mut OrderLineKey, &mut OrderLineRow) -> bool {
    let config = *config;
    let mut places = all_orders(config.scale);
    let mut facts = DistrictOrders::default();
    let mut random = Random::stream(config.seed, Purpose::OrderLines, 0, 0);
    let mut order = None;
    let mut line = LineNumber::new(0);
    move |key, row| {
        if order.is_none_or(|order: Place| line.get() == facts.lines[order.number as usize - 1]) {
            let Some(place) = places.next() else { return false };
            if places.opens(place) {
                facts.generate(&config, place);
                let district = u32::from(place.district.get());
                random = Random::stream(config.seed, Purpose::OrderLines, place.warehouse.get(), district);
            }
            (order, line) = (Some(place), LineNumber::new(0));
        }
        let place = order.expect("the branch above has set it");
        line = line.next();
        *key = OrderLineKey {
            warehouse: place.warehouse,
            district: place.district,
            order: OrderId::new(place.number),
            line,
        };
        let delivered = place.number < config.scale.first_undelivered();
        row.item = ItemId::new(random.uniform(1, config.scale.items));
        row.supply = place.warehouse;
        row.delivery = if delivered { Timestamp::LOAD } else { Timestamp::NULL };
        row.quantity = 5;
        row.amount = if delivered { Cents::ZERO } else { Cents::new(i64::from(random.uniform(1, 999_999))) };
        random.a_string(24, &mut row.district_info);
        true
    }
}
