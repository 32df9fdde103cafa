//! The place of a process among those that share a cache: what it holds, and what it looks at while it waits.

use crate::TierError;
use entresol_core::FrameId;
use entresol_shm::{Front as Place, Fronts, Holder};
use std::num::NonZeroU64;

/// What a process holds that forgets dead pages: this bit, and the number of its cause, which is lower.
const FORGETTING: NonZeroU64 = NonZeroU64::MIN.saturating_add((1 << 62) - 1);

/// A seat in the segment's table.
pub(crate) struct Seat {
    place: Place,
    fronts: Fronts,
    /// Not the back's own.
    is_front: bool,
    /// The owner of a front says whether it is to wait on.
    interrupted: Option<fn() -> bool>,
}

impl Seat {
    /// The back's.
    pub(crate) fn of_back(place: Place, fronts: Fronts) -> Self {
        Self { place, fronts, is_front: false, interrupted: None }
    }

    /// A front's.
    pub(crate) fn of_front(place: Place, fronts: Fronts, interrupted: Option<fn() -> bool>) -> Self {
        Self { place, fronts, is_front: true, interrupted }
    }

    /// The memory is another segment's from now on.
    pub(crate) fn disown(&self) {
        self.place.disown();
    }

    /// Whose latches this process holds.
    pub(crate) fn holder(&self) -> Holder {
        self.place.holder()
    }

    /// All seats.
    pub(crate) fn fronts(&self) -> &Fronts {
        &self.fronts
    }

    /// A frame was given to this process, which is going to fill it. To be called under the region's latch,
    /// as is the next one: a process that dies held the latch, or the frame, or nothing.
    #[inline]
    pub(crate) fn holds(&self, frame: FrameId) {
        if self.is_front {
            self.place.holds(NonZeroU64::MIN.saturating_add(frame.0.into()));
        }
    }

    /// This process is going to forget a page whose newer version it writes to disk.
    pub(crate) fn holds_cause(&self) {
        if self.is_front {
            self.place.holds(NonZeroU64::MAX);
        }
    }

    /// This process forgets pages that are dead, under the cause of this number. Others may go on with that.
    pub(crate) fn holds_forgetting(&self, number: u64) {
        if self.is_front {
            self.place.holds(FORGETTING | number);
        }
    }

    /// The number of the cause under which a process forgot dead pages that died with this in hand. `None`:
    /// it held something else.
    pub(crate) fn forgetting(holding: NonZeroU64) -> Option<u64> {
        let number = holding.get() ^ FORGETTING.get();
        (number < FORGETTING.get()).then_some(number)
    }

    /// The frame is filled, and offered to the writers.
    #[inline]
    pub(crate) fn holds_nothing(&self) {
        if self.is_front {
            self.place.holds_nothing();
        }
    }

    /// To be called after each wait of a front. `was_notified` false: in vain so far.
    pub(crate) fn after_wait(&self, was_notified: bool) -> Result<(), TierError> {
        if !self.is_front {
            return Ok(());
        }
        if self.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(TierError::Interrupted);
        }
        if !was_notified && !self.fronts.has_back() {
            return Err(TierError::Gone("the process that serves the cache has ended"));
        }
        Ok(())
    }
}
