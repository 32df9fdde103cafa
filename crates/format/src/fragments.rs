//! The mark of a cache of fragments (SCE). Such a cache keeps its directory in memory. Its device holds only
//! pages and this block, which identifies the device. The mark has two copies. No copy of a superblock has
//! the same offset, and the copies are so far apart that one misdirected write cannot overwrite both.

use crate::block::{self, BLOCK_BYTES, BlockHeader};
use zerocopy::IntoBytes;

/// Magic of the mark.
pub const MAGIC: [u8; 8] = *b"ENTRFRAG";
/// Offsets of its copies in bytes: before the first page, which follows at 1 MiB.
pub const MARK_OFFSETS: [u64; 2] = [4096, (1 << 20) - 4096];

/// Writes the mark into `block`, [`BLOCK_BYTES`] long.
pub fn encode_mark(block: &mut [u8]) {
    block[..BLOCK_BYTES].fill(0);
    block[..size_of::<BlockHeader>()].copy_from_slice(BlockHeader::default().as_bytes());
    block::seal(block, MAGIC, 0);
}

/// Whether `block` is an undamaged mark.
pub fn is_mark(block: &[u8]) -> bool {
    block::open(block, MAGIC).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_known_and_nothing_else_is() {
        let mut block = [0; BLOCK_BYTES];
        assert!(!is_mark(&block));
        encode_mark(&mut block);
        assert!(is_mark(&block));
        block[3000] ^= 1;
        assert!(!is_mark(&block));
    }
}
