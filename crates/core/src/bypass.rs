//! Pages that are kept out of the cache: by the driver's mode, or by the policy.

use crate::contents::Contents;
use crate::job::Admission;
use crate::partition::{Partition, Place};
use crate::policy::{Offer, Policy, ask};
use crate::{Lsn, PageId};

impl Partition<'_> {
    /// The driver keeps a changed `page` out of the cache, as its mode (write-around, read-only) demands.
    /// Every copy in the cache is stale and is forgotten. Returns [`Admission::Bypass`], or
    /// [`Admission::Full`] while a copy is being written, copied in or destaged: then ask again when that is
    /// over.
    ///
    /// Only slot placement can remove a copy. In a log the copy stays until it is dequeued.
    ///
    /// # Panics
    /// With log placement.
    pub fn bypass(&mut self, page: PageId) -> Admission {
        let Place::Slots(slots) = &mut self.place else { panic!("a log takes no copy back") };
        match slots.forget(&mut self.contents, page) {
            None => Admission::Full,
            Some(stale) => {
                self.contents.decisions.note(!(page.0 << 2));
                Admission::Bypass { stale }
            }
        }
    }

    /// As [`Partition::evict`], for a driver that cannot vouch for its own writes to disk: a changed page
    /// enters even if the policy would keep it out. Only with log placement.
    pub fn evict_changed(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        debug_assert!(
            matches!(self.place, Place::Ring(_)),
            "in place, the older copy would have to be removed"
        );
        // The policy learns of it as of any other.
        let _ = self.decide(&Offer { page, dirty, fdirty: true });
        self.enter(page, lsn, dirty, page.0 << 1 | 1)
    }

    /// The policy does not want the page.
    pub(crate) fn keep_out(&mut self, offer: &Offer, lsn: Lsn) -> Admission {
        let Offer { page, dirty, fdirty } = *offer;
        let admission = match &self.place {
            Place::Slots(_) => self.bypass(page),
            Place::Ring(ring) => {
                let contents = &mut self.contents;
                debug_assert!(contents.pages.directory.find(page).is_none(), "a log takes no copy back");
                if (dirty || fdirty) && !ring.may_bypass(contents, page) {
                    return self.enter(page, lsn, dirty, page.0 << 1 | 1);
                }
                contents.decisions.note(!(page.0 << 2));
                Admission::Bypass { stale: false }
            }
        };
        let Contents { pages, policy, .. } = &mut self.contents;
        if admission != Admission::Full {
            ask!(policy, P, memory => P::on_bypass(pages, memory, offer));
        }
        admission
    }
}
