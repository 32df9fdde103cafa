//! Copying pages from flash to disk: they are read in one batch, proved, and written in one batch in the
//! order of their places on disk.
//!
//! Invariant: only a proved page is written. A page that is damaged or unreadable is an error that names the
//! page and its slot.

use crate::disk::DiskPages;
use crate::error::flash_error;
use crate::{TierError, unreadable};
use arrayvec::ArrayVec;
use entresol_core::{GROUP_PAGES_MAX, PageId, SlotId};
use entresol_device::{Device, Io};
use entresol_format::page::PageFault;
use entresol_format::{Layout, PageFormat};

/// Pages to be written to disk, with their content.
pub(crate) type Destages<'a> = ArrayVec<(PageId, &'a [u8]), GROUP_PAGES_MAX>;

/// Most pages read at once.
pub(crate) const READS_MAX: usize = 32;

/// Reads the pages in these slots, at most [`READS_MAX`], one after the other into `buffer`. `prove` says
/// whether the bytes are the expected version of the page with this index in `wanted`.
pub(crate) fn read_proved<'a>(
    flash: &dyn Device,
    (layout, page_format): (&Layout, PageFormat),
    wanted: &[(PageId, SlotId)],
    buffer: &'a mut [u8],
    prove: impl Fn(usize, &[u8]) -> Result<(), PageFault>,
) -> Result<Destages<'a>, TierError> {
    let page_bytes = layout.page_bytes() as usize;
    let mut batch = ArrayVec::<Io<'_>, READS_MAX>::new();
    for ((_, slot), buffer) in wanted.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
        batch.push(Io::Read { offset: layout.slot_offset(*slot), buffer });
    }
    unreadable::read_batch(flash, &mut batch).map_err(flash_error)?;
    drop(batch);
    let mut pages = Destages::new();
    for (at, ((page, slot), data)) in wanted.iter().zip(buffer.chunks_exact_mut(page_bytes)).enumerate() {
        prove(at, data).map_err(|fault| damaged(*page, *slot, data, fault))?;
        page_format.unseal(data, *page);
        pages.push((*page, &*data));
    }
    Ok(pages)
}

/// The error of a page whose only current copy, in `slot`, is damaged.
pub(crate) fn damaged(page: PageId, slot: SlotId, data: &[u8], fault: PageFault) -> TierError {
    let place = format!("flash slot {}", slot.0);
    TierError::Damaged { page, place, fault: unreadable::fault_of(data, fault) }
}

/// Writes `pages` to disk, sorted by their places there. Not synced.
pub(crate) fn write_sorted(disk: &DiskPages, pages: &mut Destages<'_>) -> Result<(), TierError> {
    pages.sort_unstable_by_key(|(page, _)| *page);
    disk.write_all::<GROUP_PAGES_MAX>(pages.iter().copied())
}
