//! Pages that stay in the ring while their write to disk is under way, however long that takes.
//!
//! A dequeue gives such a page a second chance, whatever the policy says, so the front does not wait for the
//! disk, and the flash has the page whole until the disk has it. While pages are held, groups are held back
//! for them as for second chances.

use super::Ring;
use crate::PageId;
use crate::contents::Contents;
use crate::slot::VALID;

/// Most pages that are held at once.
pub const HOLDS_MAX: usize = 256;

/// A ring with more of them than this part of its slots would copy pages more than it takes any.
const HELD_PART: u32 = 4;

impl Ring<'_> {
    fn held(&self) -> &[u64] {
        &self.head.held[..self.head.holds as usize]
    }

    /// Holds `page`. False: too many are held.
    pub(crate) fn hold(&mut self, page: PageId) -> bool {
        let most = HOLDS_MAX.min((self.slots / HELD_PART) as usize);
        let is_held = (self.head.holds as usize) < most;
        if is_held {
            self.head.held[self.head.holds as usize] = page.0;
            self.head.holds += 1;
        }
        is_held
    }

    /// Ends one hold of `page`.
    pub(crate) fn let_go(&mut self, page: PageId) {
        let at = self.held().iter().position(|held| *held == page.0);
        let at = at.expect("a page that is let go was held");
        self.head.holds -= 1;
        self.head.held[at] = self.head.held[self.head.holds as usize];
    }

    pub(super) fn is_held(&self, page: PageId) -> bool {
        self.held().contains(&page.0) && !crate::mutant!("held-page-leaves")
    }

    /// Whether a group has pages that are held, in the newest version.
    pub(super) fn has_held_pages(&self, contents: &Contents<'_>, first: u64) -> bool {
        let is_held = |position| {
            let entry = contents.pages.directory.entry(self.slot_of(position));
            entry.has(VALID) && self.is_held(entry.page())
        };
        self.head.holds > 0 && (first..first + self.group()).any(is_held)
    }
}
