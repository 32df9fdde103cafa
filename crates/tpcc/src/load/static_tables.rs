//! ITEM, WAREHOUSE, DISTRICT and STOCK: tables whose number of rows never changes.

use super::LoadConfig;
use super::place::Places;
use crate::random::{Purpose, Random};
use crate::schema::{
    Cents, DistrictKey, DistrictRow, ItemId, ItemKey, ItemRow, OrderId, Rate, StockKey, StockRow,
    WarehouseId, WarehouseKey, WarehouseRow,
};
use zerocopy::little_endian::{I16, U32};

pub(super) fn items(config: &LoadConfig) -> impl FnMut(&mut ItemKey, &mut ItemRow) -> bool {
    let mut random = Random::stream(config.seed, Purpose::Items, 0, 0);
    let mut numbers = 1..=config.scale.items;
    move |key, row| {
        let Some(number) = numbers.next() else { return false };
        key.item = ItemId::new(number);
        row.image = U32::new(random.uniform(1, 10_000));
        random.a_string(14, &mut row.name);
        row.price = Cents::new(i64::from(random.uniform(100, 10_000)));
        random.item_data(26, &mut row.data);
        true
    }
}

pub(super) fn warehouses(config: &LoadConfig) -> impl FnMut(&mut WarehouseKey, &mut WarehouseRow) -> bool {
    let mut random = Random::stream(config.seed, Purpose::Warehouses, 0, 0);
    let ytd = super::customer::district_payments(config.scale) * crate::scale::DISTRICTS;
    let mut numbers = 1..=config.scale.warehouses;
    move |key, row| {
        let Some(number) = numbers.next() else { return false };
        key.warehouse = WarehouseId::new(number);
        random.a_string(6, &mut row.name);
        random.address(&mut row.address);
        row.tax = Rate::new(random.uniform(0, 2_000) as u16);
        row.ytd = ytd;
        true
    }
}

pub(super) fn districts(config: &LoadConfig) -> impl FnMut(&mut DistrictKey, &mut DistrictRow) -> bool {
    let mut random = Random::stream(config.seed, Purpose::Districts, 0, 0);
    let ytd = super::customer::district_payments(config.scale);
    let next_order = OrderId::new(config.scale.customers + 1);
    let mut places = Places::new(config.scale, 1, 1);
    move |key, row| {
        let Some(place) = places.next() else { return false };
        *key = DistrictKey { warehouse: place.warehouse, district: place.district };
        random.a_string(6, &mut row.name);
        random.address(&mut row.address);
        row.tax = Rate::new(random.uniform(0, 2_000) as u16);
        row.ytd = ytd;
        row.next_order = next_order;
        true
    }
}

pub(super) fn stock(config: &LoadConfig) -> impl FnMut(&mut StockKey, &mut StockRow) -> bool {
    let LoadConfig { scale, seed } = *config;
    let mut random = Random::stream(seed, Purpose::Stock, 1, 0);
    let (mut warehouse, mut number) = (1, 0);
    move |key, row| {
        if number < scale.items {
            number += 1;
        } else if warehouse < scale.warehouses {
            (warehouse, number) = (warehouse + 1, 1);
            random = Random::stream(seed, Purpose::Stock, warehouse, 0);
        } else {
            return false;
        }
        *key = StockKey { warehouse: WarehouseId::new(warehouse), item: ItemId::new(number) };
        row.quantity = I16::new(random.uniform(10, 100) as i16);
        for info in &mut row.districts {
            random.a_string(24, info);
        }
        row.ytd = U32::ZERO;
        row.orders = U32::ZERO;
        row.remote_orders = U32::ZERO;
        random.item_data(26, &mut row.data);
        true
    }
}
