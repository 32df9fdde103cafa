//! Reads directory segments.

use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::scan::Reader;
use crate::{TierError, unreadable};
use entresol_core::{Forgotten, SlotView};
use entresol_format::segment::{self, Head};
use entresol_format::stale::{RawStale, STALE_BYTES};
use entresol_format::{BLOCK_BYTES, BlockFault, Layout, StoredBase, Uuid, checksum};
use zerocopy::FromBytes;

/// What a directory segment says.
pub(crate) struct Segment {
    /// Of each position, the page.
    pub views: Vec<Option<SlotView>>,
    /// Of each position, the base of the page.
    pub bases: Vec<Option<StoredBase>>,
    /// Forgotten pages.
    pub records: Vec<Forgotten>,
    /// There are more records: the summaries of its groups name them all.
    pub records_incomplete: bool,
}

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// The header and the entries in `bytes`, segment `number` of slots of `cache`. `None`: nothing of this cache
/// was ever written there.
pub(super) fn decode_segment<'a>(
    cache: Uuid,
    layout: &Layout,
    number: u64,
    bytes: &'a [u8],
) -> Result<Option<(Head, &'a [u8])>, BlockFault> {
    let (block, payload) = bytes.split_at(BLOCK_BYTES);
    let head = match Head::decode(block) {
        Ok(head) => head,
        Err(BlockFault::Blank) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    if head.cache != cache {
        return Ok(None);
    }
    let entries = layout.segment_entries();
    for (field, found, expected) in
        [("segment", head.segment, number), ("entries", head.entries.into(), entries.into())]
    {
        if found != expected {
            return Err(BlockFault::Field { field, found });
        }
    }
    let used = &payload[..entries as usize * layout.segment_entry_bytes()];
    let found = checksum::of(used);
    if found != head.checksum {
        return Err(BlockFault::Checksum { expected: head.checksum, found });
    }
    Ok(Some((head, used)))
}

/// Reads segment `number`. The second `Err` says why it cannot be used.
pub(crate) fn read_segment(
    reader: &mut Reader<'_>,
    number: u64,
) -> Result<Result<Segment, String>, TierError> {
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
    let entry_bytes = reader.layout.segment_entry_bytes();
    let entries = head.entries as usize * entry_bytes;
    if head.stale as usize > reader.layout.segment_stale_max() {
        return Ok(Err(format!("it has {} records of forgotten pages, more than fit", head.stale)));
    }
    let used = &rest[..entries + head.stale as usize * STALE_BYTES];
    let found = checksum::of(used);
    if found != head.checksum {
        return Ok(Err(format!("checksum {found:#010x} found, {:#010x} expected", head.checksum)));
    }
    let records = used[entries..]
        .chunks_exact(STALE_BYTES)
        .map(|bytes| RawStale::ref_from_bytes(bytes).expect("a chunk has the length of a record").read());
    let Some(records) = records.collect() else {
        return Ok(Err("a record of forgotten pages in it is impossible".to_owned()));
    };
    let views = segment::decode_entries(&used[..entries], entry_bytes).collect();
    let bases = segment::decode_bases(&used[..entries], entry_bytes).collect();
    Ok(Ok(Segment { views, bases, records, records_incomplete: head.stale_incomplete }))
}
