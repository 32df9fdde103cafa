//! What a driver asks about slots that survive a crash, for its summaries and segments, and what it restores.

use super::{BATCHES_MAX, Batch, Batches, place_in_filter};
use crate::job::{Ticket, WritePage};
use crate::placement::Slots;
use crate::slot::NIL;
use crate::{PageId, Position, SlotId};

/// A batch, for its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchView {
    /// Counted from the first ever.
    pub number: u64,
    /// All batches below this number are durable.
    pub durable: u64,
    /// All positions that were given out are below this one.
    pub rear: Position,
}

/// Which batches may show in the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableBatches {
    /// The first batch since the start. Of earlier ones nothing is said.
    pub from: u64,
    /// From there to below this number all are durable, but those of `under_way`.
    pub below: u64,
    /// Those that were under way, and show in no slot. The rest of it repeats `below`.
    pub under_way: [u64; BATCHES_MAX],
}

impl DurableBatches {
    /// Whether batch `number` is one of them.
    pub fn contain(&self, number: u64) -> bool {
        (self.from..self.below).contains(&number) && !self.under_way.contains(&number)
    }
}

/// A slot with an older version of a page that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderSlot {
    /// The slot.
    pub slot: SlotId,
    /// It leaves, and is free as soon as the batch is durable that calls it empty: maybe before the write of
    /// the newer version is.
    pub leaves: bool,
}

impl Slots<'_> {
    /// Whether slots survive a crash.
    pub fn keeps_slots(&self) -> bool {
        self.table.batches.is_some()
    }

    /// The batch of the write `ticket`, which is under way. `None`: slots do not survive.
    pub fn batch(&self, ticket: Ticket) -> Option<BatchView> {
        let batches = self.table.batches.as_deref()?;
        Some(BatchView {
            number: batches.under_way[ticket.0 as usize].number,
            durable: batches.oldest(),
            rear: Position(self.contents.staging.window.rear),
        })
    }

    /// The slots that the summary of the write `ticket` calls empty.
    pub fn emptied(&self, ticket: Ticket) -> impl Iterator<Item = SlotId> + '_ {
        let batch = self.table.batches.as_deref().map(|batches| batches.under_way[ticket.0 as usize]);
        let (first, count) = batch.map_or((NIL, 0), |batch| (batch.first, batch.emptied));
        self.chain(first, count).map(SlotId)
    }

    /// The slot in which a crash finds an older version of `page`, which is being written to another slot.
    /// It is empty when the write is durable.
    pub fn moves_from(&self, page: PageId) -> Option<OlderSlot> {
        let older = |slot: u32, leaves: bool| OlderSlot { slot: SlotId(slot), leaves };
        let valid = self.contents.pages.directory.find_on_flash(page).map(|slot| older(slot, false));
        valid.or_else(|| self.leaving(page).map(|slot| older(slot, true)))
    }

    /// The checksum that was given for the staged page of this write; 0 if none are kept.
    pub fn staged_proof(&self, page: &WritePage) -> u32 {
        let directory = &self.contents.pages.directory;
        directory.proof(directory.staged_entry(page.frame.0))
    }

    /// The batches that are under way, and all to come, have this number or a greater one: what a batch below
    /// says is in the directory.
    pub fn oldest_batch(&self) -> u64 {
        self.table.batches.as_deref().map_or(0, Batches::oldest)
    }

    /// The batches that are durable: no other one shows in the slots.
    pub fn durable_batches(&self) -> DurableBatches {
        let Some(batches) = self.table.batches.as_deref() else { return DurableBatches::default() };
        let number = |batch: Batch| if batch.is_under_way != 0 { batch.number } else { batches.next };
        DurableBatches {
            from: batches.first_of_run,
            below: batches.next,
            under_way: batches.under_way.map(number),
        }
    }

    /// The number of the next batch.
    pub fn next_batch(&self) -> u64 {
        self.table.batches.as_deref().map_or(0, |batches| batches.next)
    }

    /// Asks for a batch, without pages if need be, whose summary repeats the newest one, so that no single
    /// block tells of that. It has this number, and is durable when the [oldest](Slots::oldest_batch) is
    /// above. `None`: there was no batch yet.
    pub fn repeat(&mut self) -> Option<u64> {
        let batches = self.table.batches.as_deref_mut().filter(|batches| batches.next > 0)?;
        batches.repeat_to = batches.next + 1;
        Some(batches.next)
    }

    /// A batch that has changed something is durable, and no durable summary after it says so: a number above
    /// it. Until then a crash makes damage of it look like a batch that was cut off.
    pub fn unconfirmed(&self) -> Option<u64> {
        let batches = self.table.batches.as_deref()?;
        (batches.told < batches.changed).then_some(batches.changed)
    }

    /// After a restart: the number of the first batch.
    pub fn restore_batches(&mut self, next: u64) {
        if let Some(batches) = self.table.batches.as_deref_mut() {
            (batches.first_of_run, batches.next) = (next, next);
            (batches.changed, batches.told) = (next, next);
        }
    }

    /// Asks for the records of all slots that were emptied so far.
    pub fn write_records(&mut self) {
        self.table.want_records();
    }

    /// Slots that were emptied ever, and are recorded as empty by a summary, or are to be.
    pub fn records_made(&self) -> u64 {
        self.table.batches.as_deref().map_or(0, |batches| batches.left)
    }

    /// Of these, how many are recorded durably.
    pub fn records_durable(&self) -> u64 {
        self.table.batches.as_deref().map_or(0, Batches::durable)
    }

    /// Whether a crash may find a version of one of these pages, though it is not in the cache any more.
    pub fn may_come_back(&self, first: PageId, last: PageId) -> bool {
        let Some(batches) = self.table.batches.as_deref() else { return false };
        let is_one = |page: PageId| first <= page && page <= last;
        if first == last && batches.filter[place_in_filter(first)] == 0 {
            return false;
        }
        batches.chains().any(|(first, count)| {
            let mut slots = self.chain(first, count);
            slots.any(|slot| is_one(self.contents.pages.directory.entry(slot).page()))
        })
    }

    /// The slot of `page` that left last and is not free.
    fn leaving(&self, page: PageId) -> Option<u32> {
        let batches = self.table.batches.as_deref()?;
        if batches.filter[place_in_filter(page)] == 0 {
            return None;
        }
        let is_its = |slot: &u32| self.contents.pages.directory.entry(*slot).page() == page;
        batches.chains().flat_map(|(first, count)| self.chain(first, count)).filter(is_its).last()
    }

    /// A crash may find an older version of a changed page.
    pub(in crate::placement::slots) fn may_be_found(&self, page: PageId) -> bool {
        self.keeps_slots()
            && (self.contents.pages.directory.find(page).is_some() || self.leaving(page).is_some())
    }

    /// The first `count` slots of a chain.
    fn chain(&self, first: u32, count: u32) -> impl Iterator<Item = u32> + '_ {
        let directory = &self.contents.pages.directory;
        std::iter::successors(Some(first), |at| Some(directory.entry(*at).next())).take(count as usize)
    }
}
