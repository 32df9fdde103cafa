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

use super::Log;
use crate::job::Admission;
use crate::policy::Offer;
use crate::{Lsn, PageId};

/// Groups that are searched for an older copy. Each write of a group makes the front durable, and seldom more
/// groups are released between two of them.
const LAG_GROUPS_MAX: u64 = 8;

impl Log<'_> {
    /// As [`Partition::evict`](crate::Partition::evict), for a driver that cannot vouch for its own writes to
    /// disk: a changed page enters even if the policy would keep it out.
    pub fn evict_changed(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        // The policy learns of it as of any other.
        let _ = self.contents.decide(&Offer { page, dirty, fdirty: true });
        self.enter(page, lsn, dirty)
    }

    /// The policy does not want the page.
    pub(super) fn keep_out(&mut self, offer: &Offer, lsn: Lsn) -> Admission {
        let Offer { page, dirty, fdirty } = *offer;
        debug_assert!(self.contents.pages.directory.find(page).is_none(), "a log takes no copy back");
        if (dirty || fdirty) && !self.may_bypass(page) {
            return self.enter(page, lsn, dirty);
        }
        self.contents.decisions.note(!(page.0 << 2));
        self.contents.kept_out(offer);
        Admission::Bypass { stale: false }
    }

    /// Whether a changed `page`, of which the index has no version, may be written to disk alone.
    fn may_bypass(&self, page: PageId) -> bool {
        let Self { contents, ring } = self;
        let lag = ring.head.released - ring.head.front_durable;
        let older_may_return = lag > LAG_GROUPS_MAX * ring.group()
            || ring.may_return(contents, page, page)
            || ring.head.deletions.name(page);
        !older_may_return
    }
}
