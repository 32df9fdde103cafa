//! Slots that survive a shutdown: of raw pages in a mode in which flash is never newer than disk. The
//! shutdown writes segments of the directory, and the superblock calls them valid until the next open.
//!
//! While the cache is used nothing of this is written: a crash empties it. So an older version than the
//! disk's is never found:
//! 1. A shutdown begins when no request is under way. The disk is synced, then the slots, then the segments;
//!    then a superblock says that they count.
//! 2. The next open writes all copies of the superblock, durably, and none of them says so any more. Only
//!    then is a page served or written.
//! 3. Whatever else writes to the disk has begun an epoch there first, or an open that sees its writes in the
//!    fingerprint begins one. A cache of an earlier epoch is emptied.
//!
//! A segment names the epoch at whose end it was written. One of another epoch, or a damaged one, does not
//! count: its slots are empty.

use super::segments::{compose, write_copy};
use crate::TierError;
use crate::access::Directory;
use crate::buffer::AlignedBuffer;
use crate::tier::floor::flash::Flash;
use entresol_core::DurableBatches;
use entresol_format::Uuid;

/// Writes the segments, durably, at the end of `epoch`.
pub(super) fn write_segments(
    directory: &Directory,
    flash: &Flash,
    (cache, epoch): (Uuid, u64),
) -> Result<(), TierError> {
    flash.sync_writes()?;
    let mut scratch = AlignedBuffer::new(0);
    for segment in 0..flash.layout.segments_of_slots() {
        let no_batches = || Ok(DurableBatches::default());
        compose(directory, &flash.layout, (segment, cache, epoch), &mut scratch, no_batches)?;
        write_copy(flash, (segment, 0), &scratch)?;
    }
    flash.sync_writes()
}
