//! An immutable image that many memory devices share.
//!
//! Invariant: nothing in an image changes once it exists; a page that it does not hold reads as zeros.

use super::delta::{PAGE_BYTES, Page};
use std::sync::Arc;

/// Pages per leaf of the two-level tables.
pub(super) const LEAF_PAGES: usize = 512;

pub(super) type BaseLeaf = Box<[Option<Arc<Page>>]>;

/// The content of a device, frozen. Made by [`super::MemoryDevice::freeze`]; the base of any number of devices.
#[derive(Debug)]
pub struct BaseImage {
    pub(super) capacity_bytes: u64,
    pub(super) leaves: Vec<Option<BaseLeaf>>,
}

impl BaseImage {
    /// Capacity of the frozen device in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Memory that the image's content takes, in bytes. Pages shared with an older image count fully.
    pub fn resident_bytes(&self) -> u64 {
        let pages: usize = self.leaves.iter().flatten().map(|leaf| leaf.iter().flatten().count()).sum();
        (pages * PAGE_BYTES) as u64
    }

    /// The page with this number, or `None` if it is all zeros.
    pub(super) fn page(&self, number: u64) -> Option<&Arc<Page>> {
        let leaf = self.leaves.get(number as usize / LEAF_PAGES)?.as_ref()?;
        leaf[number as usize % LEAF_PAGES].as_ref()
    }
}
