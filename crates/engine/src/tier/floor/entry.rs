//! A page is offered to the flash: it enters, or it is written to disk instead.
//!
//! Invariant: a dirty page is never dropped. It is in staging, on flash or on disk, or the caller gets an
//! error.

use super::above::Above;
use super::budget::WriteBudget;
use super::disk_writes::DiskWrites;
use crate::access::{Access, BoardRef, Directory, Offered, Offers, PageOrder};
use crate::api::{Evicted, Victim};
use crate::disk::{DiskPages, DurableNotes};
use crate::{TierError, points};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Entry {
    directory: Arc<Directory>,
    offers: Arc<Offers>,
    order: PageOrder,
    board: BoardRef,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    budget: Arc<WriteBudget>,
    notes: Arc<DurableNotes>,
    upstream: Arc<Above>,
}

impl Entry {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        disk_writes: &Arc<DiskWrites>,
        budget: &Arc<WriteBudget>,
        notes: &Arc<DurableNotes>,
        upstream: &Arc<Above>,
    ) -> Self {
        Self {
            directory: access.directory.clone(),
            offers: access.offers.clone(),
            order: access.order.clone(),
            board: access.board.clone(),
            disk: disk.clone(),
            disk_writes: disk_writes.clone(),
            budget: budget.clone(),
            notes: notes.clone(),
            upstream: upstream.clone(),
        }
    }

    pub(crate) fn take(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let offered = self.offers.take(victim, data)?;
        self.taken(victim, data, offered)
    }

    /// Completes the entry of a page that was offered, or writes it to disk instead.
    pub(crate) fn taken(&self, victim: Victim, data: &[u8], offered: Offered) -> Result<Evicted, TierError> {
        match offered {
            Offered::Taken => Ok(Evicted { dirty: victim.dirty }),
            Offered::Bypass => {
                let is_only_copy = victim.is_only_copy();
                let written = self.bypass(victim, is_only_copy, data);
                if is_only_copy {
                    self.directory.with(|_| self.order.write_ends(victim.page))?;
                }
                written
            }
            Offered::Off => {
                points::OFF_EVICT.reach();
                if victim.dirty {
                    self.disk_writes.write(victim.page, data)?;
                }
                Ok(Evicted { dirty: false })
            }
        }
    }

    /// The page does not enter the flash, and is written to disk if `write` says so.
    pub(crate) fn bypass(&self, victim: Victim, write: bool, data: &[u8]) -> Result<Evicted, TierError> {
        if write {
            self.board.tallies.bypassed.add(1);
            self.disk_writes.write(victim.page, data)?;
            let written = std::iter::once((victim.page, victim.lsn));
            self.notes.add(&self.disk, self.upstream.get().as_deref(), written)?;
        }
        self.budget.look();
        Ok(Evicted { dirty: false })
    }
}
