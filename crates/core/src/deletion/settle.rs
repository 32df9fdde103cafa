//! Causes become durable: the disk is synced when something waits for it.

use super::table::Deletions;
use crate::placement::Log;

/// A sync of the disk for the sake of causes. The driver syncs the disk if
/// [`needs_sync`](Settle::needs_sync), and reports it with [`Log::settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// What is waited for.
    awaited: u64,
    /// These have ended: they are durable after the next sync of the disk.
    ended: u64,
    durable: u64,
}

impl Settle {
    fn of(deletions: &Deletions, awaited: u64) -> Self {
        let causes = &deletions.causes;
        Self { awaited, ended: causes.ended(), durable: causes.durable() }
    }

    /// Whether a sync brings what is waited for nearer.
    pub fn needs_sync(&self) -> bool {
        self.durable < self.awaited.min(self.ended)
    }

    /// Whether what is waited for is durable once this is settled. False: its cause has not ended; that it
    /// has ended will be told.
    pub fn suffices(&self) -> bool {
        self.awaited <= self.durable.max(if self.needs_sync() { self.ended } else { 0 })
    }
}

impl Log<'_> {
    /// For slots that cannot be released before dirty pages that were forgotten are dead durably.
    pub fn settle_for_slots(&self) -> Option<Settle> {
        let deletions = &self.ring.head.deletions;
        deletions.keep_slots().map(|awaited| Settle::of(deletions, awaited))
    }

    /// For the oldest record that waits: of clean pages, too, which keep no slot from being released.
    pub fn settle_for_records(&self) -> Option<Settle> {
        let deletions = &self.ring.head.deletions;
        deletions.oldest_awaits().map(|awaited| Settle::of(deletions, awaited))
    }

    /// What there is to settle now, for a background task: for slots if that releases some or leads there,
    /// else for the oldest record if there is no room for another one.
    pub fn settle_due(&self) -> Option<Settle> {
        let deletions = &self.ring.head.deletions;
        let causes = &deletions.causes;
        let can_be_settled = causes.can_be_settled();
        let for_slots = self.settle_for_slots();
        let for_records = || self.settle_for_records().filter(|_| deletions.are_full());
        for_slots
            .filter(|settle| settle.awaited <= causes.durable() || can_be_settled)
            .or_else(|| for_records().filter(|settle| settle.awaited > causes.durable() && can_be_settled))
    }

    /// `settle` is carried out. `releases`: slots that waited for it may be released. The pages of a cache
    /// that has failed are looked for where they are: it releases none.
    pub fn settled(&mut self, settle: &Settle, releases: bool) {
        let Self { contents, ring } = self;
        let deletions = &mut ring.head.deletions;
        if settle.needs_sync() {
            deletions.causes.are_durable(settle.ended);
        }
        if releases && deletions.keep_slots().is_some() {
            let durable = deletions.causes.durable();
            deletions.release_for(durable);
            ring.release(contents);
        }
    }
}
