//! Pages that stay in the ring while their write to disk is under way, however long that takes.
//!
//! A dequeue gives such a page a second chance, whatever the policy says, so the front does not wait for the
//! disk, and the flash has the page whole until the disk has it. While pages are held, groups are held back
//! for them as for second chances. In a ring without a free group a held page leaves all the same: nothing
//! waits for the end of a hold, since the holder may itself wait for room.

use super::{Log, Ring};
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

impl Log<'_> {
    /// Versions of `page` that enter from now on do not leave the flash until [`Log::let_go`], whatever the
    /// policy says: a dequeue gives the newest one a second chance, as long as a group of the ring is free. A
    /// page is held once at a time. False: too many pages are held, at most [`HOLDS_MAX`] and a quarter of
    /// the slots.
    #[must_use]
    pub fn hold(&mut self, page: PageId) -> bool {
        let head = &mut *self.ring.head;
        let most = HOLDS_MAX.min((self.ring.slots / HELD_PART) as usize);
        let is_held = (head.holds as usize) < most;
        if is_held {
            let from = self.contents.staging.window.rear;
            head.held[head.holds as usize] = Hold { page: page.0, from };
            head.holds += 1;
        }
        is_held
    }

    /// Ends one [`Log::hold`] of `page`.
    pub fn let_go(&mut self, page: PageId) {
        let at = self.ring.held().iter().position(|held| held.page == page.0);
        let at = at.expect("a page that is let go was held");
        let head = &mut *self.ring.head;
        head.holds -= 1;
        head.held[at] = head.held[head.holds as usize];
    }
}

impl Ring<'_> {
    fn held(&self) -> &[Hold] {
        &self.head.held[..self.head.holds as usize]
    }

    pub(super) fn is_held(&self, page: PageId, position: u64) -> bool {
        let is_it = |held: &Hold| held.page == page.0 && held.from <= position;
        self.held().iter().any(is_it)
    }
}
