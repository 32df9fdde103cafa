//! A store whose log is kept so that the flash may be lost: it opens without the flash with all rows, refuses
//! a log with a hole, and never takes the flash back. (`crates/testkit/src/torture/store/flash_dies.rs` has
//! power failures.) All but those on files are simulated: which pages are dirty depends on the seed alone.

mod support;

use entresol_device::{Device, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, flash_bytes};
use entresol_store::{
    Files, FlashLoss, Lock, LogReport, OpenFiles, Options, Parts, PolicyKind, Store, StoreError, Table,
    examine_log,
};
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const LOG_BYTES: u64 = 16 * MIB;
const KEPT: u64 = 4 * MIB;
const ROWS: u32 = 6_000;

fn options(flash_loss: FlashLoss) -> Options {
    Options { frames: 64, flash_loss, ..Options::default() }
}

fn surviving() -> Options {
    options(FlashLoss::Survive { log_bytes: KEPT })
}

fn tier_options(policy: PolicyKind, keeps_bases: bool) -> TierOptions {
    let usual = TierOptions::new(policy, 240);
    TierOptions { keeps_bases, slots: 240, group_pages: 8, staging_groups: 2, segment_entries: 64, ..usual }
}

fn simulate(main: impl FnOnce() + Send) {
    support::simulate(0x51, main).unwrap();
}

/// The devices of a store.
struct Devices {
    disk: Arc<MemoryDevice>,
    log: Arc<MemoryDevice>,
    flash: Arc<MemoryDevice>,
    policy: PolicyKind,
}

impl Devices {
    fn new(policy: PolicyKind) -> Self {
        let device = |name, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let flash = device("flash", flash_bytes(&tier_options(policy, true)));
        Self { disk: device("disk", 32 * MIB), log: device("log", LOG_BYTES + 8192), flash, policy }
    }

    fn fork(&self) -> Self {
        let fork = |device: &MemoryDevice, name| Arc::new(device.fork(name));
        let (disk, log) = (fork(&self.disk, "disk"), fork(&self.log, "log"));
        Self { disk, log, flash: fork(&self.flash, "flash"), policy: self.policy }
    }

    fn create(&self, options: Options) -> Result<Store, StoreError> {
        let keeps_bases = options.flash_loss != FlashLoss::Fatal;
        let tier = tier_options(self.policy, keeps_bases);
        let layer = FlashTier::create(self.flash.clone(), self.disk.clone(), tier)?;
        Store::create(Parts { layer, log: self.log.clone() }, options)
    }

    fn open(&self, options: Options) -> Result<Store, StoreError> {
        let keeps_bases = options.flash_loss != FlashLoss::Fatal;
        let tier = tier_options(self.policy, keeps_bases);
        let (layer, _) = FlashTier::open(self.flash.clone(), self.disk.clone(), tier)?;
        Ok(Store::open(Parts { layer, log: self.log.clone() }, options)?.0)
    }

    fn open_without_flash(&self, options: Options) -> Result<Store, StoreError> {
        let layer: Arc<dyn Layer> = DiskLayer::open_without_flash(self.disk.clone(), 4096)?;
        let (store, report) = Store::open(Parts { layer, log: self.log.clone() }, options)?;
        assert!(report.is_flash_lost);
        Ok(store)
    }

    /// Ends a store as a crash does, with the checkpoint that is under way.
    fn crash(&self, store: Store) {
        drop(store);
        while Arc::strong_count(&self.log) > 1 || Arc::strong_count(&self.disk) > 1 {
            entresol_runtime::yield_now();
        }
    }

    fn log(&self) -> LogReport {
        examine_log(&*self.log).unwrap()
    }

    fn bytes(&self) -> [Vec<u8>; 2] {
        [&self.disk, &self.log].map(|device| {
            let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
            device.read(0, &mut bytes).unwrap();
            bytes
        })
    }
}

fn value(row: u32, version: u32) -> Vec<u8> {
    [row.to_le_bytes(), version.to_le_bytes()].concat().repeat(25)
}

fn load(store: &Store) -> Table {
    let table = store.create_table("rows").unwrap();
    let mut row = 0u32;
    let mut next = |key: &mut Vec<u8>, bytes: &mut Vec<u8>| {
        key.extend_from_slice(&row.to_be_bytes());
        bytes.extend_from_slice(&value(row, 0));
        row += 1;
        row <= ROWS
    };
    assert_eq!(store.bulk_load(table, 0.9, &mut next).unwrap(), u64::from(ROWS));
    table
}

/// Changes every row, a few at a time, in an order that fills the flash.
fn change(store: &Store, table: Table, version: u32) {
    for first in 0..50 {
        let mut txn = store.begin();
        for row in (first..ROWS).step_by(50) {
            txn.update(table, &row.to_be_bytes(), &value(row, version)).unwrap();
        }
        txn.commit().unwrap();
    }
}

fn expect(store: &Store, version: u32) {
    let table = store.table("rows").unwrap().expect("the table is there");
    store.verify().unwrap();
    let (txn, mut bytes) = (store.begin(), Vec::new());
    let mut txn = txn;
    for row in 0..ROWS {
        assert!(txn.get(table, &row.to_be_bytes(), Lock::None, &mut bytes).unwrap(), "row {row}");
        assert_eq!(bytes, value(row, version), "row {row}");
    }
    txn.commit().unwrap();
}

/// A store that has changed all rows three times, and then stopped: with a shutdown, or not.
fn used(policy: PolicyKind, shut_down: bool) -> Devices {
    let devices = Devices::new(policy);
    let store = devices.create(surviving()).unwrap();
    let table = load(&store);
    for version in 1..=2 {
        change(&store, table, version);
    }
    store.shutdown().unwrap();
    let store = devices.open(surviving()).unwrap();
    let table = store.table("rows").unwrap().unwrap();
    change(&store, table, 3);
    // While it is used, the log stays within its bound, but for what one transaction logs.
    let needed = store.log_needed();
    let horizon = store.horizon().expect("the flash may be lost");
    assert!(horizon >= needed.start, "{horizon:?} is in {needed:?}");
    assert!(needed.end.0 - horizon.0 <= KEPT * 5 / 4, "{} bytes are kept", needed.end.0 - horizon.0);
    assert!(store.metrics().tier.slots_dirty > 0, "pages are newer on flash");
    // What it does not need of its log is destroyed.
    for (offset, length) in store.free_log().parts().expect("no task appends") {
        devices.log.discard(offset, length).unwrap();
    }
    match shut_down {
        true => store.shutdown().unwrap(),
        false => devices.crash(store),
    }
    devices
}

#[test]
fn a_lost_flash_costs_a_longer_restart_and_no_row() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Face, PolicyKind::Reuse] {
        for shut_down in [true, false] {
            simulate(|| {
                let devices = used(policy, shut_down);
                let report = devices.log();
                assert!(report.horizon.is_some_and(|horizon| horizon < report.redo_point), "{report}");
                // With the flash the store opens as ever.
                expect(&devices.fork().open(surviving()).unwrap(), 3);
                expect(&devices.open_without_flash(surviving()).unwrap(), 3);
            });
        }
    }
}

#[test]
fn the_flash_is_refused_when_it_returns_and_a_new_one_is_not() {
    simulate(|| {
        let devices = used(PolicyKind::FaceGsc, false);
        devices.open_without_flash(surviving()).unwrap().shutdown().unwrap();
        let error = devices.open(surviving()).err().expect("the old flash is refused");
        assert!(error.to_string().contains("newer than the disk"), "{error}");
        let blank = MemoryDevice::new("flash", devices.flash.geometry().capacity_bytes);
        let devices = Devices { flash: Arc::new(blank), ..devices };
        let store = devices.open(surviving()).unwrap();
        expect(&store, 3);
        change(&store, store.table("rows").unwrap().unwrap(), 4);
        devices.crash(store);
        expect(&devices.open_without_flash(options(FlashLoss::Fatal)).unwrap(), 4);
    });
}

#[test]
fn a_log_with_a_hole_is_refused_before_anything_is_written() {
    simulate(|| {
        let devices = used(PolicyKind::FaceGsc, true);
        let LogReport { horizon, redo_point, end, .. } = devices.log();
        let (horizon, redo_point) = (horizon.unwrap().0, redo_point.0);
        let sectors = (horizon.next_multiple_of(512)..redo_point).step_by(512);
        let holes: Vec<u64> = sectors.step_by(501).collect();
        assert!(holes.len() > 2, "{horizon} to {redo_point}");
        for hole in holes {
            let damaged = devices.fork();
            damaged.log.write(8192 + hole % LOG_BYTES, &[0; 512]).unwrap();
            let before = damaged.bytes();
            let error = damaged.open_without_flash(surviving()).err().expect("a hole is refused");
            assert!(error.to_string().contains("log"), "{error}");
            assert!(damaged.bytes() == before, "nothing was written for a hole at {hole}, before {end:?}");
            // The flash is still good.
            expect(&damaged.open(surviving()).unwrap(), 3);
        }
    });
}

/// With the flash nothing before the redo point is read for data: the log that was kept is kept anew.
#[test]
fn a_kept_log_that_cannot_be_read_is_needed_only_without_the_flash() {
    simulate(|| {
        let devices = used(PolicyKind::FaceGsc, true);
        let LogReport { horizon, redo_point, checkpoints, .. } = devices.log();
        assert!(checkpoints > 1, "the record of an older checkpoint is read");
        let sectors = horizon.unwrap().0.next_multiple_of(512)..redo_point.0 / 512 * 512;
        for at in sectors.step_by(512) {
            devices.log.mark_unreadable(8192 + at % LOG_BYTES, 512);
        }
        let error = devices.fork().open_without_flash(surviving()).err().expect("a hole is refused");
        assert!(error.to_string().contains("log"), "{error}");
        let store = devices.open(surviving()).unwrap();
        expect(&store, 3);
        assert!(store.horizon().is_some_and(|horizon| horizon >= redo_point), "it is promised anew");
        devices.crash(store);
        expect(&devices.open_without_flash(surviving()).unwrap(), 3);
    });
}

/// The rows of a table that is loaded are not in the log.
#[test]
fn a_table_that_was_loaded_is_there_without_the_flash() {
    simulate(|| {
        let devices = Devices::new(PolicyKind::FaceGsc);
        let store = devices.create(surviving()).unwrap();
        load(&store);
        devices.crash(store);
        expect(&devices.open_without_flash(surviving()).unwrap(), 0);
    });
}

#[test]
fn a_store_whose_log_was_not_kept_is_refused_without_its_flash() {
    simulate(|| {
        let devices = Devices::new(PolicyKind::FaceGsc);
        let store = devices.create(options(FlashLoss::Fatal)).unwrap();
        let table = load(&store);
        change(&store, table, 1);
        assert_eq!(store.horizon(), None);
        store.shutdown().unwrap();
        let before = devices.bytes();
        let error = devices.open_without_flash(surviving()).err().expect("it is refused");
        assert!(error.to_string().contains("flash_loss"), "{error}");
        assert!(devices.bytes() == before, "nothing was written");
        // It is kept from now on: all pages are copied to disk once.
        let store = devices.open(surviving()).unwrap();
        assert!(store.horizon().is_some());
        change(&store, store.table("rows").unwrap().unwrap(), 2);
        devices.crash(store);
        expect(&devices.fork().open_without_flash(surviving()).unwrap(), 2);
        // And not any more.
        let store = devices.open(options(FlashLoss::Fatal)).unwrap();
        change(&store, store.table("rows").unwrap().unwrap(), 3);
        store.checkpoint().unwrap();
        assert_eq!(store.horizon(), None);
        store.shutdown().unwrap();
        assert!(devices.fork().open_without_flash(surviving()).is_err());
        // And again: pages from before are not taken for pages with a base.
        let store = devices.open(surviving()).unwrap();
        change(&store, store.table("rows").unwrap().unwrap(), 4);
        devices.crash(store);
        expect(&devices.open_without_flash(surviving()).unwrap(), 4);
    });
}

#[test]
fn a_log_without_room_and_a_layer_without_bases_are_refused() {
    simulate(|| {
        for log_bytes in [0, 1000, LOG_BYTES / 4 + 1, u64::MAX / 8] {
            let devices = Devices::new(PolicyKind::FaceGsc);
            let error =
                devices.create(options(FlashLoss::Survive { log_bytes })).err().expect("it is refused");
            assert!(matches!(error, StoreError::Config(_)), "{log_bytes}: {error}");
            assert!(error.to_string().contains("larger log"), "{error}");
        }
        let (devices, full_page_writes) = (Devices::new(PolicyKind::FaceGsc), false);
        let error = devices.create(Options { full_page_writes, ..surviving() }).err().expect("it is refused");
        assert!(error.to_string().contains("full_page_writes"), "{error}");
        let devices = Devices::new(PolicyKind::FaceGsc);
        let layer = FlashTier::create(
            devices.flash.clone(),
            devices.disk.clone(),
            tier_options(PolicyKind::FaceGsc, false),
        );
        let parts = Parts { layer: layer.unwrap(), log: devices.log.clone() };
        let error = Store::create(parts, surviving()).err().expect("it is refused");
        assert!(error.to_string().contains("keeps_bases"), "{error}");
    });
}

/// Layers without dirty pages that outlive a checkpoint lose nothing with their flash anyway.
#[test]
fn layers_whose_disk_has_everything_have_their_horizon_at_each_checkpoint() {
    for policy in [PolicyKind::Lc, PolicyKind::Tac, PolicyKind::Loc] {
        simulate(|| {
            let devices = Devices::new(policy);
            let store = devices.create(surviving()).unwrap();
            let table = load(&store);
            change(&store, table, 1);
            store.checkpoint().unwrap();
            assert!(store.horizon().is_some_and(|horizon| horizon == devices.log().redo_point), "{policy:?}");
            store.shutdown().unwrap();
            expect(&devices.open(surviving()).unwrap(), 1);
        });
    }
}

#[test]
fn files_are_opened_without_their_flash_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let without = Files::new(path("disk"), 32 * MIB, path("log"), LOG_BYTES + 8192);
    let with = without.clone().with_flash(path("flash"), 16 * MIB, PolicyKind::FaceGsc);
    let OpenFiles { store, .. } = with.create(surviving()).unwrap();
    let table = load(&store);
    change(&store, table, 1);
    drop(store);
    std::fs::remove_file(path("flash")).unwrap();
    let refused = |files: &Files| files.open(surviving()).err().expect("it is refused").to_string();
    assert!(refused(&without).contains("belongs to the flash cache"), "{}", refused(&without));
    // The flash file was made anew, and is blank.
    assert!(refused(&with).contains("needs the pages on its cache"), "{}", refused(&with));
    let OpenFiles { store, restart, notices } = with.clone().without_flash().open(surviving()).unwrap();
    assert!(restart.is_flash_lost && notices.iter().any(|notice| notice.contains("given up")), "{notices:?}");
    expect(&store, 1);
    store.shutdown().unwrap();
    let OpenFiles { store, .. } = with.open(surviving()).unwrap();
    expect(&store, 1);
    assert!(Path::new(&path("flash")).exists());
}
