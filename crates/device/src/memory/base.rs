//! An immutable image that many memory devices share.
//!
//! Invariant: an image never changes once it exists. A page that it does not hold reads as zeros.

use super::delta::{PAGE_BYTES, Page};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pages per leaf of the two-level tables.
pub(super) const LEAF_PAGES: usize = 512;

/// A page that is aligned to a page of the machine's memory.
#[derive(Clone, Debug)]
#[repr(align(4096))]
pub(super) struct AlignedPage(pub Page);

impl AlignedPage {
    /// Zeros.
    pub const ZEROS: Self = Self([0; PAGE_BYTES]);
}

/// All pages of a leaf, in one piece of memory.
pub(super) type Piece = Box<[AlignedPage]>;

/// Pages with consecutive numbers.
#[derive(Debug)]
pub(super) enum BaseLeaf {
    /// Pages one by one; missing ones are zeros.
    Pages(Box<[Option<Arc<Page>>]>),
    /// All of them, in one piece.
    Piece(Piece),
}

/// The content of a device, frozen. Made by [`super::MemoryDevice::freeze`] or
/// [`super::ImageDevice::freeze`]; the base of any number of devices.
#[derive(Debug)]
pub struct BaseImage {
    pub(super) capacity_bytes: u64,
    pub(super) leaves: Vec<Option<BaseLeaf>>,
    /// Numbers of sectors that devices over the image cannot read.
    pub(super) unreadable: BTreeSet<u64>,
    /// For devices over the image: (sector, physical), in bytes.
    pub(super) sectors: (u32, u32),
}

impl BaseImage {
    /// Capacity of the frozen device in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Memory that the image's content takes, in bytes. Pages shared with an older image count fully.
    pub fn resident_bytes(&self) -> u64 {
        let bytes = |leaf: &BaseLeaf| match leaf {
            BaseLeaf::Pages(pages) => pages.iter().flatten().count() * PAGE_BYTES,
            BaseLeaf::Piece(piece) => piece.len() * PAGE_BYTES,
        };
        self.leaves.iter().flatten().map(bytes).sum::<usize>() as u64
    }

    /// The page with this number, or `None` if it is all zeros.
    pub(super) fn page(&self, number: u64) -> Option<&Page> {
        let index = number as usize % LEAF_PAGES;
        match self.leaves.get(number as usize / LEAF_PAGES)?.as_ref()? {
            BaseLeaf::Pages(pages) => pages[index].as_deref(),
            BaseLeaf::Piece(piece) => Some(&piece[index].0),
        }
    }

    /// As [`BaseImage::page`], shared.
    pub(super) fn shared_page(&self, number: u64) -> Option<Arc<Page>> {
        match self.leaves.get(number as usize / LEAF_PAGES)?.as_ref()? {
            BaseLeaf::Pages(pages) => pages[number as usize % LEAF_PAGES].clone(),
            BaseLeaf::Piece(_) => self.page(number).map(|page| Arc::new(*page)),
        }
    }
}
