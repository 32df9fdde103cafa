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

/// Pages that were read as wanted, and the error of each of the others.
pub(crate) type Read<'a> = (Destages<'a>, ArrayVec<TierError, READS_MAX>);

/// How pages are read from flash.
pub(crate) trait ReadsPages {
    /// Reads pages.
    fn read_pages(&self, batch: &mut [Io<'_>]) -> Result<(), TierError>;

    /// Reads a page that is damaged once more, before it is called so, and proves it.
    fn read_again(
        &self,
        page: (u64, &mut [u8]),
        prove: impl Fn(&[u8]) -> Result<(), PageFault>,
    ) -> Result<Result<(), PageFault>, TierError>;
}

/// At once.
impl ReadsPages for &dyn Device {
    fn read_pages(&self, batch: &mut [Io<'_>]) -> Result<(), TierError> {
        unreadable::read_batch(*self, batch).map_err(flash_error)
    }

    fn read_again(
        &self,
        (offset, bytes): (u64, &mut [u8]),
        prove: impl Fn(&[u8]) -> Result<(), PageFault>,
    ) -> Result<Result<(), PageFault>, TierError> {
        unreadable::read(*self, offset, bytes).map_err(flash_error)?;
        Ok(prove(bytes))
    }
}

/// Reads the pages in these slots, at most [`READS_MAX`], one after the other into `buffer`. `prove` says
/// whether the bytes are the expected version of the page with this index in `wanted`. A page that is damaged
/// is read once more by itself before it is called so.
pub(crate) fn read_what_is_there<'a>(
    flash: &impl ReadsPages,
    (layout, page_format): (&Layout, PageFormat),
    wanted: &[(PageId, SlotId)],
    buffer: &'a mut [u8],
    prove: impl Fn(usize, &[u8]) -> Result<(), PageFault>,
) -> Result<Read<'a>, TierError> {
    let page_bytes = layout.page_bytes() as usize;
    let mut batch = ArrayVec::<Io<'_>, READS_MAX>::new();
    for ((_, slot), buffer) in wanted.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
        batch.push(Io::Read { offset: layout.slot_offset(*slot), buffer });
    }
    flash.read_pages(&mut batch)?;
    drop(batch);
    let (mut pages, mut faults) = (Destages::new(), ArrayVec::new());
    for (at, ((page, slot), data)) in wanted.iter().zip(buffer.chunks_exact_mut(page_bytes)).enumerate() {
        let mut proved = prove(at, data);
        if proved.is_err() {
            proved = flash.read_again((layout.slot_offset(*slot), data), |data| prove(at, data))?;
        }
        match proved {
            Ok(()) => {
                page_format.unseal(data, *page);
                pages.push((*page, &*data));
            }
            Err(fault) => faults.push(damaged(*page, *slot, data, fault)),
        }
    }
    Ok((pages, faults))
}

/// The error of a page whose only current copy, in `slot`, is damaged.
pub(crate) fn damaged(page: PageId, slot: SlotId, data: &[u8], fault: PageFault) -> TierError {
    let place = format!("flash slot {}", slot.0);
    TierError::Damaged { page, place, fault: unreadable::fault_of(data, fault) }
}

/// The pages that errors name: those that are damaged on flash, and those that the disk does not take.
pub(crate) fn named<'a>(faults: impl IntoIterator<Item = &'a TierError>) -> Vec<PageId> {
    let page = |fault: &TierError| match fault {
        TierError::Damaged { page, .. } | TierError::NotTaken { page, .. } => Some(*page),
        _ => None,
    };
    faults.into_iter().filter_map(page).collect()
}

/// Writes `pages` to disk, sorted by their places there. Not synced.
pub(crate) fn write_sorted(disk: &DiskPages, pages: &mut Destages<'_>) -> Result<(), TierError> {
    pages.sort_unstable_by_key(|(page, _)| *page);
    disk.write_all::<GROUP_PAGES_MAX>(pages.iter().copied())
}
