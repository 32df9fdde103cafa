//! Reads directory segments.

use super::scan::Reader;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{TierError, unreadable};
use entresol_core::{SlotView, mutant};
use entresol_format::segment::{self, ENTRY_BYTES, Head};
use entresol_format::{BLOCK_BYTES, checksum};

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// Reads segment `number`. The second `Err` says why it cannot be used.
pub(crate) fn read_segment(
    reader: &mut Reader<'_>,
    number: u64,
) -> Result<Result<Vec<Option<SlotView>>, String>, TierError> {
    let superblock = reader.superblock;
    let mut bytes = AlignedBuffer::new(reader.layout.segment_bytes() as usize);
    let offset = reader.layout.segment_offset(number);
    for (at, chunk) in bytes.chunks_mut(CHUNK).enumerate() {
        unreadable::read(reader.flash, offset + (at * CHUNK) as u64, chunk).map_err(flash_error)?;
    }
    reader.bytes_read += bytes.len() as u64;
    reader.segments_read += 1;
    let (block, rest) = bytes.split_at(BLOCK_BYTES);
    let head = match Head::decode(block) {
        Ok(head) => head,
        Err(fault) => return Ok(Err(format!("its header: {}", unreadable::fault_of(block, fault)))),
    };
    if head.segment != number || head.cache != superblock.cache || head.entries != superblock.segment_entries
    {
        return Ok(Err(format!("segment {} of cache {} lies in its place", head.segment, head.cache)));
    }
    let entries = &rest[..head.entries as usize * ENTRY_BYTES];
    let found = checksum::of(entries);
    if found != head.checksum && !mutant!("segment-checksum-not-checked") {
        return Ok(Err(format!("checksum {found:#010x} found, {:#010x} expected", head.checksum)));
    }
    Ok(Ok(segment::decode_entries(entries).collect()))
}
