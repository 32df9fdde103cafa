//! Dirty pages get to disk behind the clients: when the volume is idle, when they are old, at the ceiling,
//! and in a drain, while requests continue.

#[path = "support/parts.rs"]
mod parts;
mod support;

use entresol_block::{Loss, SteerOptions, Volume};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_runtime::rng::Rng;
use entresol_runtime::{sleep, spawn};
use parts::{BYTES, PAGES, Parts, owners_bytes, simulate};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const CACHES: [(Cache, Mode); 5] = [
    (Cache::Policy(PolicyKind::FaceGsc), Mode::WriteBack),
    (Cache::Policy(PolicyKind::Face), Mode::WriteBack),
    (Cache::Policy(PolicyKind::Reuse), Mode::WriteBack),
    (Cache::Policy(PolicyKind::Lc), Mode::WriteBack),
    (Cache::Policy(PolicyKind::ReuseSlots), Mode::WriteBack),
];

fn filled(page: u64, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; PAGE as usize];
    bytes[..8].copy_from_slice(&page.to_le_bytes());
    bytes
}

fn on_disk(parts: &Parts, page: u64) -> Vec<u8> {
    let mut found = vec![0; PAGE as usize];
    parts.disk.read(page * PAGE, &mut found).unwrap();
    found
}

/// The volume with an empty flash device in the place of its own.
fn without_flash(parts: &Parts) -> Result<Volume, String> {
    let [disk, label, flash] = parts.devices();
    let blank = Arc::new(MemoryDevice::new("flash", flash.geometry().capacity_bytes));
    let opened = Volume::open(disk, label, blank, parts.options.clone());
    opened.map(|(volume, _)| volume).map_err(|error| error.to_string())
}

#[test]
fn an_idle_volume_becomes_clean_and_needs_its_flash_no_more() {
    for (cache, seed) in CACHES.into_iter().zip(0..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = parts.create();
            (0..40).for_each(|page| volume.write(page * PAGE, &filled(page, 1), false).unwrap());
            volume.flush().unwrap();
            assert!(volume.status().dirty_pages > 0);
            sleep(Duration::from_secs(3));
            let status = volume.status();
            assert_eq!((status.dirty_pages, status.lost_without_flash_bytes), (0, 0));
            assert!(status.pages > 20, "the pages stay: {}", status.pages);
            (0..40).for_each(|page| assert_eq!(on_disk(&parts, page), filled(page, 1), "page {page}"));
            // A kill: what was clean is clean, and stays in the cache.
            drop(volume);
            sleep(Duration::from_millis(100));
            let volume = parts.open();
            let status = volume.status();
            assert!(status.dirty_pages == 0 && status.pages > 20, "{} pages", status.pages);
            sleep(Duration::from_secs(3));
            assert_eq!(volume.metrics().unwrap().cleaned, 0);
            // Another one, and the flash is lost.
            drop(volume);
            sleep(Duration::from_millis(100));
            let volume = without_flash(&parts).unwrap();
            let mut found = vec![0; PAGE as usize];
            volume.read(7 * PAGE, &mut found).unwrap();
            assert_eq!(found, filled(7, 1));
            // Clean, and dirty again: the label says so before the write is acknowledged.
            sleep(Duration::from_secs(3));
            volume.write(3 * PAGE, &filled(3, 2), false).unwrap();
            drop(volume);
            sleep(Duration::from_millis(100));
            let refused = without_flash(&parts).err().expect("the disk needs its flash");
            assert!(refused.contains("needs the pages"), "{refused}");
        });
    }
}

#[test]
fn old_pages_are_copied_under_load_and_a_hot_one_is_not() {
    for (cache, seed) in CACHES.into_iter().zip(0..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = parts.create();
            volume.steer(SteerOptions { dirty_age_seconds: 5, ..SteerOptions::default() });
            (0..20).for_each(|page| volume.write(page * PAGE, &filled(page, 1), false).unwrap());
            let mut written = 0;
            for turn in 0..140 {
                // A request each tenth of a second: the volume is not idle.
                volume.write(30 * PAGE, &filled(30, turn), true).unwrap();
                sleep(Duration::from_millis(100));
                written += u64::from(on_disk(&parts, 30) != owners_bytes()[30 * 4096..31 * 4096]);
            }
            (0..16).for_each(|page| assert_eq!(on_disk(&parts, page), filled(page, 1), "page {page}"));
            assert_eq!(written, 0, "the hot page was written to disk");
            let status = volume.status();
            assert!((1..=8).contains(&status.dirty_pages), "{}", status.dirty_pages);
        });
    }
}

#[test]
fn the_ceiling_holds() {
    for (cache, seed) in CACHES.into_iter().zip(0..) {
        for percent in [25, 50] {
            simulate(seed, || {
                let parts = Parts::new(cache);
                let volume = Arc::new(parts.create());
                let steer = SteerOptions { dirty_percent_max: percent, ..SteerOptions::default() };
                volume.steer(steer);
                let model = Arc::new(Mutex::new(owners_bytes()));
                let most = Arc::new(AtomicU64::new(0));
                let clients: Vec<_> = (0..3)
                    .map(|task| {
                        let (volume, model, most) = (volume.clone(), model.clone(), most.clone());
                        let mut rng = Rng::new(seed << 8 | task);
                        spawn("client", move || {
                            for turn in 0..150 {
                                // Each task has pages of its own.
                                let page = rng.below(PAGES / 3) * 3 + task;
                                let bytes = filled(page, turn);
                                // Whole pages, and parts of them.
                                let (from, to) = if turn % 3 == 0 { (512, 1536) } else { (0, 4096) };
                                let at = page * PAGE + from as u64;
                                volume.write(at, &bytes[from..to], turn % 16 == 0).unwrap();
                                model.lock().unwrap()[at as usize..][..to - from]
                                    .copy_from_slice(&bytes[from..to]);
                                most.fetch_max(volume.status().dirty_pages, SeqCst);
                            }
                        })
                    })
                    .collect();
                clients.into_iter().for_each(|client| client.join());
                let limit = volume.status().dirty_pages_max;
                assert_eq!(limit, 80 * percent / 100);
                let most = most.load(SeqCst);
                // A page that is dirty on flash and in staging counts twice, and staging has 16 pages.
                assert!(most >= limit - 2 && most <= limit + 16, "{cache:?}: {most} of {limit}");
                let mut found = vec![0; BYTES as usize];
                volume.read(0, &mut found).unwrap();
                assert!(found == *model.lock().unwrap());
                volume.close().unwrap();
            });
        }
    }
}

#[test]
fn a_drain_lets_clients_go_on_and_can_be_cancelled() {
    for (cache, seed) in CACHES.into_iter().zip(0..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = Arc::new(parts.create());
            volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
            (0..60).for_each(|page| volume.write(page * PAGE, &filled(page, 1), false).unwrap());
            let cancelled = volume.drain_watched(Loss::Refused, &mut |_| ControlFlow::Break(()));
            assert!(!cancelled.unwrap(), "it was cancelled");
            assert!(volume.status().under_way.is_none());
            (0..60).for_each(|page| volume.write(page * PAGE, &filled(page, 2), false).unwrap());
            let ends = Arc::new(AtomicBool::new(false));
            let client = {
                let (volume, ends) = (volume.clone(), ends.clone());
                spawn("client", move || {
                    let mut written: u64 = 0;
                    while !ends.load(SeqCst) {
                        written += 1;
                        let page = 60 + written % 20;
                        volume.write(page * PAGE, &filled(page, written as u8), true).unwrap();
                    }
                    assert!(written > 0);
                })
            };
            let mut told = Vec::new();
            let drained = volume.drain_watched(Loss::Refused, &mut |progress| {
                // Clients have their turn.
                sleep(Duration::from_millis(5));
                told.push((progress.done, progress.total, volume.status().under_way.map(|it| it.what)));
                ControlFlow::Continue(())
            });
            assert!(drained.unwrap());
            ends.store(true, SeqCst);
            client.join();
            (0..60).for_each(|page| assert_eq!(on_disk(&parts, page), filled(page, 2), "page {page}"));
            let last = told.last().expect("it was told of");
            assert!(last.0 <= last.1 && last.1 <= 80 && last.2.as_deref() == Some("drain"), "{told:?}");
            volume.close().unwrap();
        });
    }
}

/// Zeros are made on the disk. Pages that are dirty become zeros in the cache.
#[test]
fn zeros_are_not_written_to_flash() {
    let caches = CACHES.into_iter().chain([
        (Cache::Policy(PolicyKind::FaceGsc), Mode::WriteThrough),
        (Cache::Policy(PolicyKind::Lru), Mode::WriteThrough),
        (Cache::Fragments, Mode::WriteThrough),
    ]);
    for (cache, seed) in caches.zip(0..) {
        for may_punch in [false, true] {
            simulate(seed, || {
                let parts = Parts::new(cache);
                let volume = parts.create();
                volume.pass_trims(true);
                volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
                let mut model = owners_bytes();
                let mut page = vec![0; PAGE as usize];
                // Pages from 40 on are read, and 10 to 14 are written.
                (40..60).for_each(|at| volume.read(at * PAGE, &mut page).unwrap());
                (10..15).for_each(|at| volume.write(at * PAGE, &filled(at, 3), false).unwrap());
                (10..15).for_each(|at| {
                    model[at as usize * 4096..][..4096].copy_from_slice(&filled(at, 3));
                });
                volume.flush().unwrap();
                let before = volume.metrics().unwrap().flash_writes;
                let (from, to) = (3 * PAGE + 512, 140 * PAGE + 1024);
                volume.write_zeroes(from, to - from, may_punch, true).unwrap();
                model[from as usize..to as usize].fill(0);
                let written = volume.metrics().unwrap().flash_writes - before;
                assert!(written <= 5 + 2 + 8, "{cache:?}: {written} pages were written to flash");
                let mut found = vec![0; BYTES as usize];
                volume.read(0, &mut found).unwrap();
                assert!(found == model, "{cache:?}");
                drop(volume);
                sleep(Duration::from_millis(100));
                let volume = parts.open();
                volume.read(0, &mut found).unwrap();
                assert!(found == model, "{cache:?}, after a kill");
                volume.detach(Loss::Refused).unwrap();
                let mut disk = vec![0; BYTES as usize];
                parts.disk.read(0, &mut disk).unwrap();
                assert!(disk == model, "{cache:?}, on disk");
            });
        }
    }
}

/// Zeros that are not durable on the disk are read, and enter the flash as a clean page. Then power fails,
/// and the disk loses them: what was read after the restart stays.
#[test]
fn zeros_that_were_read_after_a_power_failure_stay() {
    for (cache, seed) in CACHES.into_iter().zip(0..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let plan = Arc::new(FaultPlan::none());
            let faulty = |name: &str, medium: &MemoryDevice, bytes| {
                FaultyDevice::new(name, medium.fork(name), plan.clone()).with_capacity(bytes)
            };
            let disk = Arc::new(faulty("disk", &parts.disk, BYTES));
            let [_, label, flash] = parts.devices();
            let volume = Volume::create(disk.clone(), label, flash, parts.options.clone()).unwrap();
            volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
            volume.flush().unwrap();
            volume.write_zeroes(90 * PAGE, PAGE, false, false).unwrap();
            let read = |volume: &Volume| {
                let mut found = vec![0; PAGE as usize];
                volume.read(90 * PAGE, &mut found).unwrap();
                found
            };
            assert_eq!(read(&volume), vec![0; PAGE as usize]);
            // Its group becomes durable on flash.
            (0..24).for_each(|page| volume.write(page * PAGE, &filled(page, 1), false).unwrap());
            sleep(Duration::from_millis(200));
            drop(volume);
            sleep(Duration::from_millis(100));
            let left = disk.after_crash(&Survival::None);
            let mut bytes = vec![0; BYTES as usize];
            left.read(0, &mut bytes).unwrap();
            parts.disk.write(0, &bytes).unwrap();
            let volume = parts.open();
            let before = read(&volume);
            volume.detach(Loss::Refused).unwrap();
            assert!(read(&volume) == before, "{cache:?}: a version that was read does not stay");
        });
    }
}
