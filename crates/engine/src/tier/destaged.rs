//! Which versions were destaged lately, to count destages of a version that the disk already had (MISSION,
//! traps): a frame's `dirty` may outlive the destage of its flash copy.
//!
//! A table of fixed size by page, the newest of each place; so the count is a lower bound.

use entresol_core::{Lsn, PageId};
use parking_lot::Mutex;

const PLACES: usize = 4096;

pub(crate) struct Destaged(Mutex<Vec<(PageId, Lsn)>>);

impl Default for Destaged {
    fn default() -> Self {
        Self(Mutex::new(vec![(PageId(u64::MAX), Lsn(0)); PLACES]))
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
