//! Releasing the disk from its cache ([`super::life`]).

use super::{FlashTier, life};
use crate::api::Layer;
use crate::disk::binding::{expect_label, foreign};
use crate::error::{disk_error, flash_error};
use crate::interface::PageCache;
use crate::{TierError, TierOptions, events, examine};
use entresol_device::Device;
use entresol_format::Uuid;
use std::sync::Arc;

/// What detaching came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachReport {
    /// The cache that the disk was released from.
    pub cache: Uuid,
    /// Pages newer than disk that were copied there.
    pub pages_written: u64,
    /// What the owner should know, in sentences.
    pub notices: Vec<String>,
}

/// Releases `disk` from the cache on `flash`, which no process has open: opens it as it was opened last,
/// after a shutdown or a crash, and detaches it.
///
/// # Errors
/// [`TierError::Refused`] if there is no cache on `flash`, or if the two do not belong together (another
/// disk's cache; a disk that was written without it, or detached from it): then nothing was written.
/// [`TierError::Losing`] if pages that only flash has are damaged: all others are on disk then, and the disk
/// stays bound to the cache.
pub fn detach(flash: Arc<dyn Device>, disk: Arc<dyn Device>) -> Result<DetachReport, TierError> {
    detach_with(flash, disk, false)
}

/// As [`detach`], with the loss of pages that cannot be read.
///
/// # Errors
/// As [`detach`], but for [`TierError::Losing`].
pub fn detach_with_loss(flash: Arc<dyn Device>, disk: Arc<dyn Device>) -> Result<DetachReport, TierError> {
    detach_with(flash, disk, true)
}

fn detach_with(
    flash: Arc<dyn Device>,
    disk: Arc<dyn Device>,
    accepts_loss: bool,
) -> Result<DetachReport, TierError> {
    // If the program was killed and the machine was not, what is read may not be durable yet.
    disk.sync().map_err(disk_error)?;
    flash.sync().map_err(flash_error)?;
    let superblock = examine::newest(&examine::superblocks(&*flash)?)?;
    let label = expect_label(&*disk, superblock.page_bytes)?.newest;
    if let Some(why) = foreign(&superblock, &label).filter(|_| label.failed_epoch == 0) {
        return Err(TierError::Refused(format!(
            "{why}; nothing was changed: a cache is detached from the disk that is bound to it"
        )));
    }
    let (tier, opened) = FlashTier::open(flash, disk, TierOptions::of(&superblock))?;
    tier.detach_with(accepts_loss).inspect_err(|error| {
        if matches!(error, TierError::Losing(_)) {
            // It continues, and is not used.
            let _ = tier.close();
        }
    })?;
    let notices = opened.notices.into_iter().chain(tier.notice()).collect();
    Ok(DetachReport { cache: superblock.cache, pages_written: tier.metrics().disk_writes, notices })
}

impl FlashTier {
    pub(super) fn detach_with(&self, accepts_loss: bool) -> Result<(), TierError> {
        let mut prepared = self.parts.prepare_to_detach();
        if prepared.is_ok() {
            match self.parts.losses.prepare_to_lose(accepts_loss) {
                Err(losing @ TierError::Losing(_)) => return Err(losing),
                done => prepared = done.and_then(|()| self.parts.floor.access.signals.check_running()),
            }
        }
        self.end();
        // A task may have failed meanwhile.
        let result = match (prepared, self.parts.floor.access.state.failure()) {
            (Err(error), _) | (Ok(_), Some(error)) => Err(error),
            (Ok(false), None) => self.parts.release_degraded(),
            (Ok(true), None) if self.parts.floor.access.state.notice().is_some() => Ok(()),
            (Ok(true), None) => self.parts.detacher.release_disk(accepts_loss),
        };
        events::ended(self.parts.floor.superblocks.cache, "detached", &result);
        result
    }
}

impl FlashTier {
    /// Copies all dirty pages to disk, and closes the cache: the disk does not need the flash any more. It
    /// stays bound to it, and the next open is warm. Another disk may take the flash. The owner hands no page
    /// down any more.
    ///
    /// # Errors
    /// As [`PageCache::detach`]; [`TierError::Refused`] if pages were handed down meanwhile. The disk needs
    /// its cache then.
    pub fn close_clean(&self) -> Result<(), TierError> {
        let guard = self.guard();
        let drained = match self.parts.losses.prepare_to_lose(false) {
            Err(losing @ TierError::Losing(_)) => return Err(losing),
            done => done.and_then(|()| self.parts.prepare_to_detach()),
        };
        drop(guard);
        self.end();
        let result = match (drained, self.parts.floor.access.state.failure()) {
            (Err(error), _) | (Ok(_), Some(error)) => Err(error),
            (Ok(false), None) => self.parts.release_degraded(),
            (Ok(true), None) if self.parts.floor.access.state.notice().is_some() => Ok(()),
            (Ok(true), None) => self.parts.closer.finish_clean(),
        };
        self.parts.floor.failures.give_up_memory();
        events::ended(self.parts.floor.superblocks.cache, "closed without dirty pages", &result);
        result
    }

    /// The epoch of the cache in which its flash failed, if the disk lacked pages then.
    pub fn failed_epoch(&self) -> Option<u64> {
        self.parts.floor.disk.missing.since_failure()?.failed_epoch()
    }

    /// The options of the cache on `flash`, as it was opened last, if it is the one that the disk with this
    /// label was opened with last. `None`, too, if the disk was detached from it.
    ///
    /// # Errors
    /// [`TierError::Device`].
    pub fn bound_options(
        flash: &dyn Device,
        label_device: &dyn Device,
    ) -> Result<Option<TierOptions>, TierError> {
        life::release::bound_options(flash, label_device)
    }
}
