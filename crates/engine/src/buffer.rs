//! Buffers for device I/O.

pub use entresol_device::AlignedBuffer;
use entresol_format::BLOCK_BYTES;

/// `count` copies of a structure of one block, each with its offset. `encode` writes the next one into a
/// block and returns its offset.
pub(crate) fn copies(count: u64, mut encode: impl FnMut(&mut [u8]) -> u64) -> Vec<(u64, AlignedBuffer)> {
    let copy = |_| {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        (encode(&mut block), block)
    };
    (0..count).map(copy).collect()
}
