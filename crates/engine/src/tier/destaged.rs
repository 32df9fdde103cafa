//! Which versions were destaged last, to count destages of a version that the disk already had: a frame's
//! `dirty` may outlive the destage of its flash copy.
//!
//! A table of a fixed size, indexed by page; so the count is a lower bound.

use entresol_core::{Lsn, PageId};
use entresol_runtime::sync::{Rank, TinyMutex};

const PLACES: usize = 4096;

/// See the module's header.
pub(crate) struct Destaged(TinyMutex<Vec<(PageId, Lsn)>>);

impl Default for Destaged {
    fn default() -> Self {
        Self(TinyMutex::new(Rank::Destaged, vec![(PageId(u64::MAX), Lsn(0)); PLACES]))
    }
}

impl Destaged {
    /// Remembers a destage; says whether it was the last one of that page, too.
    pub(crate) fn repeats(&self, page: PageId, lsn: Lsn) -> bool {
        let place = (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let newest = &mut self.0.lock()[place];
        let repeated = *newest == (page, lsn);
        *newest = (page, lsn);
        repeated
    }
}
