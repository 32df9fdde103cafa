//! The common part of policies that keep their pages in one list: the events that they all answer alike.
//!
//! ```text
//! a page enters:       at the end
//! a page leaves:       removed from the list
//! a page is used:      fetched or overwritten: the policy decides; LRU moves it to the end
//! victim:              the first idle page, or the policy's choice
//! on a read from disk: the page enters, unless the policy admits pages on exit only
//! ```
//!
//! A policy is an `impl` of [`OneList`] with its own part. With LRU order that is its admission only.
//!
//! Uses that move pages are noted in a batch ([`crate::hits`]).
//!
//! Invariant: the list has each slot that holds a page once, in the order in which their writes were
//! completed, except for pages moved by a use.

use super::shared::check_hits;
use super::{Decision, Lists, Offer, Policy, SlotFacts, SlotPolicy};
use crate::pages::Pages;
use crate::violation::Violation;

/// The list.
pub(crate) const ONLY_LIST: u32 = 0;

/// The part of its own of a policy that keeps its pages in one list.
pub(crate) trait OneList {
    /// The name on the command line.
    const NAME: &'static str;
    /// Its fixed properties, but for the list.
    const FACTS: SlotFacts;
    /// As of [`Policy`].
    const HITS_ONLY_REFER: bool = false;

    /// Whether a page that is evicted from DRAM enters the flash.
    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision;
    /// The page in `slot` is used. By default it moves to the MRU end.
    fn used(pages: &mut Pages<'_>, slot: u32) {
        if pages.hits.defer(slot) {
            catch_up(pages);
        }
    }
    /// The slot to empty next. By default the first idle one.
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
    const NAME: &'static str = <P as OneList>::NAME;
    const HITS_ONLY_REFER: bool = <P as OneList>::HITS_ONLY_REFER;
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, _: &mut (), offer: &Offer) -> Decision {
        <P as OneList>::admit(pages, offer)
    }

    fn on_hit(pages: &mut Pages<'_>, _: &mut (), entry: u32) {
        // Pages in staging are in no list yet.
        if entry < pages.directory.slots {
            P::used(pages, entry);
        }
    }

    fn on_leave(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        catch_up(pages);
        pages.lists.take_out(slot);
    }

    fn check(pages: &Pages<'_>, (): &()) -> Result<(), Violation> {
        check_hits(pages)
    }
}

impl<P: OneList> SlotPolicy for P {
    const FACTS: SlotFacts = SlotFacts { lists: Lists::Fixed(1), ..<P as OneList>::FACTS };
    type Note = ();

    fn on_enter(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        catch_up(pages);
        pages.lists.push_back(ONLY_LIST, slot);
    }

    fn on_overwrite(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        P::used(pages, slot);
    }

    fn victim(pages: &mut Pages<'_>, _: &mut ()) -> Option<u32> {
        catch_up(pages);
        <P as OneList>::victim(pages)
    }
}
