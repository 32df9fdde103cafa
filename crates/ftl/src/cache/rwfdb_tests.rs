use super::*;
use crate::cache::Measures;
use entresol_runtime::rng::Rng;

/// Database pages of two flash pages, blocks of four of them; 20 blocks: 2 spare, 2 log, 16 for data, of
/// these 2 WFDBs.
fn sizes(buffer: u32) -> CacheSizes {
    CacheSizes { disk_pages: 400, unit_pages: 2, blocks: 20, block_pages: 8, buffer }
}

fn cache(buffer: u32) -> RwFdb {
    RwFdb::new(RwFdbConfig::new(sizes(buffer))).expect("a cache")
}

fn read(cache: &mut RwFdb, page: u32) -> Lookup {
    let found = cache.fetch(HostPage(page));
    if found == Lookup::Absent {
        assert_eq!(cache.population(HostPage(page)), page..page + 1);
        cache.arrived(HostPage(page));
    }
    cache.check();
    found
}

fn read_all(cache: &mut RwFdb, pages: Range<u32>) {
    for page in pages {
        read(cache, page);
    }
}

#[test]
fn what_was_read_enters_read_blocks_and_what_was_only_written_stays_out() {
    let mut cache = cache(2);
    assert_eq!(read(&mut cache, 1), Lookup::Absent);
    assert_eq!(read(&mut cache, 1), Lookup::Buffered);
    cache.evict(HostPage(2));
    // 3 pushes 1 out, which was read; 4 pushes 2 out, which was written and never read.
    read_all(&mut cache, 3..5);
    assert_eq!(read(&mut cache, 1), Lookup::Flash);
    assert!(!cache.contains(HostPage(2)));
    let counters = cache.counters();
    assert_eq!((counters.read_frequent, counters.write_frequent, counters.unadmitted), (1, 0, 1));
    assert_eq!((counters.reads, counters.buffer_hits, counters.flash_hits), (5, 1, 1));
    assert_eq!(cache.blocks(), (1, 0));
}

#[test]
fn updates_of_read_blocks_go_to_the_log() {
    let mut cache = cache(1);
    read_all(&mut cache, 0..5);
    let before = cache.chip().counters();
    cache.evict(HostPage(2));
    cache.check();
    assert_eq!((cache.chip().counters() - before).host_writes, 2);
    assert!(cache.buffer.contains(HostPage(4)) && !cache.buffer.contains(HostPage(2)));
    // In the variant it enters the write buffer, and its copy on flash is not served any more.
    let variant = RwFdbConfig { update: Update::Buffer, ..RwFdbConfig::new(sizes(1)) };
    let mut cache = RwFdb::new(variant).expect("a cache");
    read_all(&mut cache, 0..5);
    cache.evict(HostPage(2));
    assert_eq!(read(&mut cache, 2), Lookup::Buffered);
    read(&mut cache, 9);
    assert_eq!(read(&mut cache, 2), Lookup::Flash, "written and read: back to its place");
}

#[test]
fn a_write_block_is_dropped_silently_and_a_read_block_returns() {
    // All is write-frequent: nothing is read more than 9 times, nothing written fewer than 0 times.
    let thresholds = Thresholds { read: 9, write: 0 };
    let mut cache = RwFdb::new(RwFdbConfig { thresholds, ..RwFdbConfig::new(sizes(1)) }).expect("a cache");
    // Write-frequent blocks may fill what is free: 16 blocks of 4 pages, and one page in the buffer.
    read_all(&mut cache, 0..65);
    assert_eq!(cache.blocks(), (0, 16));
    assert_eq!(read(&mut cache, 0), Lookup::Flash);
    cache.evict(HostPage(8)); // the third block is the one with the most stale pages
    read(&mut cache, 100);
    assert!(!cache.contains(HostPage(9)) && cache.contains(HostPage(4)));
    assert_eq!(cache.chip().counters().dropped, 6, "three pages of two flash pages");
    // Now everything is read-frequent: the write-frequent blocks are dropped down to a tenth of the chip.
    cache.config.thresholds = Thresholds { read: 0, write: 0 };
    read_all(&mut cache, 200..256);
    assert_eq!(cache.blocks(), (14, 2));
    assert_eq!(cache.counters().returned, 0);
    // The next block is a read-frequent one. Its pages return to the write buffer and are evicted from it
    // unread, as write-frequent, and take the places of the last write-frequent pages.
    read_all(&mut cache, 300..310);
    let counters = cache.counters();
    assert!(counters.returned >= 4 && counters.evictions >= 1, "{counters:?}");
    assert_eq!(cache.blocks(), (14, 2));
}

#[test]
fn a_returned_page_that_was_read_on_flash_survives_in_the_variant() {
    let survivors = |returned| {
        let mut cache = RwFdb::new(RwFdbConfig { returned, ..RwFdbConfig::new(sizes(4)) }).expect("a cache");
        let hot = 0..10;
        for page in 10..400 {
            read(&mut cache, page);
            read_all(&mut cache, hot.clone());
        }
        let before = cache.counters();
        read_all(&mut cache, hot.clone());
        let after = cache.counters();
        (after.reads - before.reads)
            - (after.flash_hits + after.buffer_hits - before.flash_hits - before.buffer_hits)
    };
    assert_eq!(survivors(Returned::WithReads), 0, "hot pages never leave");
}

/// Random reads and writes under every variant: invariants hold after each step, and the page just used is
/// present unless figure 3.2 refused it.
#[test]
fn random_use_keeps_every_invariant() {
    for seed in 0..24u64 {
        let config = RwFdbConfig {
            thresholds: Thresholds { read: (seed % 3) as u16, write: (seed / 3 % 4) as u16 },
            returned: if seed % 2 == 0 { Returned::Afresh } else { Returned::WithReads },
            update: if seed % 5 < 3 { Update::Log } else { Update::Buffer },
            ..RwFdbConfig::new(sizes(1 + (seed % 7) as u32 * 4))
        };
        let mut cache = RwFdb::new(config).expect("a cache");
        let mut rng = Rng::new(seed);
        for _ in 0..1500 {
            let page = HostPage(rng.below(400).min(rng.below(400)) as u32);
            let unadmitted = cache.counters().unadmitted;
            if rng.below(3) == 0 {
                cache.evict(page);
            } else if cache.fetch(page) == Lookup::Absent {
                cache.arrived(page);
            }
            cache.check();
            // A block that returns may push even the newest page through a small write buffer.
            let refused = cache.counters().unadmitted > unadmitted;
            assert!(cache.contains(page) || refused, "seed {seed}: {page:?} was just used");
        }
        let (counters, chip) = (cache.counters(), cache.chip().counters());
        // Unless all that is read once is write-frequent, read-frequent blocks fill the chip.
        let reads_count = config.thresholds.read == 0 || config.thresholds.write > 0;
        assert_eq!(counters.evictions > 0, reads_count, "seed {seed}: {counters:?} {chip:?}");
        let measures = Measures::of(&counters, &chip, 2);
        assert!(measures.hit_rate > 0.1 && measures.twaf() > 0.0, "{measures:?}");
    }
}

#[test]
fn equal_events_decide_alike() {
    let run = |seed| {
        let mut cache = cache(8);
        let mut rng = Rng::new(seed);
        for _ in 0..2000 {
            let page = HostPage(rng.below(400) as u32);
            if rng.below(3) == 0 {
                cache.evict(page);
            } else if cache.fetch(page) == Lookup::Absent {
                cache.arrived(page);
            }
        }
        (cache.decision_hash(), cache.counters(), cache.chip().counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn impossible_caches_are_refused() {
    let refused = |config| RwFdb::new(config).map(drop).expect_err("not possible");
    assert_eq!(refused(RwFdbConfig::new(sizes(0))), CacheError::Buffer);
    let all = RwFdbConfig { write_share: 1.0, ..RwFdbConfig::new(sizes(4)) };
    assert_eq!(refused(all), CacheError::Share { per_mille: 1000 });
}
