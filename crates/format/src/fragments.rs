//! The mark of a cache of fragments (SCE). Such a cache keeps its directory in memory. Its device holds only
//! pages and this block, which identifies the device. The mark has two copies. No copy of a superblock has
//! the same offset, and the copies are so far apart that one misdirected write cannot overwrite both.
//!
//! A **block of proofs** follows the pages of each fragment, if the cache has such blocks: one word for each
//! page. Nothing of it outlives an open.

use crate::block::{self, BLOCK_BYTES, BlockHeader};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

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

/// Magic of a block of proofs.
const PROOFS_MAGIC: [u8; 8] = *b"ENTRPROO";
/// The first word of a block of proofs.
const WORDS_AT: usize = size_of::<BlockHeader>();
const WORD_BYTES: usize = size_of::<U32>();

/// Bytes of a block of proofs that its checksum covers.
const fn proofs_bytes(pages: u32) -> usize {
    WORDS_AT + pages as usize * WORD_BYTES
}

/// Sets the words of a block of proofs, [`BLOCK_BYTES`] long.
pub fn set_proofs(block: &mut [u8], words: &[u32]) {
    for (place, word) in block[WORDS_AT..].chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Completes a block of proofs, for a fragment of `pages` pages.
pub fn seal_proofs(block: &mut [u8], pages: u32, sequence: u64) {
    block::seal(&mut block[..proofs_bytes(pages)], PROOFS_MAGIC, sequence);
}

/// The sequence of an undamaged block of proofs.
pub fn proofs_sequence(block: &[u8], pages: u32) -> Option<u64> {
    block::open(&block[..proofs_bytes(pages)], PROOFS_MAGIC).ok().map(|header| header.sequence.get())
}

/// The word of a page in a block of proofs: of the page at `offset` in its fragment.
pub fn proof(block: &[u8], offset: u32) -> u32 {
    let at = WORDS_AT + offset as usize * WORD_BYTES;
    u32::from_le_bytes(block[at..at + WORD_BYTES].try_into().expect("four bytes"))
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

    #[test]
    fn a_block_of_proofs_gives_its_words_and_notices_damage() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(proofs_sequence(&block, 256), None);
        let words: Vec<u32> = (0..256).map(|at| at * 0x0101_0101).collect();
        set_proofs(&mut block, &words);
        seal_proofs(&mut block, 256, 7);
        assert_eq!(proofs_sequence(&block, 256), Some(7));
        assert!((0..256).all(|at| proof(&block, at) == words[at as usize]));
        assert_eq!(proofs_sequence(&block, 255), None, "of fragments of another size");
        for at in [0, 20, WORDS_AT, WORDS_AT + 1023] {
            block[at] ^= 4;
            assert_eq!(proofs_sequence(&block, 256), None, "byte {at}");
            block[at] ^= 4;
        }
    }
}
