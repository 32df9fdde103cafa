//! CUSTOMER, its index by name, and the one HISTORY row of each customer.

use super::LoadConfig;
use super::place::{Place, Places};
use crate::random::{Constants, Purpose, Random, Seed, last_name};
use crate::scale::Scale;
use crate::schema::{
    Cents, CustomerId, CustomerKey, CustomerNameKey, CustomerRow, HistoryKey, HistoryRow, Rate, Text,
    Timestamp,
};
use zerocopy::big_endian::{U32, U64};
use zerocopy::little_endian::{self, U16};

/// The initial payment of each customer (clause 4.3.3.1).
const FIRST_PAYMENT: Cents = Cents::whole(10);

/// The sum of the initial payments of a district's customers.
pub(super) fn district_payments(scale: Scale) -> Cents {
    Cents::new(FIRST_PAYMENT.get() * i64::from(scale.customers))
}

/// The names of a district's customers, in order of their numbers.
struct Names {
    random: Random,
    constant: u32,
    last_names: u32,
}

impl Names {
    fn new(config: &LoadConfig, constants: Constants, place: Place) -> Self {
        let random = stream(config.seed, Purpose::CustomerNames, place);
        Self { random, constant: constants.last_name, last_names: config.scale.last_names() }
    }

    /// Last and first name of customer `number`. Each of the first thousand has a different last name.
    fn next(&mut self, number: u32) -> (Text<16>, Text<16>) {
        let last = if number <= self.last_names {
            number - 1
        } else {
            self.random.nurand(255, self.constant, 0, self.last_names - 1)
        };
        let mut first = Text::default();
        self.random.a_string(8, &mut first);
        (last_name(last), first)
    }
}

fn stream(seed: Seed, purpose: Purpose, place: Place) -> Random {
    Random::stream(seed, purpose, place.warehouse.get(), u32::from(place.district.get()))
}

pub(super) fn customers(
    config: &LoadConfig,
    constants: Constants,
) -> impl FnMut(&mut CustomerKey, &mut CustomerRow) -> bool {
    let config = *config;
    let mut places = Places::new(config.scale, 1, config.scale.customers);
    let mut streams = None;
    move |key, row| {
        let Some(place) = places.next() else { return false };
        if places.opens(place) {
            let names = Names::new(&config, constants, place);
            streams = Some((names, stream(config.seed, Purpose::Customers, place)));
        }
        let (names, random) = streams.as_mut().expect("the first place of a district has opened its streams");
        *key = CustomerKey {
            warehouse: place.warehouse,
            district: place.district,
            customer: CustomerId::new(place.number),
        };
        (row.last, row.first) = names.next(place.number);
        row.middle = Text::new(b"OE");
        random.address(&mut row.address);
        random.n_string(&mut row.phone);
        row.since = Timestamp::LOAD;
        row.credit = Text::new(if random.percent(10) { b"BC" } else { b"GC" });
        row.credit_limit = little_endian::U32::new(5_000_000);
        row.discount = Rate::new(random.uniform(0, 5_000) as u16);
        row.balance = Cents::ZERO - FIRST_PAYMENT;
        row.ytd_payment = FIRST_PAYMENT;
        row.payments = U16::new(1);
        row.deliveries = U16::ZERO;
        random.a_string(300, &mut row.data);
        true
    }
}

pub(super) fn customer_names(
    config: &LoadConfig,
    constants: Constants,
) -> impl FnMut(&mut CustomerNameKey, &mut ()) -> bool {
    let config = *config;
    let mut places = Places::new(config.scale, 1, config.scale.customers);
    // The district's keys. They are filled and sorted at the start of each district.
    let mut keys: Vec<CustomerNameKey> = Vec::new();
    move |key, ()| {
        let Some(place) = places.next() else { return false };
        if places.opens(place) {
            let mut names = Names::new(&config, constants, place);
            keys.clear();
            keys.extend((1..=config.scale.customers).map(|number| {
                let (last, first) = names.next(number);
                let customer = CustomerId::new(number);
                CustomerNameKey {
                    warehouse: place.warehouse,
                    district: place.district,
                    last,
                    first,
                    customer,
                }
            }));
            keys.sort_unstable();
        }
        *key = keys[place.number as usize - 1];
        true
    }
}

pub(super) fn history(config: &LoadConfig) -> impl FnMut(&mut HistoryKey, &mut HistoryRow) -> bool {
    let config = *config;
    let mut places = Places::new(config.scale, 1, config.scale.customers);
    let mut random = Random::stream(config.seed, Purpose::History, 0, 0);
    let mut sequence = 0;
    move |key, row| {
        let Some(place) = places.next() else { return false };
        if places.opens(place) {
            random = stream(config.seed, Purpose::History, place);
        }
        sequence += 1;
        *key = HistoryKey { session: U32::ZERO, sequence: U64::new(sequence) };
        row.customer = CustomerId::new(place.number);
        (row.customer_district, row.district) = (place.district, place.district);
        (row.customer_warehouse, row.warehouse) = (place.warehouse, place.warehouse);
        row.date = Timestamp::LOAD;
        row.amount = FIRST_PAYMENT;
        random.a_string(12, &mut row.data);
        true
    }
}
