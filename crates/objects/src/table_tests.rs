//! Tests of the table without flash.

use super::*;
use crate::config::ObjectsConfig;
use crate::region::region_bytes;
use entresol_format::Uuid;
use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the accesses to entries.
pub(super) fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

fn steps_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.get();
    let result = work();
    (STEPS.get() - before, result)
}

fn config(objects_max: u32) -> ObjectsConfig {
    ObjectsConfig { cache: Uuid::from_random(1, 2), objects_max, log_blocks: 4 }
}

fn region(config: &ObjectsConfig) -> Vec<u64> {
    vec![0; region_bytes(config) / 8]
}

fn locator(number: u32) -> Locator {
    let mut locator = [7; 24];
    locator[..4].copy_from_slice(&number.to_le_bytes());
    locator
}

macro_rules! table {
    ($name:ident, $objects:expr) => {
        let config = config($objects);
        let mut words = region(&config);
        #[allow(unused_mut)]
        let mut $name = Objects::format(zerocopy::IntoBytes::as_mut_bytes(&mut words[..]), &config).unwrap();
    };
}

#[test]
fn a_locator_has_one_number_until_it_is_retired() {
    table!(table, 3);
    let one = table.define(&locator(1)).unwrap();
    assert_eq!(table.define(&locator(1)), Ok(one));
    assert_eq!(table.locator(one), Some(&locator(1)));
    assert!(table.retire(one, Position(50)));
    assert!(!table.retire(one, Position(60)), "it is retired already");
    assert_eq!((table.lookup(&locator(1)), table.locator(one)), (None, None));
    let two = table.define(&locator(1)).unwrap();
    assert_ne!(one, two);
    let three = table.define(&locator(2)).unwrap();
    assert_eq!(table.define(&locator(3)), Err(Full { objects_max: 3, retired: 1 }));
    assert_eq!(table.front_passed(Position(49)), 0);
    assert!(table.define(&locator(3)).is_err());
    assert_eq!(table.front_passed(Position(50)), 1);
    assert_eq!(table.define(&locator(3)), Ok(one));
    assert_eq!(table.usage(), Usage { live: 3, retired: 0, full: 2, too_many: 0 });
    assert!(three > two);
    table.check();
}

#[test]
fn dead_are_the_pages_of_retired_unknown_and_cut_objects() {
    table!(table, 3);
    let object = table.define(&locator(1)).unwrap();
    let dead = |table: &Objects<'_>, number, position| table.is_dead(object.page(number), Position(position));
    assert!(!dead(&table, 0, 0));
    assert_eq!(table.cut(object, 10, Position(100)), CutOutcome::Kept);
    assert_eq!(table.cut(object, 12, Position(100)), CutOutcome::Implied);
    assert!(!dead(&table, 9, 99) && dead(&table, 10, 99) && !dead(&table, 10, 100));
    assert!(
        table.is_dead(PageId::new(1, 0), Position(100)) && table.is_dead(PageId::new(99, 0), Position(0))
    );
    table.front_passed(Position(20));
    assert!(dead(&table, 0, 19) && !dead(&table, 0, 20));
    table.retire(object, Position(200));
    assert!(dead(&table, 0, 150));
    assert_eq!(table.cut(object, 0, Position(300)), CutOutcome::Implied);
}

#[test]
fn a_retirement_with_an_earlier_rear_waits_for_the_later_one() {
    table!(table, 2);
    let (one, two) = (table.define(&locator(1)).unwrap(), table.define(&locator(2)).unwrap());
    table.retire(one, Position(100));
    table.retire(two, Position(50));
    assert_eq!(table.front_passed(Position(99)), 0);
    assert_eq!(table.front_passed(Position(100)), 2);
    table.check();
}

#[test]
fn retiring_by_locator_takes_one_pass() {
    table!(table, 1000);
    for number in 0..1000 {
        table.define(&locator(number)).unwrap();
    }
    let odd = |locator: &Locator| locator[0] % 2 == 1;
    let (steps, retired) = steps_of(|| table.retire_matching(odd, Position(9)));
    assert_eq!(retired, 500);
    assert!(steps < 20_000, "{steps} steps");
    table.check();
}

#[test]
fn no_cost_depends_on_the_pages_of_an_object() {
    let costs = [10, 1_000_000].map(|pages| {
        table!(table, 4);
        let object = table.define(&locator(1)).unwrap();
        let rear = Position(u64::from(pages));
        assert!((0..pages).all(|page| !table.is_dead(object.page(page), Position(page.into()))));
        let (cut, outcome) = steps_of(|| table.cut(object, pages / 2, rear));
        assert_eq!(outcome, CutOutcome::Kept);
        let (read, dead) = steps_of(|| table.is_dead(object.page(pages - 1), Position(u64::from(pages) - 1)));
        assert!(dead);
        let (retire, _) = steps_of(|| table.retire(object, rear));
        let (free, freed) = steps_of(|| table.front_passed(rear));
        assert_eq!(freed, 1);
        [cut, read, retire, free]
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].iter().all(|steps| (1..10).contains(steps)), "{costs:?}");
}

#[test]
fn a_table_moves_with_its_region() {
    let config = config(5);
    let mut words = region(&config);
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut words[..]);
    Objects::format(bytes, &config).unwrap().define(&locator(3)).unwrap();
    let mut moved = words.clone();
    drop(words);
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut moved[..]);
    let shape = crate::Shape::of(bytes).unwrap();
    assert_eq!(shape.config(), config);
    assert_eq!(Objects::attach_to(bytes, &shape).lookup(&locator(3)), Some(ObjectId(0)));
    assert!(Objects::attach(&mut bytes[..800]).is_err());
    bytes[0] ^= 1;
    assert!(matches!(crate::Shape::of(bytes), Err(crate::ConfigError::Magic { .. })));
}

#[test]
fn an_object_costs_at_most_66_bytes() {
    let bytes = region_bytes(&config(1 << 20)) - region_bytes(&config(1 << 19));
    assert_eq!(bytes, 66 << 19);
}
