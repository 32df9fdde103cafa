use super::*;
use entresol_runtime::rng::Rng;

const DISK_PAGES: u32 = 160;

/// Blocks of four pages; six data blocks, two random log blocks and a sequential one; a disk of 40 blocks.
fn small(eviction: SilentEviction) -> Ssc {
    let config = HybridConfig {
        logical_pages: DISK_PAGES,
        block_pages: 4,
        data_blocks: 6,
        log_blocks: 3,
        spare_blocks: 2,
        silent: true,
    };
    Ssc::with_config(config, eviction)
}

fn write_all(ssc: &mut Ssc, pages: &[u32]) -> Vec<u32> {
    let mut gone = Vec::new();
    for &page in pages {
        gone.extend(ssc.write_clean(Lpn(page)).iter().map(|page| page.0));
        ssc.check();
    }
    gone
}

#[test]
fn the_block_with_the_fewest_valid_pages_is_dropped() {
    let mut ssc = small(SilentEviction::Util);
    // Six data blocks: logical blocks 0 to 5, of which 2 has a single page.
    let all: Vec<u32> = (0..24).filter(|page| ![9, 10, 11].contains(page)).collect();
    assert_eq!(write_all(&mut ssc, &all), []);
    assert_eq!(write_all(&mut ssc, &[100]), [8]);
    // Two pages of block 4 move to the log: its data block has two valid pages left, block 25's has one.
    assert_eq!(write_all(&mut ssc, &[17, 18]), []);
    assert_eq!(write_all(&mut ssc, &[104]), [100]);
    assert_eq!(write_all(&mut ssc, &[105, 106, 107]), []);
    assert_eq!(write_all(&mut ssc, &[108]), [16, 19]);
    assert!(ssc.is_mapped(Lpn(17)) && ssc.is_mapped(Lpn(18)), "what is in the log stays");
    let counters = ssc.counters();
    assert_eq!((counters.silent_evictions, counters.dropped, counters.copies), (3, 4, 0));
}

#[test]
fn a_dirty_page_keeps_its_block() {
    let mut ssc = small(SilentEviction::Util);
    for block in 0..6 {
        ssc.write_dirty(Lpn(block * 4)).expect("as many as data blocks");
    }
    ssc.check();
    let refused = ssc.write_dirty(Lpn(60)).expect_err("every block is dirty");
    assert_eq!(refused, SscError::TooDirty { page: Lpn(60), dirty_max: 6 });
    assert!(refused.to_string().contains("clean some first"));
    assert_eq!(write_all(&mut ssc, &[60]), [60], "a clean page is not taken");
    ssc.clean(Lpn(8));
    assert!(!ssc.is_dirty(Lpn(8)) && ssc.is_dirty(Lpn(4)));
    assert_eq!(write_all(&mut ssc, &[60]), [8]);
    assert!(ssc.is_mapped(Lpn(60)) && ssc.is_mapped(Lpn(4)));
}

#[test]
fn merging_silent_evictions_grow_the_log() {
    let full_merges = |eviction| {
        let mut ssc = small(eviction);
        let mut rng = Rng::new(4);
        for _ in 0..3000 {
            ssc.write_clean(Lpn(1 + rng.below(23) as u32));
            ssc.check();
        }
        (ssc.counters().merges.full, ssc.map().config().log_blocks)
    };
    let (util, util_log) = full_merges(SilentEviction::Util);
    let (merge, merge_log) = full_merges(SilentEviction::Merge { log_share_max: 0.46 });
    assert_eq!((util_log, merge_log), (3, 5));
    assert!(merge < util, "{merge} {util}");
}

/// Against the rule itself: presence changes only as the answers say, and nothing dirty is ever dropped.
#[test]
fn random_writes_lose_nothing_but_what_is_said() {
    for seed in 0..30 {
        let eviction =
            if seed % 2 == 0 { SilentEviction::Util } else { SilentEviction::Merge { log_share_max: 0.4 } };
        let mut rng = Rng::new(seed);
        let mut ssc = small(eviction);
        let mut present = [false; DISK_PAGES as usize];
        let mut dirty = [false; DISK_PAGES as usize];
        let mut refused = 0;
        for step in 0..4000 {
            let page = rng.below(u64::from(DISK_PAGES)) as usize;
            let page = if rng.below(3) == 0 { page } else { page % 40 };
            let lpn = Lpn(page as u32);
            let mut gone = Vec::new();
            match rng.below(20) {
                0 => {
                    ssc.discard(lpn);
                    (present[page], dirty[page]) = (false, false);
                }
                1..=4 => {
                    ssc.clean(lpn);
                    dirty[page] = false;
                }
                5..=9 => match ssc.write_dirty(lpn) {
                    Ok(dropped) => {
                        gone.extend_from_slice(dropped);
                        (present[page], dirty[page]) = (true, true);
                        assert!(!gone.contains(&lpn), "a dirty page is always taken");
                    }
                    Err(_) => refused += 1,
                },
                _ => {
                    gone.extend_from_slice(ssc.write_clean(lpn));
                    (present[page], dirty[page]) = (true, false);
                }
            }
            for page in gone {
                assert!(!dirty[page.0 as usize], "seed {seed}, step {step}: a dirty page was dropped");
                present[page.0 as usize] = false;
            }
            ssc.check();
            for page in 0..DISK_PAGES {
                let (here, dirt) = (ssc.is_mapped(Lpn(page)), ssc.is_dirty(Lpn(page)));
                assert_eq!(
                    (here, dirt),
                    (present[page as usize], dirty[page as usize]),
                    "seed {seed}, {step}"
                );
            }
        }
        let counters = ssc.counters();
        assert!(counters.silent_evictions > 0 && counters.merges.full > 0, "{counters:?}");
        assert!(refused > 0, "seed {seed}: the limit of dirty blocks was never reached");
    }
}
