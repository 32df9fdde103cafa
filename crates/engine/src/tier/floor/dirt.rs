//! How many pages may be newer than disk, and whether the disk's label says that there may be any.
//!
//! A disk whose label says that there are none does not need its flash: a loss of it loses nothing. So the
//! label is changed when the last dirty page was copied to disk, and again before the next one is taken. An
//! owner with a log does not use this: there the label says what the mode may leave.
//!
//! Invariants:
//!
//! - A dirty page is taken only when the label says durably that there may be one.
//! - The label says that there are none only when the disk durably has everything.

use super::causes::Causes;
use super::failures::Failures;
use crate::access::{Access, Directory, Signals};
use crate::disk::DiskPages;
use crate::{TierError, points};
use entresol_core::Partition;
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// See the module's header.
pub(crate) struct Dirt {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    causes: Arc<Causes>,
    failures: Arc<Failures>,
    /// The label is not changed.
    is_fixed: bool,
    /// The label says that there may be dirty pages.
    is_marked: AtomicBool,
    /// Writers that take a dirty page now.
    entering: AtomicU32,
    /// Held while the label is changed.
    marking: Mutex<()>,
    /// See [`WritebackOptions::dirty_max`](entresol_core::WritebackOptions).
    max: AtomicU32,
}

/// A dirty page is being taken, until dropped.
pub(crate) struct Entering<'a>(Option<&'a Dirt>);

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some(dirt) = self.0 {
            dirt.entering.fetch_sub(1, SeqCst);
        }
    }
}

impl Dirt {
    pub(crate) fn new(
        access: &Access,
        disk: &Arc<DiskPages>,
        causes: &Arc<Causes>,
        failures: &Arc<Failures>,
    ) -> Self {
        let options = &access.options;
        let writeback = options.writeback.filter(|_| options.dirty_possible());
        Self {
            directory: access.directory.clone(),
            signals: access.signals.clone(),
            disk: disk.clone(),
            causes: causes.clone(),
            is_fixed: writeback.is_none(),
            is_marked: AtomicBool::new(true),
            entering: AtomicU32::new(0),
            marking: Mutex::new(Rank::DirtyMark, ()),
            max: AtomicU32::new(writeback.map_or(u32::MAX, |options| options.dirty_max)),
            failures: failures.clone(),
        }
    }

    /// Another ceiling from now on.
    pub(crate) fn set_max(&self, pages: u32) {
        self.max.store(pages, SeqCst);
    }

    /// Whether as many pages are dirty as may be.
    pub(crate) fn is_at_ceiling(&self) -> bool {
        let max = self.max.load(SeqCst);
        let is_at_ceiling = max != u32::MAX
            && self.directory.with(|partition| {
                let occupancy = partition.occupancy();
                // The second look counts the dirty pages in staging one by one.
                occupancy.dirty + occupancy.staged >= max && partition.unsaved().pages >= max
            }) == Ok(true);
        if is_at_ceiling {
            points::DIRTY_CEILING.reach();
        }
        is_at_ceiling
    }

    /// A dirty page is about to be taken.
    pub(crate) fn enter(&self) -> Result<Entering<'_>, TierError> {
        loop {
            if let Some(entering) = self.try_enter() {
                return Ok(entering);
            }
            self.mark()?;
        }
    }

    /// As [`Dirt::enter`]. `None`: the label is to be changed first.
    pub(crate) fn try_enter(&self) -> Option<Entering<'_>> {
        if self.is_fixed {
            return Some(Entering(None));
        }
        // Counted first. Then a task that is about to change the label sees this one, or this one sees it.
        self.entering.fetch_add(1, SeqCst);
        let entering = Entering(Some(self));
        self.is_marked.load(SeqCst).then_some(entering)
    }

    #[cold]
    fn mark(&self) -> Result<(), TierError> {
        let _marking = self.marking.lock();
        if !self.is_marked.load(SeqCst) {
            points::DIRTY_MARKED.reach();
            self.disk.label.change(|label| label.dirty_possible = true)?;
            self.is_marked.store(true, SeqCst);
            self.failures.dirty.notify_all();
        }
        Ok(())
    }

    /// Whether the label says that there are none.
    pub(crate) fn is_cleared(&self) -> bool {
        !self.is_marked.load(SeqCst)
    }

    /// If no page is dirty, the label says so from now on. False: some are.
    pub(crate) fn clear(&self) -> Result<bool, TierError> {
        if self.is_fixed {
            return Ok(false);
        }
        let _marking = self.marking.lock();
        if self.is_cleared() {
            return Ok(true);
        }
        // Pages that were forgotten are as dirty ones until what made them dead is durable.
        self.causes.settle_dead()?;
        self.is_marked.store(false, SeqCst);
        let is_clean = self.entering.load(SeqCst) == 0
            && self.directory.with(|partition| {
                let is_dead = match partition {
                    Partition::Log(log) => log.settle_for_slots().is_none(),
                    // Else a crash finds what was forgotten, and takes it for what the disk has.
                    Partition::Slots(slots) => {
                        slots.write_records();
                        slots.records_durable() == slots.records_made()
                    }
                };
                partition.unsaved().pages == 0 && is_dead
            })?
            && !self.disk.missing.has_lost();
        if !is_clean {
            self.is_marked.store(true, SeqCst);
            self.signals.writes.notify_one();
            return Ok(false);
        }
        points::DIRTY_CLEARED.reach();
        self.disk.sync()?;
        // If this fails, the label may say either; the next writer changes it first.
        self.disk.label.change(|label| label.dirty_possible = false)?;
        Ok(true)
    }
}
