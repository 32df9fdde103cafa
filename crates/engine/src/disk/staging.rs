//! Staging for the disk: an evictor copies its page and continues. Background tasks write many pages at once,
//! in the order of their places on disk.
//!
//! Invariants: a page is in at most one frame, in its newest evicted version. A frame is not changed while it
//! is being written. A fetch looks here first. So the disk never keeps an older version, and no fetch returns
//! one.

use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::signal::Signal;
use arrayvec::ArrayVec;
use entresol_core::{Lsn, PageId, Position};
use entresol_format::page;
use entresol_runtime::sync::{Rank, RwLock, RwLockReadGuard, Semaphore, TinyMutex};
use entresol_runtime::{is_simulated, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Frames.
const FRAMES: usize = 128;
/// Most pages of one batch of writes.
pub(crate) const BATCH: usize = 16;
/// Tasks that write.
pub(crate) const WRITERS: usize = 4;

/// A page to be written to its place on disk.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    pub page: PageId,
    /// The page, sealed for the disk.
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Free,
    /// Being copied in.
    Filling,
    /// Complete, waiting to be written.
    Ready,
    Writing,
}

struct Frames {
    pages: [PageId; FRAMES],
    states: [FrameState; FRAMES],
    /// Sequence number of its staging.
    order: [u64; FRAMES],
    /// That of the oldest version of its page that was staged since the page was written last.
    since: [u64; FRAMES],
    next_order: u64,
    /// Frames staged and not written.
    used: usize,
}

impl Frames {
    fn find(&self, page: PageId) -> Option<usize> {
        (0..FRAMES).find(|at| self.pages[*at] == page && self.states[*at] != FrameState::Free)
    }
}

/// See the module's header.
pub(super) struct DiskStaging {
    frames: TinyMutex<Frames>,
    buffers: Vec<RwLock<AlignedBuffer>>,
    writes: Signal,
    progress: Signal,
    turn: Semaphore,
    waiting: AtomicUsize,
    stopped: AtomicBool,
    failure: TinyMutex<Option<TierError>>,
}

/// Records the failure of a writer that panics, and wakes all waiters. (In a simulation a panic ends the
/// run.)
struct PanicGuard<'a>(&'a DiskStaging);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            let why = "a task that writes to the disk panicked, which is a bug of this program; restart the database";
            self.0.fail(TierError::Refused(why.to_owned()));
        }
    }
}

/// The answer to an offer.
enum Offer {
    Taken,
    /// No frame is free, or the page's own is being written.
    Full,
}

impl DiskStaging {
    pub(super) fn new(page_bytes: u32) -> Self {
        let buffer = || RwLock::new(Rank::StagingBuffer, AlignedBuffer::new(page_bytes as usize));
        Self {
            frames: TinyMutex::new(
                Rank::StagingFrames,
                Frames {
                    pages: [PageId(0); FRAMES],
                    states: [FrameState::Free; FRAMES],
                    order: [0; FRAMES],
                    since: [0; FRAMES],
                    next_order: 0,
                    used: 0,
                },
            ),
            buffers: (0..FRAMES).map(|_| buffer()).collect(),
            writes: Signal::default(),
            progress: Signal::default(),
            turn: Semaphore::new(Rank::EvictionTurn, 1),
            waiting: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failure: TinyMutex::new(Rank::Failure, None),
        }
    }

    fn check(&self) -> Result<(), TierError> {
        if let Some(failure) = self.failure.lock().clone() {
            return Err(failure);
        }
        if self.stopped.load(SeqCst) {
            return Err(TierError::Refused("the disk layer is closed; open it again".to_owned()));
        }
        Ok(())
    }

    /// Copies a page to `buffer`, if it is staged.
    pub(super) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<bool, TierError> {
        self.check()?;
        loop {
            let frame = {
                let frames = self.frames.lock();
                if frames.used == 0 {
                    return Ok(false);
                }
                match frames.find(page) {
                    None => return Ok(false),
                    Some(at) if frames.states[at] == FrameState::Filling => None,
                    Some(at) => Some((at, frames.order[at])),
                }
            };
            if let Some((at, order)) = frame {
                let bytes = self.buffers[at].read();
                // Check whether the frame was written and reused meanwhile.
                let frames = self.frames.lock();
                let same = frames.order[at] == order && frames.states[at] != FrameState::Filling;
                drop(frames);
                if same {
                    buffer.copy_from_slice(&bytes);
                    return Ok(true);
                }
            }
            yield_now();
        }
    }

    /// Copies a dirty page to staging; waits while there is no room.
    pub(super) fn stage(&self, page: PageId, data: &[u8]) -> Result<(), TierError> {
        if self.waiting.load(SeqCst) == 0
            && let Offer::Taken = self.offer(page, data)?
        {
            return Ok(());
        }
        self.waiting.fetch_add(1, SeqCst);
        let result = self.wait_and_stage(page, data);
        self.waiting.fetch_sub(1, SeqCst);
        result
    }

    fn wait_and_stage(&self, page: PageId, data: &[u8]) -> Result<(), TierError> {
        let _turn = self.turn.acquire(1);
        loop {
            let seen = self.progress.epoch();
            match self.offer(page, data)? {
                Offer::Taken => return Ok(()),
                Offer::Full => self.progress.wait(seen),
            }
        }
    }

    /// As [`DiskStaging::stage`], but returns false instead of waiting.
    pub(super) fn try_stage(&self, page: PageId, data: &[u8]) -> Result<bool, TierError> {
        if self.waiting.load(SeqCst) > 0 {
            return Ok(false);
        }
        Ok(matches!(self.offer(page, data)?, Offer::Taken))
    }

    fn offer(&self, page: PageId, data: &[u8]) -> Result<Offer, TierError> {
        self.check()?;
        let at = {
            let mut frames = self.frames.lock();
            let at = match frames.find(page) {
                Some(at) if frames.states[at] == FrameState::Ready => at,
                Some(_) => return Ok(Offer::Full),
                None => {
                    let free = frames.states.iter().position(|state| *state == FrameState::Free);
                    let Some(at) = free else { return Ok(Offer::Full) };
                    frames.used += 1;
                    frames.since[at] = frames.next_order;
                    at
                }
            };
            frames.pages[at] = page;
            frames.states[at] = FrameState::Filling;
            frames.order[at] = frames.next_order;
            frames.next_order += 1;
            at
        };
        {
            let mut bytes = self.buffers[at].write();
            bytes.copy_from_slice(data);
            page::seal(&mut bytes, page, Position(0));
        }
        self.frames.lock().states[at] = FrameState::Ready;
        self.writes.notify_one();
        Ok(Offer::Taken)
    }

    /// Waits until all pages staged so far are written.
    pub(super) fn drain(&self) -> Result<(), TierError> {
        let end = self.frames.lock().next_order;
        loop {
            let seen = self.progress.epoch();
            self.check()?;
            let done = {
                let frames = self.frames.lock();
                (0..FRAMES).all(|at| frames.states[at] == FrameState::Free || frames.since[at] >= end)
            };
            if done {
                return Ok(());
            }
            self.writes.notify_one();
            self.progress.wait(seen);
        }
    }

    /// Ends the writers.
    pub(super) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        self.writes.notify_all();
        self.progress.notify_all();
    }

    /// Writes staged pages with `write` until stopped: at most [`BATCH`] pages at once, in the order of their
    /// places. No page is in two writes at once. `written` is called with the pages written to disk and their
    /// LSNs.
    pub(super) fn writer_task(
        &self,
        write: impl Fn(&[Staged<'_>]) -> Result<(), TierError>,
        written: impl Fn(&[(PageId, Lsn)]) -> Result<(), TierError>,
    ) {
        let _guard = PanicGuard(self);
        loop {
            let seen = self.writes.epoch();
            if self.stopped.load(SeqCst) || self.failure.lock().is_some() {
                return;
            }
            let batch = self.take_batch();
            if batch.is_empty() {
                self.writes.wait(seen);
                continue;
            }
            self.writes.notify_one();
            let done = self.write(&write, &batch).and_then(|pages| {
                let mut frames = self.frames.lock();
                for (_, at) in &batch {
                    frames.states[*at] = FrameState::Free;
                }
                frames.used -= batch.len();
                drop(frames);
                self.progress.notify_all();
                written(&pages)
            });
            if let Err(error) = done {
                self.fail(error);
            }
        }
    }

    /// Records `error` unless another failure came first, and wakes all waiters.
    fn fail(&self, error: TierError) {
        self.failure.lock().get_or_insert(error);
        self.writes.notify_all();
        self.progress.notify_all();
    }

    /// The oldest staged pages, in the order of their places on disk.
    fn take_batch(&self) -> ArrayVec<(PageId, usize), BATCH> {
        let mut frames = self.frames.lock();
        let mut ready: ArrayVec<(u64, usize), FRAMES> = ArrayVec::new();
        if frames.used > 0 {
            let of_interest = (0..FRAMES).filter(|at| frames.states[*at] == FrameState::Ready);
            ready.extend(of_interest.map(|at| (frames.since[at], at)));
            ready.sort_unstable();
        }
        let mut batch: ArrayVec<(PageId, usize), BATCH> =
            ready.iter().take(BATCH).map(|(_, at)| (frames.pages[*at], *at)).collect();
        for (_, at) in &batch {
            frames.states[*at] = FrameState::Writing;
        }
        batch.sort_unstable();
        batch
    }

    /// Writes the batch; returns the LSNs of its pages.
    fn write(
        &self,
        write: impl Fn(&[Staged<'_>]) -> Result<(), TierError>,
        batch: &[(PageId, usize)],
    ) -> Result<ArrayVec<(PageId, Lsn), BATCH>, TierError> {
        let guards: ArrayVec<RwLockReadGuard<'_, AlignedBuffer>, BATCH> =
            batch.iter().map(|(_, at)| self.buffers[*at].read()).collect();
        let mut pages = ArrayVec::<Staged<'_>, BATCH>::new();
        pages.extend(batch.iter().zip(&guards).map(|((page, _), bytes)| Staged { page: *page, bytes }));
        write(&pages)?;
        Ok(batch.iter().zip(&guards).map(|((id, _), bytes)| (*id, page::lsn(bytes))).collect())
    }
}
