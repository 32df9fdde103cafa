//! What several policies decide alike.

use super::{Offer, Verdict};
use crate::pages::Pages;
use crate::slot::VALID;
use crate::violation::{Violation, same};

/// Admission of pages on entry, with write-back: a changed page enters, whether its older version is there or
/// not; an unchanged one had its chance when it came from disk.
pub(super) fn on_entry_and_changed(pages: &Pages<'_>, offer: &Offer) -> Verdict {
    match (offer.fdirty, pages.directory.find(offer.page)) {
        (true, _) => Verdict::Enter,
        (false, Some(_)) => Verdict::There,
        (false, None) => Verdict::Bypass,
    }
}

/// Admission of pages on entry, clean only: a changed page that disk has goes over its older version, and
/// nowhere else.
pub(super) fn on_entry_and_clean(pages: &Pages<'_>, offer: &Offer) -> Verdict {
    match (pages.directory.find(offer.page), offer.fdirty, offer.dirty) {
        (Some(_), true, false) => Verdict::Enter,
        (Some(_), false, _) => Verdict::There,
        _ => Verdict::Bypass,
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
