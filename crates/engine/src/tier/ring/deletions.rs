//! Pages that are forgotten. When that returns, no older version is on its way to disk.

use crate::TierError;
use crate::access::{BoardRef, Forgets};
use crate::api::{Evicted, Victim};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::failures::Failures;
use entresol_core::PageId;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Deletions {
    forgets: Arc<Forgets>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
}

impl Deletions {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            forgets: floor.access.forgets.clone(),
            board: floor.access.board.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
        }
    }

    /// See [`Forgets::forget_range`](crate::access::Forgets::forget_range); the list of pages that the disk
    /// lacks forgets them, too.
    pub(crate) fn forget_range(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let found = self.forgets.forget_range((first, last))?;
        self.trouble.forget((first, last));
        self.disk.missing.forget((first, last), || Ok::<(), TierError>(()))?;
        Ok(found)
    }

    /// See [`crate::Deletes::forget_for`].
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let make_dead = || self.disk.missing.forget((first, last), make_dead);
        self.forgets.forget_for((first, last), make_dead).inspect_err(|_| {
            let why =
                "a write that was to replace forgotten pages failed; open the cache again: it still has their last versions";
            self.failures.fail(TierError::Refused(why.to_owned()));
        })
    }

    /// A page that is not taken under a log policy. First its older copies are forgotten in memory, so that
    /// no destage of one of them follows the write to disk. They are dead, and may be forgotten on flash,
    /// when that write is durable.
    pub(crate) fn write_around(
        &self,
        victim: Victim,
        write: bool,
        data: &[u8],
    ) -> Result<Evicted, TierError> {
        let make_dead = || match write {
            true => self.disk_writes.write(victim.page, data),
            false => Ok(()),
        };
        let written = self.forgets.forget_for((victim.page, victim.page), make_dead);
        // If it failed, what was forgotten may be the newest version there is: a restart finds it.
        written.inspect_err(|error| self.failures.fail(error.clone()))?;
        self.board.tallies.bypassed.add(write.into());
        Ok(Evicted { dirty: false })
    }
}
