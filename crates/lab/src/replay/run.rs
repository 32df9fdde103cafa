//! The inner loop: one trace through three layers.
//!
//! A hit costs a look-up and the relinking of its frame; everything else (time, devices, the flash directory)
//! happens on a miss. Records are looked at in small batches; the table entries of the next one are touched
//! before, so that memory serves several at a time while this one is carried out.
//!
//! Records come in chunks: one for a trace in memory, several for a sample of which most is in a file.
//!
//! Invariant: records are carried out in the order of the trace, and how they are divided into chunks makes
//! no difference.

use super::clients::{Clients, Waiting};
use super::config::RunConfig;
use super::log_kept::{Kept, LogKept, Step};
use super::pool::{DIRTY, FDIRTY, Order, Pool, Victim};
use super::tier::{Layer, Totals};
use entresol_engine::Source;
use entresol_runtime::Time;
use entresol_trace::{Chunk, Op, Request, Trace, TraceError};
use std::hint::black_box;

/// Records whose entries are touched ahead.
const BATCH: usize = 16;
/// Points of the warm-up curve.
const CURVE_POINTS: usize = 60;

/// What DRAM counted while it was measured, for the whole run or for one relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Page references.
    pub references: u64,
    /// Of these, not in DRAM.
    pub misses: u64,
    /// Pages fetched from below: misses, but for pages that are replaced as a whole.
    pub fetches: u64,
    /// Of these, served from flash or staging.
    pub flash_hits: u64,
    /// Pages evicted newer than both disk and flash.
    pub dirty_evictions: u64,
    /// Host requests.
    pub requests: u64,
}

/// A point of the warm-up curve: a stretch of the trace that ends there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Virtual time, seconds.
    pub time_s: f64,
    /// References since the start of the run.
    pub references: u64,
    /// DRAM hits of the stretch's references.
    pub dram_hit_rate: f64,
    /// Flash hits of the stretch's DRAM misses.
    pub flash_hit_rate: f64,
    /// Pages read from flash and written to it since the measurement began.
    pub flash_pages: [u64; 2],
}

/// What one replay gave.
pub struct Replayed {
    /// Of the whole run.
    pub counts: Counts,
    /// By relation, where the trace has relations; references of relations are not counted here.
    pub relations: Vec<Counts>,
    /// Below DRAM.
    pub totals: Totals,
    /// What clients saw.
    pub waiting: Waiting,
    /// From the beginning of the run, measured or not.
    pub curve: Vec<Point>,
    /// Of the log above, if it is kept.
    pub log: Option<Kept>,
}

/// One run under way.
pub struct Replay<'t, O: Order, T> {
    config: &'t RunConfig,
    trace: &'t Trace,
    /// Where the stretch under way ends: at a point of the curve, or where the measurement begins.
    stretch_end: usize,
    /// What was counted before it.
    stretch_from: (Counts, u64),
    curve: Vec<Point>,
    /// The first record of the host request that the chunk before ended in.
    head_before: usize,
    relation_of: &'t [u16],
    pool: Pool<O>,
    tier: T,
    clients: Clients,
    log: Option<LogKept>,
    counts: Counts,
    /// References before this measurement.
    references_before: u64,
    relations: Vec<Counts>,
}

impl<'t, O: Order, T: Layer> Replay<'t, O, T> {
    /// A run of `config` over `trace`, with nothing in DRAM.
    pub fn new(config: &'t RunConfig, trace: &'t Trace, tier: T) -> Self {
        let relations = trace.relations.as_ref();
        Self {
            config,
            trace,
            stretch_end: 0,
            stretch_from: (Counts::default(), 0),
            curve: Vec::with_capacity(CURVE_POINTS + 1),
            head_before: 0,
            relation_of: relations.map_or(&[], |relations| relations.of_pages()),
            pool: Pool::new(trace.unique_pages(), config.dram_pages),
            tier,
            clients: Clients::new(config.arrival, config.hit_ns),
            log: None,
            counts: Counts::default(),
            references_before: 0,
            relations: vec![Counts::default(); relations.map_or(0, |relations| relations.len())],
        }
    }

    /// Replays it all. `progress` is told the share that is done.
    ///
    /// # Errors
    /// A failed read of a sample's temporary file.
    pub fn run(mut self, progress: &dyn Fn(f64)) -> Result<Replayed, TraceError> {
        if let Some(options) = self.config.keep_log {
            let log = LogKept::new(options);
            self.tier.checkpoint_complete(log.number());
            self.log = Some(log);
        }
        let records = self.config.records.clone();
        self.stretch_end = records.start;
        self.trace.each_chunk(&records, |chunk| self.chunk(&chunk, progress))?;
        let end_us = self.record_us(records.end)?;
        if self.config.flush_at_end {
            self.flush(end_us);
        }
        let references = self.all_references();
        Ok(Replayed {
            counts: self.counts,
            relations: self.relations,
            totals: self.tier.totals(),
            waiting: self.clients.finish(end_us, references),
            curve: self.curve,
            log: self.log.map(|log| log.kept()),
        })
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, progress: &dyn Fn(f64)) -> Result<(), TraceError> {
        let records = &self.config.records;
        let mut at = chunk.first;
        while at < chunk.end() {
            if at == self.stretch_end {
                self.begin_stretch(at);
            }
            let end = self.stretch_end.min(chunk.end());
            if self.config.dram_pages > 0 {
                self.stretch(chunk, at, end);
            } else {
                self.stretch_without_dram(chunk, at, end);
            }
            if end == self.stretch_end {
                self.end_stretch(end)?;
            }
            progress((end - records.start) as f64 / records.len() as f64);
            at = end;
        }
        self.head_before = self.head(chunk, chunk.end() - 1);
        Ok(())
    }

    /// The next stretch begins `at`.
    fn begin_stretch(&mut self, at: usize) {
        let records = &self.config.records;
        let step = records.len().div_ceil(CURVE_POINTS).max(1);
        let next_point = records.start + ((at - records.start) / step + 1) * step;
        let mut end = next_point.min(records.end);
        if at < self.config.measure_from {
            end = end.min(self.config.measure_from);
        }
        self.stretch_end = end;
        self.stretch_from = (self.counts, self.all_references());
    }

    fn end_stretch(&mut self, end: usize) -> Result<(), TraceError> {
        let (counts, before) = self.stretch_from;
        if self.config.measure_from == end {
            let end_us = self.record_us(end)?;
            self.begin_measurement(end_us);
        } else if self.all_references() > before {
            let end_us = self.record_us(end)?;
            let point = self.point(&counts, end_us);
            self.curve.push(point);
        }
        Ok(())
    }

    /// The time of a record in the trace, or of the last if there is none; 0 in a closed loop.
    fn record_us(&self, record: usize) -> Result<u64, TraceError> {
        if !self.clients.is_timed() {
            return Ok(0);
        }
        let last = self.trace.len().saturating_sub(1);
        Ok(self.trace.time_us(record.min(last))?.unwrap_or(0))
    }

    fn all_references(&self) -> u64 {
        self.references_before + self.counts.references
    }

    fn begin_measurement(&mut self, at_us: u64) {
        self.references_before += self.counts.references;
        self.counts = Counts::default();
        self.relations.fill(Counts::default());
        self.tier.begin_measurement();
        self.log.iter_mut().for_each(LogKept::begin_measurement);
        self.clients.begin_measurement(at_us, self.references_before);
    }

    fn point(&self, before: &Counts, end_us: u64) -> Point {
        let now = &self.counts;
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let fetches = now.fetches - before.fetches;
        let tier = self.tier.totals().tier;
        Point {
            time_s: self.clients.time(end_us, self.all_references()).0 as f64 / 1e9,
            references: self.all_references(),
            dram_hit_rate: 1.0 - share(now.misses - before.misses, now.references - before.references),
            flash_hit_rate: share(now.flash_hits - before.flash_hits, fetches),
            flash_pages: [tier.flash_hits + tier.dequeue_reads, tier.flash_writes],
        }
    }

    /// Replays the records `from .. to` of `chunk` through DRAM and the layers below.
    fn stretch(&mut self, chunk: &Chunk<'_>, from: usize, to: usize) {
        let requests = &chunk.requests[..to - chunk.first];
        let end = requests.len();
        let batch_at = |at: usize| &requests[at.min(end)..(at + BATCH).min(end)];
        let mut at = from - chunk.first;
        self.warm(batch_at(at));
        while at < end {
            self.warm(batch_at(at + BATCH));
            for (offset, request) in batch_at(at).iter().enumerate() {
                self.record(chunk, at + offset, *request);
            }
            at += BATCH;
        }
    }

    /// Touches in memory what the records of `batch` will need.
    #[inline(always)]
    fn warm(&self, batch: &[Request]) {
        let pages = batch.iter().map(|request| request.page());
        black_box(self.pool.warm(pages.clone()) ^ self.tier.warm(pages));
    }

    /// Carries out the record `within` the chunk.
    #[inline(always)]
    fn record(&mut self, chunk: &Chunk<'_>, within: usize, request: Request) {
        if request.is_reference() {
            match self.pool.reference(request.page()) {
                Some(frame) => {
                    if request.changes() {
                        self.pool.soil(frame);
                    }
                }
                None => self.miss(chunk, chunk.first + within, request),
            }
            self.counts.references += 1;
            self.counts.requests += u64::from(!request.continues());
            if request.changes() {
                self.changed();
            }
        } else {
            self.changed();
            match self.pool.peek(request.page()) {
                Some(frame) => self.pool.soil(frame),
                // It left between its reference and its change, which happens where DRAM is very small: it is
                // fetched again.
                None => self.miss(chunk, chunk.first + within, request),
            }
        }
    }

    /// A change is logged.
    #[inline(always)]
    fn changed(&mut self) {
        if let Some(log) = &mut self.log {
            log.changed();
        }
    }

    /// Does what is due for the log that is kept, behind the references.
    #[inline(always)]
    fn keep_log(&mut self, now: Time) {
        if let Some(step) = self.log.as_mut().and_then(LogKept::due) {
            self.step(step, now);
        }
    }

    #[inline(never)]
    fn step(&mut self, step: Step, now: Time) {
        let Some(log) = &mut self.log else { return };
        match step {
            Step::Copy { number, parts } => {
                log.copied(self.tier.bring_to_disk(number, parts, now, &mut self.pool));
            }
            Step::Checkpoint { number } => {
                let redo_point = log.logged();
                let changed: Vec<Victim> =
                    self.pool.resident().filter(|page| page.dirty() && page.fdirty()).collect();
                for victim in changed {
                    self.pool.handed_down(victim.page);
                    self.tier.evict(victim, now, &mut self.pool);
                }
                log.copied(self.tier.bring_to_disk(number, 1, now, &mut self.pool));
                let told = self.tier.horizon(now, &mut self.pool);
                self.tier.checkpoint_complete(log.complete(redo_point, told));
            }
        }
    }

    /// The first record of the host request that `index`, in `chunk`, belongs to.
    fn head(&self, chunk: &Chunk<'_>, mut index: usize) -> usize {
        while index > self.config.records.start && chunk.requests[index - chunk.first].continues() {
            if index == chunk.first {
                return self.head_before;
            }
            index -= 1;
        }
        index
    }

    /// The host request that `index` belongs to misses DRAM: when does it begin?
    fn begin(&mut self, chunk: &Chunk<'_>, index: usize) -> Time {
        let head = self.head(chunk, index);
        // Pages of one request have one time: a head in the chunk before has that of this chunk's first.
        let head_us = chunk.times_us.get(head.max(chunk.first) - chunk.first).copied().unwrap_or(0);
        self.clients.begin(head, head_us, self.all_references())
    }

    #[inline(never)]
    fn miss(&mut self, chunk: &Chunk<'_>, index: usize, request: Request) {
        let page = request.page();
        let mut now = self.begin(chunk, index);
        self.keep_log(now);
        if self.pool.free_frames() == 0 {
            let victim = self.pool.take_coldest().expect("a pool without free frames is full");
            self.count_departed(victim);
            now = self.tier.evict(victim, now, &mut self.pool);
        }
        self.count_miss(request);
        let mut flags = 0;
        if self.config.whole_writes && request.op() == Op::Write {
            self.clients.until(now);
        } else {
            flags = self.fetch(page, now);
        }
        let flags = if request.changes() { DIRTY | FDIRTY } else { flags };
        self.pool.enter(page, flags);
    }

    /// Fetches a page that is not in DRAM; returns its flags.
    fn fetch(&mut self, page: u32, now: Time) -> u8 {
        let found = self.tier.fetch(page, now, &mut self.pool);
        let hit = u64::from(found.source != Source::Disk);
        self.counts.fetches += 1;
        self.counts.flash_hits += hit;
        if let Some(relation) = self.relation(page) {
            relation.fetches += 1;
            relation.flash_hits += hit;
        }
        self.clients.until(found.done);
        found.flags
    }

    fn relation(&mut self, page: u32) -> Option<&mut Counts> {
        let relation = *self.relation_of.get(page as usize)?;
        Some(&mut self.relations[usize::from(relation)])
    }

    fn count_miss(&mut self, request: Request) {
        let missed = u64::from(request.is_reference());
        self.counts.misses += missed;
        if let Some(relation) = self.relation(request.page()) {
            relation.misses += missed;
        }
    }

    fn count_departed(&mut self, victim: Victim) {
        if victim.dirty() && victim.fdirty() {
            self.counts.dirty_evictions += 1;
            if let Some(relation) = self.relation(victim.page) {
                relation.dirty_evictions += 1;
            }
        }
    }

    /// Replays records without DRAM above: what is read is evicted at once, what is written goes
    /// straight down.
    fn stretch_without_dram(&mut self, chunk: &Chunk<'_>, from: usize, to: usize) {
        for index in from..to {
            let request = chunk.requests[index - chunk.first];
            let page = request.page();
            let now = self.begin(chunk, index);
            self.keep_log(now);
            self.count_miss(request);
            if request.changes() {
                self.changed();
            }
            let flags = if request.changes() { DIRTY | FDIRTY } else { self.fetch(page, now) };
            let victim = Victim { page, flags };
            self.count_departed(victim);
            let done = self.tier.evict(victim, now, &mut self.pool);
            self.clients.until(done);
            self.counts.references += u64::from(request.is_reference());
            self.counts.requests += u64::from(!request.continues());
        }
    }

    /// Writes everything that is newer than disk there.
    fn flush(&mut self, end_us: u64) {
        let mut now = self.clients.time(end_us, self.all_references());
        let dirty: Vec<Victim> = self.pool.resident().filter(|page| page.dirty()).collect();
        for victim in dirty {
            now = self.tier.evict(victim, now, &mut self.pool);
        }
        self.tier.flush(now, &mut self.pool);
    }
}
