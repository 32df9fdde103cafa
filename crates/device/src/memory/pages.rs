//! Pages over an optional shared base image, with changed pages stored as small differences.
//!
//! Six simulated systems can run over one loaded database. Each stores only its changed pages: as a
//! difference from the base page while that takes less than half a page, whole otherwise. Two kinds of
//! devices save memory in other ways. A flash device stores a page as a difference from the database's base
//! page of which it is a version, if it is told how to find that page ([`Reference`]). A log device stores a
//! page as copies of pieces of the database ([`CopyIndex`]).
//!
//! Invariant: a read returns the bytes last written, in whatever form they are stored. Pages that were never
//! written read as the base image, or as zeros without one.

use super::base::{BaseImage, BaseLeaf, LEAF_PAGES};
use super::copies::CopyIndex;
use super::delta::{Encoder, PAGE_BYTES, Page, apply};
use super::unreadable::Unreadable;
use super::{Content, Memory, page_parts};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Finds, for the content of a 4 KiB page that is being written, the byte offset of a similar page in the
/// image. A wrong answer costs memory, but does not change the content.
pub type Locate = Arc<dyn Fn(&[u8]) -> Option<u64> + Send + Sync>;

/// An image of *another* device in which similar pages are found, for storing differences.
#[derive(Clone)]
pub struct Reference {
    /// The image.
    pub image: Arc<BaseImage>,
    /// Finds the similar page.
    pub locate: Locate,
}

/// One page of a device.
#[derive(Clone)]
enum Slot {
    /// As in the base image; zeros without one.
    Base,
    /// Written with zeros, or discarded.
    Zero,
    /// A difference from the base image's page of the same number.
    Delta(Arc<[u8]>),
    /// A difference from the reference image's page with this number. The number is stored here and not with
    /// the difference, so that the processor can load both at once.
    Referenced(u32, Arc<[u8]>),
    /// Copies of pieces of another image.
    Copies(Arc<[u8]>),
    /// The whole page.
    Whole(Arc<Page>),
}

type Leaf = Box<[Slot]>;

/// A page is packed at the first write of the page this many places after it, because the end of a log is
/// rewritten often.
const PACKED_BEHIND: usize = 16;

/// Pages one by one; see the module's header.
pub struct Pages {
    base: Option<Arc<BaseImage>>,
    reference: Option<Reference>,
    copies: Option<Arc<CopyIndex>>,
    leaves: Box<[TinyMutex<Option<Leaf>>]>,
    resident: AtomicU64,
}

/// A device in memory over an optional shared base image. Writes are durable at once: [`crate::FaultyDevice`]
/// loses unsynced ones.
pub type MemoryDevice = Memory<Pages>;

impl MemoryDevice {
    /// A device of zeros. `capacity_bytes` is rounded up to whole 4 KiB pages. Memory is allocated as pages
    /// are written.
    pub fn new(name: &str, capacity_bytes: u64) -> Self {
        Self::with(name, capacity_bytes, |leaves| Pages {
            base: None,
            reference: None,
            copies: None,
            leaves: (0..leaves).map(|_| TinyMutex::new(Rank::DeviceMemory, None)).collect(),
            resident: AtomicU64::new(0),
        })
    }

    /// A device with the content and capacity of `base`.
    pub fn over(name: &str, base: Arc<BaseImage>) -> Self {
        let mut device = Self::new(name, base.capacity_bytes);
        device.unreadable = Unreadable::of(base.unreadable.clone());
        device.sectors = base.sectors;
        device.content.base = Some(base);
        device
    }

    /// Stores pages as differences from `reference` where that is smaller. For a flash device without a base
    /// image of its own, which holds versions of another device's pages.
    #[must_use]
    pub fn with_reference(mut self, reference: Reference) -> Self {
        self.content.reference = Some(reference);
        self
    }

    /// Stores pages as copies of pieces of an image where that is smaller. For a log device, which holds
    /// images of another device's pages.
    #[must_use]
    pub fn with_copies(mut self, index: Arc<CopyIndex>) -> Self {
        self.content.copies = Some(index);
        self
    }

    /// A device with the same content, independent from now on. Pages are shared until one of the devices
    /// writes them.
    pub fn fork(&self, name: &str) -> Self {
        let pages = &self.content;
        let fork = Self::with(name, self.geometry.capacity_bytes, |_| Pages {
            base: pages.base.clone(),
            reference: pages.reference.clone(),
            copies: pages.copies.clone(),
            leaves: pages
                .leaves
                .iter()
                .map(|leaf| TinyMutex::new(Rank::DeviceMemory, leaf.lock().clone()))
                .collect(),
            resident: AtomicU64::new(self.resident_bytes()),
        });
        Self { unreadable: Unreadable::of(self.unreadable.all()), sectors: self.sectors, ..fork }
    }

    /// Bytes of memory that this device's own pages take, without the base image.
    pub fn resident_bytes(&self) -> u64 {
        self.content.resident.load(Relaxed)
    }

    /// Freezes the content into an image. Pages that this device did not change are shared with its own base,
    /// if the base keeps them one by one.
    pub fn freeze(self) -> Arc<BaseImage> {
        let pages = &self.content;
        let leaf = |(leaf_number, leaf): (usize, &TinyMutex<Option<Leaf>>)| {
            let slots = leaf.lock().take();
            let in_base = pages.base.as_ref().is_some_and(|base| base.leaves[leaf_number].is_some());
            (slots.is_some() || in_base).then(|| {
                let slots = slots.unwrap_or_else(unchanged_leaf).into_iter().enumerate();
                let page = |(index, slot)| pages.freeze_slot((leaf_number * LEAF_PAGES + index) as u64, slot);
                BaseLeaf::Pages(slots.map(page).collect())
            })
        };
        let leaves = pages.leaves.iter().enumerate().map(leaf).collect();
        Arc::new(BaseImage {
            capacity_bytes: self.geometry.capacity_bytes,
            leaves,
            unreadable: self.unreadable.all(),
            sectors: self.sectors,
        })
    }
}

impl Pages {
    fn freeze_slot(&self, number: u64, slot: Slot) -> Option<Arc<Page>> {
        match slot {
            Slot::Base => self.base.as_ref()?.shared_page(number),
            Slot::Zero => None,
            Slot::Whole(page) => Some(page),
            slot @ (Slot::Delta(_) | Slot::Referenced(..) | Slot::Copies(_)) => {
                let mut page = [0; PAGE_BYTES];
                self.load(number, &slot, &mut page);
                Some(Arc::new(page))
            }
        }
    }

    fn base_page(&self, number: u64) -> Option<&Page> {
        self.base.as_ref()?.page(number)
    }

    fn reference_page(&self, number: u64) -> Option<&Page> {
        self.reference.as_ref()?.image.page(number)
    }

    /// Copies a whole page out.
    fn load(&self, number: u64, slot: &Slot, page: &mut [u8]) {
        if let (Slot::Copies(code), Some(index)) = (slot, &self.copies) {
            return index.apply(code, page);
        }
        let (base, difference) = match slot {
            Slot::Base => (self.base_page(number), None),
            Slot::Zero | Slot::Copies(_) => (None, None),
            Slot::Whole(whole) => (Some(&**whole), None),
            Slot::Delta(difference) => (self.base_page(number), Some(&difference[..])),
            Slot::Referenced(similar, difference) => {
                (self.reference_page(u64::from(*similar)), Some(&difference[..]))
            }
        };
        match base {
            Some(base) => page.copy_from_slice(base),
            None => page.fill(0),
        }
        if let Some(difference) = difference {
            apply(page, difference);
        }
    }

    fn store(&self, number: u64, slot: &mut Slot, page: &Page) {
        let before = slot_bytes(slot);
        self.store_slot(number, slot, page);
        let after = slot_bytes(slot);
        if after > before {
            self.resident.fetch_add(after - before, Relaxed);
        } else if after < before {
            self.resident.fetch_sub(before - after, Relaxed);
        }
    }

    fn store_slot(&self, number: u64, slot: &mut Slot, page: &Page) {
        if let Some(reference) = &self.reference {
            let similar = (reference.locate)(page).and_then(|at| u32::try_from(at / PAGE_BYTES as u64).ok());
            if let Some(similar) = similar
                && let Some(base) = self.reference_page(u64::from(similar))
                && let Some(difference) = Encoder::encode(Some(base), page)
            {
                if let Slot::Referenced(number, bytes) = slot
                    && replaced(bytes, difference.bytes())
                {
                    *number = similar;
                } else {
                    *slot = Slot::Referenced(similar, difference.bytes().into());
                }
                return;
            }
        }
        let base = self.base_page(number);
        match Encoder::encode(base, page) {
            Some(difference) if difference.bytes().is_empty() => {
                *slot = if self.base.is_some() { Slot::Base } else { Slot::Zero };
            }
            Some(difference) => {
                let there = match slot {
                    Slot::Delta(bytes) => replaced(bytes, difference.bytes()),
                    _ => false,
                };
                if !there {
                    *slot = Slot::Delta(difference.bytes().into());
                }
            }
            None => {
                if let Slot::Whole(whole) = slot
                    && let Some(whole) = Arc::get_mut(whole)
                {
                    *whole = *page;
                } else {
                    *slot = Slot::Whole(Arc::new(*page));
                }
            }
        }
    }
}

/// Puts `new` in the place of `old` if it fits exactly and the place is not shared.
fn replaced(old: &mut Arc<[u8]>, new: &[u8]) -> bool {
    let place = if old.len() == new.len() { Arc::get_mut(old) } else { None };
    let fits = place.is_some();
    if let Some(place) = place {
        place.copy_from_slice(new);
    }
    fits
}

fn unchanged_leaf() -> Leaf {
    (0..LEAF_PAGES).map(|_| Slot::Base).collect()
}

fn slot_bytes(slot: &Slot) -> u64 {
    match slot {
        Slot::Base | Slot::Zero => 0,
        Slot::Delta(bytes) | Slot::Referenced(_, bytes) | Slot::Copies(bytes) => bytes.len() as u64 + 16,
        Slot::Whole(_) => PAGE_BYTES as u64 + 32,
    }
}

impl Content for Pages {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) {
        for (number, within, range) in page_parts(offset, buffer.len()) {
            let leaf = self.leaves[number / LEAF_PAGES].lock();
            let slot = leaf.as_ref().map_or(&Slot::Base, |leaf| &leaf[number % LEAF_PAGES]);
            let number = number as u64;
            let target = &mut buffer[range];
            if target.len() == PAGE_BYTES {
                self.load(number, slot, target);
            } else {
                let mut page = [0; PAGE_BYTES];
                self.load(number, slot, &mut page);
                target.copy_from_slice(&page[within..within + target.len()]);
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) {
        for (number, within, range) in page_parts(offset, data.len()) {
            if self.write_part(number, within, &data[range])
                && let Some(index) = &self.copies
                && let Some(behind) = number.checked_sub(PACKED_BEHIND)
            {
                self.pack(behind, index);
            }
        }
    }

    /// Frees the memory of whole pages in the range; parts of pages keep their content.
    fn discard_at(&self, offset: u64, length: u64) {
        let first = offset.div_ceil(PAGE_BYTES as u64);
        let end = (offset + length) / PAGE_BYTES as u64;
        let mut number = first;
        while number < end {
            let leaf_end = (number / LEAF_PAGES as u64 + 1) * LEAF_PAGES as u64;
            let mut leaf = self.leaves[number as usize / LEAF_PAGES].lock();
            if leaf.is_none() && self.base.is_some() {
                self.resident.fetch_add((LEAF_PAGES * size_of::<Slot>()) as u64, Relaxed);
                *leaf = Some(unchanged_leaf());
            }
            if let Some(slots) = leaf.as_mut() {
                for page in number..end.min(leaf_end) {
                    let slot = &mut slots[page as usize % LEAF_PAGES];
                    self.resident.fetch_sub(slot_bytes(slot), Relaxed);
                    *slot = Slot::Zero;
                }
            }
            number = leaf_end;
        }
    }
}

impl Pages {
    /// Writes within one page. True if the page is kept whole now and was not before.
    fn write_part(&self, number: usize, within: usize, data: &[u8]) -> bool {
        let mut leaf = self.leaves[number / LEAF_PAGES].lock();
        let slots = leaf.get_or_insert_with(|| {
            self.resident.fetch_add((LEAF_PAGES * size_of::<Slot>()) as u64, Relaxed);
            unchanged_leaf()
        });
        let slot = &mut slots[number % LEAF_PAGES];
        let was_whole = matches!(slot, Slot::Whole(_));
        let number = number as u64;
        if let Ok(page) = <&Page>::try_from(data) {
            self.store(number, slot, page);
        } else if let Slot::Whole(whole) = slot
            && let Some(whole) = Arc::get_mut(whole)
        {
            whole[within..within + data.len()].copy_from_slice(data);
        } else {
            let mut page = [0; PAGE_BYTES];
            self.load(number, slot, &mut page);
            page[within..within + data.len()].copy_from_slice(data);
            self.store(number, slot, &page);
        }
        !was_whole && matches!(slot, Slot::Whole(_))
    }

    /// Stores a whole page as copies of pieces of an image, if that saves enough.
    fn pack(&self, number: usize, index: &CopyIndex) {
        let mut leaf = self.leaves[number / LEAF_PAGES].lock();
        if let Some(slots) = leaf.as_mut()
            && let slot = &mut slots[number % LEAF_PAGES]
            && let Slot::Whole(page) = slot
            && let Some(code) = index.encode(page)
        {
            let before = slot_bytes(slot);
            *slot = Slot::Copies(code.as_slice().into());
            self.resident.fetch_sub(before - slot_bytes(slot), Relaxed);
        }
    }
}
