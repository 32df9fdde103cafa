//! The buffer pool: page frames in DRAM over a [`Layer`].
//!
//! * [`frame`]: a frame's state word, pins and latch.
//! * [`table`]: page number → frame.
//! * [`replace`]: the order of eviction.
//! * [`guard`]: pinned and latched pages.
//! * [`evict`]: eviction, and requests of the layer to the pool.
//! * [`evicted`]: the pages that this session has evicted.
//!
//! Rules:
//! 1. A frame's page changes only while the frame is unpinned, under the table shard's lock. A task pins a
//!    frame under that lock, or takes the pin count from 0 to 1 under the replacer's lock.
//! 2. A page is changed only under its exclusive latch, after the frame was marked dirty.
//! 3. The log is durable up to a page's LSN before the page is evicted to the layer.
//! 4. A page stays in the table until the layer has its newest version, so a fetch never finds an older one.
//! 5. The page of a pinned frame is given to the layer by one task at a time. An evictor starts only on
//!    unpinned frames. A checkpoint pins the frame, and waits for an evictor by latching the page.
//! 6. A page is not served if its LSN is not durable in the log. It is not served either if its LSN is at or
//!    after the end that the restart found, unless this session has evicted the page. The changes of such a
//!    page are in another log, or in a lost end of this one.
//! 7. No task does I/O or waits while it holds a shard's or the replacer's lock.

pub(crate) mod evict;
mod evicted;
pub(crate) mod frame;
pub(crate) mod guard;
pub(crate) mod replace;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use guard::{PageRead, PageWrite, Pin};

use crate::wal::Wal;
use crate::{Options, PageNumber, PageWatcher, StoreError, points};
use entresol_core::Lsn;
use entresol_engine::{Fetched, Layer, Source, Upstream};
use entresol_format::page;
use entresol_runtime::Task;
use entresol_runtime::sync::{Rank, RwLockWriteGuard, Semaphore, SemaphorePermit, TinyMutex};
use evicted::EvictedPages;
use frame::Frame;
use replace::Replacer;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use table::PageTable;

/// A frame's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(pub u32);

/// The log's end before a restart has determined it.
const NO_LOG: u64 = u64::MAX;
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
    /// Absent during redo, when the whole log is durable.
    wal: OnceLock<Arc<Wal>>,
    frames: Box<[Frame]>,
    table: PageTable,
    replacer: Replacer,
    free: TinyMutex<Vec<FrameId>>,
    /// Tasks that found every frame pinned.
    starved: TinyMutex<Vec<Task>>,
    starving: AtomicUsize,
    operations: Semaphore,
    /// A restart is in its redo.
    redoing: AtomicBool,
    /// The end of the log that a restart has read.
    log_end: AtomicU64,
    /// Pages evicted with LSNs at or after that end.
    evicted: EvictedPages,
    /// [`Options::durable_notes`].
    notes: bool,
    /// [`Options::watcher`].
    watcher: Option<Arc<dyn PageWatcher>>,
    fetched: AtomicU64,
    fetched_from_flash: AtomicU64,
}

impl Pool {
    /// A pool of empty frames. Registers itself with the layer.
    pub(crate) fn new(layer: Arc<dyn Layer>, options: &Options) -> Arc<Pool> {
        let count = options.frames;
        let evicted = EvictedPages::new(layer.capacity_pages());
        let pool = Arc::new(Pool {
            layer,
            wal: OnceLock::new(),
            frames: (0..count).map(|_| Frame::new(options.page_bytes as usize)).collect(),
            table: PageTable::new(count),
            replacer: Replacer::new(options.replacement, count),
            free: TinyMutex::new(Rank::FreeFrames, (0..count as u32).rev().map(FrameId).collect()),
            starved: TinyMutex::new(Rank::Starved, Vec::new()),
            starving: AtomicUsize::new(0),
            operations: Semaphore::new(
                Rank::PoolPermit,
                (count - PINS_RESERVED - UNPINNED_FRAMES) / PINS_PER_OPERATION,
            ),
            redoing: AtomicBool::new(false),
            log_end: AtomicU64::new(NO_LOG),
            evicted,
            notes: options.durable_notes,
            watcher: options.watcher.clone(),
            fetched: AtomicU64::new(0),
            fetched_from_flash: AtomicU64::new(0),
        });
        let upstream: Arc<dyn Upstream> = pool.clone();
        pool.layer.attach(Arc::downgrade(&upstream));
        pool
    }

    /// Called when a restart begins or ends its redo.
    pub(crate) fn set_redoing(&self, redoing: bool) {
        self.redoing.store(redoing, SeqCst);
    }

    /// From now on, pages from the layer must have LSNs before `end`, except pages that are evicted from now
    /// on.
    pub(crate) fn set_log_end(&self, end: Lsn) {
        self.log_end.store(end.0, SeqCst);
    }

    /// From now on, a page is evicted only when `wal` is durable up to its LSN.
    pub(crate) fn set_wal(&self, wal: Arc<Wal>) {
        assert!(self.wal.set(wal).is_ok(), "a pool gets its log once");
    }

    /// The layer below.
    pub(crate) fn layer(&self) -> &Arc<dyn Layer> {
        &self.layer
    }

    /// A permit for work on pages. It bounds the number of pins held at once, so that a task that waits for a
    /// frame always gets one. It is held during one operation, never during a wait for a row lock.
    pub(crate) fn enter(&self) -> SemaphorePermit<'_> {
        self.operations.acquire(1)
    }

    /// Page accesses, and those that found the page in DRAM.
    pub(crate) fn access_counts(&self) -> (u64, u64) {
        self.table.access_counts()
    }

    /// Pages fetched from the layer, and those from flash or staging.
    pub(crate) fn fetch_counts(&self) -> (u64, u64) {
        (self.fetched.load(Relaxed), self.fetched_from_flash.load(Relaxed))
    }

    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// Pins a page; fetches it if necessary.
    pub(crate) fn pin(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        if let Some(pin) = self.pin_hit(page) {
            return Ok(pin);
        }
        self.pin_miss(page)
    }

    /// Pins a page that is in DRAM and not being fetched. Never waits, and counts only on success.
    pub(crate) fn try_pin(&self, page: PageNumber) -> Option<Pin<'_>> {
        let id = self.table.find_and(page, |id| {
            let frame = self.frame(id);
            if frame.is_loading() {
                return false;
            }
            frame.pin();
            true
        })?;
        self.replacer.touch(id, self.frame(id));
        self.watch(page);
        Some(Pin::new(self, id, page))
    }

    /// Notifies the watcher of a counted access.
    fn watch(&self, page: PageNumber) {
        if let Some(watcher) = &self.watcher {
            watcher.fixed(page.id());
        }
    }

    fn pin_hit(&self, page: PageNumber) -> Option<Pin<'_>> {
        let id = self.table.find_and(page, |id| {
            self.frame(id).pin();
            true
        })?;
        self.replacer.touch(id, self.frame(id));
        self.watch(page);
        Some(Pin::new(self, id, page))
    }

    fn pin_miss(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        let free = self.take_frame()?;
        let (pin, data) = match self.claim(free, page) {
            Claim::Lost(pin) => return Ok(pin),
            Claim::Won(pin, data) => (pin, data),
        };
        let mut loading = Loading { pool: self, data, pin: Some(pin) };
        let fetched = self.fetch(page, &mut loading.data)?;
        self.fetched.fetch_add(1, Relaxed);
        if fetched.source != Source::Disk {
            self.fetched_from_flash.fetch_add(1, Relaxed);
        }
        Ok(loading.succeeded(fetched))
    }

    fn fetch(&self, page: PageNumber, data: &mut [u8]) -> Result<Fetched, StoreError> {
        let fetched = self.layer.fetch(page.id(), data)?;
        self.refuse_beyond_log(page, page::lsn(data))?;
        if crate::page::is_sound(data) {
            return Ok(fetched);
        }
        Err(StoreError::Corrupt {
            place: format!("page {page}"),
            expected: "cells that lie within the page and add up".into(),
            found: "others, although its checksum is right".into(),
        })
    }

    /// The log is durable up to a page's LSN before the layer gets the page. So a page from the layer is
    /// refused if its LSN is not durable, or was durable before the restart and is not in the log: then this
    /// log is not the log of the page's changes.
    fn refuse_beyond_log(&self, page: PageNumber, lsn: Lsn) -> Result<(), StoreError> {
        let end = self.log_end.load(SeqCst);
        let is_durable = || self.wal.get().is_none_or(|wal| wal.is_durable(lsn));
        let may_be_ours = end == NO_LOG || lsn.0 < end || self.evicted.has(page);
        if may_be_ours && is_durable() {
            return Ok(());
        }
        points::PAGE_BEYOND_LOG.reach();
        Err(StoreError::Corrupt {
            place: format!("page {page}"),
            expected: format!("an LSN before the end of the log, {end}"),
            found: format!("LSN {}: the log has lost its end, or is not the one of this disk", lsn.0),
        })
    }

    /// Latches a page exclusively without a fetch: its whole content will be replaced.
    pub(crate) fn fix_new(&self, page: PageNumber) -> Result<PageWrite<'_>, StoreError> {
        loop {
            if let Some(pin) = self.pin_hit(page) {
                if let Some(write) = pin.write() {
                    return Ok(write);
                }
                continue;
            }
            let free = self.take_frame()?;
            if let Claim::Won(pin, mut data) = self.claim(free, page) {
                data.fill(0);
                self.frame(pin.frame_id()).loaded(Lsn(0), false, false);
                return Ok(PageWrite::blank(data, pin));
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

    /// Assigns a free frame to `page`, pinned and exclusively latched, unless another task was faster.
    fn claim(&self, free: FrameId, page: PageNumber) -> Claim<'_> {
        let frame = self.frame(free);
        let data = frame.data.try_write().expect("nobody latches a frame that he has not pinned");
        frame.begin_load(page);
        self.watch(page);
        match self.table.insert_or(page, free, |other| self.frame(other).pin()) {
            Ok(()) => {
                self.replacer.insert(free, frame);
                Claim::Won(Pin::new(self, free, page), data)
            }
            Err(other) => {
                drop(data);
                frame.forget_page();
                frame.clear_pins();
                self.give_back(free);
                Claim::Lost(Pin::new(self, other, page))
            }
        }
    }

    /// Takes a free frame from the reserve, or by eviction; waits while all frames are pinned.
    fn take_frame(&self) -> Result<FrameId, StoreError> {
        loop {
            let reserve = self.free.lock().pop();
            if let Some(id) = reserve {
                return Ok(id);
            }
            if let Some(id) = self.evict_one()? {
                return Ok(id);
            }
            self.wait_for_frame();
        }
    }

    /// Parks until a frame may have become free or unpinned.
    fn wait_for_frame(&self) {
        self.starved.lock().push(entresol_runtime::current());
        self.starving.fetch_add(1, SeqCst);
        // From here on, every unpin sees that a task starves.
        let hope = !self.free.lock().is_empty() || self.frames.iter().any(|frame| frame.pins() == 0);
        if !hope {
            entresol_runtime::park();
        }
        self.starving.fetch_sub(1, SeqCst);
    }

    fn give_back(&self, id: FrameId) {
        self.free.lock().push(id);
        self.wake_starved();
    }

    fn wake_starved(&self) {
        if self.starving.load(SeqCst) > 0 {
            for task in self.starved.lock().drain(..) {
                task.unpark();
            }
        }
    }

    fn unpin(&self, id: FrameId) {
        let frame = self.frame(id);
        if frame.unpin() {
            if frame.is_orphan() && frame.adopt() {
                self.give_back(id);
            } else {
                self.wake_starved();
            }
        }
    }

    /// Removes a page without content from its frame, which the caller has latched exclusively. The frame
    /// becomes free when the last task that waits for it has unpinned it.
    fn withdraw(&self, pin: &Pin<'_>) {
        let (id, frame) = (pin.frame_id(), self.frame(pin.frame_id()));
        self.table.remove(pin.page());
        frame.forget_page();
        self.replacer.remove(id);
        frame.make_orphan();
    }
}

/// A page that is being fetched. If the fetch fails or panics, the page is removed from its frame. Tasks that
/// wait for the latch then find the frame without their page, and fetch the page themselves.
struct Loading<'a> {
    pool: &'a Pool,
    /// Released before the pin.
    data: RwLockWriteGuard<'a, Box<[u8]>>,
    /// `None`: the page has been read.
    pin: Option<Pin<'a>>,
}

impl<'a> Loading<'a> {
    fn succeeded(mut self, fetched: Fetched) -> Pin<'a> {
        let pin = self.pin.take().expect("a page is there once");
        pin.frame().loaded(page::lsn(&self.data), fetched.dirty, fetched.fdirty);
        pin
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(pin) = &self.pin {
            self.pool.withdraw(pin);
        }
    }
}

enum Claim<'a> {
    Won(Pin<'a>, RwLockWriteGuard<'a, Box<[u8]>>),
    Lost(Pin<'a>),
}
