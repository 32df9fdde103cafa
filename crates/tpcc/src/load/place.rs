//! An iteration over all warehouses and districts in key order.

use crate::scale::{DISTRICTS, Scale};
use crate::schema::{DistrictId, WarehouseId};

/// The `number`-th row (from 1) of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) warehouse: WarehouseId,
    pub(super) district: DistrictId,
    pub(super) number: u32,
}

/// All places with `number` in `first ..= last`, in order.
pub(super) struct Places {
    next: Place,
    first: u32,
    last: u32,
    warehouses: u32,
}

impl Places {
    /// `first ..= last` must not be empty.
    pub(super) fn new(scale: Scale, first: u32, last: u32) -> Self {
        debug_assert!(first <= last, "an empty range {first} ..= {last}");
        let next = Place { warehouse: WarehouseId::new(1), district: DistrictId::new(1), number: first };
        Self { next, first, last, warehouses: scale.warehouses }
    }

    /// Whether `place` is the first of its district.
    pub(super) fn opens(&self, place: Place) -> bool {
        place.number == self.first
    }
}

impl Iterator for Places {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let place = self.next;
        if place.warehouse.get() > self.warehouses {
            return None;
        }
        if place.number < self.last {
            self.next.number += 1;
        } else {
            self.next.number = self.first;
            if place.district.get() < DISTRICTS {
                self.next.district = place.district.next();
            } else {
                self.next.district = DistrictId::new(1);
                self.next.warehouse = place.warehouse.next();
            }
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_all_and_in_order() {
        let scale = Scale { warehouses: 3, items: 20, customers: 10 };
        let places: Vec<_> = Places::new(scale, 8, 10).collect();
        assert_eq!(places.len(), 3 * 10 * 3);
        let tuples: Vec<_> = places.iter().map(|p| (p.warehouse, p.district, p.number)).collect();
        assert!(tuples.is_sorted_by(|a, b| a < b));
        assert_eq!(tuples[0], (WarehouseId::new(1), DistrictId::new(1), 8));
        assert_eq!(tuples[89], (WarehouseId::new(3), DistrictId::new(10), 10));
    }
}
