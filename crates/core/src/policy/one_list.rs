//! What policies have in common that keep their pages in one list: the events that every one of them answers alike.
//!
//! ```text
//! a page enters:       behind the last
//! a page leaves:       out of the list
//! a page is used:      it is fetched, or a newer version is written over it: what the policy says; LRU puts it last
//! victim:              the first that nothing is being done with, or whom the policy says
//! on a read from disk: the page enters, unless the policy takes pages on exit only
//! ```
//!
//! A policy is an `impl` of [`OneList`] with what is its own: with LRU order that is its admission and nothing else.
//!
//! Uses that move pages are noted in a batch ([`crate::hits`]).
//!
//! Invariant: the list holds the slots that hold a page, each once, in the order in which their writes were completed, but
//! for what uses move.

use super::{Facts, Offer, Policy, Verdict};
use crate::PageId;
use crate::check::Violation;
use crate::region::Partition;

/// The list.
pub(crate) const ONLY_LIST: u32 = 0;

/// What is a policy's own that keeps its pages in one list.
pub(crate) trait OneList {
    /// What is fixed about it.
    const FACTS: Facts;

    /// Whether a page that leaves DRAM enters the flash.
    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict;
    /// The page in `slot` is used. Here: it moves to the MRU end.
    fn used(partition: &mut Partition<'_>, slot: u32) {
        if partition.defer_hit(slot) {
            catch_up(partition);
        }
    }
    /// The slot to empty next. Here: the first that is idle.
    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.first_idle(ONLY_LIST)
    }
}

/// Moves the pages of the batch to the MRU end, in the order in which they were used.
fn catch_up(partition: &mut Partition<'_>) {
    partition.catch_up_with(|_, _| ONLY_LIST, |partition, slot| partition.move_to_back(ONLY_LIST, slot));
}

impl<P: OneList> Policy for P {
    const FACTS: Facts = <P as OneList>::FACTS;
    type Note = ();
    type Memory<'r> = ();

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        <P as OneList>::admit(partition, offer)
    }

    fn arrive(_partition: &mut Partition<'_>, _page: PageId) -> bool {
        <P as OneList>::FACTS.populates
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        // Pages in staging are in no list yet.
        if entry < partition.head.slots {
            P::used(partition, entry);
        }
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        catch_up(partition);
        partition.push_back(ONLY_LIST, slot);
    }

    fn on_overwrite(partition: &mut Partition<'_>, slot: u32) {
        P::used(partition, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        catch_up(partition);
        partition.take_out(slot);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        catch_up(partition);
        <P as OneList>::victim(partition)
    }

    fn check(partition: &Partition<'_>) -> Result<(), Violation> {
        partition.check_hits()
    }
}
