//! SCE's cache with devices: whatever clients do, and whatever becomes of the flash, a fetch gives the newest
//! version evicted; what may not be overwritten is not.

mod support;

use entresol_core::{PageId, PolicyKind, SlotId};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{
    Deletes, FlashTier, FragmentOptions, FragmentTier, Layer, PageCache, ReadRoute, Source, TierError,
    TierMetrics, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::{random, sleep, spawn};
use std::sync::Arc;
use std::time::Duration;
use support::{
    Delayed, PAGE, build, bytes_of, disk_bytes, fragments, load, simulate, small, version, victim,
};

const PAGES: u64 = 400;
const CLIENTS: u64 = 5;
/// Fragments of eight pages: half of the volume fits.
const FRAGMENT: u32 = 8;
const SLOTS: u32 = 25;
/// Where the cache is to be turned over.
const FEW: u32 = 8;
/// Native pages carry a checksum; raw bytes carry none. Memory has the proofs of all fragments, or of three.
const KINDS: [(PageFormat, u32); 4] =
    [(PageFormat::Native, 0), (PageFormat::Raw, 0), (PageFormat::Native, 3), (PageFormat::Raw, 3)];

fn of_kind((page_format, proofs_kept): (PageFormat, u32)) -> FragmentOptions {
    FragmentOptions { page_format, proofs_kept, ..fragments(SLOTS, FRAGMENT) }
}

/// References to neighbours, which move on through the volume; some change their page. Each client has every
/// fifth page.
fn client(layer: &dyn Layer, id: u64, rounds: u64) {
    let mut rng = Rng::new(random());
    let mut versions = vec![1; PAGES as usize];
    let mut buffer = vec![0; PAGE];
    let mut from = 0;
    for round in 0..rounds {
        if round % 40 == 0 {
            from = round * (PAGES / 2) / rounds + rng.below(PAGES / 4);
        }
        let number = (from + rng.below(PAGES / 4)) / CLIENTS * CLIENTS + id;
        let page = PageId(number);
        layer.fetch(page, &mut buffer).unwrap();
        let found = version(page, &buffer);
        assert_eq!(found, versions[number as usize], "page {page}, round {round} of client {id}");
        if rng.below(4) == 0 {
            versions[number as usize] += 1;
            let next = versions[number as usize];
            layer.evict(victim(page, next, true, true), &build(page, next)).unwrap();
        }
        if rng.below(200) == 0 {
            layer.checkpoint().unwrap();
        }
        if rng.below(10) == 0 {
            sleep(Duration::from_micros(rng.below(100)));
        }
    }
}

fn clients(layer: &Arc<FragmentTier>, rounds: u64) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let layer = layer.clone();
            spawn("client", move || client(&*layer, id, rounds))
        })
        .collect();
    clients.into_iter().for_each(|client| client.join());
}

fn devices(options: &FragmentOptions) -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
    let flash = Arc::new(MemoryDevice::new("flash", options.flash_bytes()));
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
    load(disk.clone(), PAGES);
    (flash, disk)
}

#[test]
fn clients_get_the_newest_versions_and_one_seed_gives_one_run() {
    for proofs_kept in [0, 1, 2, 5] {
        clients_with_proofs_of(proofs_kept);
    }
}

fn clients_with_proofs_of(proofs_kept: u32) {
    let run = |seed| {
        simulate(seed, || {
            let options = FragmentOptions { proofs_kept, ..fragments(FEW, FRAGMENT) };
            let (flash, disk) = devices(&options);
            let (flash, disk) = (Arc::new(Delayed(flash)), Arc::new(Delayed(disk)));
            let layer = FragmentTier::open(flash, disk, options).unwrap();
            clients(&layer, 600);
            layer.close().unwrap();
            assert!(layer.fetch(PageId(0), &mut vec![0; PAGE]).is_err(), "a closed layer serves nothing");
            layer.metrics()
        })
    };
    let mut sum = TierMetrics::default();
    for seed in 0..6 {
        let metrics = run(seed);
        assert_eq!(metrics, run(seed), "seed {seed}");
        assert_eq!(metrics.damaged_clean, 0, "what another fragment took is not damaged");
        assert!(metrics.slots_valid <= metrics.slots, "{metrics:?}");
        sum.flash_hits += metrics.flash_hits;
        sum.staging_hits += metrics.staging_hits;
        sum.disk_reads += metrics.disk_reads;
        sum.flash_writes += metrics.flash_writes - metrics.populated;
        sum.populated += metrics.populated;
    }
    assert!(sum.flash_hits > 2000 && sum.disk_reads > 1000 && sum.staging_hits > 10, "{sum:?}");
    assert!(sum.flash_writes > 200, "writes through to mapped fragments: {sum:?}");
    assert!(sum.populated > 6 * u64::from(2 * FEW * FRAGMENT), "the cache is turned over: {sum:?}");
}

/// Reads all pages, of version 1, until all that fits is on flash.
fn warm(layer: &FragmentTier) {
    warm_of(layer, |_| 1);
}

fn warm_of(layer: &FragmentTier, expected: impl Fn(u64) -> u64) {
    let mut buffer = vec![0; PAGE];
    for round in 0..20 {
        for number in 0..u64::from(SLOTS * FRAGMENT) {
            layer.fetch(PageId(number), &mut buffer).unwrap();
            assert_eq!(version(PageId(number), &buffer), expected(number), "round {round}");
            sleep(Duration::from_micros(1));
        }
    }
    assert_eq!(layer.metrics().slots_valid, u64::from(SLOTS * FRAGMENT), "{:?}", layer.metrics());
}

fn overwrite(flash: &MemoryDevice, offset: u64, length: usize) {
    let mut bytes = vec![0; length];
    flash.read(offset, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    flash.write(offset, &bytes).unwrap();
}

#[test]
fn what_is_damaged_on_flash_comes_from_disk_and_is_not_looked_for_again() {
    KINDS.into_iter().for_each(|kind| {
        simulate(1, || {
            let options = of_kind(kind);
            let (flash, disk) = devices(&options);
            let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
            warm(&layer);
            let pages: Vec<u32> = (0..options.flash_pages() as u32).step_by(7).collect();
            pages.iter().for_each(|slot| overwrite(&flash, options.slot_offset(SlotId(*slot)) + 1024, 512));
            let mut buffer = vec![0; PAGE];
            for _ in 0..2 {
                for number in 0..u64::from(SLOTS * FRAGMENT) {
                    layer.fetch(PageId(number), &mut buffer).unwrap();
                    assert_eq!(version(PageId(number), &buffer), 1);
                }
            }
            assert_eq!(layer.metrics().damaged_clean, pages.len() as u64, "each is met once");
            layer.close().unwrap();
        })
    });
}

/// Adjacent pages, some of which are damaged, forgotten, or not on flash, are read in runs.
#[test]
fn runs_of_pages_are_read_from_where_each_page_is() {
    KINDS.into_iter().for_each(|kind| {
        simulate(1, || {
            let options = of_kind(kind);
            let (flash, disk) = devices(&options);
            let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
            warm(&layer);
            (0..options.flash_pages() as u32)
                .step_by(11)
                .for_each(|slot| overwrite(&flash, options.slot_offset(SlotId(slot)), 512));
            layer.forget(PageId(30), PageId(39)).unwrap();
            let damaged = options.flash_pages().div_ceil(11);
            for how in [ReadRoute::Populates, ReadRoute::StaysOut, ReadRoute::Around] {
                let mut buffer = vec![0; PAGES as usize * PAGE];
                let served = layer.read_pages(PageId(0), &mut buffer, how).unwrap();
                for (number, page) in (0..PAGES).zip(buffer.chunks_exact(PAGE)) {
                    assert_eq!(version(PageId(number), page), 1, "{how:?}");
                }
                assert_eq!(served.flash + served.disk, PAGES);
                let on_flash = options.flash_pages() - 10 - damaged;
                let expected = if how == ReadRoute::Around { 0..=0 } else { on_flash..=on_flash + 10 };
                assert!(expected.contains(&served.flash), "{how:?}: {served:?}, {expected:?}");
            }
            layer.close().unwrap();
        })
    });
}

/// Pages that an earlier cache left in the same place are whole, and may be the very pages that are wanted.
#[test]
fn what_an_earlier_cache_left_is_never_served() {
    simulate(1, || {
        let options = fragments(SLOTS, FRAGMENT);
        let (flash, disk) = devices(&options);
        let layer = FragmentTier::open(flash.clone(), disk.clone(), options).unwrap();
        warm(&layer);
        layer.close().unwrap();
        let left = bytes_of(&*flash);
        let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
        assert_eq!(layer.metrics().slots_valid, 0, "every open begins empty");
        let mut buffer = vec![0; PAGE];
        assert_eq!(layer.fetch(PageId(3), &mut buffer).unwrap().source, Source::Disk);
        for number in 0..PAGES {
            layer.evict(victim(PageId(number), 1, true, true), &build(PageId(number), 1)).unwrap();
        }
        warm(&layer);
        // The device forgets all that was written since.
        flash.write(0, &left).unwrap();
        let before = layer.metrics();
        for number in 0..u64::from(SLOTS * FRAGMENT) {
            assert_eq!(layer.fetch(PageId(number), &mut buffer).unwrap().source, Source::Disk);
        }
        assert_eq!(layer.metrics().damaged_clean - before.damaged_clean, u64::from(SLOTS * FRAGMENT));
        layer.close().unwrap();
    });
}

/// What a write-through left where the device lost the next one is whole, and the very page that is wanted.
#[test]
fn a_write_through_that_the_device_lost_is_missed() {
    KINDS.into_iter().filter(|(_, kept)| *kept == 0).for_each(|(page_format, _)| {
        simulate(1, || {
            let options = of_kind((page_format, 0));
            let (flash, disk) = devices(&options);
            let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
            warm(&layer);
            let mut buffer = vec![0; PAGE];
            let pages = || (0..u64::from(SLOTS * FRAGMENT)).step_by(3).map(PageId);
            let change = |next| {
                for page in pages() {
                    let mut bytes = build(page, next);
                    if page_format == PageFormat::Native {
                        layer.evict(victim(page, next, true, true), &bytes).unwrap();
                    } else {
                        // Nobody seals it on its way.
                        PageFormat::Native.seal_for_disk(&mut bytes, page);
                        layer.write_pages(page, &bytes).unwrap();
                    }
                }
                layer.checkpoint().unwrap();
            };
            let mut missed = 0;
            for round in 1..6 {
                let before = bytes_of(&*flash);
                // As many as the device likes.
                (0..round).for_each(|nth| change(10 * round + nth));
                flash.write(0, &before).unwrap();
                for page in pages() {
                    let source = layer.fetch(page, &mut buffer).unwrap().source;
                    assert_eq!(
                        (source, version(page, &buffer)),
                        (Source::Disk, 11 * round - 1),
                        "page {page}"
                    );
                    missed += 1;
                }
                assert_eq!(layer.metrics().damaged_clean, missed, "each is met once");
                change(10 * round + 9);
                for page in pages() {
                    let source = layer.fetch(page, &mut buffer).unwrap().source;
                    assert_eq!(
                        (source, version(page, &buffer)),
                        (Source::Flash, 10 * round + 9),
                        "page {page}"
                    );
                }
            }
            layer.close().unwrap();
        })
    });
}

/// Changes each third page. Native pages are evicted, and others written.
fn change(layer: &FragmentTier, page_format: PageFormat, next: u64) {
    for page in (0..u64::from(SLOTS * FRAGMENT)).step_by(3).map(PageId) {
        let mut bytes = build(page, next);
        if page_format == PageFormat::Native {
            layer.evict(victim(page, next, true, true), &bytes).unwrap();
        } else {
            PageFormat::Native.seal_for_disk(&mut bytes, page);
            layer.write_pages(page, &bytes).unwrap();
        }
    }
    layer.checkpoint().unwrap();
}

/// Fetches every page, and counts those from flash.
fn on_flash(layer: &FragmentTier, expected: impl Fn(u64) -> u64) -> u64 {
    let mut buffer = vec![0; PAGE];
    let fetched = (0..u64::from(SLOTS * FRAGMENT)).filter(|number| {
        let page = PageId(*number);
        let source = layer.fetch(page, &mut buffer).unwrap().source;
        assert_eq!(version(page, &buffer), expected(*number), "page {page} from {source:?}");
        source == Source::Flash
    });
    fetched.count() as u64
}

/// Fragments whose proofs are in memory in the next test.
const KEPT: u32 = 15;

/// Proofs that are not in memory are damaged on flash, or are an earlier write's: nothing that they prove is
/// served, and the fragment comes back.
#[test]
fn proofs_that_are_damaged_or_older_prove_nothing() {
    for page_format in [PageFormat::Native, PageFormat::Raw] {
        for is_older in [false, true] {
            simulate(1, || {
                let options = of_kind((page_format, KEPT));
                let (flash, disk) = devices(&options);
                let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
                warm(&layer);
                let pages = options.flash_pages();
                assert_eq!(on_flash(&layer, |_| 1), pages);
                let before = bytes_of(&*flash);
                // Changed proofs go to flash, except a few.
                (2..6).for_each(|next| change(&layer, page_format, next));
                let expected = |number: u64| if number.is_multiple_of(3) { 5 } else { 1 };
                // Native pages are written in batches, of more fragments than there are places for changed
                // proofs: some stay invalid.
                let through = on_flash(&layer, expected);
                let least = if page_format == PageFormat::Raw { pages } else { pages * 3 / 4 };
                assert!((least..=pages).contains(&through), "{through} writes of {pages} go through");
                let blocks: Vec<u64> = options.proofs_offsets().collect();
                assert_eq!(blocks.len(), SLOTS as usize);
                for offset in &blocks {
                    let older = &before[*offset as usize..][..4096];
                    if is_older {
                        flash.write(*offset, older).unwrap()
                    } else {
                        overwrite(&flash, *offset, 512)
                    }
                }
                // Whole fragments leave the flash, except those whose proofs are in memory, or whose blocks
                // were never written since.
                let damaged = layer.metrics().damaged_clean;
                let found = on_flash(&layer, expected);
                let met = layer.metrics().damaged_clean - damaged;
                assert!(found > 0 && found < through && met > 0, "{found} of {through}, {met} fragments");
                assert!(found >= (u64::from(SLOTS) - met - 1) * u64::from(FRAGMENT) / 2, "each is met once");
                assert!(on_flash(&layer, expected) >= found);
                assert_eq!(layer.metrics().damaged_clean, damaged + met, "nothing is refused twice");
                warm_of(&layer, expected);
                assert!(on_flash(&layer, expected) >= through, "all of them come back");
                layer.close().unwrap();
            });
        }
    }
}

/// A flash that was sized for the pages of an earlier release, which had no proofs there, is used with fewer
/// fragments.
#[test]
fn a_flash_of_the_size_of_its_pages_has_fewer_fragments() {
    simulate(1, || {
        let options = of_kind((PageFormat::Raw, 3));
        let all = of_kind((PageFormat::Raw, 0));
        let flash = Arc::new(MemoryDevice::new("flash", all.flash_bytes()));
        let (_, disk) = devices(&options);
        let layer = FragmentTier::open(flash.clone(), disk.clone(), options).unwrap();
        let slots = layer.metrics().slots;
        assert!(slots < options.flash_pages() && slots > options.flash_pages() * 4 / 5, "{slots}");
        assert_eq!(slots, options.fitted(all.flash_bytes()).flash_pages());
        layer.close().unwrap();
        let small = Arc::new(MemoryDevice::new("flash", all.flash_bytes() - 4096));
        assert!(FragmentTier::open(small, disk, options).is_err());
    });
}

#[test]
fn when_the_flash_fails_the_database_goes_on_from_disk() {
    for (seed, at) in [20, 40, 300, 900].into_iter().enumerate() {
        for fault in [Fault::WriteError, Fault::Death] {
            simulate(seed as u64, || {
                let options = fragments(SLOTS, FRAGMENT);
                let (flash, disk) = devices(&options);
                let flash = Arc::into_inner(flash).expect("nobody else has it");
                let plan = Arc::new(FaultPlan::new(
                    seed as u64,
                    vec![Injection { at, device: None, fault, forever: true }],
                ));
                let flash = Arc::new(FaultyDevice::new("flash", flash, plan));
                let layer = FragmentTier::open(flash, disk.clone(), options).unwrap();
                clients(&layer, 800);
                assert!(layer.notice().is_some_and(|notice| notice.contains("goes on from disk")), "{at}");
                let populated = layer.metrics().populated;
                clients_again(&layer);
                assert_eq!(layer.metrics().populated, populated, "nothing enters any more");
                layer.close().unwrap();
            });
        }
    }
}

/// Reads everything once more.
fn clients_again(layer: &FragmentTier) {
    let mut buffer = vec![0; PAGE];
    let hits = layer.metrics().flash_hits;
    for number in 0..PAGES {
        layer.fetch(PageId(number), &mut buffer).unwrap();
        version(PageId(number), &buffer);
    }
    assert_eq!(layer.metrics().flash_hits, hits, "a cache that is switched off serves nothing");
}

#[test]
fn pages_beyond_the_disk_are_the_disks_to_refuse() {
    simulate(1, || {
        let options = fragments(SLOTS, FRAGMENT);
        let (flash, disk) = devices(&options);
        let layer = FragmentTier::open(flash, disk, options).unwrap();
        for page in [PageId(PAGES), PageId::new(7, 3), PageId(u64::MAX)] {
            assert!(!layer.is_on_flash(page));
            assert!(layer.fetch(page, &mut vec![0; PAGE]).is_err(), "page {page}");
        }
        layer.close().unwrap();
    });
}

#[test]
fn what_may_not_be_overwritten_is_refused() {
    simulate(1, || {
        let options = fragments(SLOTS, FRAGMENT);
        let refusal = |result: Result<Arc<FragmentTier>, TierError>| match result {
            Err(error @ (TierError::Refused(_) | TierError::Config(_))) => error.to_string(),
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("it was opened"),
        };
        let face = small(PolicyKind::FaceGsc, 96);
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&face).max(options.flash_bytes())));
        let [one, other] = [0, 1].map(|_| Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES))));
        load(one.clone(), PAGES);
        load(other.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), one.clone(), face.clone()).unwrap();
        tier.evict(victim(PageId(3), 2, true, true), &build(PageId(3), 2)).unwrap();
        tier.close().unwrap();
        let why = refusal(FragmentTier::open(flash.clone(), one.clone(), options));
        assert!(why.contains("newer pages"), "{why}");
        let why = refusal(FragmentTier::open(flash.clone(), other.clone(), options));
        assert!(why.contains("of another disk"), "{why}");
        let tiny = Arc::new(MemoryDevice::new("flash", 1 << 20));
        assert!(refusal(FragmentTier::open(tiny, other.clone(), options)).contains("fewer fragments"));
        let none = FragmentOptions { slots: 0, ..options };
        assert!(refusal(FragmentTier::open(flash.clone(), other, none)).contains("fragments on flash"));
        // Nothing was written: the cache is as it was.
        let (tier, report) = FlashTier::open(flash.clone(), one.clone(), face.clone()).unwrap();
        assert!(report.warm && report.dirty == 1, "{report:?}");
        tier.detach().unwrap();
        // Now it may be overwritten, and nobody takes it for the old one.
        FragmentTier::open(flash.clone(), one.clone(), options).unwrap().close().unwrap();
        let (tier, report) = FlashTier::open(flash, one, face).unwrap();
        assert!(
            !report.warm && report.notices.iter().any(|notice| notice.contains("no cache")),
            "{report:?}"
        );
        tier.close().unwrap();
    });
}
