//! A device in memory on which the content of a [`BaseImage`] is loaded. Its pages are in large aligned
//! pieces, which the image takes over without copying. Later, every miss of a simulated pool copies a page
//! from a piece, and every written page is compared with one. Both are faster than with pages scattered over
//! the heap.
//!
//! Memory is allocated a piece (2 MiB) at a time, so the content should have no large holes.

use super::base::{AlignedPage, BaseImage, BaseLeaf, LEAF_PAGES, Piece};
use super::{Content, Memory, page_parts};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;

/// Pieces of memory; see the module's header.
pub struct Pieces {
    pieces: Box<[TinyMutex<Option<Piece>>]>,
}

/// A device in memory whose content will become an image. Writes are durable at once.
pub type ImageDevice = Memory<Pieces>;

impl ImageDevice {
    /// A device of zeros. `capacity_bytes` is rounded up to whole 4 KiB pages. Memory is allocated by writes.
    pub fn new(name: &str, capacity_bytes: u64) -> Self {
        Self::with(name, capacity_bytes, |pieces| Pieces {
            pieces: (0..pieces).map(|_| TinyMutex::new(Rank::DeviceMemory, None)).collect(),
        })
    }

    /// Freezes the content into an image.
    pub fn freeze(self) -> Arc<BaseImage> {
        let leaf = |piece: TinyMutex<Option<_>>| piece.into_inner().map(BaseLeaf::Piece);
        Arc::new(BaseImage {
            capacity_bytes: self.geometry.capacity_bytes,
            leaves: self.content.pieces.into_iter().map(leaf).collect(),
            unreadable: self.unreadable.all(),
            sectors: self.sectors,
        })
    }
}

impl Content for Pieces {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) {
        for (number, within, range) in page_parts(offset, buffer.len()) {
            let target = &mut buffer[range];
            match &*self.pieces[number / LEAF_PAGES].lock() {
                Some(piece) => {
                    target.copy_from_slice(&piece[number % LEAF_PAGES].0[within..within + target.len()]);
                }
                None => target.fill(0),
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) {
        for (number, within, range) in page_parts(offset, data.len()) {
            let source = &data[range];
            let mut piece = self.pieces[number / LEAF_PAGES].lock();
            let piece = piece.get_or_insert_with(|| vec![AlignedPage::ZEROS; LEAF_PAGES].into());
            piece[number % LEAF_PAGES].0[within..within + source.len()].copy_from_slice(source);
        }
    }

    /// Parts of pages read as zeros, too; the memory is kept.
    fn discard_at(&self, offset: u64, length: u64) {
        for (number, within, range) in page_parts(offset, length as usize) {
            if let Some(piece) = &mut *self.pieces[number / LEAF_PAGES].lock() {
                piece[number % LEAF_PAGES].0[within..within + range.len()].fill(0);
            }
        }
    }
}
