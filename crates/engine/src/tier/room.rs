//! The placement of a tier's pages: what is done differently in a ring and in slots.

use super::degrader::Degrader;
use super::floor::Floor;
use super::ring::{FoundRing, Ring};
use super::slots::segments::SlotSegments;
use super::slots::upkeep::Upkeep;
use super::slots::{FoundSlots, Slots};
use crate::TierError;
use crate::TierOptions;
use crate::api::{Evicted, Materialised, Survivors, Victim};
use crate::tier::floor::background::BackgroundQueue;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::writers::WriterLoop;
use entresol_core::{PageId, Placement};
use entresol_format::superblock::Superblock;
use std::sync::Arc;

/// What an open has found, by the placement of the policy.
pub(crate) enum FoundPages {
    Ring(FoundRing),
    Slots(Box<FoundSlots>),
}

impl FoundPages {
    /// Of an empty cache.
    pub(crate) fn empty(options: &TierOptions, superblock: &Superblock) -> Self {
        match options.policy.placement() {
            Placement::Log => FoundPages::Ring(FoundRing::default()),
            Placement::Slots => FoundPages::Slots(Box::new(FoundSlots::empty(options, superblock))),
        }
    }
}

/// See the module's header.
#[derive(Clone)]
pub(crate) enum Room {
    Ring(Arc<Ring>),
    Slots(Arc<Slots>),
}

impl Room {
    pub(crate) fn new(floor: &Floor, found: FoundPages) -> Self {
        match found {
            FoundPages::Ring(found) => Room::Ring(Arc::new(Ring::new(floor, found))),
            FoundPages::Slots(found) => Room::Slots(Arc::new(Slots::new(floor, *found))),
        }
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        match self {
            Room::Ring(ring) => Some(ring),
            Room::Slots(_) => None,
        }
    }

    /// The directory on flash of a policy that keeps it up with every page.
    pub(crate) fn upkeep(&self) -> Option<&Upkeep> {
        match self {
            Room::Ring(_) => None,
            Room::Slots(slots) => slots.upkeep.as_deref(),
        }
    }

    /// Of a tier that can become degraded.
    pub(crate) fn degrader(&self) -> Option<&Degrader> {
        match self {
            Room::Ring(ring) => ring.degrader.as_ref(),
            Room::Slots(slots) => slots.degrader.as_ref(),
        }
    }

    /// See [`crate::Deletes::forget_for`].
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Room::Ring(ring) => ring.deletions.forget_for(first, last, make_dead),
            Room::Slots(_) => Err(TierError::Config(
                "a cache with slot placement cannot forget pages before they are replaced; replace them, then forget them"
                    .to_owned(),
            )
            .into()),
        }
    }

    /// What a crash has left is made such that the next open finds the same, before a page enters.
    pub(crate) fn repair(&self) -> Result<(), TierError> {
        match self {
            Room::Ring(_) => Ok(()),
            Room::Slots(slots) => slots.repair(),
        }
    }

    /// The groups of a log, or the batches of slots, that the open has found.
    pub(crate) fn survivors(&self) -> Option<&Survivors> {
        match self {
            Room::Ring(ring) => ring.survivors.as_ref(),
            Room::Slots(slots) => slots.survivors.as_ref(),
        }
    }

    /// Segments of slots that survive a crash.
    pub(crate) fn slot_segments(&self) -> Option<&SlotSegments> {
        match self {
            Room::Ring(_) => None,
            Room::Slots(slots) => slots.segments.as_deref(),
        }
    }

    /// Writes staged pages until the tier stops.
    pub(crate) fn write_staged(&self, writers: &WriterLoop) {
        match self {
            Room::Ring(ring) => writers.run(&*ring.writer),
            Room::Slots(slots) => writers.run(&*slots.writer),
        }
    }

    pub(crate) fn background(&self) -> &BackgroundQueue {
        match self {
            Room::Ring(ring) => &ring.background,
            Room::Slots(slots) => &slots.background,
        }
    }

    pub(crate) fn checkpointer(&self) -> &Arc<Checkpointer> {
        match self {
            Room::Ring(ring) => &ring.checkpointer,
            Room::Slots(slots) => &slots.checkpointer,
        }
    }

    /// At a shutdown: writes the directory of slots that is kept for the next open. `None`: there is none;
    /// else, whether it names every dirty page.
    pub(crate) fn write_directory(&self) -> Result<Option<bool>, TierError> {
        match self {
            Room::Ring(_) => Ok(None),
            Room::Slots(slots) => slots.materialiser.write_directory(),
        }
    }

    /// What the open has found in the directory of a shutdown.
    pub(crate) fn materialised(&self) -> Materialised {
        match self {
            Room::Ring(_) => Materialised::default(),
            Room::Slots(slots) => slots.materialised,
        }
    }

    /// Everything that was evicted and forgotten before is durable when it returns.
    pub(crate) fn flush(&self) -> Result<(), TierError> {
        match self {
            Room::Ring(ring) => ring.flusher.flush(),
            Room::Slots(slots) => slots.flusher.flush(),
        }
    }

    /// Forgets the pages from `first` to `last`. Returns how many copies were in the cache.
    pub(crate) fn forget_range(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        match self {
            Room::Ring(ring) => ring.deletions.forget_range(first, last),
            Room::Slots(slots) => slots.deletions.forget_range(first, last),
        }
    }

    /// A page that does not enter a ring: [`Deletions::write_around`](super::ring::deletions::Deletions).
    pub(crate) fn write_around_ring(
        &self,
        victim: Victim,
        write: bool,
        data: &[u8],
    ) -> Result<Evicted, TierError> {
        self.ring().expect("pages are in a ring").deletions.write_around(victim, write, data)
    }

    /// Forgets the copies of a page that does not enter slots.
    pub(crate) fn forget_in_slots(&self, page: PageId) -> Result<(), TierError> {
        match self {
            Room::Ring(_) => unreachable!("pages are in slots"),
            Room::Slots(slots) => slots.deletions.forget(page),
        }
    }

    /// Changed pages, each named once, are written to disk, and to flash unless `around`. Where no log stands
    /// above.
    pub(crate) fn write_through(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        match self {
            Room::Ring(ring) => in_turn(&ring.write_through).write(pages, around),
            Room::Slots(slots) => in_turn(&slots.write_through).write(pages, around),
        }
    }

    /// Adjacent pages, `run`, whose bytes are `data`, are written to disk alone, in one request. None of them
    /// is dirty. Where no log stands above.
    pub(crate) fn write_run_around(&self, run: &[(PageId, &[u8])], data: &[u8]) -> Result<(), TierError> {
        match self {
            Room::Ring(ring) => in_turn(&ring.write_through).write_run_around(run, data),
            Room::Slots(slots) => in_turn(&slots.write_through).write_run_around(run, data),
        }
    }
}

fn in_turn<T>(write_through: &Option<T>) -> &T {
    write_through.as_ref().expect("no log stands above")
}
