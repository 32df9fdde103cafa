use super::*;
use crate::cache::Measures;
use entresol_runtime::rng::Rng;

/// Database pages of two flash pages, blocks of four of them; 16 blocks, of which 12 for data; a disk of 40
/// blocks.
fn sizes(buffer: u32) -> CacheSizes {
    CacheSizes { disk_pages: 160, unit_pages: 2, blocks: 16, block_pages: 8, buffer }
}

fn cache(buffer: u32) -> FlashTier {
    FlashTier::new(FlashTierConfig::new(sizes(buffer))).expect("a cache")
}

fn read(cache: &mut FlashTier, page: u32) -> Lookup {
    let found = cache.fetch(HostPage(page));
    if found == Lookup::Absent {
        cache.arrived(HostPage(page));
    }
    cache.check();
    found
}

#[test]
fn a_read_that_misses_brings_its_block() {
    let mut cache = cache(0);
    assert_eq!(cache.population(HostPage(6)), 4..8);
    assert_eq!(read(&mut cache, 6), Lookup::Absent);
    for page in 4..8 {
        assert_eq!(read(&mut cache, page), Lookup::Flash);
    }
    assert_eq!(read(&mut cache, 3), Lookup::Absent);
    let (counters, chip) = (cache.counters(), cache.chip().counters());
    assert_eq!((counters.reads, counters.flash_hits, counters.disk_reads), (6, 4, 8));
    assert_eq!((chip.host_writes, chip.host_reads, chip.copies), (16, 8, 0));
    let page_level = FlashTierConfig { fill: Fill::Page, ..FlashTierConfig::new(sizes(0)) };
    assert_eq!(FlashTier::new(page_level).expect("a cache").population(HostPage(6)), 6..7);
}

#[test]
fn the_write_buffer_takes_repeated_writes() {
    let written = |buffer| {
        let mut cache = cache(buffer);
        for _ in 0..10 {
            (0..3).for_each(|page| cache.evict(HostPage(page)));
            cache.check();
        }
        assert!((0..3).all(|page| cache.contains(HostPage(page))));
        assert_eq!((cache.counters().writes, cache.counters().write_hits), (30, 27));
        cache.chip().counters().host_writes
    };
    assert_eq!((written(0), written(3)), (60, 0));
    assert_eq!(
        written(2),
        56,
        "two pages short of one buffer: each write pushes one out, but for the first two"
    );
}

#[test]
fn a_full_chip_drops_blocks_and_never_serves_an_old_version() {
    // The model: pages that the device reported as dropped are absent; all others are present in their last
    // versions, for the disk's version and the cache's are always the same (write-through).
    let mut cache = cache(8);
    let mut rng = Rng::new(2);
    for _ in 0..6000 {
        let page = (rng.below(160).min(rng.below(160))) as u32;
        if rng.below(3) == 0 {
            cache.evict(HostPage(page));
        } else {
            read(&mut cache, page);
        }
        assert!(cache.contains(HostPage(page)), "just read or written");
    }
    cache.check();
    let chip = cache.chip().counters();
    assert!(chip.silent_evictions > 100 && chip.merges.full > 10, "{chip:?}");
    let measures = Measures::of(&cache.counters(), &chip, 2);
    assert!(measures.hit_rate > 0.2 && measures.clwa > 1.0 && measures.flwa > 0.0, "{measures:?}");
    assert_eq!(measures.gc_count, chip.silent_evictions + chip.collections);
}

#[test]
fn impossible_sizes_are_refused() {
    let with = |sizes| FlashTier::new(FlashTierConfig::new(sizes)).map(drop);
    let sizes = sizes(0);
    assert_eq!(
        with(CacheSizes { unit_pages: 3, ..sizes }),
        Err(CacheError::Unit { block_pages: 8, unit_pages: 3 })
    );
    assert_eq!(with(CacheSizes { blocks: 15, ..sizes }), Err(CacheError::Blocks { found: 15 }));
    let too_large = with(CacheSizes { disk_pages: 1 << 30, ..sizes }).expect_err("2^31 flash pages");
    assert!(too_large.to_string().starts_with("a disk of 2147483648 flash pages"));
}
