//! SCE's cache with devices: whatever clients do, and whatever becomes of the flash, a fetch gives the newest
//! version evicted; what may not be overwritten is not.

mod support;

use entresol_core::{PageId, PolicyKind};
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
/// Native pages have their checksums, and bytes of somebody else do not.
const FORMATS: [PageFormat; 2] = [PageFormat::Native, PageFormat::Raw];

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
    let run = |seed| {
        simulate(seed, || {
            let options = fragments(FEW, FRAGMENT);
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

/// Reads all pages until all that fits is on flash.
fn warm(layer: &FragmentTier) {
    let mut buffer = vec![0; PAGE];
    for round in 0..20 {
        for number in 0..u64::from(SLOTS * FRAGMENT) {
            layer.fetch(PageId(number), &mut buffer).unwrap();
            assert_eq!(version(PageId(number), &buffer), 1, "round {round}");
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
    FORMATS.into_iter().for_each(|page_format| {
        simulate(1, || {
            let options = FragmentOptions { page_format, ..fragments(SLOTS, FRAGMENT) };
            let (flash, disk) = devices(&options);
            let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
            warm(&layer);
            let area = options.flash_bytes() - options.flash_pages() * PAGE as u64;
            let pages: Vec<u64> = (0..options.flash_pages()).step_by(7).collect();
            pages.iter().for_each(|slot| overwrite(&flash, area + slot * PAGE as u64 + 1024, 512));
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
    FORMATS.into_iter().for_each(|page_format| {
        simulate(1, || {
            let options = FragmentOptions { page_format, ..fragments(SLOTS, FRAGMENT) };
            let (flash, disk) = devices(&options);
            let layer = FragmentTier::open(flash.clone(), disk, options).unwrap();
            warm(&layer);
            let area = options.flash_bytes() - options.flash_pages() * PAGE as u64;
            (0..options.flash_pages())
                .step_by(11)
                .for_each(|slot| overwrite(&flash, area + slot * PAGE as u64, 512));
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
    FORMATS.into_iter().for_each(|page_format| {
        simulate(1, || {
            let options = FragmentOptions { page_format, ..fragments(SLOTS, FRAGMENT) };
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
