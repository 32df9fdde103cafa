//! Taking a page that leaves DRAM: a memory copy. When staging is full, evictors wait, first come, first served.
//!
//! Invariant: a dirty page is never dropped: it is in staging, or already on flash, or on disk, or the caller gets an
//! error.

use super::shared::Shared;
use super::staging::Incoming;
use crate::api::{HandedDown, Victim};
use crate::{TierError, points};
use entresol_core::Admission;
use entresol_format::page;
use entresol_format::superblock::Mode;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts a waiting evictor, until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Shared {
    pub(crate) fn evict(&self, victim: Victim, data: &[u8]) -> Result<HandedDown, TierError> {
        self.disk.check_length(data)?;
        let handed = self.take(self.write_through(victim, data)?, data)?;
        self.tallies.handed_down(victim.dirty, victim.fdirty);
        Ok(handed)
    }

    fn take(&self, victim: Victim, data: &[u8]) -> Result<HandedDown, TierError> {
        if self.waiting.load(SeqCst) == 0
            && let Some(handed) = self.offer(victim, data)?
        {
            return Ok(handed);
        }
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        let _turn = self.turn.acquire(1);
        loop {
            let seen = self.progress.epoch();
            if let Some(handed) = self.offer(victim, data)? {
                return Ok(handed);
            }
            self.chores.notify_one();
            self.progress.wait(seen);
        }
    }

    pub(crate) fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<HandedDown>, TierError> {
        self.disk.check_length(data)?;
        let must_wait = victim.dirty && (self.options.mode == Mode::WriteThrough || !self.check_running()?);
        if must_wait || self.waiting.load(SeqCst) > 0 {
            return Ok(None);
        }
        let handed = self.offer(victim, data)?;
        if handed.is_some() {
            self.tallies.handed_down(victim.dirty, victim.fdirty);
        }
        Ok(handed)
    }

    /// In write-through mode, writes a dirty page to disk first; what goes on to flash is clean.
    fn write_through(&self, victim: Victim, data: &[u8]) -> Result<Victim, TierError> {
        if self.options.mode != Mode::WriteThrough || !victim.dirty || !self.check_running()? {
            return Ok(victim);
        }
        self.write_to_disk(victim, data)?;
        Ok(Victim { dirty: false, ..victim })
    }

    fn write_to_disk(&self, victim: Victim, data: &[u8]) -> Result<(), TierError> {
        let mut buffer = self.buffers.take();
        buffer.copy_from_slice(data);
        page::seal(&mut buffer, victim.page, entresol_core::Position(0));
        let written = self.disk.write(victim.page, &buffer);
        self.buffers.give_back(buffer);
        written?;
        self.tallies.disk_writes.add(1);
        Ok(())
    }

    /// Offers the page to the core once. `None`: there is no room now.
    fn offer(&self, victim: Victim, data: &[u8]) -> Result<Option<HandedDown>, TierError> {
        if !self.check_running()? {
            // Switched off: the disk alone.
            points::OFF_EVICT.reach();
            if victim.dirty {
                self.write_to_disk(victim, data)?;
            }
            return Ok(Some(HandedDown { dirty: false }));
        }
        let Victim { page, lsn, dirty, fdirty } = victim;
        // The state is looked at under the latch again: a tier that switches itself off does so under it.
        let admission = self.with(|partition| {
            if self.state.is_running() { partition.evict(page, lsn, dirty, fdirty) } else { Admission::Full }
        });
        match admission {
            Admission::Full => return Ok(None),
            Admission::AlreadyThere => self.tallies.already_on_flash.add(1),
            Admission::Stage { frame, position } => {
                let incoming = Incoming { page, dirty, data, position, stamp: self.stamp(position) };
                self.staging.copy_in(frame, &incoming);
                let due = self.with(|partition| {
                    partition.staged(frame);
                    partition.write_due(frame)
                });
                if due {
                    self.writes.notify_one();
                }
                if position.0.is_multiple_of(self.config.group_pages.into()) {
                    self.chores.notify_one();
                }
            }
        }
        Ok(Some(HandedDown { dirty }))
    }
}
