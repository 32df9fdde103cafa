//! Tools that look at a flash device without opening it: `inspect` describes it, `check` proves that it is
//! sound.
//!
//! Invariant: this module never writes.

mod check;
mod compare;
mod inspect;
mod kept;
mod report;
mod slots;

pub use check::{check, check_watched};
pub use inspect::{DirectoryReport, HorizonReport, InspectReport, inspect};
pub use report::CheckReport;

use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{TierError, unreadable};
use entresol_device::Device;
use entresol_format::superblock::{COPIES, COPY_STRIDE, Superblock};
use entresol_format::{BLOCK_BYTES, BlockFault, PageFormat};

/// Whether the cache on `flash` is of raw pages, as of a volume, or of fragments.
///
/// # Errors
/// [`TierError::Device`] if it cannot be read.
pub fn is_cache_of_volume(flash: &dyn Device) -> Result<bool, TierError> {
    let is_raw = superblocks(flash).and_then(|copies| newest(&copies));
    match is_raw {
        Ok(superblock) => Ok(superblock.page_format == PageFormat::Raw),
        Err(error @ TierError::Device { .. }) => Err(error),
        Err(_) => Ok(crate::claim::fragment_marks(flash)?.contains(&true)),
    }
}

/// All copies of the superblock, each decoded or refused.
pub(crate) fn superblocks(flash: &dyn Device) -> Result<Vec<Result<Superblock, BlockFault>>, TierError> {
    let capacity = flash.geometry().capacity_bytes;
    let needed = (COPIES - 1) * COPY_STRIDE + BLOCK_BYTES as u64;
    if capacity < needed {
        return Err(TierError::Refused(format!(
            "the flash device has {capacity} bytes, the superblocks alone take {needed}; is it truncated?"
        )));
    }
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    (0..COPIES)
        .map(|copy| {
            unreadable::read(flash, copy * COPY_STRIDE, &mut block).map_err(flash_error)?;
            Ok(Superblock::decode(&block))
        })
        .collect()
}

/// The newest copy; an error says why there is none.
pub(crate) fn newest(copies: &[Result<Superblock, BlockFault>]) -> Result<Superblock, TierError> {
    let newest = copies.iter().flatten().max_by_key(|superblock| superblock.sequence);
    newest.copied().ok_or_else(|| {
        if copies.iter().all(|copy| matches!(copy, Err(BlockFault::Blank))) {
            return TierError::Refused(
                "the flash device holds no cache: it is blank, or a cache of fragments (sce) used it last, whose directory \
                 lies in memory, so that nothing on flash is needed by anybody"
                    .to_owned(),
            );
        }
        let faults: Vec<String> = copies.iter().flat_map(|copy| copy.err()).map(|f| f.to_string()).collect();
        TierError::Refused(format!("the flash device holds no cache: {}", faults.join("; ")))
    })
}
