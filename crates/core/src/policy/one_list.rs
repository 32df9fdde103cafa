//! What policies have in common that keep their pages in one list: the events that every one of them answers
//! alike.
//!
//! ```text
//! a page enters:       behind the last
//! a page leaves:       out of the list
//! a page is used:      it is fetched, or a newer version is written over it: what the policy says; LRU puts it last
//! victim:              the first that nothing is being done with, or whom the policy says
//! on a read from disk: the page enters, unless the policy takes pages on exit only
//! ```
//!
//! A policy is an `impl` of [`OneList`] with what is its own: with LRU order that is its admission and
//! nothing else.
//!
//! Uses that move pages are noted in a batch ([`crate::hits`]).
//!
//! Invariant: the list holds the slots that hold a page, each once, in the order in which their writes were
//! completed, but for what uses move.

use super::shared::check_hits;
use super::{Decision, Facts, Offer, Policy};
use crate::PageId;
use crate::pages::Pages;
use crate::violation::Violation;

/// The list.
pub(crate) const ONLY_LIST: u32 = 0;

/// What is a policy's own that keeps its pages in one list.
pub(crate) trait OneList {
    /// What is fixed about it.
    const FACTS: Facts;

    /// Whether a page that leaves DRAM enters the flash.
    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision;
    /// The page in `slot` is used. Here: it moves to the MRU end.
    fn used(pages: &mut Pages<'_>, slot: u32) {
        if pages.hits.defer(slot) {
            catch_up(pages);
        }
    }
    /// The slot to empty next. Here: the first that is idle.
    fn victim(pages: &mut Pages<'_>) -> Option<u32> {
        pages.first_idle(ONLY_LIST)
    }
}

/// Moves the pages of the batch to the MRU end, in the order in which they were used.
fn catch_up(pages: &mut Pages<'_>) {
    let Some(batch) = pages.hits.take() else { return };
    pages.lists.touch(batch.slots(), |_| ONLY_LIST);
    batch.slots().iter().for_each(|slot| pages.lists.move_to_back(ONLY_LIST, *slot));
}

impl<P: OneList> Policy for P {
    const FACTS: Facts = <P as OneList>::FACTS;
    type Note = ();
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        <P as OneList>::admit(pages, offer)
    }

    fn arrive(_pages: &mut Pages<'_>, _: &mut (), _page: PageId, _room: bool) -> bool {
        <P as OneList>::FACTS.populates
    }

    fn on_hit(pages: &mut Pages<'_>, _: &mut (), entry: u32) {
        // Pages in staging are in no list yet.
        if entry < pages.directory.slots {
            P::used(pages, entry);
        }
    }

    fn on_enter(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        catch_up(pages);
        pages.lists.push_back(ONLY_LIST, slot);
    }

    fn on_overwrite(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        P::used(pages, slot);
    }

    fn on_leave(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        catch_up(pages);
        pages.lists.take_out(slot);
    }

    fn victim(pages: &mut Pages<'_>, _: &mut ()) -> Option<u32> {
        catch_up(pages);
        <P as OneList>::victim(pages)
    }

    fn check(pages: &Pages<'_>, (): &()) -> Result<(), Violation> {
        check_hits(pages)
    }
}
