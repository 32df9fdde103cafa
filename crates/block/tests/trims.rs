//! Trims: the pages leave the cache for good, whatever is under way, and whoever is killed after it.

#[path = "support/parts.rs"]
mod parts;
mod support;

use entresol_block::{Loss, Volume};
use entresol_core::Mode;
use entresol_runtime::rng::Rng;
use entresol_runtime::{random, spawn};
use parts::{CACHES, PAGES, Parts, simulate};
use std::sync::Arc;
use std::time::Duration;
use support::SLOW_MICROS;

const PAGE: u64 = 4096;
/// Past the sectors of the disk's fingerprint, most of which are at the beginning.
const FIRST: u64 = 60;

/// The bytes of pages, as the cache gives them and as the disk does.
fn answers(volume: &Volume, first: u64, pages: u64) -> [Vec<u8>; 2] {
    [false, true].map(|around| {
        let mut found = vec![1; (pages * PAGE) as usize];
        volume.read_of_stream(first * PAGE, &mut found, around).unwrap();
        found
    })
}

/// A server that is killed after a trim leaves one answer, whoever gives it: flash, or the disk.
#[test]
fn a_kill_after_a_trim_leaves_one_answer() {
    for (cache, seed) in CACHES.into_iter().zip(600..) {
        simulate(seed, || {
            let parts = Parts::new(cache);
            let volume = parts.create();
            volume.pass_trims(true);
            let first = FIRST * PAGE;
            volume.write(first, &[7; 8 * 4096], true).unwrap();
            // Read from disk, so that they are in the cache and not newer.
            volume.drain(Loss::Refused).unwrap();
            let mut page = [0; 8 * 4096];
            for _ in 0..20 {
                volume.read(first, &mut page).unwrap();
                volume.flush().unwrap();
            }
            let cached = (0..8).filter(|page| volume.is_cached(first + page * 4096, 4096)).count();
            assert!(cached == 8 || cache.1 == Mode::WriteAround, "{cache:?}: {cached} pages are cached");
            volume.trim(first, 8 * 4096).unwrap();
            drop(volume);
            let volume = parts.open();
            let [found, on_disk] = answers(&volume, FIRST, 8);
            assert!(found == on_disk, "{cache:?}: {} by the cache, {} by the disk", found[0], on_disk[0]);
        });
    }
}

/// Reads that met the disk before a trim end after it: they bring nothing old into the cache.
#[test]
fn a_read_under_way_brings_no_trimmed_page() {
    for (cache, seeds) in CACHES.into_iter().zip((700..).step_by(30)) {
        for seed in seeds..seeds + 30 {
            simulate(seed, || {
                let volume = Arc::new(Parts::new(cache).create());
                volume.pass_trims(true);
                volume.write(FIRST * PAGE, &[7; 8 * 4096], true).unwrap();
                volume.drain(Loss::Refused).unwrap();
                let read = |task: u64| {
                    let volume = volume.clone();
                    spawn("reader", move || {
                        for _ in 0..4 {
                            volume.read((FIRST + 2 * task) * PAGE, &mut [0; 8192]).unwrap();
                        }
                    })
                };
                SLOW_MICROS.set(random() % 300);
                let tasks: Vec<_> = (0..4).map(read).collect();
                entresol_runtime::sleep(Duration::from_micros(random() % 1500));
                volume.trim(FIRST * PAGE, 8 * PAGE).unwrap();
                tasks.into_iter().for_each(|task| task.join());
                SLOW_MICROS.set(0);
                let [found, on_disk] = answers(&volume, FIRST, 8);
                assert!(found == on_disk, "{cache:?}, seed {seed}: two answers");
            });
        }
    }
}

/// The ring of the flash turns before a trim: a crash finds no copy in a slot that was released.
#[test]
fn a_kill_finds_no_trimmed_page_in_a_released_slot() {
    for (cache, seeds) in CACHES.into_iter().zip((1000..).step_by(12)) {
        for seed in seeds..seeds + 12 {
            simulate(seed, || {
                let parts = Parts::new(cache);
                let mut volume = parts.create();
                let mut rng = Rng::new(seed);
                for _ in 0..20 {
                    volume.pass_trims(true);
                    for _ in 0..rng.below(300) {
                        let page = FIRST + rng.below(PAGES - FIRST);
                        volume.write(page * PAGE, &[rng.below(255) as u8 + 1; 4096], false).unwrap();
                    }
                    let mut drawn = || FIRST + rng.below(PAGES - FIRST);
                    let gone = (0..50).map(|_| drawn()).find(|page| !volume.is_cached(page * PAGE, PAGE));
                    volume.trim(gone.unwrap_or(FIRST) * PAGE, PAGE).unwrap();
                    drop(volume);
                    // What is on its way to a device gets there.
                    entresol_runtime::sleep(Duration::from_millis(10));
                    volume = parts.open();
                    let [found, on_disk] = answers(&volume, FIRST, PAGES - FIRST);
                    let page =
                        (0..found.len()).find(|at| found[*at] != on_disk[*at]).map(|at| at as u64 / PAGE);
                    assert_eq!(page, None, "{cache:?}, seed {seed}: two answers");
                }
            });
        }
    }
}
