//! Unreadable sectors of a device in memory: latent errors, and sectors torn by a power cut.
//!
//! Invariant: a sector is unreadable from the time it was marked until all of it is written.

use super::SECTOR_BYTES;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Numbers of the sectors. While there are none, asking costs a load.
#[derive(Debug)]
pub(super) struct Unreadable {
    any: AtomicBool,
    sectors: TinyMutex<BTreeSet<u64>>,
}

impl Unreadable {
    pub fn of(sectors: BTreeSet<u64>) -> Self {
        Self {
            any: AtomicBool::new(!sectors.is_empty()),
            sectors: TinyMutex::new(Rank::DeviceMemory, sectors),
        }
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<u64> {
        self.sectors.lock().clone()
    }

    /// Makes every sector that the range touches unreadable.
    pub fn mark(&self, offset: u64, length: u64) {
        let end = (offset + length).div_ceil(SECTOR_BYTES.into());
        self.sectors.lock().extend(offset / u64::from(SECTOR_BYTES)..end);
        self.any.store(true, Relaxed);
    }

    /// The unreadable sectors that the range touches.
    pub fn touched(&self, offset: u64, length: u64) -> Vec<u64> {
        if !self.any.load(Relaxed) || length == 0 {
            return Vec::new();
        }
        let end = (offset + length).div_ceil(SECTOR_BYTES.into());
        self.sectors.lock().range(offset / u64::from(SECTOR_BYTES)..end).copied().collect()
    }

    /// The range was written.
    pub fn written(&self, offset: u64, length: u64) {
        if !self.any.load(Relaxed) {
            return;
        }
        let first = offset.div_ceil(SECTOR_BYTES.into());
        let end = (offset + length) / u64::from(SECTOR_BYTES);
        let mut sectors = self.sectors.lock();
        sectors.retain(|sector| !(first..end).contains(sector));
        self.any.store(!sectors.is_empty(), Relaxed);
    }
}
