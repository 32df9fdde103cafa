//! Buffers for device I/O: aligned, and reused.

use entresol_format::BLOCK_BYTES;
use entresol_runtime::sync::{Rank, TinyMutex};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment that direct I/O needs.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Chunk([u8; ALIGNMENT]);

/// Zeroed memory, aligned for direct I/O.
pub struct AlignedBuffer {
    chunks: Vec<Chunk>,
    length: usize,
}

impl AlignedBuffer {
    /// `length` bytes of zeros.
    pub fn new(length: usize) -> Self {
        Self { chunks: vec![Chunk([0; ALIGNMENT]); length.div_ceil(ALIGNMENT)], length }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.chunks.as_bytes()[..self.length]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.chunks.as_mut_bytes()[..self.length]
    }
}

/// `count` copies of a structure of one block, each with its offset. `encode` writes the next one into a
/// block and returns its offset.
pub(crate) fn copies(count: u64, mut encode: impl FnMut(&mut [u8]) -> u64) -> Vec<(u64, AlignedBuffer)> {
    let copy = |_| {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        (encode(&mut block), block)
    };
    (0..count).map(copy).collect()
}

/// Reusable buffers of one page.
pub(crate) struct PageBuffers {
    page_bytes: usize,
    free: TinyMutex<Vec<AlignedBuffer>>,
}

impl PageBuffers {
    pub(crate) fn new(page_bytes: u32) -> Self {
        Self { page_bytes: page_bytes as usize, free: TinyMutex::new(Rank::Buffers, Vec::new()) }
    }

    /// A buffer with arbitrary content.
    pub(crate) fn take(&self) -> AlignedBuffer {
        let free = self.free.lock().pop();
        free.unwrap_or_else(|| AlignedBuffer::new(self.page_bytes))
    }

    pub(crate) fn give_back(&self, buffer: AlignedBuffer) {
        self.free.lock().push(buffer);
    }
}
