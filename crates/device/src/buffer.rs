//! Memory for device I/O: aligned for direct I/O, and reused.

use entresol_runtime::sync::{Rank, TinyMutex};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment that direct I/O needs.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Chunk([u8; ALIGNMENT]);

/// Memory aligned for direct I/O. The default has no bytes.
#[derive(Default)]
pub struct AlignedBuffer {
    chunks: Vec<Chunk>,
    length: usize,
}

impl AlignedBuffer {
    /// `length` bytes of zeros.
    pub fn new(length: usize) -> Self {
        Self { chunks: vec![Chunk([0; ALIGNMENT]); length.div_ceil(ALIGNMENT)], length }
    }

    /// Bytes that it could have without more memory.
    fn room(&self) -> usize {
        self.chunks.len() * ALIGNMENT
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
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

/// Buffers of one size that are used again and again.
pub struct BufferPool {
    room: usize,
    unused_max: usize,
    unused: TinyMutex<Vec<AlignedBuffer>>,
}

impl BufferPool {
    /// A pool of buffers of up to `room` bytes. It keeps `unused_max` of them at most.
    pub fn new(room: usize, unused_max: usize) -> Self {
        let unused = TinyMutex::new(Rank::Buffers, Vec::new());
        Self { room: room.next_multiple_of(ALIGNMENT), unused_max, unused }
    }

    /// A buffer of `length` bytes with arbitrary content. A longer one than the pool's is made anew.
    pub fn take(&self, length: usize) -> AlignedBuffer {
        if length > self.room || length == 0 {
            return AlignedBuffer::new(length);
        }
        let unused = self.unused.lock().pop();
        let mut buffer = unused.unwrap_or_else(|| AlignedBuffer::new(self.room));
        buffer.length = length;
        buffer
    }

    /// Keeps a buffer for the next taker, if it is one of the pool's and there are not enough.
    pub fn give_back(&self, buffer: AlignedBuffer) {
        if buffer.room() != self.room {
            return;
        }
        let mut unused = self.unused.lock();
        if unused.len() < self.unused_max {
            unused.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_up_to_a_number() {
        let pool = BufferPool::new(5000, 2);
        let taken: Vec<_> = [512, 5000, 8192].into_iter().map(|length| pool.take(length)).collect();
        assert_eq!(taken.iter().map(|buffer| buffer.len()).collect::<Vec<_>>(), [512, 5000, 8192]);
        assert!(taken.iter().all(|buffer| buffer.as_ptr().addr().is_multiple_of(ALIGNMENT)));
        let kept = [taken[0].as_ptr(), taken[1].as_ptr()];
        taken.into_iter().for_each(|buffer| pool.give_back(buffer));
        assert_eq!(pool.unused.lock().len(), 2);
        // Too long for the pool, and not kept by it.
        let longer = pool.take(8193);
        assert_eq!((longer.len(), &longer[..]), (8193, &[0; 8193][..]));
        pool.give_back(longer);
        let again = [pool.take(1), pool.take(1)];
        assert!(again.iter().all(|buffer| buffer.len() == 1 && kept.contains(&buffer.as_ptr())));
    }
}
