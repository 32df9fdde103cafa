//! Pages that the disk lacks: their newest versions are on a flash that has failed, or nowhere
//! (docs/DESIGN.md, "Degraded" and "Lost pages").
//!
//! While the flash is in use, the pages are *lost*: the only copy of each on flash could not be read when its
//! slot was needed. Once the flash has failed, pages that can still be read from it are missing, too.
//!
//! Invariants:
//!
//! - A missing page is read from the failed flash, or not at all; never from disk. A newer version in the
//!   cache is served before this is asked.
//! - A page is missing until the disk durably has it, in the flash's version or a newer one, *and* the record
//!   in the label's area durably does not name it any more. No write to it is reported before.
//! - The record names a lost page durably before its slot is released. So a crash finds the damaged copy, or
//!   the record.
//! - Once the flash has failed, no page becomes missing: the flash is only read.
//! - What is lost stays so when the flash fails: a failed flash may have an older version of such a page.

use super::ranges::PageRanges;
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::rescue::Rescue;
use crate::{TierError, events, points, unreadable};
use entresol_core::PageId;
use entresol_device::{Device, write_copies};
use entresol_format::label::{COPY_STRIDE, Label};
use entresol_format::missing::{COPIES, MissingPages, PageRange, RANGES_MAX, RECORD_BYTES};
use entresol_format::{BLOCK_BYTES, Uuid};
use entresol_runtime::sync::{Mutex, MutexGuard, Rank, TinyMutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Ranges that a record has at most when pages are added to it: writes in the middle of ranges make more.
pub(crate) const RANGES_AT_FIRST: usize = RANGES_MAX / 2;

/// See the module's header.
pub(crate) struct Missing {
    pages: TinyMutex<LackingPages>,
    /// The record, and the turn to change it: one writer of missing pages at a time.
    record: Mutex<Record>,
    /// Knows where the pages are on a flash that has failed. `None`: there is no cache.
    rescue: Option<Arc<dyn Rescue>>,
    /// The epoch of the cache in which its flash failed; 0: it is in use.
    failed_epoch: AtomicU64,
}

#[derive(Clone, Default)]
struct LackingPages {
    /// Flash had a newer version durably.
    durable: PageRanges,
    /// A newer version was in memory. Only until the cache has become degraded.
    staged: PageRanges,
    /// Those that could not be read when that was last tried.
    lost: PageRanges,
    /// Those of `durable` that a failed flash has in an older version, if at all: never read from there.
    given_up: PageRanges,
}

impl LackingPages {
    fn has(&self, page: PageId) -> bool {
        self.durable.contains(page) || self.staged.contains(page)
    }

    fn is_found(&mut self, page: PageId) {
        self.durable.remove(page);
        self.staged.remove(page);
        self.lost.remove(page);
        self.given_up.remove(page);
    }

    /// The newest version of `page` is nowhere.
    fn give_up(&mut self, page: PageId) {
        self.durable.insert(page);
        self.given_up.insert(page);
        self.lost.insert(page);
    }
}

/// The record, apart from the pages.
#[derive(Default)]
pub(crate) struct Record {
    /// `None`: that of the record on the device is to be read first.
    sequence: Option<u64>,
    cache: Uuid,
    epoch: u64,
    /// The label says that the record names lost pages.
    is_named: bool,
}

impl Record {
    /// Writes both copies, one after the other, durably.
    fn write(&mut self, device: &dyn Device, pages: &LackingPages) -> Result<(), TierError> {
        let Self { cache, epoch, .. } = *self;
        let mut durable = pages.durable.clone();
        durable.remove_all(&pages.given_up);
        let [durable, staged, given_up] = [&durable, &pages.staged, &pages.given_up].map(PageRanges::list);
        let mut record = MissingPages { sequence: 0, cache, epoch, durable, staged, given_up };
        if record.ranges() > RANGES_MAX {
            return Err(TierError::Refused(format!(
                "the disk lacks pages in {} ranges, and its label has room for {RANGES_MAX}; write other missing pages \
                 first",
                record.ranges()
            )));
        }
        record.sequence = match self.sequence {
            Some(sequence) => sequence,
            None => read_newest(device)?.map_or(0, |found| found.sequence),
        };
        let copies: Vec<(u64, AlignedBuffer)> = (0..COPIES)
            .map(|_| {
                let mut bytes = AlignedBuffer::new(RECORD_BYTES);
                record.sequence += 1;
                record.encode(&mut bytes);
                (record.offset(), bytes)
            })
            .collect();
        self.sequence = Some(record.sequence);
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
    // A record of lost pages is the disk's, whatever cache it has.
    let is_its =
        |found: &MissingPages| label.lost || found.cache == label.cache && found.epoch == label.failed_epoch;
    read_newest(device)?.filter(is_its).ok_or_else(|| {
        let why = match label.lost {
            true => format!("pages of disk {} are lost", label.disk),
            false => format!(
                "the flash of disk {} failed in epoch {} of its cache {}",
                label.disk, label.failed_epoch, label.cache
            ),
        };
        TierError::Refused(format!(
            "{why}, and the record of the pages that the disk lacks since is damaged; restore the label from a backup, or the \
             disk"
        ))
    })
}

/// The pages whose newest versions this record says to be on flash durably, or nowhere.
pub(crate) fn on_flash_or_nowhere(found: &MissingPages) -> PageRanges {
    let mut pages = PageRanges::of_list(&found.durable);
    pages.add_all(&PageRanges::of_list(&found.given_up));
    pages
}

impl Missing {
    /// No page is missing, and the flash is in use.
    pub(crate) fn none(rescue: Option<Arc<dyn Rescue>>) -> Self {
        Self::new(LackingPages::default(), Record::default(), rescue)
    }

    /// As `found` on the label's device, of a flash that failed.
    pub(crate) fn restored(found: &MissingPages, rescue: Arc<dyn Rescue>) -> Self {
        let durable = on_flash_or_nowhere(found);
        let [staged, given_up] = [&found.staged, &found.given_up].map(|list| PageRanges::of_list(list));
        let (sequence, cache, epoch) = (Some(found.sequence), found.cache, found.epoch);
        let record = Record { sequence, cache, epoch, is_named: false };
        let pages = LackingPages { durable, staged, lost: given_up.clone(), given_up };
        let missing = Self::new(pages, record, Some(rescue));
        missing.failed_epoch.store(epoch, SeqCst);
        missing
    }

    /// As `found` on the label's device, while no flash has failed: these pages are lost. The record may be
    /// one that was made for a failing flash, when power failed before the label said so: what was on its way
    /// to flash then does not count, and of what flash had durably, the cache has a newer version.
    pub(crate) fn restored_lost(found: &MissingPages, rescue: Option<Arc<dyn Rescue>>) -> Self {
        let durable = on_flash_or_nowhere(found);
        let (sequence, cache, epoch) = (Some(found.sequence), found.cache, found.epoch);
        let record = Record { sequence, cache, epoch, is_named: true };
        Self::new(LackingPages { lost: durable.clone(), durable, ..LackingPages::default() }, record, rescue)
    }

    fn new(pages: LackingPages, record: Record, rescue: Option<Arc<dyn Rescue>>) -> Self {
        let (pages, record) =
            (TinyMutex::new(Rank::MissingPages, pages), Mutex::new(Rank::MissingTurn, record));
        Self { pages, record, rescue, failed_epoch: AtomicU64::new(0) }
    }

    /// The epoch of the cache in which its flash failed. `None`: it is in use.
    pub(crate) fn failed_epoch(&self) -> Option<u64> {
        Some(self.failed_epoch.load(SeqCst)).filter(|epoch| *epoch != 0)
    }

    /// These pages are lost, durably, unless the flash has failed. `name` sees to it that the label says so.
    /// False: there is no room for them in the record, and nothing has changed.
    pub(crate) fn lose(
        &self,
        device: &dyn Device,
        cache: (Uuid, u64),
        lost: &[PageId],
        name: impl FnOnce() -> Result<(), TierError>,
    ) -> Result<bool, TierError> {
        let mut record = self.record.lock();
        if self.failed_epoch().is_some() {
            // The record is of the failed flash by now, and names all that was newer there.
            return Ok(true);
        }
        let mut pages = self.pages.lock().clone();
        lost.iter().for_each(|page| pages.durable.insert(*page));
        if pages.durable.ranges() > RANGES_AT_FIRST {
            points::LOST_TOO_MANY.reach();
            return Ok(false);
        }
        (record.cache, record.epoch) = cache;
        record.write(device, &pages)?;
        if !record.is_named {
            name()?;
            record.is_named = true;
        }
        let mut pages = self.pages.lock();
        for page in lost {
            pages.durable.insert(*page);
            pages.lost.insert(*page);
        }
        Ok(true)
    }

    /// The flash has failed in this epoch of the cache: the disk lacks these pages, too, `durable` on flash
    /// and `staged` in memory. The record says so durably, and then the label, by `name`.
    pub(crate) fn flash_fails(
        &self,
        device: &dyn Device,
        (cache, epoch): (Uuid, u64),
        (durable, staged): (PageRanges, PageRanges),
        name: impl FnOnce() -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        let mut record = self.record.lock();
        let mut pages = self.pages.lock().clone();
        // What was lost before, unless flash has a newer version by now.
        pages.given_up = pages.durable.clone();
        pages.given_up.remove_all(&durable);
        pages.durable.add_all(&durable);
        pages.staged = staged;
        (record.cache, record.epoch) = (cache, epoch);
        record.write(device, &pages)?;
        name()?;
        record.is_named = false;
        *self.pages.lock() = pages;
        self.failed_epoch.store(epoch, SeqCst);
        Ok(())
    }

    /// The flash has failed, and what it has of `page` is older than what was acknowledged: the page is lost,
    /// durably.
    pub(crate) fn give_up(&self, device: &dyn Device, page: PageId) -> Result<(), TierError> {
        let mut record = self.record.lock();
        let mut pages = self.pages.lock().clone();
        pages.give_up(page);
        record.write(device, &pages)?;
        self.pages.lock().give_up(page);
        Ok(())
    }

    /// The label says no more that pages are lost, if it did and none is: `unname` sees to that.
    pub(crate) fn unname(
        &self,
        record: &mut Record,
        unname: impl FnOnce() -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        if record.is_named && self.pages.lock().durable.ranges() == 0 {
            unname()?;
            record.is_named = false;
        }
        Ok(())
    }

    /// Writes the record in both copies: the life before may have ended with a page in one copy, and not in
    /// the other one.
    pub(crate) fn write_again(&self, device: &dyn Device) -> Result<(), TierError> {
        let mut record = self.record.lock();
        let pages = self.pages.lock().clone();
        record.write(device, &pages)
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

    /// Reads a missing page from the failed flash, proved.
    pub(crate) fn read(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        let is_older = {
            let pages = self.pages.lock();
            pages.given_up.contains(page) && !pages.staged.contains(page)
        };
        let read = match &self.rescue {
            _ if is_older => Err("where its newest version was damaged or could not be read".to_owned()),
            Some(rescue) if self.failed_epoch().is_some() => {
                rescue.rescue(page, buffer).map_err(|why| format!("which has failed ({why})"))
            }
            _ => Err("where it was damaged or could not be read".to_owned()),
        };
        let mut pages = self.pages.lock();
        match read {
            Ok(()) => {
                points::MISSING_READ.reach();
                pages.lost.remove(page);
                Ok(())
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
        found: impl Iterator<Item = PageId> + Clone,
    ) -> Result<(), TierError> {
        let mut pages = self.pages.lock().clone();
        found.clone().for_each(|page| pages.is_found(page));
        record.write(device, &pages)?;
        // Those that readers have met as lost meanwhile stay so.
        let mut pages = self.pages.lock();
        found.for_each(|page| pages.is_found(page));
        Ok(())
    }

    /// Names the pages that cannot be read, in the log.
    pub(crate) fn name_lost(&self) {
        let (missing, lost) = self.count();
        events::lost(missing, &lost);
    }
}
