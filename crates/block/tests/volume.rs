//! A volume in simulation, against an array of bytes: several tasks read, write, trim, zero and flush ranges
//! that overlap in pages, at sectors of their own and at shared ones.

#[path = "support/parts.rs"]
mod parts;
mod support;

use entresol_block::{Loss, SECTOR_BYTES, Volume, VolumeError};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{TierError, TierOptions};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use parts::{BYTES, CACHES, PAGES, Parts, SECTOR, options, owners_bytes, simulate};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::SLOW_MICROS;

const TASKS: u64 = 4;

/// What each sector may be: a byte that fills it. Each task has every `TASKS`th sector, so all of them write
/// to the same pages.
type Model = Arc<Mutex<Vec<u8>>>;

fn expect(volume: &Volume, model: &[u8], what: &str) {
    let mut found = vec![0; BYTES as usize];
    volume.read(0, &mut found).unwrap();
    if let Some(at) = (0..found.len()).find(|at| found[*at] != model[*at]) {
        panic!("{what}: byte {at} (page {}) is {}, expected {}", at / 4096, found[at], model[at]);
    }
}

/// One task: writes to its own sectors, and reads everybody's.
fn client(volume: &Volume, model: &Model, task: u64, rng: &mut Rng) {
    for _ in 0..60 {
        let sector = rng.below(BYTES / SECTOR_BYTES / TASKS) * TASKS + task;
        let (offset, at) = (sector * SECTOR_BYTES, sector as usize * SECTOR);
        match rng.below(12) {
            0..=5 => {
                let data = [rng.below(255) as u8 + 1; SECTOR];
                volume.write(offset, &data, rng.below(8) == 0).unwrap();
                model.lock().unwrap()[at..at + SECTOR].copy_from_slice(&data);
            }
            6 => {
                volume.write_zeroes(offset, SECTOR_BYTES, true, false).unwrap();
                model.lock().unwrap()[at..at + SECTOR].fill(0);
            }
            7 => volume.trim(offset, (BYTES - offset).min(64 << 10)).unwrap(),
            8 => volume.prefetch(offset, (BYTES - offset).min(64 << 10)).unwrap(),
            9 => volume.flush().unwrap(),
            _ => {
                let mut found = vec![0; SECTOR * (1 + rng.below(40) as usize)];
                let bytes = found.len().min((BYTES - offset) as usize);
                volume.read(offset, &mut found[..bytes]).unwrap();
                let expected = model.lock().unwrap()[at..at + SECTOR].to_vec();
                assert_eq!(found[..SECTOR], expected, "sector {sector} of task {task}");
            }
        }
    }
}

/// Several tasks use the volume; then all bytes are as the model has them, also after a restart and on disk.
fn used_by_several(cache: (Cache, Mode), seed: u64) {
    simulate(seed, || {
        let parts = Parts::new(cache);
        let model: Model = Arc::new(Mutex::new(owners_bytes()));
        let volume = Arc::new(parts.create());
        expect(&volume, &owners_bytes(), "before");
        for round in 0..2 {
            let tasks = (0..TASKS).map(|task| {
                let (volume, model) = (volume.clone(), model.clone());
                let mut rng = Rng::new(seed ^ task << 32 ^ round << 48);
                spawn("client", move || client(&volume, &model, task, &mut rng))
            });
            tasks.collect::<Vec<_>>().into_iter().for_each(|task| task.join());
            expect(&volume, &model.lock().unwrap(), "after all have ended");
            if round == 0 {
                volume.drain(Loss::Refused).unwrap();
                assert_eq!(volume.status().dirty_pages, 0);
                expect(&volume, &model.lock().unwrap(), "drained");
            }
        }
        volume.close().unwrap();
        drop(volume);
        let volume = parts.open();
        expect(&volume, &model.lock().unwrap(), "after a restart");
        volume.detach(Loss::Refused).unwrap();
        expect(&volume, &model.lock().unwrap(), "detached");
        volume.write(SECTOR_BYTES, &[7; SECTOR], true).unwrap();
        model.lock().unwrap()[SECTOR..2 * SECTOR].fill(7);
        expect(&volume, &model.lock().unwrap(), "written without a cache");
        volume.close().unwrap();
        let mut disk = vec![0; BYTES as usize];
        parts.disk.read(0, &mut disk).unwrap();
        assert!(disk == *model.lock().unwrap(), "the disk has everything");
    });
}

#[test]
fn what_was_written_is_read() {
    for cache in CACHES {
        (0..25).for_each(|seed| used_by_several(cache, seed));
    }
}

/// Another mode or policy while clients write: nothing is lost, and a mode that the policy does not have is
/// refused.
#[test]
fn mode_and_policy_are_changed_under_clients() {
    let modes = [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround];
    let set_mode = |volume: &Volume, mode| {
        let (options, _) = volume.cache_options().expect("there is a cache");
        options.in_mode(mode).and_then(|options| volume.set_cache(options, Loss::Refused))
    };
    for (cache, seed) in CACHES.into_iter().zip(500..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let model: Model = Arc::new(Mutex::new(owners_bytes()));
            let volume = Arc::new(parts.create());
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (volume, model) = (volume.clone(), model.clone());
                    let mut rng = Rng::new(seed ^ task << 32);
                    spawn("client", move || client(&volume, &model, task, &mut rng))
                })
                .collect();
            let (mut changed, mut kept) = (0, 0);
            for mode in modes.into_iter().chain(modes) {
                let before = volume.status().mode;
                match set_mode(&volume, mode) {
                    Ok(()) => changed += 1,
                    Err(error) => {
                        assert!(matches!(error, TierError::Config(_)), "{error}");
                        assert_eq!(volume.status().mode, before);
                    }
                }
                entresol_runtime::sleep(Duration::from_millis(1));
            }
            let possible = match cache.0 {
                Cache::Fragments => 2,
                Cache::Policy(policy) if policy.may_keep_slots() => 6,
                _ => 4,
            };
            assert_eq!(changed, possible, "{cache:?}");
            for other in CACHES.into_iter().chain([cache]) {
                let (before, _) = volume.cache_options().expect("there is a cache");
                volume.set_cache(options(other), Loss::Refused).unwrap();
                assert_eq!(volume.status().policy.as_deref(), Some(other.0.name()));
                kept += usize::from(options(other).keeps_pages_of(&before) && volume.status().pages > 0);
                entresol_runtime::sleep(Duration::from_millis(1));
            }
            // One for which there is no room: the old one goes on.
            let (before, _) = volume.cache_options().expect("there is a cache");
            let large =
                TierOptions { page_format: PageFormat::Raw, ..TierOptions::new(PolicyKind::Face, 640) };
            assert!(volume.set_cache(large.into(), Loss::Refused).is_err());
            assert_eq!(volume.cache_options().expect("there is a cache").0, before);
            assert!(kept > 0, "no change has kept a page");
            tasks.into_iter().for_each(|task| task.join());
            expect(&volume, &model.lock().unwrap(), "after all have ended");
            volume.detach(Loss::Refused).unwrap();
            expect(&volume, &model.lock().unwrap(), "detached");
            assert!(volume.set_cache(options(cache), Loss::Refused).is_err(), "the disk alone serves");
        });
    }
}

/// A sector that the disk cannot read is an error of requests that need it, and can be written again.
#[test]
fn an_unreadable_sector_harms_its_requests_only() {
    for (cache, seed) in CACHES.into_iter().zip(400..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = parts.create();
            parts.disk.mark_unreadable(4096 + 512, 512);
            let mut page = vec![0; 4096];
            assert!(volume.read(4096, &mut page).is_err());
            volume.prefetch(0, 12 * 4096).unwrap();
            volume.read(4096 + 1024, &mut page[..2048]).unwrap();
            assert!(page[..2048] == owners_bytes()[4096 + 1024..][..2048]);
            volume.write(4096, &[9; 512], false).unwrap();
            assert!(volume.read(4096 + 512, &mut page[..512]).is_err());
            volume.write(4096 + 512, &[8; 512], true).unwrap();
            volume.read(4096, &mut page).unwrap();
            assert!(page[..512] == [9; 512] && page[512..1024] == [8; 512]);
            assert!(page[1024..] == owners_bytes()[4096 + 1024..][..3072]);
        });
    }
}

/// Flash fails somewhere in a detach: nothing is lost, and what is served is right.
#[test]
fn a_detach_that_fails_loses_nothing() {
    let mut served = [0; 3];
    for at in 0.. {
        let is_over = Arc::new(Mutex::new(false));
        let (told, served) = (is_over.clone(), &mut served);
        simulate(at, move || {
            let parts = Parts::new(CACHES[0]);
            let plan = Arc::new(FaultPlan::none());
            let flash = MemoryDevice::new("flash", parts.flash.geometry().capacity_bytes);
            let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
            let [disk, label, _] = parts.devices();
            let volume = Volume::create(disk, label, flash, parts.options.clone()).unwrap();
            let mut model = owners_bytes();
            for page in 0..40 {
                volume.write(page * 4096, &[page as u8; 4096], page % 8 == 0).unwrap();
                model[page as usize * 4096..][..4096].fill(page as u8);
            }
            let fails_at = plan.operations() + at;
            plan.inject(Injection { at: fails_at, device: None, fault: Fault::Death, forever: true });
            let drained = volume.detach(Loss::Refused);
            let mut found = vec![0; BYTES as usize];
            let read = volume.read(0, &mut found);
            assert!(read.is_err() || found == model, "{at}: {drained:?}");
            let is_whole = plan.struck() == 0;
            assert!(!is_whole || drained.is_ok() && read.is_ok(), "{at}: {drained:?}");
            *told.lock().unwrap() = is_whole;
            served[if is_whole { 2 } else { usize::from(read.is_ok()) }] += 1;
        });
        if *is_over.lock().unwrap() {
            break;
        }
    }
    assert!(served.iter().all(|count| *count > 0), "errors, the disk alone, no fault: {served:?}");
}

/// Large overlapping writes of whole pages and parts: each byte is of one of the writes that may be there.
#[test]
fn whole_pages_and_parts_of_them_in_one_request() {
    for (cache, seed) in CACHES.into_iter().zip(100..) {
        simulate(seed, || {
            let volume = Parts::new(cache).create();
            let mut model = owners_bytes();
            let mut rng = Rng::new(seed);
            for round in 0..60 {
                let first = rng.below(BYTES / SECTOR_BYTES);
                let sectors = 1 + rng.below((BYTES / SECTOR_BYTES - first).min(600));
                let (offset, length) = (first * SECTOR_BYTES, sectors * SECTOR_BYTES);
                let range = offset as usize..(offset + length) as usize;
                match rng.below(4) {
                    0 => {
                        volume.write_zeroes(offset, length, offset % 8192 == 0, true).unwrap();
                        model[range].fill(0);
                    }
                    1 => volume.trim(offset, length).unwrap(),
                    2 => {
                        let data: Vec<u8> = range.clone().map(|at| (at / 512 + round) as u8).collect();
                        volume.write(offset, &data, false).unwrap();
                        model[range].copy_from_slice(&data);
                    }
                    _ => {
                        let mut found = vec![0; length as usize];
                        volume.read(offset, &mut found).unwrap();
                        assert!(found == model[range], "{length} bytes at {offset}");
                    }
                }
            }
            expect(&volume, &model, "at the end");
        });
    }
}

#[test]
fn reads_fill_the_cache_and_trims_remove_what_is_clean() {
    for (cache, seed) in CACHES.into_iter().zip(200..) {
        simulate(seed, || {
            let volume = Parts::new(cache).create();
            let (mut page, length) = (vec![0; 4096], 8 * 4096);
            for _ in 0..3 {
                (0..8).for_each(|at| volume.read(at * 4096, &mut page).unwrap());
                entresol_runtime::sleep(Duration::from_millis(5));
            }
            assert!(volume.is_cached(0, length), "{cache:?}: {:?}", volume.status());
            let before = volume.status();
            volume.read(0, &mut page).unwrap();
            assert_eq!(volume.status().disk_reads, before.disk_reads, "{cache:?}");
            volume.trim(0, length).unwrap();
            assert!(!volume.is_cached(0, 4096), "{cache:?}");
            volume.read(0, &mut page).unwrap();
            assert!(page == owners_bytes()[..4096]);
            // Of a dirty page, the disk has an older copy.
            volume.write(0, &[3; 4096], true).unwrap();
            volume.trim(0, length).unwrap();
            volume.read(0, &mut page).unwrap();
            assert_eq!(page, [3; 4096]);
        });
    }
}

/// The disk has the room again of what was trimmed, if its owner lets that be; not of pages that are newer in
/// the cache.
#[test]
fn trims_reach_the_disk() {
    for (cache, seed) in CACHES.into_iter().zip(500..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = parts.create();
            let (first, mut expected) = (40 * 4096, owners_bytes()[40 * 4096..60 * 4096].to_vec());
            let mut found = vec![0; expected.len()];
            for _ in 0..3 {
                volume.read(first, &mut found[..8 * 4096]).unwrap();
                entresol_runtime::sleep(Duration::from_millis(5));
            }
            volume.write(first + 4 * 4096, &[3; 4096], true).unwrap();
            expected[4 * 4096..5 * 4096].fill(3);
            volume.trim(first, 20 * 4096).unwrap();
            volume.read(first, &mut found).unwrap();
            assert!(found == expected, "{cache:?}: a trim that is not passed on changes no byte");
            volume.pass_trims(true);
            // Half of the first page is needed.
            volume.trim(first + 2048, 20 * 4096 - 2048).unwrap();
            volume.flush().unwrap();
            volume.read(first, &mut found).unwrap();
            let zeros = check_trimmed(&found, &expected, cache);
            // Some sectors are of the disk's fingerprint.
            assert!(zeros > 40, "{cache:?}: {zeros} sectors of the disk are free");
            volume.close().unwrap();
            let [disk, label, flash] = parts.devices();
            let (volume, notices) = Volume::open(disk, label, flash, parts.options.clone()).unwrap();
            assert!(!notices.concat().contains("another program"), "{notices:?}");
            let before = found.clone();
            volume.read(first, &mut found).unwrap();
            assert!(found == before, "{cache:?}");
        });
    }
}

/// Each sector is zeros or as `expected`, and as `expected` where it had to stay. Returns how many are zeros.
fn check_trimmed(found: &[u8], expected: &[u8], (cache, mode): (Cache, Mode)) -> usize {
    assert!(found[..4096] == expected[..4096], "{cache:?}: the page that was not trimmed as a whole");
    if mode == Mode::WriteBack {
        assert!(found[4 * 4096..5 * 4096] == [3; 4096], "{cache:?}: the page that is newer in the cache");
    }
    let sectors = found.chunks(SECTOR).zip(expected.chunks(SECTOR));
    sectors
        .filter(|(found, expected)| found != expected)
        .inspect(|(found, _)| assert_eq!(**found, [0; SECTOR]))
        .count()
}

#[test]
fn ranges_outside_and_parts_of_sectors_are_refused() {
    simulate(1, || {
        let volume = Parts::new(CACHES[0]).create();
        let mut buffer = vec![0; 1024];
        for (offset, length) in [(BYTES, 512), (BYTES - 512, 1024), (u64::MAX - 511, 512), (1, 512), (0, 100)]
        {
            let told = volume.read(offset, &mut buffer[..length]);
            assert!(matches!(told, Err(VolumeError::Range { .. })), "{offset} {length}");
            let told = volume.write(offset, &buffer[..length], false);
            assert!(matches!(told, Err(VolumeError::Range { .. })), "{offset} {length}");
        }
    });
}

/// A read of an old version ends after the new one was written, and has left the cache.
#[test]
fn a_late_read_brings_no_older_version() {
    for (cache, seed) in CACHES.into_iter().zip(300..) {
        simulate(seed, || {
            let volume = Arc::new(Parts::new(cache).create());
            let reader = volume.clone();
            SLOW_MICROS.set(400_000);
            let task = spawn("reader", move || reader.read(0, &mut [0; 4096]).unwrap());
            entresol_runtime::sleep(Duration::from_micros(200));
            SLOW_MICROS.set(0);
            volume.write(0, &[3; 4096], false).unwrap();
            for page in 1..PAGES {
                volume.write(page * 4096, &[4; 4096], false).unwrap();
            }
            task.join();
            for _ in 0..2 {
                let mut found = [0; 4096];
                volume.read(0, &mut found).unwrap();
                assert_eq!(found, [3; 4096], "{cache:?}");
            }
        });
    }
}
