//! Decisions that several policies share.

use super::{Decision, Offer};
use crate::pages::Pages;
use crate::slot::VALID;
use crate::violation::{Violation, same};

/// Admission of pages on entry, with write-back: a changed page enters, whether or not its older version is
/// on flash. An unchanged page could enter when it was read from disk.
pub(super) fn on_entry_and_changed(pages: &Pages<'_>, offer: &Offer) -> Decision {
    match (offer.fdirty, pages.directory.find(offer.page)) {
        (true, _) => Decision::Enter,
        (false, Some(_)) => Decision::There,
        (false, None) => Decision::Bypass,
    }
}

/// Admission of pages on entry, clean only: a changed page that has been written to disk overwrites its older
/// version, and enters only then.
pub(super) fn on_entry_and_clean(pages: &Pages<'_>, offer: &Offer) -> Decision {
    match (pages.directory.find(offer.page), offer.fdirty, offer.dirty) {
        (Some(_), true, false) => Decision::Enter,
        (Some(_), false, _) => Decision::There,
        _ => Decision::Bypass,
    }
}

/// A slot in the batch of fetches holds a page.
pub(super) fn check_hits(pages: &Pages<'_>) -> Result<(), Violation> {
    pages.hits.check()?;
    let slots = pages.directory.of_slots();
    let holds_page = |hit: &u32| slots.get(*hit as usize).is_some_and(|slot| slot.has(VALID));
    let emptied = pages.hits.slots().iter().copied().find(|hit| !holds_page(hit));
    same(|| "a fetched slot in the batch that holds no page", None, emptied)
}
