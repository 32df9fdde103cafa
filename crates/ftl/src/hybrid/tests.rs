use super::*;
use crate::counters::Merges;
use entresol_runtime::rng::Rng;

/// Blocks of four pages: eight data blocks, a sequential log block and two random ones, two spare blocks.
fn small() -> Hybrid {
    Hybrid::new(HybridConfig {
        logical_pages: 32,
        block_pages: 4,
        data_blocks: 8,
        log_blocks: 3,
        spare_blocks: 2,
        silent: false,
    })
}

/// Writes pages and returns the cost: copies, erases, merges (switch, partial, full).
fn write(map: &mut Hybrid, pages: &[u32]) -> (u64, u64, [u64; 3]) {
    let before = map.counters();
    for &page in pages {
        Ftl::write(map, Lpn(page));
        map.check();
    }
    let Counters { copies, erases, merges: Merges { switch, partial, full }, .. } = map.counters() - before;
    (copies, erases, [switch, partial, full])
}

/// A map whose logical blocks are all written once, in order.
fn filled() -> Hybrid {
    let mut map = small();
    assert_eq!(write(&mut map, &(0..32).collect::<Vec<_>>()), (0, 0, [0, 0, 0]), "first writes go in place");
    map
}

#[test]
fn a_block_rewritten_in_order_is_switched() {
    let mut map = filled();
    assert_eq!(write(&mut map, &[0, 1, 2, 3]), (0, 0, [0, 0, 0]), "all four go to the sequential log block");
    let log = map.sequential.expect("a sequential log block").open.block;
    // The next first page closes it: it becomes the data block of block 0; the old one is erased.
    assert_eq!(write(&mut map, &[4]), (0, 1, [1, 0, 0]));
    assert_eq!(map.data[0], log.0);
}

#[test]
fn a_block_rewritten_by_half_is_merged_partially() {
    let mut map = filled();
    assert_eq!(write(&mut map, &[8, 9]), (0, 0, [0, 0, 0]));
    let log = map.sequential.expect("a sequential log block").open.block;
    // Pages 10 and 11 are copied after 8 and 9.
    assert_eq!(write(&mut map, &[0]), (2, 1, [0, 1, 0]));
    assert_eq!(map.data[2], log.0);
}

#[test]
fn a_gap_closes_the_sequential_log_block() {
    let mut map = filled();
    // 7 does not follow 4: the log block is completed with 5, 6 and 7, then the new 7 is appended to the
    // random log.
    assert_eq!(write(&mut map, &[4, 7]), (3, 1, [0, 1, 0]));
    assert!(map.sequential.is_none());
    assert_eq!(map.random.blocks(), 1);
    assert!(map.log[7] != NONE && map.log[4] == NONE);
}

#[test]
fn the_oldest_random_log_block_is_merged_fully() {
    let mut map = filled();
    // Two random log blocks of four pages.
    assert_eq!(write(&mut map, &[1, 5, 1, 9, 6, 13, 14, 17]), (0, 0, [0, 0, 0]));
    // The oldest holds 1 (stale), 5, 1, 9: blocks 1, 0 and 2 are gathered, four pages each, three data blocks
    // and the log block are erased. 6 came along from the second log block.
    assert_eq!(write(&mut map, &[21]), (12, 4, [0, 0, 3]));
    assert!([1, 5, 6, 9].iter().all(|&page| map.log[page] == NONE));
    assert!([13, 14, 17, 21].iter().all(|&page| map.log[page] != NONE));
    // The next to be merged holds 6 (stale), 13, 14, 17: blocks 3 and 4.
    assert_eq!(write(&mut map, &[22, 23, 25, 26]), (8, 3, [0, 0, 2]));
}

#[test]
fn a_full_merge_takes_the_sequential_log_block_along() {
    let mut map = filled();
    assert_eq!(write(&mut map, &[5, 9, 13, 17, 21, 25, 29, 30, 4]), (0, 0, [0, 0, 0]));
    assert_eq!(map.sequential.map(|log| log.logical), Some(1), "opened by page 4");
    // The random log is full of pages 5, 9, 13, 17 and 21, 25, 29, 30. Page 6 closes the sequential log block
    // (partial: 6 and 7 are copied, 5 stays in the random log), then needs room in the random log: blocks 1
    // to 4 are gathered.
    assert_eq!(write(&mut map, &[6]), (2 + 16, 1 + 5, [0, 1, 4]));
    // Again, but the sequential log block is still open when its logical block is gathered: page 31.
    let mut map = filled();
    write(&mut map, &[5, 9, 13, 17, 21, 25, 29, 30, 4]);
    assert_eq!(write(&mut map, &[31]), (16, 6, [0, 0, 4]));
    assert!(map.sequential.is_none(), "gathered with the rest of block 1");
}

#[test]
fn a_discarded_block_is_erased_and_written_in_place_again() {
    let mut map = filled();
    (12..16).for_each(|page| map.discard(Lpn(page)));
    map.check();
    assert_eq!((map.counters().discards, map.counters().erases, map.data_blocks()), (4, 1, 7));
    assert!(!map.is_mapped(Lpn(12)) && !map.read(Lpn(13)));
    assert_eq!(write(&mut map, &[13, 12]), (0, 0, [0, 0, 0]));
}

#[test]
fn random_writes_keep_every_page_and_every_invariant() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut map = small();
        let mut mapped = [false; 32];
        for step in 0..1500 {
            // Runs, so that all kinds of merges occur.
            let (first, length) = (rng.below(32) as u32, 1 + rng.below(6) as u32);
            let start = if rng.below(3) == 0 { first & !3 } else { first };
            for page in start..(start + length).min(32) {
                if rng.below(20) == 0 {
                    map.discard(Lpn(page));
                    mapped[page as usize] = false;
                } else {
                    assert!(Ftl::write(&mut map, Lpn(page)).is_empty());
                    mapped[page as usize] = true;
                }
            }
            map.check();
            let is = |page: &u32| map.is_mapped(Lpn(*page));
            assert!((0..32).all(|page| is(&page) == mapped[page as usize]), "seed {seed}, step {step}");
        }
        let Counters { copies, merges, erases, .. } = map.counters();
        assert!(merges.switch > 0 && merges.partial > 0 && merges.full > 0 && copies > 0, "{merges:?}");
        let wear = map.nand().wear();
        assert_eq!((wear.mean * f64::from(wear.blocks)).round() as u64, erases);
        assert!(wear.skew() < 1.5, "wear is levelled: {wear:?}");
    }
}
