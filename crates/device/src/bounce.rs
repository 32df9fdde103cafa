//! Aligned memory for direct I/O: one buffer for each thread, kept from one I/O to the next.

use std::cell::RefCell;

/// Alignment that every direct I/O accepts, in bytes.
pub(crate) const ALIGNMENT: usize = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether direct I/O can use this memory as it is.
pub(crate) fn is_aligned(buffer: &[u8]) -> bool {
    buffer.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// Lends `f` aligned memory of `length` bytes with arbitrary content. Not to be nested.
pub(crate) fn with<R>(length: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < length + ALIGNMENT {
            buffer.resize(length + ALIGNMENT, 0);
        }
        let skip = buffer.as_ptr().align_offset(ALIGNMENT);
        f(&mut buffer[skip..skip + length])
    })
}

#[cfg(test)]
mod tests {
    use super::{is_aligned, with};

    #[test]
    fn lends_aligned_memory_of_the_length_asked_for() {
        for length in [512, 4096, 262_144, 512] {
            with(length, |buffer| {
                assert!(is_aligned(buffer));
                assert_eq!(buffer.len(), length);
                assert!(length == 512 || !is_aligned(&buffer[512..]));
            });
        }
    }
}
