//! Pages that log placement does not take. They are on disk only, so no older copy of them may come back.
//!
//! 1. A page is dequeued, and its slot released. The copy in the slot stays as it is until it is overwritten.
//! 2. The page is fetched from disk and changed. If it bypassed the flash now, only the disk would have its
//!    newest version.
//! 3. The power fails. The recorded front lags: recovery finds the copy of 1, takes it for the newest
//!    version, and serves it.
//!
//! So a changed page bypasses only if recovery finds no copy of it. It enters if a slot between the durable
//! front and `released` holds one, if one was forgotten and the record of that is not durable, or if the
//! front lags by more than [`LAG_GROUPS_MAX`] groups, which are not searched under the latch. An unchanged
//! page is the same as on disk, and so is each older copy that can come back.

use super::{DEQUEUES, Ring};
use crate::PageId;
use crate::contents::Contents;

/// Groups that are searched for an older copy. Each write of a group makes the front durable, and seldom more
/// groups are released between two of them.
const LAG_GROUPS_MAX: u64 = DEQUEUES as u64;

impl Ring<'_> {
    /// Whether a changed `page`, of which the index has no version, may be written to disk alone.
    pub(crate) fn may_bypass(&self, contents: &Contents<'_>, page: PageId) -> bool {
        let lag = self.head.released - self.head.front_durable;
        let older_may_return = lag > LAG_GROUPS_MAX * self.group()
            || self.may_return(contents, page, page)
            || (self.is_being_forgotten(page) && !crate::mutant!("bypass-before-forgetting-is-durable"));
        !older_may_return || crate::mutant!("bypass-despite-older-copy")
    }
}
