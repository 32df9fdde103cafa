//! Devices in memory: one [`Device`] over two ways to keep what was written.
//!
//! | file | what it keeps |
//! |---|---|
//! | `pages` | pages one by one, as differences from a shared image: what experiments run on |
//! | `image` | large aligned pieces: what images are loaded into |
//! | `base` | an image, frozen |
//! | `delta` | a page as a difference from another |
//! | `copies` | a page as copies of pieces of an image |

mod base;
mod copies;
mod delta;
mod image;
mod pages;

pub use base::BaseImage;
pub use copies::CopyIndex;
pub use image::ImageDevice;
pub use pages::{Locate, MemoryDevice, Reference};

use crate::check::{self, SharedCounters};
use crate::{Counters, Device, DeviceError, Geometry, Io};
use base::LEAF_PAGES;
use delta::PAGE_BYTES;

const SECTOR_BYTES: u32 = 512;

/// Bytes of a device, kept somehow. Ranges lie within the capacity; memory does not fail.
pub trait Content: Send + Sync {
    /// Fills `buffer` with what lies at `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]);
    /// Puts `data` there.
    fn write_at(&self, offset: u64, data: &[u8]);
    /// The range need not be kept: whole pages in it read as zeros afterwards.
    fn discard_at(&self, offset: u64, length: u64);
}

/// A device in memory that keeps its bytes in `C`. Writes are durable at once.
pub struct Memory<C> {
    name: String,
    geometry: Geometry,
    counters: SharedCounters,
    content: C,
}

impl<C> std::fmt::Debug for Memory<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("name", &self.name).field("geometry", &self.geometry).finish()
    }
}

impl<C> Memory<C> {
    /// A device of `capacity_bytes`, rounded up to whole 4 KiB pages; its content is made for so many leaves of
    /// [`LEAF_PAGES`] pages.
    fn with(name: &str, capacity_bytes: u64, content: impl FnOnce(usize) -> C) -> Self {
        let capacity_bytes = capacity_bytes.next_multiple_of(PAGE_BYTES as u64);
        Self {
            name: name.to_owned(),
            geometry: Geometry::new(capacity_bytes, SECTOR_BYTES),
            counters: SharedCounters::default(),
            content: content((capacity_bytes as usize / PAGE_BYTES).div_ceil(LEAF_PAGES)),
        }
    }

    /// The name in its errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
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

    /// One request after the other.
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check::batch(&self.name, self.geometry, batch)?;
        self.counters.count(batch);
        for io in batch {
            match io {
                Io::Read { offset, buffer } => self.content.read_at(*offset, buffer),
                Io::Write { offset, data } => self.content.write_at(*offset, data),
            }
        }
        Ok(())
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
