//! Pages that the disk lacks since its flash failed: their newest versions are on that flash, if it can be
//! read, and nowhere else (docs/DESIGN.md, "Degraded").
//!
//! Invariants:
//!
//! - A missing page is read from the flash, or not at all; never from disk.
//! - A page is missing until the disk durably has it, in the flash's version or a newer one, *and* the record
//!   in the label's area durably does not name it any more. No write to it is reported before.
//! - No page becomes missing later: the flash is only read.

use super::ranges::PageRanges;
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::front::Front;
use crate::{TierError, events, points, unreadable};
use entresol_core::{PageId, mutant};
use entresol_device::{Device, write_copies};
use entresol_format::label::{COPY_STRIDE, Label};
use entresol_format::missing::{COPIES, MissingPages, PageRange, RANGES_MAX, RECORD_BYTES};
use entresol_format::{BLOCK_BYTES, Uuid};
use entresol_runtime::sync::{Mutex, MutexGuard, Rank, TinyMutex};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Missing {
    pages: TinyMutex<Pages>,
    /// The record, and the turn to change it: one writer of missing pages at a time.
    record: Mutex<Record>,
    /// Knows where the pages are on flash.
    front: Arc<Front>,
    /// The epoch of the cache in which its flash failed.
    pub epoch: u64,
}

#[derive(Clone, Default)]
struct Pages {
    /// Flash had a newer version durably.
    durable: PageRanges,
    /// A newer version was in memory. Only until the cache has become degraded.
    staged: PageRanges,
    /// Those that could not be read when that was last tried.
    lost: PageRanges,
}

impl Pages {
    fn has(&self, page: PageId) -> bool {
        self.durable.contains(page) || self.staged.contains(page)
    }
}

/// What the record says beside the pages.
pub(crate) struct Record {
    sequence: u64,
    cache: Uuid,
    epoch: u64,
}

impl Record {
    /// Writes both copies, one after the other, durably.
    fn write(&mut self, device: &dyn Device, pages: &Pages) -> Result<(), TierError> {
        let Self { cache, epoch, .. } = *self;
        let (durable, staged) = (pages.durable.list(), pages.staged.list());
        if durable.len() + staged.len() > RANGES_MAX {
            return Err(TierError::Refused(format!(
                "the disk lacks pages in {} ranges, for no more than {RANGES_MAX} is there room beside its label; write other \
                 missing pages first",
                durable.len() + staged.len()
            )));
        }
        let mut record = MissingPages { sequence: self.sequence, cache, epoch, durable, staged };
        let copies: Vec<(u64, AlignedBuffer)> = (0..COPIES)
            .map(|_| {
                let mut bytes = AlignedBuffer::new(RECORD_BYTES);
                record.sequence += 1;
                record.encode(&mut bytes);
                (record.offset(), bytes)
            })
            .collect();
        self.sequence = record.sequence;
        write_copies(device, ("disk", "record of missing pages"), &copies, false)
            .map(drop)
            .map_err(disk_error)
    }
}

/// The newest whole record on the label's device, whosever it is.
fn read_newest(device: &dyn Device) -> Result<Option<MissingPages>, TierError> {
    let mut bytes = AlignedBuffer::new(RECORD_BYTES);
    let mut newest: Option<MissingPages> = None;
    for copy in 0..COPIES {
        unreadable::read(device, copy * COPY_STRIDE + BLOCK_BYTES as u64, &mut bytes).map_err(disk_error)?;
        if let Ok(found) = MissingPages::decode(&bytes)
            && newest.as_ref().is_none_or(|best| best.sequence < found.sequence)
        {
            newest = Some(found);
        }
    }
    Ok(newest)
}

/// The record that `label` relies on.
pub(crate) fn read_missing(device: &dyn Device, label: &Label) -> Result<MissingPages, TierError> {
    let is_its = |found: &MissingPages| found.cache == label.cache && found.epoch == label.failed_epoch;
    read_newest(device)?.filter(is_its).ok_or_else(|| {
        TierError::Refused(format!(
            "the flash of disk {} failed in epoch {} of its cache {}, and the record of the pages that the disk lacks since is \
             damaged; restore the label from a backup, or the disk",
            label.disk, label.failed_epoch, label.cache
        ))
    })
}

impl Missing {
    /// Pages of the cache in this epoch that are newer than disk: `durable` on flash, `staged` in memory.
    /// Recorded durably.
    pub(crate) fn record(
        device: &dyn Device,
        front: Arc<Front>,
        (cache, epoch): (Uuid, u64),
        durable: PageRanges,
        staged: PageRanges,
    ) -> Result<Self, TierError> {
        let sequence = read_newest(device)?.map_or(0, |found| found.sequence);
        let mut record = Record { sequence, cache, epoch };
        let pages = Pages { durable, staged, lost: PageRanges::default() };
        if !mutant!("missing-pages-not-recorded") {
            record.write(device, &pages)?;
        }
        Ok(Self::new(pages, record, front))
    }

    /// As `found` on the label's device.
    pub(crate) fn restored(found: &MissingPages, front: Arc<Front>) -> Self {
        let of = |list: &[PageRange]| PageRanges::of_list(list);
        let (durable, staged) = (of(&found.durable), of(&found.staged));
        let record = Record { sequence: found.sequence, cache: found.cache, epoch: found.epoch };
        Self::new(Pages { durable, staged, lost: PageRanges::default() }, record, front)
    }

    fn new(pages: Pages, record: Record, front: Arc<Front>) -> Self {
        let (pages, epoch) = (TinyMutex::new(Rank::MissingPages, pages), record.epoch);
        Self { pages, record: Mutex::new(Rank::MissingTurn, record), front, epoch }
    }

    /// What was on its way to flash when it failed: `is_there` says which of these pages arrived. The disk
    /// lacks no other: they were not durable, and the disk's versions count from now on. The record is
    /// written in any case: the life before may have ended with a page in one copy, and not in the other one.
    pub(crate) fn settle(
        &self,
        device: &dyn Device,
        is_there: impl Fn(PageId) -> bool,
    ) -> Result<(), TierError> {
        let mut record = self.record.lock();
        let mut pages = self.pages.lock().clone();
        if pages.staged.ranges() == 0 && mutant!("record-left-in-one-copy") {
            return Ok(());
        }
        let staged = std::mem::take(&mut pages.staged);
        staged.next(PageId(0), usize::MAX).into_iter().filter(|page| is_there(*page)).for_each(|page| {
            pages.durable.insert(page);
        });
        record.write(device, &pages)?;
        *self.pages.lock() = pages;
        Ok(())
    }

    /// Whether some of them are in memory.
    pub(crate) fn has_staged(&self) -> bool {
        self.pages.lock().staged.ranges() > 0
    }

    pub(crate) fn has(&self, page: PageId) -> bool {
        self.pages.lock().has(page)
    }

    /// Those of them from `first` to `last`, in order.
    pub(crate) fn within(&self, first: PageId, last: PageId) -> Vec<PageId> {
        let pages = self.pages.lock();
        let of =
            |ranges: &PageRanges| ranges.from(first).take_while(|page| *page <= last).collect::<Vec<_>>();
        let mut found = of(&pages.durable);
        found.extend(of(&pages.staged));
        found.sort_unstable();
        found
    }

    /// Missing pages, and the ranges of those that could not be read when that was last tried.
    pub(crate) fn count(&self) -> (u64, Vec<PageRange>) {
        let pages = self.pages.lock();
        (pages.durable.pages() + pages.staged.pages(), pages.lost.list())
    }

    /// The turn to write missing pages.
    pub(crate) fn turn(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }

    /// The first missing pages from `from` on, at most `count`: of those that were in memory, if there are
    /// any.
    pub(crate) fn next(&self, from: PageId, count: usize) -> Vec<PageId> {
        let pages = self.pages.lock();
        if pages.staged.ranges() > 0 {
            pages.staged.next(from, count)
        } else {
            pages.durable.next(from, count)
        }
    }

    /// Reads a missing page from the failed flash, proved. True: it had been given up.
    pub(crate) fn read(&self, page: PageId, buffer: &mut [u8]) -> Result<bool, TierError> {
        let read = self.front.rescue(page, buffer);
        let mut pages = self.pages.lock();
        match read {
            Ok(()) => {
                points::MISSING_READ.reach();
                let was_lost = pages.lost.contains(page);
                pages.lost.remove(page);
                Ok(was_lost)
            }
            Err(why) => {
                points::MISSING_LOST.reach();
                if pages.has(page) {
                    pages.lost.insert(page);
                }
                Err(TierError::Lost { page, why })
            }
        }
    }

    /// The disk durably has newer versions of these pages: they are missing no more, durably. With the turn
    /// held since before they were written.
    pub(crate) fn are_found(
        &self,
        record: &mut Record,
        device: &dyn Device,
        found: impl Iterator<Item = PageId>,
    ) -> Result<(), TierError> {
        let mut pages = self.pages.lock().clone();
        for page in found {
            pages.durable.remove(page);
            pages.staged.remove(page);
            pages.lost.remove(page);
        }
        if !mutant!("found-page-not-recorded") {
            record.write(device, &pages)?;
        }
        *self.pages.lock() = pages;
        Ok(())
    }

    /// Names the pages that cannot be read, in the log.
    pub(crate) fn name_lost(&self) {
        let (missing, lost) = self.count();
        events::lost(missing, &lost);
    }
}
