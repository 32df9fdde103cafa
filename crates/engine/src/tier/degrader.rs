//! The flash has failed while it had pages that the disk lacks, and there is no log above: the tier continues
//! from disk, and only reads the flash (docs/DESIGN.md, "Degraded"). [`super::leaver`] says when.
//!
//! Invariants:
//!
//! - Before a request is answered from disk again, the label says that the flash has failed, and which pages
//!   the disk lacks. No job that moves pages is under way then.
//! - From then on nothing is written to flash.

use crate::access::{Directory, FlashPages, Rescuer, RunState, State};
use crate::buffer::AlignedBuffer;
use crate::disk::binding::begin_epoch;
use crate::disk::{DiskPages, Missing, PageRanges, RANGES_AT_FIRST};
use crate::rescue::Rescue;
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use crate::to_disk::READS_MAX;
use crate::{TierError, events, points};
use arrayvec::ArrayVec;
use entresol_core::{Lookup, PageId};
use entresol_format::Uuid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// See the module's header.
pub(crate) struct Degrader {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    rescuer: Arc<Rescuer>,
    state: Arc<RunState>,
    disk: Arc<DiskPages>,
    failures: Arc<Failures>,
    cache: Uuid,
}

impl Degrader {
    /// `None`: the tier cannot become degraded.
    pub(crate) fn new(floor: &Floor) -> Option<Self> {
        floor.failures.failing.as_ref()?;
        Some(Self {
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            rescuer: floor.access.rescuer.clone(),
            state: floor.access.state.clone(),
            disk: floor.disk.clone(),
            failures: floor.failures.clone(),
            cache: floor.superblocks.cache,
        })
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.state.now() == State::Degraded
    }

    /// The flash has failed with `error`, and no job is under way that moves pages. Requests wait meanwhile.
    /// If the disk refuses a step of this, it may be called again.
    pub(crate) fn degrade(&self, error: &TierError) -> Result<(), TierError> {
        if self.disk.missing.since_failure().is_none() {
            let (durable, staged) = self.what_disk_lacks()?;
            let lost = self.disk.missing.lost().map_or(0, |missing| missing.count().1.len());
            let durable = self.make_few(durable, staged.ranges() + lost)?;
            self.disk.missing.flash_fails(self.rescuer.clone(), (durable, staged), |label| {
                (label.failed_epoch, label.failed_nonce) = (label.epoch, label.epoch_nonce);
                begin_epoch(label);
                (label.dirty_possible, label.lost) = (true, false);
            })?;
        }
        // What is in memory alone, so that a flush has nothing to do.
        let mut buffer = AlignedBuffer::new(READS_MAX * self.flash_pages.page_bytes);
        let (mut from, missing) = (PageId(0), self.disk.missing.since_failure());
        while missing.is_some_and(Missing::has_staged) {
            let next = self.disk.salvage(from, &mut buffer)?;
            from = next.ok_or_else(|| TierError::Refused("pages in memory cannot be read".to_owned()))?;
        }
        points::DEGRADED.reach();
        let notice = format!(
            "the flash has failed, the disk serves; {} pages that only the flash has are read from there while that is possible, \
             and copied to disk: {error}",
            missing.map_or(0, |missing| missing.count().0)
        );
        events::degraded(&notice);
        self.state.degrade(notice);
        Ok(())
    }

    /// The pages of which flash has a newer version than the disk, and those of which memory has one.
    fn what_disk_lacks(&self) -> Result<(PageRanges, PageRanges), TierError> {
        let mut slots: Vec<PageId> = self.directory.collect(|partition, found| {
            let is_destaged = |slot| partition.log().is_some_and(|log| log.is_destaged(slot));
            let lacking = partition.dirty_slots().filter(|(slot, _)| !is_destaged(*slot));
            lacking.for_each(|(_, page)| found(page));
        })?;
        let staged: Vec<PageId> =
            self.directory.collect(|partition, found| partition.staged_dirty_pages().for_each(found))?;
        slots.sort_unstable();
        let (mut durable, mut in_memory) = (PageRanges::default(), PageRanges::default());
        slots.into_iter().for_each(|page| durable.insert(page));
        for page in staged {
            let found = self.directory.with(|partition| partition.peek(page))?;
            if matches!(found, Lookup::Staged { dirty: true, .. }) {
                in_memory.insert(page);
            }
        }
        Ok((durable, in_memory))
    }

    /// Copies pages of `durable` to disk until so few ranges are left that they can be recorded.
    fn make_few(&self, mut durable: PageRanges, others: usize) -> Result<PageRanges, TierError> {
        let page_bytes = self.flash_pages.page_bytes;
        let mut buffer = AlignedBuffer::new(READS_MAX * page_bytes);
        let mut from = PageId(0);
        while durable.ranges() + others > RANGES_AT_FIRST {
            let pages = durable.next(from, READS_MAX);
            let Some(last) = pages.last() else { break };
            from = PageId(last.0 + 1);
            let mut copied: ArrayVec<(PageId, &[u8]), READS_MAX> = ArrayVec::new();
            for (page, bytes) in pages.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
                // One that is in memory, too, is newer there, and the disk gets that later.
                if self.rescuer.rescue(*page, bytes).is_ok() {
                    copied.push((*page, bytes));
                }
            }
            points::DEGRADED_MADE_FEW.reach();
            self.disk.write_all::<READS_MAX>(copied.iter().copied())?;
            self.disk.sync()?;
            copied.iter().for_each(|(page, _)| durable.remove(*page));
        }
        Ok(durable)
    }

    /// Copies to disk what it lacks, as far as that can be read. True: it lacks nothing any more, and the
    /// flash is not needed. False: it does, or `ends` was set.
    pub(crate) fn salvage_all(&self, ends: &AtomicBool) -> Result<bool, TierError> {
        let Some(missing) = self.disk.missing.since_failure() else { return Ok(true) };
        let mut buffer = AlignedBuffer::new(READS_MAX * self.flash_pages.page_bytes);
        let mut from = PageId(0);
        while let Some(next) = self.disk.salvage(from, &mut buffer)? {
            from = next;
            if ends.load(SeqCst) {
                return Ok(false);
            }
        }
        if missing.count().0 > 0 {
            missing.name_lost();
            return Ok(false);
        }
        points::MISSING_NONE.reach();
        self.failures.unbind(self.cache)?;
        let notice = "the flash has failed, and the disk has all pages again: the disk alone serves";
        events::switched_off(notice);
        self.state.switch_off(notice.to_owned());
        Ok(true)
    }

    /// A degraded tier whose tasks have ended releases its disk, with what it may lose. The label goes on
    /// naming the cache ([`Failures::unbind`]): its flash may come back.
    pub(crate) fn release(&self) -> Result<(), TierError> {
        if self.is_degraded() { self.failures.unbind(self.cache) } else { Ok(()) }
    }
}
