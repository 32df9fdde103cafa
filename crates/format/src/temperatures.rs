//! TAC's region temperatures (SBP §3), written from time to time, alternately to two copies. Each has a
//! header, which is a directory segment's with another magic, and 4 bytes for each place of the core's table.

use crate::block::BlockFault;
use crate::segment::Head;

/// Magic of a copy's header.
pub const MAGIC: [u8; 8] = *b"ENTRTEMP";
/// Copies.
pub const COPIES: u64 = 2;

/// Writes the header of a copy into `block`; `head.segment` counts the copies written.
pub fn encode_head(head: &Head, block: &mut [u8]) {
    head.encode_as(MAGIC, block);
}

/// Reads one back.
pub fn decode_head(block: &[u8]) -> Result<Head, BlockFault> {
    Head::decode_as(MAGIC, block)
}
