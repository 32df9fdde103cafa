//! Reads and writes past the cache beside those that go through it.

#[path = "support/journalled.rs"]
mod journalled;
mod support;

use entresol_block::Volume;
use entresol_core::Mode;
use entresol_device::{FaultPlan, FaultyDevice, MemoryDevice};
use entresol_engine::{TierOptions, Uuid};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::spawn;
use journalled::{PAGE, Parts, filled, simulate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const PAGES: u64 = 150;
const JOURNAL_BYTES: u64 = 4 << 20;

fn version(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// What one reader has seen, every later one sees, though one of them reads past the cache while the write to
/// disk is under way.
#[test]
fn a_read_past_the_cache_is_not_behind_one_through_it() {
    let (both_seen, seen_early) = (AtomicU64::new(0), AtomicU64::new(0));
    for (mode, seed) in [Mode::WriteThrough, Mode::WriteBack]
        .into_iter()
        .flat_map(|mode| (0..40).map(move |seed| (mode, seed)))
    {
        simulate(seed, || {
            let volume = Parts::new(mode, PAGES, JOURNAL_BYTES).create();
            let ended = Arc::new(AtomicBool::new(false));
            let writer = {
                let (volume, ended) = (volume.clone(), ended.clone());
                spawn("writer", move || {
                    for number in 1..20 {
                        volume.write(7 * PAGE as u64, &filled(number), false).unwrap();
                    }
                    ended.store(true, SeqCst);
                })
            };
            let (mut through, mut run) = (vec![0; PAGE], vec![0; 4 * PAGE]);
            while !ended.load(SeqCst) {
                volume.read(7 * PAGE as u64, &mut through).unwrap();
                volume.read_of_stream(6 * PAGE as u64, &mut run, true).unwrap();
                let around = version(&run[PAGE..]);
                assert!(
                    around >= version(&through),
                    "{mode:?}, seed {seed}: {around}, {}",
                    version(&through)
                );
                both_seen.fetch_add(1, SeqCst);
                seen_early.fetch_add(u64::from(version(&through) > 0), SeqCst);
            }
            writer.join();
            volume.close().unwrap();
        });
    }
    assert!(seen_early.load(SeqCst) > 500, "{} of {}", seen_early.load(SeqCst), both_seen.load(SeqCst));
}

/// 1. A page is written to the cache, and recorded. 2. It is destaged and leaves the cache, without a flush.
/// 3. It is written past the flash. 4. The program is killed. The next one does not carry out the older one.
#[test]
fn an_older_write_is_not_carried_out_over_one_past_the_flash() {
    let mut past = 0;
    for seed in 0..20 {
        let parts = Parts::new(Mode::WriteBack, PAGES, JOURNAL_BYTES);
        simulate(seed, || {
            let volume = parts.create();
            volume.write(3 * PAGE as u64, &filled(1), false).unwrap();
            for page in 10..PAGES {
                volume.write(page * PAGE as u64, &filled(1), false).unwrap();
            }
            volume.write_of_stream(3 * PAGE as u64, &filled(2), false, true).unwrap();
            past += volume.status().bypassed.iter().map(|by| by.writes).sum::<u64>();
            // Killed: nothing is flushed, and the journal stays.
            std::mem::forget(volume);
        });
        simulate(seed, || {
            let (volume, notices) = parts.open();
            assert!(notices.iter().any(|notice| notice.contains("carried out")), "{notices:?}");
            let mut page = filled(0);
            volume.read(3 * PAGE as u64, &mut page).unwrap();
            assert_eq!(version(&page), 2, "seed {seed}");
            volume.read(100 * PAGE as u64, &mut page).unwrap();
            assert_eq!(version(&page), 1, "seed {seed}");
            volume.close().unwrap();
        });
    }
    assert!(past >= 15, "{past}");
}

/// 1. A write is acknowledged, and the program is killed.
/// 2. An open is refused.
/// 3. The volume is opened without its journal, written to, and closed.
/// 4. The older write is not carried out over the newer one. Had step 3 been left out, it is.
#[test]
fn a_journal_is_carried_out_only_if_nobody_wrote_without_it() {
    for is_opened_without in [false, true] {
        let parts = Parts::new(Mode::WriteBack, PAGES, JOURNAL_BYTES);
        simulate(1, || {
            let volume = parts.create();
            volume.write(3 * PAGE as u64, &filled(1), false).unwrap();
            std::mem::forget(volume);
        });
        simulate(2, || {
            let [disk, label, flash, journal] = parts.devices();
            let options = TierOptions { page_bytes: 2 * PAGE as u32, ..parts.1.clone() };
            let opened = Volume::open_with_journal(disk, label, flash, options, (journal, Uuid::NIL));
            assert!(opened.is_err(), "pages have another size");
            if is_opened_without {
                let [disk, label, flash, _] = parts.devices();
                let (volume, _) = Volume::open(disk, label, flash, parts.1.clone()).unwrap();
                volume.write(3 * PAGE as u64, &filled(2), true).unwrap();
                volume.close().unwrap();
            }
        });
        simulate(3, || {
            let (volume, notices) = parts.open();
            let mut page = filled(0);
            volume.read(3 * PAGE as u64, &mut page).unwrap();
            assert_eq!(version(&page), 1 + u64::from(is_opened_without), "{notices:?}");
            let told = if is_opened_without { "were not carried out" } else { "were carried out again" };
            assert!(notices.iter().any(|notice| notice.contains(told)), "{notices:?}");
            volume.close().unwrap();
        });
    }
}

/// 1. A write is acknowledged, and the program is killed.
/// 2. The next start, with the journal, is killed at any operation.
/// 3. The volume is opened without its journal, written to, and closed; or it is not.
/// 4. The older write is not carried out over the newer one. Without step 3 it is there.
#[test]
fn a_start_that_is_killed_leaves_the_journal_what_it_was() {
    let parts = Parts::new(Mode::WriteBack, PAGES, JOURNAL_BYTES);
    simulate(1, || {
        let volume = parts.create();
        volume.write(3 * PAGE as u64, &filled(1), false).unwrap();
        std::mem::forget(volume);
    });
    let [mut again, mut newer] = [0, 0];
    for at in 1.. {
        let plan = Arc::new(FaultPlan::crash_at(at));
        let fork = |device: &Arc<MemoryDevice>| device.fork("part");
        let killed =
            parts.0.each_ref().map(|device| Arc::new(FaultyDevice::new("part", fork(device), plan.clone())));
        let open = |devices: &[Arc<FaultyDevice>; 4]| {
            let [disk, label, flash, journal] = devices.clone();
            let options = parts.1.clone();
            Volume::open_with_journal(disk, label, flash, options, (journal, Uuid::NIL)).unwrap()
        };
        let simulation = Simulation::new(SimConfig { seed: at, ..SimConfig::default() });
        let outcome = simulation.run(|| drop(open(&killed)));
        for is_opened_without in [false, true] {
            let left =
                killed.each_ref().map(|device| Arc::new(device.after_kill(Arc::new(FaultPlan::none()))));
            simulate(2, || {
                if is_opened_without {
                    let [disk, label, flash, _] = left.clone();
                    let (volume, _) = Volume::open(disk, label, flash, parts.1.clone()).unwrap();
                    volume.write(3 * PAGE as u64, &filled(2), true).unwrap();
                    volume.close().unwrap();
                }
                let (volume, notices) = open(&left);
                let mut page = filled(0);
                volume.read(3 * PAGE as u64, &mut page).unwrap();
                let expected = 1 + u64::from(is_opened_without);
                assert_eq!(version(&page), expected, "killed at {at}: {notices:?}");
                let has = |told| notices.iter().any(|notice: &String| notice.contains(told));
                assert!(!has("carried out again") || !is_opened_without, "killed at {at}: {notices:?}");
                again += u32::from(has("were carried out again"));
                newer += u32::from(has("were not carried out"));
                volume.close().unwrap();
            });
        }
        if matches!(outcome, Outcome::Finished(())) {
            break;
        }
    }
    assert!(again > 10 && newer > 10, "{again} {newer}");
}
