//! Fuzz target of recovery. Disk, log and flash have the content of the input; a store is opened on them,
//! read, changed and shut down.

use super::images::Images;
use super::log::{LOG_BYTES, device};
use super::reseal::{seal_image, seal_log};
use crate::subject::{PAGE_BYTES, Subject};
use entresol_core::PolicyKind;
use entresol_device::Device;
use entresol_engine::{DiskLayer, FlashTier, Layer};
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_store::{Options, Parts, Store};
use std::sync::Arc;

/// Bytes of the disk: the label and 192 pages.
pub(super) const DISK_BYTES: usize = (64 << 10) + 192 * PAGE_BYTES as usize;
/// Systems, indexed by their number in the choice byte.
pub(super) const SYSTEMS: [Subject; 6] = [
    Subject::DISK_ONLY,
    Subject::cached(PolicyKind::Lc),
    Subject::cached(PolicyKind::Face),
    Subject::cached(PolicyKind::FaceGr),
    Subject::cached(PolicyKind::FaceGsc),
    Subject::write_through(PolicyKind::FaceGsc),
];
/// Bit of the choice byte: correct the checksums.
pub(super) const RESEAL: u8 = 8;

/// The store's options: with the smallest allowed number of frames.
pub(super) fn options() -> Options {
    Options { page_bytes: PAGE_BYTES, frames: entresol_store::MIN_FRAMES, ..Options::default() }
}

/// An input of [`Images`]. Its choice byte gives the system (low three bits) and whether checksums are
/// corrected.
pub(super) fn recover(input: &[u8]) {
    let images = Images::decode(input);
    let system = SYSTEMS[usize::from(images.choice & 7) % SYSTEMS.len()];
    let tier = system.tier_options(0);
    let flash_bytes = system.flash_bytes(0) as usize;
    let [mut disk, mut log, mut flash] = images.lay_out([DISK_BYTES, LOG_BYTES, flash_bytes]);
    if images.choice & RESEAL != 0 {
        seal_image(&mut disk, LABEL_AREA_BYTES as usize);
        seal_image(&mut flash, 1 << 20);
        seal_log(&mut log);
    }
    let (disk, log, flash) =
        (Arc::new(device("disk", &disk)), Arc::new(device("log", &log)), Arc::new(device("flash", &flash)));
    let config = SimConfig { seed: 1, random_order: true, ..SimConfig::default() };
    let outcome = Simulation::new(config).run(|| {
        if tier.is_some() {
            let _ = entresol_engine::inspect(&*flash);
            let _ = entresol_engine::check(&*flash, Some(disk.clone()));
        }
        let layer: Arc<dyn Layer> = match tier {
            None => match DiskLayer::open(disk, PAGE_BYTES) {
                Ok(layer) => layer,
                Err(_) => return,
            },
            Some(options) => match FlashTier::open(flash, disk, options) {
                Ok((layer, _)) => layer,
                Err(_) => return,
            },
        };
        use_store(layer, log);
    });
    match outcome {
        Outcome::Finished(()) => {}
        other => panic!("{other:?}"),
    }
}

/// Opens the store, then reads and changes its content as far as possible.
fn use_store(layer: Arc<dyn Layer>, log: Arc<dyn Device>) {
    let Ok((store, _)) = Store::open(Parts { layer, log }, options()) else { return };
    let _ = store.verify();
    let Ok(tables) = store.tables() else { return };
    for (_, table) in tables.into_iter().take(8) {
        let mut txn = store.begin();
        let changed = txn.insert(table, b"a new key", b"a new value").is_ok();
        let _ = if changed { txn.commit().map(drop) } else { txn.abort() };
    }
    let _ = store.shutdown();
}
