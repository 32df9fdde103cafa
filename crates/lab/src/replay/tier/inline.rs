//! flashcache as it works below a database (SCE §2): every miss is populated in line, by the core's
//! partition.
//!
//! What [`super::Cached`] drives is the engine's way: pages are staged in memory and written when there is
//! time. flashcache has no staging: a client that missed waits until the page is on flash as well ("in-line
//! cache population can slow down cache missed read operations", §3.2), and a larger page is split into
//! blocks of 4 KiB, each a request of its own. Writes are the database's page cleaners', and no client waits
//! for them until too many are outstanding.
//!
//! Invariant: decisions depend on the events alone.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::backlog::{Backlog, WRITES_MAX};
use super::{Fetched, Layer, Totals};
use entresol_core::{Admission, CleanPage, Job, Lookup, Lsn, Mode, PageId, Partition, Slots};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;

/// flashcache's blocks, and what the flash device of [`Inline`] counts in.
pub const BLOCK_BYTES: u32 = 4096;
/// Blocks of a page are this far apart for the device, which would take adjacent requests for one stream.
const APART: u64 = 1 << 32;
/// Pages carry no log sequence numbers here.
const NO_LSN: Lsn = Lsn(1);

/// A set-associative cache with in-line population.
pub struct Inline<'t> {
    partition: Partition<'t>,
    mode: Mode,
    /// Blocks of a page.
    blocks: u64,
    /// Counts in blocks.
    flash: Device,
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    writes: Backlog,
    metrics: TierMetrics,
}

impl<'t> Inline<'t> {
    /// `partition` on `flash`, a device for pages of [`BLOCK_BYTES`], in front of `disk`, for pages of
    /// `page_bytes`. `places`: the places of pages on disk.
    pub fn new(
        partition: Partition<'t>,
        mode: Mode,
        (flash, disk): (Device, Device),
        places: &'t [u32],
        page_bytes: u32,
    ) -> Self {
        Self {
            partition,
            mode,
            blocks: u64::from(page_bytes.div_ceil(BLOCK_BYTES)),
            flash,
            disk,
            places,
            writes: Backlog::new(WRITES_MAX),
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
        self.write_disk(read, page.page)
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
        let written = match self.mode {
            Mode::WriteBack => now,
            _ => self.write_disk(now, id),
        };
        let admission = match self.mode {
            Mode::WriteAround | Mode::ReadOnly => self.slots().bypass(id),
            mode => self.partition.evict(id, NO_LSN, mode == Mode::WriteBack, true),
        };
        let end = self.take(admission, now).max(written);
        self.writes.push(end);
        now
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
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
