//! A small database above a layer: clients with a few frames each, checkpoints, and the layer's [`Upstream`].
//!
//! It behaves like a buffer pool. A page is evicted before its frame is used again. A checkpoint evicts every
//! page that is newer than the layer's version. Victims are given when the layer asks. Its log is perfect and
//! needs no device: after a crash the log restores the newest version of each page.
//!
//! Invariant: each client accesses its own pages only. So the right result of each fetch is known exactly.

use super::content::{build, version};
use super::oracle::Oracle;
use super::script::Op;
use entresol_core::{Lsn, PageId};
use entresol_engine::{DurableGroup, Layer, Source, TierError, Upstream, Victim};
use entresol_runtime::sleep;
use entresol_runtime::sync::{Mutex as Latch, Rank};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Why a client or a restart stops.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// The layer returned an error. The caller decides whether that is allowed.
    Refused(TierError),
    /// The layer made an error.
    Wrong(String),
}

impl Stop {
    /// The reason, in words.
    pub(super) fn sentence(self) -> String {
        match self {
            Stop::Wrong(sentence) => sentence,
            Stop::Refused(error) => error.to_string(),
        }
    }
}

impl From<TierError> for Stop {
    fn from(error: TierError) -> Self {
        Stop::Refused(error)
    }
}

struct Frame {
    page: PageId,
    version: u64,
    dirty: bool,
    fdirty: bool,
    /// A client is evicting the page.
    busy: bool,
}

/// Polling with exponential backoff.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        sleep(Duration::from_nanos(1 << self.0.min(20)));
        self.0 += 1;
    }
}

/// See the module's header.
pub(super) struct Database {
    layer: Arc<dyn Layer>,
    oracle: Arc<Mutex<Oracle>>,
    page_bytes: usize,
    frames_max: usize,
    /// The frames of each client, from coldest to hottest.
    frames: Mutex<Vec<Vec<Frame>>>,
    checkpoints: Latch<()>,
    /// Fetch counters of each client. Each fetch counts at its beginning and at its end: odd during a fetch.
    fetches: Vec<AtomicU64>,
}

/// A client fetches until this is dropped.
struct Fetching<'a>(&'a AtomicU64);

impl<'a> Fetching<'a> {
    fn begin(fetches: &'a AtomicU64) -> Self {
        fetches.fetch_add(1, SeqCst);
        Self(fetches)
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Database {
    pub(super) fn new(
        layer: Arc<dyn Layer>,
        oracle: Arc<Mutex<Oracle>>,
        page_bytes: u32,
        clients: usize,
        frames_max: usize,
    ) -> Arc<Self> {
        let frames = Mutex::new((0..clients).map(|_| Vec::new()).collect());
        let page_bytes = page_bytes as usize;
        let checkpoints = Latch::new(Rank::Test, ());
        let fetches = (0..clients).map(|_| AtomicU64::new(0)).collect();
        let database = Arc::new(Self { layer, oracle, page_bytes, frames_max, frames, checkpoints, fetches });
        let upstream: Arc<dyn Upstream> = database.clone();
        database.layer.attach(Arc::downgrade(&upstream));
        database
    }

    /// Runs all operations of a client.
    pub(super) fn run(&self, client: usize, ops: &[Op]) -> Result<(), Stop> {
        let mut buffer = vec![0; self.page_bytes];
        for op in ops {
            match *op {
                Op::Read(page) => self.touch(client, page, false, &mut buffer)?,
                Op::Write(page) => self.touch(client, page, true, &mut buffer)?,
                Op::Checkpoint => self.checkpoint()?,
                Op::Pause(time) => sleep(time),
            }
        }
        Ok(())
    }

    /// Waits until the page's frame is not being evicted. Returns its index, if it has one.
    fn settled<'a>(
        &'a self,
        client: usize,
        page: PageId,
    ) -> (parking_lot::MutexGuard<'a, Vec<Vec<Frame>>>, Option<usize>) {
        let mut patience = Patience::default();
        loop {
            let frames = self.frames.lock();
            let at = frames[client].iter().position(|frame| frame.page == page);
            if !at.is_some_and(|at| frames[client][at].busy) {
                return (frames, at);
            }
            drop(frames);
            patience.wait();
        }
    }

    fn touch(&self, client: usize, page: PageId, write: bool, buffer: &mut [u8]) -> Result<(), Stop> {
        let (mut frames, at) = self.settled(client, page);
        let mut fetching = None;
        let mut frame = match at {
            Some(at) => frames[client].remove(at),
            None => {
                drop(frames);
                self.make_room(client, buffer)?;
                fetching = Some(Fetching::begin(&self.fetches[client]));
                let fetched = self.layer.fetch(page, buffer)?;
                let found = version(page, buffer).map_err(Stop::Wrong)?;
                let expected = self.oracle.lock().expected(page);
                if found != expected {
                    let source = fetched.source;
                    return Err(Stop::Wrong(format!(
                        "page {page} was served at version {found} from {source:?}, {expected} was evicted last"
                    )));
                }
                frames = self.frames.lock();
                Frame { page, version: found, dirty: fetched.dirty, fdirty: fetched.fdirty, busy: false }
            }
        };
        if write {
            frame.version = self.oracle.lock().change(page);
            (frame.dirty, frame.fdirty) = (true, true);
        }
        frames[client].push(frame);
        drop(frames);
        drop(fetching);
        Ok(())
    }

    /// Waits for the fetches in progress: their pages may have moved up, so that only DRAM has them.
    fn wait_for_fetches(&self) {
        for fetches in &self.fetches {
            let (seen, mut patience) = (fetches.load(SeqCst), Patience::default());
            while seen % 2 == 1 && fetches.load(SeqCst) == seen {
                patience.wait();
            }
        }
    }

    /// Evicts the client's coldest frames until one is free.
    fn make_room(&self, client: usize, buffer: &mut [u8]) -> Result<(), Stop> {
        let mut patience = Patience::default();
        loop {
            let mut frames = self.frames.lock();
            let own = &mut frames[client];
            if own.len() < self.frames_max {
                return Ok(());
            }
            let Some(frame) = own.iter_mut().find(|frame| !frame.busy) else {
                drop(frames);
                patience.wait();
                continue;
            };
            let (page, victim) = self.take(frame);
            drop(frames);
            let evicted = self.evict_page(victim, buffer);
            self.settle(client, page, evicted.as_ref().ok().copied(), true);
            evicted?;
        }
    }

    fn take(&self, frame: &mut Frame) -> (PageId, Victim) {
        frame.busy = true;
        let Frame { page, version, dirty, fdirty, .. } = *frame;
        (page, Victim { page, lsn: Lsn(version), dirty, fdirty })
    }

    /// Evicts a page to the layer, and waits as long as necessary. Returns whether the frame stays dirty.
    fn evict_page(&self, victim: Victim, buffer: &mut [u8]) -> Result<bool, Stop> {
        build(victim.page, victim.lsn.0, buffer);
        if victim.fdirty {
            self.oracle.lock().hand(victim.page, victim.lsn.0);
        }
        let evicted = self.layer.evict(victim, buffer)?;
        self.oracle.lock().evicted(victim.page, victim.lsn.0);
        Ok(evicted.dirty)
    }

    /// Ends an eviction of a frame. `dirty` is `None` if the eviction failed.
    fn settle(&self, client: usize, page: PageId, dirty: Option<bool>, leaves: bool) {
        let mut frames = self.frames.lock();
        let own = &mut frames[client];
        let at = own.iter().position(|frame| frame.page == page).expect("a busy frame stays where it is");
        own[at].busy = false;
        if let Some(dirty) = dirty {
            (own[at].dirty, own[at].fdirty) = (own[at].dirty && dirty, false);
            if leaves {
                own.remove(at);
            }
        }
    }

    /// A database checkpoint: evicts every page of which the layer has an older version, then makes the
    /// layer's content durable.
    pub(super) fn checkpoint(&self) -> Result<(), Stop> {
        let _turn = self.checkpoints.lock();
        let mut buffer = vec![0; self.page_bytes];
        let snapshot = self.oracle.lock().snapshot();
        self.layer.checkpoint_begins();
        if self.layer.moves_pages_up() {
            self.wait_for_fetches();
        }
        let clients = self.frames.lock().len();
        for client in 0..clients {
            let pages: Vec<PageId> = self.frames.lock()[client].iter().map(|frame| frame.page).collect();
            for page in pages {
                let (mut frames, at) = self.settled(client, page);
                let Some(frame) = at.map(|at| &mut frames[client][at]).filter(|frame| frame.fdirty) else {
                    continue;
                };
                let (_, victim) = self.take(frame);
                drop(frames);
                let evicted = self.evict_page(victim, &mut buffer);
                self.settle(client, page, evicted.as_ref().ok().copied(), false);
                evicted?;
            }
        }
        self.layer.checkpoint()?;
        self.oracle.lock().promise(&snapshot);
        Ok(())
    }

    /// Shuts down as a database does.
    pub(super) fn shutdown(&self) -> Result<(), Stop> {
        self.checkpoint()?;
        Ok(self.layer.close()?)
    }

    /// The restart of the database after a crash. Each page must be found in a legal version. If there was a
    /// newer version, the log restores it.
    pub(super) fn recover(&self, rules: &super::judge::Rules) -> Result<(), Stop> {
        let mut buffer = vec![0; self.page_bytes];
        let known = self.oracle.lock().clone();
        for page in known.ids() {
            let found = rules.fetch(&*self.layer, &known, page, &mut buffer)?;
            let mut oracle = self.oracle.lock();
            let (found, newest) = match found {
                Some((found, Source::Disk)) if rules.copies_return => {
                    (found, oracle.found_ahead(page, found))
                }
                Some((found, _)) => (found, oracle.found(page, found)),
                None => (0, oracle.found_torn(page)),
            };
            // Continues a load that was cut off.
            let newest = if newest == 0 { oracle.change(page) } else { newest };
            drop(oracle);
            if found < newest {
                let victim = Victim { page, lsn: Lsn(newest), dirty: true, fdirty: true };
                self.evict_page(victim, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Loads a new database: all pages at version 1.
    pub(super) fn load(&self) -> Result<(), Stop> {
        let mut buffer = vec![0; self.page_bytes];
        let pages = self.oracle.lock().ids();
        for page in pages {
            let lsn = Lsn(self.oracle.lock().change(page));
            self.evict_page(Victim { page, lsn, dirty: true, fdirty: true }, &mut buffer)?;
        }
        Ok(())
    }

    /// Evicts a new version of `page`.
    pub(super) fn make_anew(&self, page: PageId, buffer: &mut [u8]) -> Result<(), Stop> {
        let lsn = Lsn(self.oracle.lock().change(page));
        self.evict_page(Victim { page, lsn, dirty: true, fdirty: true }, buffer).map(drop)
    }

    fn pull_one(&self, buffer: &mut [u8]) -> bool {
        let (client, page, victim) = {
            let mut frames = self.frames.lock();
            let candidates = frames.iter_mut().enumerate();
            let mut candidates = candidates.filter(|(_, own)| own.len() > 1);
            let found = candidates.find_map(|(client, own)| {
                own.iter_mut().find(|frame| !frame.busy).map(|frame| (client, self.take(frame)))
            });
            let Some((client, (page, victim))) = found else { return false };
            (client, page, victim)
        };
        build(page, victim.lsn.0, buffer);
        if victim.fdirty {
            self.oracle.lock().hand(page, victim.lsn.0);
        }
        // The next eviction reports the error.
        let evicted = self.layer.try_evict(victim, buffer).ok().flatten();
        if evicted.is_some() {
            self.oracle.lock().evicted(page, victim.lsn.0);
        }
        self.settle(client, page, evicted.map(|evicted| evicted.dirty), true);
        evicted.is_some()
    }
}

impl Upstream for Database {
    fn pull_victims(&self, pages: usize) -> usize {
        let mut buffer = vec![0; self.page_bytes];
        (0..pages).take_while(|_| self.pull_one(&mut buffer)).count()
    }

    fn destaged(&self, page: PageId, lsn: Lsn) {
        for frame in self.frames.lock().iter_mut().flatten() {
            if frame.page == page && frame.version == lsn.0 {
                frame.dirty = false;
            }
        }
    }

    fn durable(&self, pages: &[(PageId, Lsn)], _: Option<DurableGroup>) {
        let mut oracle = self.oracle.lock();
        pages.iter().for_each(|(page, lsn)| oracle.tell(*page, lsn.0));
    }
}
