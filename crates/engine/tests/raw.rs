//! Caches of raw pages: bytes of somebody else. (What power failures do to them: the test kit's `raw`.)

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection};
use entresol_engine::{
    FlashTier, Layer, Mode, PageCache, ReadRoute, TierOptions, check, detach, disk_offset,
};
use entresol_format::PageFormat;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::spawn;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, load, simulate, victim};

const PAGES: u64 = 150;

fn options(policy: PolicyKind, mode: Mode) -> TierOptions {
    let small = support::small(policy, 80);
    TierOptions { page_format: PageFormat::Raw, mode, staging_groups: 4, segment_entries: 16, ..small }
}

/// Raw bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    for chunk in bytes.chunks_exact_mut(16) {
        chunk[..8].copy_from_slice(&page.to_le_bytes());
        chunk[8..].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// The version in `found`, all of which must be of one version of the page; 0: what was on the disk before.
fn version(page: u64, found: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
    if number(0) == page && found == bytes(page, number(8)) { number(8) } else { 0 }
}

#[test]
fn the_disk_has_the_bytes_as_they_are() {
    let options = options(PolicyKind::FaceGsc, Mode::WriteBack);
    simulate(1, || {
        let (flash, disk) = support::memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        for number in 1..4 {
            for page in 0..PAGES {
                tier.evict(victim(PageId(page), 0, true, true), &bytes(page, number)).unwrap();
            }
        }
        let mut buffer = vec![0; PAGE];
        for page in 0..PAGES {
            tier.fetch(PageId(page), &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 3);
        }
        tier.close().unwrap();
        let report = check(&*flash, Some(disk.clone())).unwrap();
        assert!(report.faults.is_empty(), "{report}");
        detach(flash, disk.clone()).unwrap();
        for page in 0..PAGES {
            disk.read(disk_offset(PageId(page), PAGE as u32), &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 3);
        }
    });
}

/// A write of several pages fails somewhere: each of them is at one of the two versions, and stays there.
/// One client hands a page down, another one flushes, and nothing else happens.
#[test]
fn a_flush_beside_an_eviction_ends() {
    for seed in 0..200 {
        let config = SimConfig { seed, random_order: true, preempt_one_of: 3, ..SimConfig::default() };
        Simulation::new(config)
            .run(|| {
                let options = options(PolicyKind::FaceGsc, Mode::WriteBack);
                let (flash, disk) = support::memory(&options, PAGES);
                load(disk.clone(), PAGES);
                let tier = FlashTier::create(flash, disk, options).unwrap();
                tier.evict(victim(PageId(1), 0, true, true), &bytes(1, 1)).unwrap();
                let other = tier.clone();
                let writer = spawn("writer of page 2", move || {
                    other.evict(victim(PageId(2), 0, true, true), &bytes(2, 1)).unwrap();
                });
                tier.flush().unwrap();
                writer.join();
            })
            .unwrap();
    }
}

#[test]
fn pages_of_a_failed_run_do_not_change_later() {
    let mut failed = 0;
    for policy in [PolicyKind::FaceGsc, PolicyKind::Face, PolicyKind::Lru] {
        for at in 0.. {
            let options = options(policy, Mode::WriteThrough);
            let is_done = simulate(at, move || {
                let (flash, disk) = support::memory(&options, PAGES);
                load(disk.clone(), PAGES);
                let fork = disk.fork("disk");
                let plan = Arc::new(FaultPlan::none());
                let faulty = Arc::new(FaultyDevice::new("disk", fork, plan.clone()));
                let tier = FlashTier::create(flash, faulty, options.clone()).unwrap();
                let run = |number| (0..6).flat_map(|page| bytes(page, number)).collect::<Vec<u8>>();
                tier.write_pages(PageId(0), &run(1)).unwrap();
                let at = plan.operations() + at;
                plan.inject(Injection { at, device: None, fault: Fault::WriteError, forever: false });
                let written = tier.write_pages(PageId(0), &run(2));
                let versions = || -> Vec<u64> {
                    let mut found = vec![0; 6 * PAGE];
                    tier.read_pages(PageId(0), &mut found, ReadRoute::Populates).unwrap();
                    (0..6).map(|page| version(page, &found[page as usize * PAGE..][..PAGE])).collect()
                };
                let before = versions();
                let possible = if written.is_ok() { 2..=2 } else { 1..=2 };
                assert!(before.iter().all(|version| possible.contains(version)), "{before:?}");
                for page in 6..PAGES {
                    // The fault strikes here if it has not before.
                    let others = tier.write_pages(PageId(page), &bytes(page, 3));
                    assert!(others.is_ok() || written.is_ok());
                }
                assert_eq!(versions(), before, "{written:?}");
                tier.close().unwrap();
                written.is_ok()
            });
            if is_done {
                break;
            }
            failed += 1;
        }
    }
    assert!(failed >= 3, "{failed} runs failed");
}

/// A group's pages do not say what they are, so its two summaries are all that does. A check tells the loss
/// of either one; the cache opens with the other.
#[test]
fn a_check_misses_either_summary_of_a_group() {
    let options = options(PolicyKind::FaceGsc, Mode::WriteBack);
    simulate(1, || {
        let (flash, disk) = support::memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        for page in 0..PAGES {
            tier.evict(victim(PageId(page), 0, true, true), &bytes(page, 1)).unwrap();
        }
        tier.close().unwrap();
        let is_summary = |image: &[u8], at: usize| image[at..].starts_with(&entresol_format::summary::MAGIC);
        let image = support::bytes_of(&*flash);
        let summaries: Vec<usize> =
            (0..image.len()).step_by(4096).filter(|at| is_summary(&image, *at)).collect();
        let mut missed = 0;
        for at in summaries {
            let damaged = Arc::new(flash.fork("flash"));
            damaged.write(at as u64, &[0x5a; 4096]).unwrap();
            let report = check(&*damaged, Some(disk.clone())).unwrap();
            missed += usize::from(!report.is_sound());
            assert!(
                report.is_sound()
                    || report.faults.iter().all(|fault| fault.contains("of its summary is missing")),
                "{report}"
            );
            let disk = Arc::new(disk.fork("disk"));
            let (tier, _) = FlashTier::open(damaged, disk, options.clone()).unwrap();
            let mut buffer = vec![0; PAGE];
            for page in 0..PAGES {
                tier.fetch(PageId(page), &mut buffer).unwrap();
                assert_eq!(version(page, &buffer), 1, "page {page} without the summary at {at}");
            }
        }
        // The groups of the last round that are not dequeued, twice.
        assert!(missed >= 2 * 16, "{missed}");
    });
}

/// A page of the newest flush is damaged while the power is off. Right after the flush that looks like a
/// flush that was cut off, so the disk serves. When the cache was idle for a second it is known to be damage:
/// the page is not served in an older version.
#[test]
fn an_idle_cache_tells_damage_from_a_torn_flush() {
    for (idle, serves) in [(Duration::from_millis(1), true), (Duration::from_secs(1), false)] {
        let options = options(PolicyKind::FaceGsc, Mode::WriteBack);
        let [flash, disk] = simulate(1, || {
            let (flash, disk) = support::memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            for page in 0..2 {
                tier.evict(victim(PageId(page), 0, true, true), &bytes(page, 1)).unwrap();
            }
            tier.flush().unwrap();
            entresol_runtime::sleep(idle);
            [flash.fork("flash"), disk.fork("disk")].map(Arc::new)
        });
        let image = support::bytes_of(&*flash);
        let at = (0..image.len()).step_by(PAGE).find(|at| image[*at..].starts_with(&bytes(1, 1))).unwrap();
        flash.write(at as u64 + 512, &[0x5a; 512]).unwrap();
        let fetched = simulate(2, || {
            let opened = FlashTier::open(flash.clone(), disk.clone(), options.clone());
            let mut buffer = vec![0; PAGE];
            opened.and_then(|(tier, _)| tier.fetch(PageId(1), &mut buffer)).map(|_| version(1, &buffer))
        });
        match serves {
            true => assert_eq!(fetched.unwrap(), 0, "the disk's"),
            false => assert!(fetched.is_err(), "version {fetched:?} is served"),
        }
    }
}
