//! Pages that stay in the ring while their write to disk is under way, however long that takes.
//!
//! A dequeue gives such a page a second chance, whatever the policy says, so the front does not wait for the
//! disk, and the flash has the page whole until the disk has it. While pages are held, groups are held back
//! for them as for second chances. In a ring without a free group a held page leaves all the same: nothing
//! waits for the end of a hold, since the holder may itself wait for room.

use super::Ring;
use crate::PageId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most pages that are held at once.
pub const HOLDS_MAX: usize = 256;

/// A ring with more of them than this part of its slots would copy pages more than it takes any.
const HELD_PART: u32 = 4;

/// Versions that stay.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Hold {
    page: u64,
    /// The rear when the hold began: the page's versions from here on.
    from: u64,
}

impl Ring<'_> {
    fn held(&self) -> &[Hold] {
        &self.head.held[..self.head.holds as usize]
    }

    /// Holds the versions of `page` that enter from `rear` on. False: too many are held.
    pub(crate) fn hold(&mut self, page: PageId, rear: u64) -> bool {
        let most = HOLDS_MAX.min((self.slots / HELD_PART) as usize);
        let is_held = (self.head.holds as usize) < most;
        if is_held {
            self.head.held[self.head.holds as usize] = Hold { page: page.0, from: rear };
            self.head.holds += 1;
        }
        is_held
    }

    /// Ends one hold of `page`.
    pub(crate) fn let_go(&mut self, page: PageId) {
        let at = self.held().iter().position(|held| held.page == page.0);
        let at = at.expect("a page that is let go was held");
        self.head.holds -= 1;
        self.head.held[at] = self.head.held[self.head.holds as usize];
    }

    pub(super) fn is_held(&self, page: PageId, position: u64) -> bool {
        let is_it = |held: &Hold| held.page == page.0 && held.from <= position;
        self.held().iter().any(is_it) && !crate::mutant!("held-page-leaves")
    }
}
