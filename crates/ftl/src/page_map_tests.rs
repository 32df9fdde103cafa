use super::*;
use crate::closed_form;
use entresol_runtime::rng::Rng;

fn map(pages: u32, block_pages: u32, over_provisioning: f64) -> PageMap {
    PageMap::new(pages, block_pages, over_provisioning, FreeOrder::LastFreed)
}

fn amplification(map: &mut PageMap, writes: u32, mut next: impl FnMut(u32) -> u32) -> f64 {
    let before = map.counters();
    let mut copied = 0;
    for write in 0..writes {
        copied += map.write(Lpn(next(write))).copied;
    }
    map.check();
    let counted = map.counters() - before;
    assert_eq!(counted.copies, u64::from(copied));
    counted.write_amplification()
}

#[test]
fn sequential_overwriting_copies_nothing() {
    let mut map = map(1000, 16, 0.07);
    amplification(&mut map, 3000, |write| write % 1000);
    assert_eq!(amplification(&mut map, 10_000, |write| write % 1000), 1.0);
}

#[test]
fn after_random_writes_one_sequential_pass_cleans_up() {
    let mut rng = Rng::new(3);
    let mut map = map(1000, 16, 0.07);
    amplification(&mut map, 5000, |_| rng.below(1000) as u32);
    amplification(&mut map, 3000, |write| write % 1000);
    assert_eq!(amplification(&mut map, 5000, |write| write % 1000), 1.0);
}

#[test]
fn random_writes_cost_more_the_less_spare_there_is() {
    let mut before = f64::INFINITY;
    for spare in [0.05, 0.1, 0.2, 0.4] {
        let mut rng = Rng::new(3);
        let mut map = map(4000, 32, spare);
        amplification(&mut map, 20_000, |_| rng.below(4000) as u32);
        let now = amplification(&mut map, 40_000, |_| rng.below(4000) as u32);
        assert!(now < before && now > 1.0, "{spare}: {now} after {before}");
        before = now;
    }
}

#[test]
fn discarded_pages_are_spare() {
    let mut rng = Rng::new(3);
    let mut map = map(4000, 32, 0.05);
    let full = amplification(&mut map, 40_000, |_| rng.below(4000) as u32);
    (2000..4000).for_each(|page| map.discard(Lpn(page)));
    assert!(!map.is_mapped(Lpn(3000)) && !map.read(Lpn(3000)));
    amplification(&mut map, 20_000, |_| rng.below(2000) as u32);
    let half = amplification(&mut map, 20_000, |_| rng.below(2000) as u32);
    assert!(half < 1.5 && full > 5.0, "{half} {full}");
}

/// Pages programmed for each page written at random, once it has settled.
fn settled(blocks: u32, block_pages: u32, spare: f64) -> f64 {
    let pages = (f64::from(blocks * block_pages) * (1.0 - spare)) as u32;
    let mut map = map(pages, block_pages, spare / (1.0 - spare));
    let mut rng = Rng::new(5);
    amplification(&mut map, pages, |write| write);
    amplification(&mut map, pages * 2, |_| rng.below(u64::from(pages)) as u32);
    amplification(&mut map, pages * 2, |_| rng.below(u64::from(pages)) as u32)
}

#[test]
fn uniform_random_writes_cost_what_the_closed_form_says() {
    for spare in [0.07, 0.10] {
        let large = settled(1024, 512, spare);
        let formula = closed_form::write_amplification(spare);
        assert!((large / formula - 1.0).abs() < 0.02, "{spare}: measured {large:.3}, formula {formula:.3}");
        let small = settled(2048, 64, spare);
        let formula = closed_form::greedy_write_amplification(spare, 64);
        assert!((small / formula - 1.0).abs() < 0.02, "{spare}: measured {small:.3}, formula {formula:.3}");
    }
}

#[test]
fn wear_is_what_was_erased_and_levelling_evens_it() {
    // Most of the space is written once; the rest again and again.
    let skew = |order| {
        let mut map = PageMap::new(4000, 16, 0.3, order);
        let mut rng = Rng::new(11);
        amplification(&mut map, 4000, |write| write);
        amplification(&mut map, 40_000, |_| rng.below(1000) as u32);
        let wear = map.nand().wear();
        let erases = wear.mean * f64::from(wear.blocks);
        assert_eq!(erases.round() as u64, map.counters().erases);
        assert!(f64::from(wear.min) <= wear.mean && wear.mean <= f64::from(wear.max));
        wear.skew()
    };
    let (careless, levelled) = (skew(FreeOrder::LastFreed), skew(FreeOrder::LeastWorn));
    assert!(levelled < careless, "{levelled} {careless}");
}
