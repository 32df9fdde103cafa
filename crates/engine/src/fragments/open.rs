//! Creates the cache. Nothing is written before every check has passed.
//!
//! The cache keeps zeros in the places of superblocks, so that its pages never pass for another cache. A mark
//! between these places says whose device it is.

use super::copies::FlashCopies;
use super::mapping::Mapping;
use super::{Base, FragmentOptions, points};
use crate::buffer::AlignedBuffer;
use crate::disk::binding::expect_label;
use crate::disk::{WriteBehind, open_unbound};
use crate::error::flash_error;
use crate::superblock::{needed_elsewhere, read_newest};
use crate::{TierError, claim, unreadable};
use entresol_core::fragment_region_bytes;
use entresol_device::Device;
use entresol_format::layout::disk_offset;
use entresol_format::superblock::{COPIES, COPY_STRIDE};
use entresol_format::{BLOCK_BYTES, fragments as mark};
use entresol_runtime::random;
use std::sync::Arc;

pub(super) fn open(
    flash: Arc<dyn Device>,
    disk: Arc<dyn Device>,
    options: FragmentOptions,
) -> Result<Base, TierError> {
    options.validate()?;
    let found = flash.geometry().capacity_bytes;
    let options = options.with_room_for_proofs(found);
    let needed = options.flash_bytes();
    if found < needed {
        return Err(TierError::Config(format!(
            "the flash device has {found} bytes, a cache of this size needs {needed}; choose fewer fragments or a larger \
             device"
        )));
    }
    let label = expect_label(&*disk, options.page_bytes)?.newest;
    let old = read_newest(&*flash)?.0;
    if let Some(refusal) = old.as_ref().and_then(|old| needed_elsewhere(old, label.disk)) {
        points::OPEN_NEEDED.reach();
        return Err(refusal);
    }
    if old.is_none() {
        claim::flash(&*flash, options.overwrite)?;
    }
    let config = options.config(volume_pages(&*disk, options.page_bytes));
    config.validate().map_err(|error| TierError::Config(error.to_string()))?;
    open_unbound(&*disk, options.page_bytes)?;
    if old.is_some() {
        points::OPEN_OVERWRITTEN.reach();
    }
    take_over(&*flash)?;
    let region = vec![0u64; fragment_region_bytes(&config) / 8];
    Ok(Base {
        mapping: Arc::new(Mapping::new(&options, config, region)?),
        behind: Arc::new(WriteBehind::of_format(disk, options.page_bytes, options.page_format)),
        copies: Arc::new(FlashCopies::new(flash, options, random())),
    })
}

/// Makes the device one of a cache of fragments. First the mark is written, each copy durable by itself, so
/// that the device can be identified from then on. Then zeros are written over each superblock. Places that
/// already have the right content are not written.
fn take_over(flash: &dyn Device) -> Result<(), TierError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let write = |offset, block: &[u8]| flash.write(offset, block).and_then(|()| flash.sync());
    mark::encode_mark(&mut block);
    for (offset, found) in mark::MARK_OFFSETS.into_iter().zip(claim::fragment_marks(flash)?) {
        if !found {
            write(offset, &block).map_err(flash_error)?;
        }
    }
    for copy in 0..COPIES {
        unreadable::read(flash, copy * COPY_STRIDE, &mut block).map_err(flash_error)?;
        if block.iter().any(|byte| *byte != 0) {
            block.fill(0);
            write(copy * COPY_STRIDE, &block).map_err(flash_error)?;
        }
    }
    Ok(())
}

/// Pages with a place on `disk`, as far as they can be numbered.
fn volume_pages(disk: &dyn Device, page_bytes: u32) -> u32 {
    let pages =
        disk.geometry().capacity_bytes.saturating_sub(disk_offset(entresol_core::PageId(0), page_bytes))
            / u64::from(page_bytes);
    u32::try_from(pages).unwrap_or(u32::MAX).min(u32::MAX - entresol_core::FRAGMENT_PAGES_MAX)
}
