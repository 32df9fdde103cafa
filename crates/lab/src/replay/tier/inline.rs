//! flashcache as it works below a database (SCE §2): every miss is populated in line, by the core's
//! partition.
//!
//! What [`super::Cached`] drives is the engine's way: pages are staged in memory and written when there is
//! time. flashcache has no staging: a client that missed waits until the page is on flash as well ("in-line
//! cache population can slow down cache missed read operations", §3.2), and a larger page is split into
//! blocks of 4 KiB, each a request of its own. Writes are the database's page cleaners', and no client waits
//! for them until too many are outstanding.
//!
//! As flashcache's manual has it (doc/flashcache-doc.txt of its release):
//! - Requests are split into blocks. One that is smaller than a block is not cached: it is sent to disk, and
//!   a copy is invalidated.
//! - Write-through and write-around keep no metadata on flash. In write-back the metadata of a block is
//!   written when it becomes dirty, before the write is complete, and when it is cleaned; not when it is
//!   written again, and not for reads. The blocks of a page are in one sector of metadata, and are updated
//!   together.
//!
//! Invariant: decisions depend on the events alone.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::backlog::{Backlog, WRITES_MAX};
use super::{Fetched, Layer, Totals};
use entresol_core::{Admission, CleanPage, Job, Lookup, Lsn, Mode, PageId, Partition, Slots};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;

/// flashcache's usual blocks.
pub const BLOCK_BYTES: u32 = 4096;
/// Blocks of a page are this far apart for the device, which would take adjacent requests for one stream.
const APART: u64 = 1 << 32;
/// Where the metadata begins.
const METADATA: u64 = 1 << 62;
/// Pages carry no log sequence numbers here.
const NO_LSN: Lsn = Lsn(1);

/// A set-associative cache with in-line population.
pub struct Inline<'t> {
    partition: Partition<'t>,
    mode: Mode,
    /// Blocks of a page; 0: a page is smaller than a block, and not cached.
    blocks: u64,
    /// Pages that are dirty in the metadata on flash, by their places on disk.
    marked: Vec<bool>,
    /// Counts in blocks.
    flash: Device,
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    writes: Backlog,
    metadata_writes: u64,
    metrics: TierMetrics,
}

impl<'t> Inline<'t> {
    /// `partition` on `flash`, a device for blocks of `block_bytes`, in front of `disk`, for pages of
    /// `page_bytes`. `places`: the places of pages on disk.
    pub fn new(
        partition: Partition<'t>,
        mode: Mode,
        (flash, disk): (Device, Device),
        places: &'t [u32],
        (page_bytes, block_bytes): (u32, u32),
    ) -> Self {
        Self {
            partition,
            mode,
            blocks: u64::from(page_bytes / block_bytes),
            marked: vec![false; places.iter().max().map_or(0, |last| *last as usize + 1)],
            flash,
            disk,
            places,
            writes: Backlog::new(WRITES_MAX),
            metadata_writes: 0,
            metrics: TierMetrics::default(),
        }
    }

    fn slots(&mut self) -> &mut Slots<'t> {
        self.partition.slots_mut().expect("flashcache places pages in slots")
    }

    fn id(&self, page: u32) -> PageId {
        PageId::new(0, self.places[page as usize])
    }

    fn read_flash(&mut self, now: Time, slot: u32) -> Time {
        let device = &mut self.flash;
        (0..self.blocks)
            .map(|block| device.read(now, block * APART + 2 * u64::from(slot), 1))
            .fold(now, Time::max)
    }

    fn write_flash(&mut self, now: Time, slot: u32) -> Time {
        let device = &mut self.flash;
        (0..self.blocks)
            .map(|block| device.write(now, block * APART + 2 * u64::from(slot), 1))
            .fold(now, Time::max)
    }

    /// Writes the metadata of a page that has become dirty, or clean, if it has; returns when that is done.
    fn mark(&mut self, page: PageId, dirty: bool, now: Time) -> Time {
        let marked = &mut self.marked[page.number() as usize];
        if std::mem::replace(marked, dirty) == dirty {
            return now;
        }
        self.metadata_writes += 1;
        self.flash.write(now, METADATA + 2 * u64::from(page.number()), 1)
    }

    fn write_disk(&mut self, now: Time, page: PageId) -> Time {
        self.metrics.disk_writes += 1;
        self.disk.write(now, page.number().into(), 1)
    }

    /// Stages a page and does all jobs; returns when the last of them is done.
    fn take(&mut self, admission: Admission, now: Time) -> Time {
        if let Admission::Stage { frame, .. } = admission {
            self.partition.staged(frame);
        }
        let mut done = now;
        while let Some(job) = self.partition.next_job() {
            match job {
                Job::Write { ticket, pages, .. } => {
                    for page in &pages {
                        self.metrics.flash_writes += 1;
                        done = done.max(self.write_flash(now, page.slot.0));
                    }
                    self.partition.written(ticket, &pages);
                }
                Job::Dequeue { ticket, pages, .. } => {
                    let page = pages[0].to_clean().expect("slot placement dequeues what it destages");
                    done = done.max(self.destage(&page, now));
                    self.partition.dequeued(ticket);
                }
                Job::Clean(page) => {
                    let cleaned = self.destage(&page, now);
                    self.writes.push(cleaned);
                    self.partition.cleaned(&page);
                }
                Job::PullVictims(_) => unreachable!("only GSC pulls"),
            }
        }
        done
    }

    fn destage(&mut self, page: &CleanPage, now: Time) -> Time {
        self.metrics.dequeue_reads += 1;
        let read = self.read_flash(now, page.slot.0);
        let written = self.write_disk(read, page.page);
        self.mark(page.page, false, written)
    }
}

impl Layer for Inline<'_> {
    fn fetch(&mut self, page: u32, now: Time, _pool: &mut Pool<impl Order>) -> Fetched {
        let id = self.id(page);
        if let Lookup::Flash { slot, .. } = self.partition.fetch(id) {
            self.metrics.flash_hits += 1;
            return Fetched { source: Source::Flash, flags: 0, done: self.read_flash(now, slot.0) };
        }
        self.metrics.disk_reads += 1;
        let read = self.disk.read(now, id.number().into(), 1);
        if self.blocks == 0 {
            return Fetched { source: Source::Disk, flags: 0, done: read };
        }
        let admission = self.slots().arrived(id);
        self.metrics.populated += u64::from(matches!(admission, Admission::Stage { .. }));
        Fetched { source: Source::Disk, flags: 0, done: self.take(admission, read) }
    }

    fn evict(&mut self, victim: Victim, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        if !victim.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        let now = self.writes.wait(now);
        let id = self.id(victim.page);
        let mode = if self.blocks == 0 { Mode::WriteAround } else { self.mode };
        let written = match mode {
            Mode::WriteBack => now,
            _ => self.write_disk(now, id),
        };
        let admission = match mode {
            Mode::WriteAround | Mode::ReadOnly => self.slots().bypass(id),
            mode => self.partition.evict(id, NO_LSN, mode == Mode::WriteBack, true),
        };
        let mut end = self.take(admission, now).max(written);
        if mode == Mode::WriteBack {
            end = self.mark(id, true, end);
        }
        self.writes.push(end);
        now
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.metadata_writes = 0;
        self.flash.begin_measurement();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        let occupancy = self.partition.occupancy();
        let tier = TierMetrics {
            slots: occupancy.slots.into(),
            slots_valid: occupancy.valid.into(),
            slots_dirty: occupancy.dirty.into(),
            decision_hash: self.partition.decision_hash(),
            ..self.metrics
        };
        Totals {
            tier,
            flash_ns: self.flash.service_ns(),
            disk_ns: self.disk.service_ns(),
            ..Totals::default()
        }
    }
}
