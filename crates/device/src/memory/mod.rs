//! Devices in memory: one [`Device`] over two representations of the content.
//!
//! | file | what it keeps |
//! |---|---|
//! | `pages` | pages one by one, as differences from a shared image: for experiments |
//! | `image` | large aligned pieces: for loading images |
//! | `base` | an image, frozen |
//! | `delta` | a page as a difference from another |
//! | `copies` | a page as copies of pieces of an image |
//! | `unreadable` | the sectors that cannot be read |

mod base;
mod copies;
mod delta;
mod image;
mod pages;
mod unreadable;

pub use base::BaseImage;
pub use copies::CopyIndex;
pub use image::ImageDevice;
pub use pages::{Locate, MemoryDevice, Reference};

use crate::check::{self, SharedCounters};
use crate::{Counters, Device, DeviceError, Geometry, Io};
use base::LEAF_PAGES;
use delta::PAGE_BYTES;
use std::collections::BTreeSet;
use unreadable::Unreadable;

const SECTOR_BYTES: u32 = 512;

/// The bytes of a device. Ranges are within the capacity; memory does not fail.
pub trait Content: Send + Sync {
    /// Fills `buffer` with the bytes at `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]);
    /// Writes `data` at `offset`.
    fn write_at(&self, offset: u64, data: &[u8]);
    /// The range is no longer needed: whole pages in it read as zeros afterwards.
    fn discard_at(&self, offset: u64, length: u64);
}

/// A device in memory that keeps its bytes in `C`. Writes are durable at once. Only reads of sectors that
/// were marked as unreadable fail.
pub struct Memory<C> {
    name: String,
    geometry: Geometry,
    counters: SharedCounters,
    unreadable: Unreadable,
    /// For a device over this memory: (sector, physical), in bytes.
    sectors: (u32, u32),
    content: C,
}

impl<C> std::fmt::Debug for Memory<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("name", &self.name).field("geometry", &self.geometry).finish()
    }
}

impl<C> Memory<C> {
    /// A device of `capacity_bytes`, rounded up to whole 4 KiB pages. `content` is called with the number of
    /// leaves of [`LEAF_PAGES`] pages.
    fn with(name: &str, capacity_bytes: u64, content: impl FnOnce(usize) -> C) -> Self {
        let capacity_bytes = capacity_bytes.next_multiple_of(PAGE_BYTES as u64);
        Self {
            name: name.to_owned(),
            geometry: Geometry::new(capacity_bytes, SECTOR_BYTES),
            counters: SharedCounters::default(),
            unreadable: Unreadable::of(BTreeSet::new()),
            sectors: (SECTOR_BYTES, SECTOR_BYTES),
            content: content((capacity_bytes as usize / PAGE_BYTES).div_ceil(LEAF_PAGES)),
        }
    }

    /// The name in its errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The memory of a medium with sectors of `sector` bytes that writes `physical` bytes at once. A
    /// [`FaultyDevice`](crate::FaultyDevice) over it uses these sizes. The memory itself is read and written
    /// in units of 512 bytes.
    #[must_use]
    pub fn with_sectors(self, sector: u32, physical: u32) -> Self {
        Self { sectors: (sector, physical), ..self }
    }

    /// See [`Memory::with_sectors`].
    pub fn sectors(&self) -> (u32, u32) {
        self.sectors
    }

    /// Makes every 512-byte sector that the range touches unreadable until all of it is written.
    pub fn mark_unreadable(&self, offset: u64, length: u64) {
        self.unreadable.mark(offset, length);
    }

    /// Numbers of the 512-byte sectors that cannot be read.
    pub fn unreadable_sectors(&self) -> BTreeSet<u64> {
        self.unreadable.all()
    }

    /// Numbers of the unreadable sectors that the range touches.
    pub(crate) fn unreadable_in(&self, offset: u64, length: u64) -> Vec<u64> {
        self.unreadable.touched(offset, length)
    }

    /// The error for a read of a range with an unreadable sector.
    pub(crate) fn unreadable_error(&self, offset: u64, length: u64) -> DeviceError {
        DeviceError::Io {
            device: self.name.clone(),
            operation: "read",
            offset,
            length,
            reason: "input/output error (unreadable sector)".to_owned(),
        }
    }
}

impl<C: Content> Memory<C> {
    /// The content, even if unreadable. The range was checked.
    pub(crate) fn read_anyway(&self, offset: u64, buffer: &mut [u8]) {
        self.content.read_at(offset, buffer);
    }
}

/// The pages that a range of a device touches: (page number, offset in the page, range of the request).
fn page_parts(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset as usize + done;
        let within = at % PAGE_BYTES;
        let range = done..done + (PAGE_BYTES - within).min(length - done);
        done = range.end;
        (!range.is_empty()).then_some((at / PAGE_BYTES, within, range))
    })
}

impl<C: Content> Device for Memory<C> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Carries out one request after the other.
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check::batch(&self.name, self.geometry, batch)?;
        self.counters.count(batch);
        let mut result = Ok(());
        for io in batch {
            match io {
                Io::Read { offset, buffer } => {
                    let length = buffer.len() as u64;
                    if self.unreadable.touched(*offset, length).is_empty() {
                        self.content.read_at(*offset, buffer);
                    } else {
                        result = result.and(Err(self.unreadable_error(*offset, length)));
                    }
                }
                Io::Write { offset, data } => {
                    self.content.write_at(*offset, data);
                    self.unreadable.written(*offset, data.len() as u64);
                }
            }
        }
        result
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.counters.count_sync();
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check::range(&self.name, self.geometry, "discard", offset, length)?;
        self.content.discard_at(offset, length);
        Ok(())
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters.snapshot()
    }
}
