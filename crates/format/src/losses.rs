//! Groups of a log on flash that an open did not find. The newest groups are beyond the durable position that
//! the flash itself records. If they are damaged or lost, they look like groups that were never written:
//!
//! 1. A group is written, and its writer is told that it is durable.
//! 2. The group is damaged, and an open does not find it.
//! 3. The writer must learn of the loss, however many opens later. By then another group may have its place,
//!    so the superblock keeps a list of losses.
//!
//! Invariant: epochs ascend. A lost group is never taken for a present one, though the reverse may happen to
//! groups of old epochs.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Losses that a superblock has room for.
const LOSSES: usize = 8;

/// A loss as stored in a superblock. Epoch 0: none.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawLoss {
    pub(crate) epoch: U64,
    pub(crate) group: U64,
}

/// All losses as stored.
pub(crate) type RawLosses = [RawLoss; LOSSES];

/// When an epoch began, groups of earlier epochs were not found, from one group on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// The epoch; above 0.
    pub epoch: u64,
    /// Number of the first group that was not found, in whole or in part.
    pub group: u64,
}

/// The losses of the newest epochs, one by one, and those of earlier epochs combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([Loss; LOSSES]);

impl Losses {
    /// Adds a loss of the newest epoch. The epoch may have begun before and been interrupted.
    pub fn note(&mut self, loss: Loss) {
        if let Some(same) = self.0.iter_mut().find(|known| known.epoch == loss.epoch) {
            same.group = same.group.min(loss.group);
            return;
        }
        if self.0[LOSSES - 1].epoch != 0 {
            let first = self.0[0].group;
            self.0[1].group = self.0[1].group.min(first);
            self.0.copy_within(1.., 0);
            self.0[LOSSES - 1] = Loss::default();
        }
        let free = self.0.iter().position(|known| known.epoch == 0).expect("room was made");
        self.0[free] = loss;
    }

    /// Whether the group with this number, written by `epoch`, may have been lost since.
    pub fn cover(&self, epoch: u64, group: u64) -> bool {
        self.0.iter().any(|loss| loss.epoch > epoch && group >= loss.group)
    }

    pub(crate) fn raw(&self) -> RawLosses {
        self.0.map(|loss| RawLoss { epoch: loss.epoch.into(), group: loss.group.into() })
    }

    /// `None` if the epochs do not ascend.
    pub(crate) fn of_raw(raw: &RawLosses) -> Option<Self> {
        let losses = raw.map(|loss| Loss { epoch: loss.epoch.get(), group: loss.group.get() });
        let follows = |pair: &[Loss]| 0 < pair[0].epoch && pair[0].epoch < pair[1].epoch;
        let ascend = losses.windows(2).all(|pair| follows(pair) || pair[1] == Loss::default());
        ascend.then_some(Self(losses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_stays_lost_whatever_is_written_there_later() {
        let mut losses = Losses::default();
        assert!(!losses.cover(0, 0));
        losses.note(Loss { epoch: 5, group: 40 });
        assert_eq!([39, 40, 90].map(|group| losses.cover(4, group)), [false, true, true]);
        assert!(!losses.cover(5, 40), "this is one that was written since");
        losses.note(Loss { epoch: 5, group: 38 });
        losses.note(Loss { epoch: 5, group: 41 });
        assert!(losses.cover(4, 38) && !losses.cover(4, 37), "the first of all that was not found");
        for epoch in 6..40 {
            losses.note(Loss { epoch, group: 10 * epoch });
            assert_eq!(Losses::of_raw(&losses.raw()), Some(losses));
            assert!(losses.cover(4, 38) && losses.cover(epoch - 1, 10 * epoch));
            assert!(!losses.cover(epoch, u64::MAX) && !losses.cover(epoch - 1, 10 * epoch - 1));
        }
    }

    #[test]
    fn epochs_that_do_not_ascend_are_refused() {
        let mut losses = Losses::default();
        losses.note(Loss { epoch: 5, group: 4 });
        losses.note(Loss { epoch: 7, group: 9 });
        let mut raw = losses.raw();
        raw[1].epoch = 5.into();
        assert_eq!(Losses::of_raw(&raw), None);
        raw[1] = RawLoss::default();
        raw[2].epoch = 9.into();
        assert_eq!(Losses::of_raw(&raw), None, "a gap");
    }
}
