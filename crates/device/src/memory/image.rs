//! A device in memory for loading what becomes a [`BaseImage`]: its pages lie in large aligned pieces, which the image takes
//! over without copying. Every miss of a simulated pool later copies a page out of them, and every page that is written is
//! compared with one; both are faster than with pages scattered over the heap.
//!
//! Memory is taken a piece (2 MiB) at a time, so this is for content without large holes.

use super::base::{AlignedPage, BaseImage, BaseLeaf, LEAF_PAGES, Piece};
use super::delta::PAGE_BYTES;
use super::{carry_out, page_parts};
use crate::check::{self, SharedCounters};
use crate::{Counters, Device, DeviceError, Geometry, Io};
use parking_lot::Mutex;
use std::sync::Arc;

/// A device in memory whose content will be an image; see the module's header. Writes are durable at once.
#[derive(Debug)]
pub struct ImageDevice {
    name: String,
    geometry: Geometry,
    pieces: Box<[Mutex<Option<Piece>>]>,
    counters: SharedCounters,
}

impl ImageDevice {
    /// A device of zeros. `capacity_bytes` is rounded up to whole 4 KiB pages; memory is taken as it is written.
    pub fn new(name: &str, capacity_bytes: u64) -> Self {
        let capacity_bytes = capacity_bytes.next_multiple_of(PAGE_BYTES as u64);
        let pieces = capacity_bytes.div_ceil((LEAF_PAGES * PAGE_BYTES) as u64);
        Self {
            name: name.to_owned(),
            geometry: Geometry { capacity_bytes, sector_bytes: super::SECTOR_BYTES },
            pieces: (0..pieces).map(|_| Mutex::new(None)).collect(),
            counters: SharedCounters::default(),
        }
    }

    /// Freezes the content into an image.
    pub fn freeze(self) -> Arc<BaseImage> {
        let leaf = |piece: Mutex<Option<_>>| piece.into_inner().map(BaseLeaf::Piece);
        Arc::new(BaseImage {
            capacity_bytes: self.geometry.capacity_bytes,
            leaves: self.pieces.into_iter().map(leaf).collect(),
        })
    }

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
}

impl Device for ImageDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check::batch(&self.name, self.geometry, batch)?;
        self.counters.count(batch);
        carry_out(
            batch,
            |offset, buffer| self.read_at(offset, buffer),
            |offset, data| self.write_at(offset, data),
        );
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.counters.count_sync();
        Ok(())
    }

    /// The range reads as zeros afterwards; its memory is kept.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check::range(&self.name, self.geometry, "discard", offset, length)?;
        for (number, within, range) in page_parts(offset, length as usize) {
            if let Some(piece) = &mut *self.pieces[number / LEAF_PAGES].lock() {
                piece[number % LEAF_PAGES].0[within..within + range.len()].fill(0);
            }
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters.snapshot()
    }
}
