//! The pool's door: pins and latches of pages.

use super::evict::Evictor;
use super::fetch::Fetcher;
use super::frames::Frames;
use super::guard::{PageRead, PageWrite, Pin};
use super::reports::Reports;
use super::wal_rule::WalRule;
use crate::{Options, PageNumber, StoreError};
use entresol_engine::{Layer, Upstream};
use entresol_runtime::sync::{Rank, Semaphore, SemaphorePermit};
use std::sync::Arc;

/// Maximum number of pins of one page operation while it waits for a frame.
const PINS_PER_OPERATION: usize = 2;
/// Additional pins: one structure modification at a time, the checkpoint, a pulled victim.
const PINS_RESERVED: usize = 24;
/// Number of frames that are never pinned. An eviction takes a page whose changes are durable in the log, if
/// there is one. So it flushes the log only when as many pages have changed since the last flush.
pub(crate) const UNPINNED_FRAMES: usize = 16;

/// The buffer pool.
pub(crate) struct Pool {
    layer: Arc<dyn Layer>,
    frames: Arc<Frames>,
    rule: Arc<WalRule>,
    evictor: Arc<Evictor>,
    fetcher: Fetcher,
    operations: Semaphore,
    /// The layer has only a weak reference to it.
    _reports: Arc<Reports>,
}

impl Pool {
    /// A pool of empty frames. Registers itself with the layer.
    pub(crate) fn new(layer: Arc<dyn Layer>, options: &Options) -> Arc<Pool> {
        let frames = Arc::new(Frames::new(options));
        let rule = Arc::new(WalRule::new(layer.capacity_pages()));
        let evictor = Arc::new(Evictor::new(layer.clone(), frames.clone(), rule.clone()));
        let reports =
            Arc::new(Reports::new(frames.clone(), rule.clone(), evictor.clone(), options.durable_notes));
        let upstream: Arc<dyn Upstream> = reports.clone();
        layer.attach(Arc::downgrade(&upstream));
        Arc::new(Pool {
            fetcher: Fetcher::new(layer.clone(), frames.clone(), rule.clone(), evictor.clone()),
            operations: Semaphore::new(
                Rank::PoolPermit,
                (options.frames - PINS_RESERVED - UNPINNED_FRAMES) / PINS_PER_OPERATION,
            ),
            _reports: reports,
            layer,
            frames,
            rule,
            evictor,
        })
    }

    /// The layer below.
    pub(crate) fn layer(&self) -> &Arc<dyn Layer> {
        &self.layer
    }

    /// The log above, as the pool knows it.
    pub(crate) fn wal_rule(&self) -> &WalRule {
        &self.rule
    }

    /// Number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// A permit for work on pages. It bounds the number of pins held at once, so that a task that waits for a
    /// frame always gets one. It is held during one operation, never during a wait for a row lock.
    pub(crate) fn enter(&self) -> SemaphorePermit<'_> {
        self.operations.acquire(1)
    }

    /// Page accesses, and those that found the page in DRAM.
    pub(crate) fn access_counts(&self) -> (u64, u64) {
        self.frames.table().access_counts()
    }

    /// Pages fetched from the layer, and those from flash or staging.
    pub(crate) fn fetch_counts(&self) -> (u64, u64) {
        self.fetcher.counts()
    }

    /// Pins a page; fetches it if necessary.
    pub(crate) fn pin(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        if let Some(pin) = self.pin_if_there(page) {
            return Ok(pin);
        }
        self.fetcher.pin(page)
    }

    /// Pins a page that is in DRAM and not being fetched. Never waits, and counts only on success.
    pub(crate) fn try_pin(&self, page: PageNumber) -> Option<Pin<'_>> {
        let id = self.frames.pin_if(page, |frame| !frame.is_loading())?;
        Some(Pin::new(&self.frames, id, page))
    }

    fn pin_if_there(&self, page: PageNumber) -> Option<Pin<'_>> {
        let id = self.frames.pin_if(page, |_| true)?;
        Some(Pin::new(&self.frames, id, page))
    }

    /// Latches a page exclusively without a fetch: its whole content will be replaced.
    pub(crate) fn fix_new(&self, page: PageNumber) -> Result<PageWrite<'_>, StoreError> {
        loop {
            if let Some(pin) = self.pin_if_there(page) {
                if let Some(write) = pin.write() {
                    return Ok(write);
                }
                continue;
            }
            if let Some(write) = self.fetcher.blank(page)? {
                return Ok(write);
            }
        }
    }

    /// Latches a page shared.
    pub(crate) fn fix_shared(&self, page: PageNumber) -> Result<PageRead<'_>, StoreError> {
        loop {
            if let Some(read) = self.pin(page)?.read() {
                return Ok(read);
            }
        }
    }

    /// Latches a page exclusively.
    pub(crate) fn fix_exclusive(&self, page: PageNumber) -> Result<PageWrite<'_>, StoreError> {
        loop {
            if let Some(write) = self.pin(page)?.write() {
                return Ok(write);
            }
        }
    }

    /// Gives the page in frame `index` to the layer if the layer has an older version; the page stays in the
    /// frame. The page is latched only while it is copied to `buffer`.
    pub(crate) fn clean_frame(&self, index: usize, buffer: &mut [u8]) -> Result<bool, StoreError> {
        self.evictor.clean_frame(index, buffer)
    }
}
