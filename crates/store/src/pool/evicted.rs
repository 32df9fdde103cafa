//! The pages that this session has evicted with its own changes.
//!
//! A restart finds the log's end, E. Later the layer returns a page with an LSN at or after E. Either this
//! session has written the page, or its changes were in a lost end of the log: they are in no log, and
//! perhaps were never acknowledged. The LSN alone distinguishes the two cases only until the log has grown
//! past it. So there is a bit for each page that was evicted with such an LSN.
//!
//! Memory: a bit for each page of the disk, allocated in chunks of 4 KiB when needed: 32 MiB for a terabyte
//! of which all pages were changed.

use crate::PageNumber;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// Words of a chunk.
const WORDS: usize = 512;
/// Pages of a chunk.
const PAGES: u64 = 64 * WORDS as u64;

type Chunk = Box<[AtomicU64; WORDS]>;

/// See the module's header.
pub(super) struct EvictedPages {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl EvictedPages {
    /// For a disk of `pages` pages, none of them evicted.
    pub(super) fn new(pages: u64) -> Self {
        let pages = pages.min(1 << 32);
        Self { chunks: (0..pages.div_ceil(PAGES)).map(|_| OnceLock::new()).collect() }
    }

    /// Records that `page` is about to be evicted. A page beyond the disk's end is refused by the layer.
    pub(super) fn note(&self, page: PageNumber) {
        let (chunk, word, bit) = place(page);
        if let Some(chunk) = self.chunks.get(chunk) {
            let chunk = chunk.get_or_init(|| Box::new([const { AtomicU64::new(0) }; WORDS]));
            if chunk[word].load(Acquire) & bit == 0 {
                chunk[word].fetch_or(bit, AcqRel);
            }
        }
    }

    /// Whether `page` was evicted.
    pub(super) fn has(&self, page: PageNumber) -> bool {
        let (chunk, word, bit) = place(page);
        let chunk = self.chunks.get(chunk).and_then(OnceLock::get);
        chunk.is_some_and(|chunk| chunk[word].load(Acquire) & bit != 0)
    }
}

fn place(page: PageNumber) -> (usize, usize, u64) {
    let page = u64::from(page.0);
    ((page / PAGES) as usize, (page % PAGES / 64) as usize, 1 << (page % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_bit_of_its_own() {
        let evicted = EvictedPages::new(3 * PAGES + 1);
        let noted = [0, 63, 64, PAGES - 1, PAGES, 3 * PAGES, 4 * PAGES, u64::from(u32::MAX)];
        noted.iter().for_each(|page| evicted.note(PageNumber(*page as u32)));
        for page in 0..5 * PAGES {
            let expected = page <= 3 * PAGES && noted.contains(&page);
            assert_eq!(evicted.has(PageNumber(page as u32)), expected, "page {page}");
        }
    }
}
