//! A cache is detached after a crash that damaged one of its new pages: the store then opens on the disk
//! alone, and every committed row is there.

mod support;

use entresol_core::{PolicyKind, SlotId};
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{DiskLayer, FlashTier, TierError, TierOptions, detach, flash_bytes};
use entresol_store::{Lock, Options, Parts, Store};
use std::sync::Arc;
use support::{Rng, simulate};

const ROWS: u64 = 400;

fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

fn tier_options() -> TierOptions {
    let usual = TierOptions::new(PolicyKind::FaceGsc, 256);
    TierOptions { slots: 256, group_pages: 4, staging_groups: 2, segment_entries: 64, ..usual }
}

/// Flash, disk and log as power left them, and the number that each row holds.
struct Left {
    devices: [MemoryDevice; 3],
    rows: Vec<u64>,
}

fn value(number: u64) -> Vec<u8> {
    [number.to_le_bytes(); 110].concat()
}

/// A bank of rows that are changed one at a time until power fails.
fn until_power_fails(seed: u64) -> Left {
    let plan = Arc::new(FaultPlan::none());
    let device =
        |name, bytes| Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()));
    let flash = device("flash", flash_bytes(&tier_options()));
    let (disk, log) = (device("disk", 8 << 20), device("log", 4 << 20));
    let mut rows = vec![0; ROWS as usize];
    simulate(seed, || {
        let layer = FlashTier::create(flash.clone(), disk.clone(), tier_options()).unwrap();
        let store = Store::create(Parts { layer, log: log.clone() }, options()).unwrap();
        let table = store.create_table("t").unwrap();
        let mut rng = Rng(seed);
        for step in 0..ROWS + 100 + rng.below(300) {
            let mut txn = store.begin();
            let row = if step < ROWS { step } else { rng.below(ROWS) };
            match step < ROWS {
                true => txn.insert(table, &row.to_be_bytes(), &value(step)).unwrap(),
                false => assert!(txn.update(table, &row.to_be_bytes(), &value(step)).unwrap()),
            }
            txn.commit().unwrap();
            rows[row as usize] = step;
            if step == ROWS {
                store.checkpoint().unwrap();
            }
        }
    })
    .unwrap();
    Left { devices: [flash, disk, log].map(|device| device.after_crash(&Survival::None)), rows }
}

/// Flips a bit of the page in `slot`, detaches the cache and compares all rows. False if the detach named the
/// page.
fn damaged_and_detached(left: &Left, slot: u32, seed: u64) -> bool {
    let [flash, disk, log] = [0, 1, 2].map(|index| Arc::new(left.devices[index].fork("device")));
    let at = tier_options().layout().slot_offset(SlotId(slot)) + 2048;
    let mut sector = [0; 512];
    flash.read(at, &mut sector).unwrap();
    sector[100] ^= 4;
    flash.write(at, &sector).unwrap();
    simulate(seed, || {
        match detach(flash, disk.clone()) {
            Ok(_) => {}
            Err(TierError::Losing(_)) => return false,
            Err(error) => panic!("slot {slot}: {error}"),
        }
        let layer = DiskLayer::open(disk, 4096).unwrap();
        let store = Store::open(Parts { layer, log }, options()).unwrap().0;
        store.verify().unwrap();
        let table = store.table("t").unwrap().unwrap();
        let (mut txn, mut found) = (store.begin(), Vec::new());
        for (row, number) in left.rows.iter().enumerate() {
            assert!(txn.get(table, &(row as u64).to_be_bytes(), Lock::None, &mut found).unwrap());
            assert_eq!(found, value(*number), "seed {seed}, slot {slot}: row {row}");
        }
        true
    })
    .unwrap()
}

#[test]
fn a_damaged_new_page_costs_no_committed_row_after_a_detach() {
    let mut detached = 0;
    for seed in 0..6 {
        let left = until_power_fails(seed);
        for slot in 0..tier_options().slots {
            detached += u32::from(damaged_and_detached(&left, slot, seed));
        }
    }
    assert!(detached > 300, "only {detached} caches were detached");
}
