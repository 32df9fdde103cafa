//! When the cache steps aside: which requests bypass it, and which pages do not enter it.
//!
//! | file | what it decides |
//! |---|---|
//! | `streams` | which requests belong to a long sequential stream |
//! | `overrun` | whether writes bypass a cache that they overrun |
//! | `route` | which hits are read from disk, because flash would take longer |
//! | `counts` | decisions, counted by reason; durations of reads and writes |
//!
//! The engine's [`Budget`] limits the writes to flash in a day; the core's [`Switcher`] decides whether
//! another policy would do better. These files do no I/O and read no clock. This one feeds them: it takes the
//! time, four times a second while there are requests, and the counts of the cache since.
//!
//! Invariant: whatever is decided here, a request reads and writes the same bytes. Nothing but speed and the
//! contents of the cache depend on it.

mod counts;
mod overrun;
mod route;
#[cfg(test)]
mod route_tests;
mod streams;

pub use counts::{Bypassed, Latency};
pub use streams::Streams;

use counts::Counts;
pub(crate) use counts::Place;
use entresol_core::{Advice, Directory, PolicyKind, Switcher, WritebackOptions};
use entresol_engine::PageCache;
use entresol_engine::{Budget, DailyWrites, ReadCounts, ReadRoute};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use overrun::{Overrun, Writes};
use route::{Costs, Probe, Reads, Router, TICK};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Longer reads do not show how slow a disk is: most of their time is transfer.
const TELLING_PAGES_MAX: u64 = 16;
/// Flash writes are the bottleneck while as many as may be are under way for this part of the time. One alone
/// is under way all the time when clients flush each write: each flush waits for its own.
const BUSY: f64 = 0.9;
/// Reads do not enter a flash device that is so slow that this part of its hits is read from disk.
const SLOW_SHARE: f64 = 0.5;

/// The options of a volume's owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteerOptions {
    /// A sequential stream of this many bytes bypasses the cache. 0: never.
    pub sequential_bypass_bytes: u64,
    /// Hits are read from disk while flash is slower.
    pub hits_to_disk: bool,
    /// The budget of writes to flash.
    pub flash_writes_per_day: DailyWrites,
    /// Writes bypass the cache while this percentage of it is newer than disk. 100: never.
    pub dirty_percent_max: u64,
    /// Pages that are newer than disk for longer are copied there. Seconds; 0: when their room is needed.
    pub dirty_age_seconds: u64,
    /// The cache takes another policy when its shadows advise it, if it keeps its pages then.
    pub switch_policy: bool,
}

impl Default for SteerOptions {
    fn default() -> Self {
        Self {
            sequential_bypass_bytes: 4 << 20,
            hits_to_disk: true,
            flash_writes_per_day: DailyWrites::Unlimited,
            dirty_percent_max: 100,
            dirty_age_seconds: 60,
            switch_policy: false,
        }
    }
}

/// Why a request bypasses the cache, or a page does not enter it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    Sequential = 1,
    SlowFlash = 2,
    BusyFlash = 3,
    Budget = 4,
    DirtyLimit = 5,
    Overrun = 6,
}

impl Why {
    const ALL: [Why; 6] =
        [Why::Sequential, Why::SlowFlash, Why::BusyFlash, Why::Budget, Why::DirtyLimit, Why::Overrun];

    fn of(number: u8) -> Option<Why> {
        Self::ALL.into_iter().find(|why| *why as u8 == number)
    }
}

struct State {
    options: SteerOptions,
    router: Router,
    budget: Budget,
    overrun: Overrun,
    last: Time,
    /// The counts of the cache at that time: pages written to flash and to disk, microseconds of writes,
    /// populations, and populations that found no room in staging.
    flash_writes: u64,
    disk_writes: u64,
    writing_us: u64,
    populated: u64,
    dropped: u64,
    switcher: Switcher,
    /// The change to make, and the last one.
    advice: Option<Advice>,
    followed: Option<Advice>,
}

/// Reads of one device.
#[derive(Default)]
struct Queue {
    under_way: AtomicU64,
    /// Since the last tick, as [`Reads`]; the time in nanoseconds.
    count: AtomicU64,
    nanos: AtomicU64,
    queued: AtomicU64,
}

impl Queue {
    fn take(&self) -> Reads {
        Reads {
            count: self.count.swap(0, Relaxed),
            time: Duration::from_nanos(self.nanos.swap(0, Relaxed)),
            queued: self.queued.swap(0, Relaxed),
        }
    }
}

/// A piece of a read under way, until dropped.
pub(crate) struct UnderWay<'a> {
    steering: &'a Steering,
    /// How it is read, and why not as usual.
    pub how: ReadRoute,
    why: Option<Why>,
    /// Which queue it is in, and how many are, itself included.
    queue: usize,
    queued: u64,
    begin: Time,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.steering.queues[self.queue].under_way.fetch_sub(1, Relaxed);
    }
}

const FLASH: usize = 0;
const DISK: usize = 1;

/// See the module's header.
pub(crate) struct Steering {
    state: TinyMutex<State>,
    next_tick: AtomicU64,
    sequential_bytes: AtomicU64,
    /// The delay for each read under way, nanoseconds: of flash, and of disk.
    costs: [AtomicU64; 2],
    /// Hits since the last tick: read from flash, and from disk.
    hits: [AtomicU64; 2],
    probe_disk: AtomicBool,
    probe_flash: AtomicBool,
    /// [`Why`] pages that were read stay out, and writes bypass the cache; 0: they do not.
    stays_out: AtomicU8,
    writes_around: AtomicU8,
    /// There is advice that was not followed yet.
    is_advised: AtomicBool,
    /// Reads of flash, and of disk.
    queues: [Queue; 2],
    /// Writes since the last tick, but of sequential streams: pages, and nanoseconds.
    written: [AtomicU64; 2],
    pub counts: Counts,
}

impl Steering {
    pub fn new() -> Self {
        let state = State {
            options: SteerOptions::default(),
            router: Router::default(),
            budget: Budget::new(None),
            overrun: Overrun::default(),
            last: now(),
            flash_writes: 0,
            disk_writes: 0,
            writing_us: 0,
            populated: 0,
            dropped: 0,
            switcher: Switcher::default(),
            advice: None,
            followed: None,
        };
        Self {
            sequential_bytes: AtomicU64::new(state.options.sequential_bypass_bytes),
            state: TinyMutex::new(Rank::Steering, state),
            next_tick: AtomicU64::new((now() + TICK).0),
            costs: Default::default(),
            hits: Default::default(),
            probe_disk: AtomicBool::new(false),
            probe_flash: AtomicBool::new(false),
            stays_out: AtomicU8::new(0),
            writes_around: AtomicU8::new(0),
            is_advised: AtomicBool::new(false),
            queues: Default::default(),
            written: Default::default(),
            counts: Counts::default(),
        }
    }

    /// Other options from now on, for a flash device of `flash_bytes`.
    pub fn set(&self, options: SteerOptions, flash_bytes: u64) {
        let mut state = self.state.lock();
        let bytes = options.flash_writes_per_day.bytes(flash_bytes);
        if bytes != state.options.flash_writes_per_day.bytes(flash_bytes) {
            state.budget = Budget::new(bytes);
        }
        if !options.hits_to_disk {
            state.router = Router::default();
            self.costs.iter().for_each(|cost| cost.store(0, Relaxed));
        }
        self.sequential_bytes.store(options.sequential_bypass_bytes, Relaxed);
        state.options = options;
    }

    /// When pages of a cache of so many slots are copied to disk before their turn.
    pub fn writeback(&self, slots: u64) -> WritebackOptions {
        let SteerOptions { dirty_percent_max, dirty_age_seconds, .. } = self.state.lock().options;
        let age_ns = Some(dirty_age_seconds).filter(|seconds| *seconds > 0);
        WritebackOptions {
            age_ns: age_ns.map_or(u64::MAX, |seconds| seconds.saturating_mul(1_000_000_000)),
            dirty_max: match dirty_percent_max {
                100 => u32::MAX,
                percent => u32::try_from(slots * percent / 100).unwrap_or(u32::MAX).max(1),
            },
        }
    }

    /// The options, the share of the hits that is read from disk, in thousandths, and the rest of the budget.
    pub fn state(&self) -> (SteerOptions, u64, Option<u64>) {
        let state = self.state.lock();
        (state.options, (state.router.share() * 1000.0) as u64, state.budget.left())
    }

    /// Whether there is advice that was not taken.
    pub fn has_advice(&self) -> bool {
        self.is_advised.load(Relaxed)
    }

    /// The policy that the cache shall take: told once.
    pub fn take_advice(&self) -> Option<Advice> {
        let is_advised = self.is_advised.load(Relaxed) && self.is_advised.swap(false, Relaxed);
        is_advised.then(|| self.state.lock().advice.take())?
    }

    /// The cache has taken the advised policy.
    pub fn was_followed(&self, advice: Advice) {
        self.state.lock().followed = Some(advice);
    }

    /// The last advice that was followed.
    pub fn followed(&self) -> Option<Advice> {
        self.state.lock().followed
    }

    /// Whether the last request of a stream of so many bytes bypasses the cache.
    pub fn is_long(&self, stream_bytes: u64) -> bool {
        let limit = self.sequential_bytes.load(Relaxed);
        limit > 0 && stream_bytes >= limit
    }

    /// A piece of a read of so many pages begins; `is_cached`: its first page is in the cache.
    pub fn reads(&self, pages: u64, is_sequential: bool, is_cached: bool) -> UnderWay<'_> {
        let to_disk = !is_sequential && is_cached && self.prefers_disk(pages);
        let (how, why) = match Why::of(self.stays_out.load(Relaxed)) {
            _ if is_sequential => (ReadRoute::Around, Some(Why::Sequential)),
            _ if to_disk => (ReadRoute::Around, Some(Why::SlowFlash)),
            Some(why) => (ReadRoute::StaysOut, Some(why)),
            None => (ReadRoute::Populates, None),
        };
        if is_cached && !is_sequential {
            self.hits[usize::from(to_disk)].fetch_add(1, Relaxed);
        }
        self.begins(if is_cached && how != ReadRoute::Around { FLASH } else { DISK }, how, why)
    }

    /// A hit of this many pages may have to be read from disk: [`Steering::reads`] decides.
    pub fn may_go_to_disk(&self, pages: u64) -> bool {
        self.probe_disk.load(Relaxed) || self.is_disk_sooner(pages)
    }

    /// A hit is read from flash.
    pub fn reads_flash(&self) -> UnderWay<'_> {
        self.hits[FLASH].fetch_add(1, Relaxed);
        self.begins(FLASH, ReadRoute::Populates, None)
    }

    fn begins(&self, queue: usize, how: ReadRoute, why: Option<Why>) -> UnderWay<'_> {
        let queued = self.queues[queue].under_way.fetch_add(1, Relaxed) + 1;
        UnderWay { steering: self, how, why, queue, queued, begin: now() }
    }

    /// Whether a hit is read from disk.
    fn prefers_disk(&self, pages: u64) -> bool {
        let is_asked = |probe: &AtomicBool| probe.load(Relaxed) && probe.swap(false, Relaxed);
        if is_asked(&self.probe_disk) {
            return true;
        }
        if is_asked(&self.probe_flash) {
            return false;
        }
        self.is_disk_sooner(pages)
    }

    /// Whether a hit is served sooner by the disk, as far as is known.
    fn is_disk_sooner(&self, pages: u64) -> bool {
        let [flash, disk] = &self.queues;
        let costs = Costs { flash: self.costs[FLASH].load(Relaxed), disk: self.costs[DISK].load(Relaxed) };
        costs.prefer_disk(pages, flash.under_way.load(Relaxed), disk.under_way.load(Relaxed))
    }

    /// Why a write of whole pages bypasses the cache, if it does.
    pub fn writing(&self, is_sequential: bool) -> Option<Why> {
        if is_sequential { Some(Why::Sequential) } else { Why::of(self.writes_around.load(Relaxed)) }
    }

    /// A piece of a read has ended.
    pub fn was_read(&self, served: &ReadCounts, piece: &UnderWay<'_>) {
        let took = now().since(piece.begin);
        self.counts.read(served, took);
        match (piece.how, piece.why) {
            (ReadRoute::Around, Some(why)) => self.counts.bypassed(why, |all| &all.reads, served.disk),
            (_, Some(why)) => self.counts.bypassed(why, |all| &all.stayed_out, served.disk),
            (_, None) => {}
        }
        let pages = served.staging + served.flash + served.disk;
        let is_telling = match piece.queue {
            FLASH => served.flash == pages,
            _ => served.disk == pages && piece.why != Some(Why::Sequential) && pages <= TELLING_PAGES_MAX,
        };
        if is_telling {
            let queue = &self.queues[piece.queue];
            queue.count.fetch_add(1, Relaxed);
            queue.nanos.fetch_add(took.as_nanos() as u64, Relaxed);
            let requests = if piece.queue == FLASH { pages } else { 1 };
            queue.queued.fetch_add(piece.queued * requests, Relaxed);
        }
    }

    /// A piece of a write has ended, of which so many pages went around the cache.
    pub fn was_written(&self, pages: u64, around: u64, begin: Time, why: Option<Why>) {
        let (place, took) =
            (if around == pages { Place::DiskWrite } else { Place::CacheWrite }, now().since(begin));
        self.counts.took(place, took);
        if why != Some(Why::Sequential) {
            let [all, nanos] = &self.written;
            all.fetch_add(pages, Relaxed);
            nanos.fetch_add(took.as_nanos() as u64, Relaxed);
        }
        if let Some(why) = why {
            self.counts.bypassed(why, |all| &all.writes, around);
        }
    }

    /// To be called with each request: decides anew when it is time.
    pub fn tick_if_due(&self, tier: &dyn PageCache) {
        let (time, due) = (now(), self.next_tick.load(Relaxed));
        let next = time.0.saturating_add(TICK.as_nanos() as u64);
        if time.0 >= due && self.next_tick.compare_exchange(due, next, Relaxed, Relaxed).is_ok() {
            self.tick(tier, time);
        }
    }

    fn tick(&self, tier: &dyn PageCache, time: Time) {
        let metrics = tier.metrics();
        let dirty_percent = tier.dirty_pages() * 100 / metrics.slots.max(1);
        let (page_bytes, spares, workers) = (tier.page_bytes(), tier.is_log(), tier.write_workers());
        let [flash, disk] = self.queues.each_ref().map(Queue::take);
        let [from_flash, from_disk] = self.hits.each_ref().map(|hits| hits.swap(0, Relaxed));
        let [pages, nanos] = self.written.each_ref().map(|written| written.swap(0, Relaxed));
        let mut state = self.state.lock();
        let passed = time.since(state.last);
        // A drain, or another mode, begins the counters anew.
        let since = |now: u64, then: &mut u64| {
            let then = std::mem::replace(then, now);
            now.checked_sub(then).unwrap_or(now)
        };
        let written = since(metrics.flash_writes, &mut state.flash_writes) * page_bytes;
        let to_disk = since(metrics.disk_writes, &mut state.disk_writes);
        let writing = Duration::from_micros(since(metrics.write_durations.total_us, &mut state.writing_us));
        let populated = since(metrics.populated, &mut state.populated);
        let dropped = since(metrics.population_dropped, &mut state.dropped);
        state.last = time;
        state.budget.tick(passed, written);
        let allowed = state.budget.allowed();
        if state.options.hits_to_disk {
            match state.router.tick(&flash, &disk, (from_flash, from_disk)) {
                None => {}
                Some(Probe::Disk) => self.probe_disk.store(true, Relaxed),
                Some(Probe::Flash) => self.probe_flash.store(true, Relaxed),
            }
            let costs = state.router.costs();
            self.costs[FLASH].store(costs.flash, Relaxed);
            self.costs[DISK].store(costs.disk, Relaxed);
        }
        let is_busy = writing.as_secs_f64() >= BUSY * passed.as_secs_f64() * workers as f64;
        let stays_out = match () {
            () if state.router.share() > SLOW_SHARE => Some(Why::SlowFlash),
            () if !allowed.reads => Some(Why::Budget),
            // Some find no room when many arrive at once.
            () if is_busy || dropped > populated => Some(Why::BusyFlash),
            () => None,
        };
        self.stays_out.store(stays_out.map_or(0, |why| why as u8), Relaxed);
        let is_overrun = {
            let (took, is_disk_slow) = (Duration::from_nanos(nanos), state.router.is_disk_slow());
            state.overrun.tick(&Writes { passed, pages, took, to_disk, is_disk_slow })
        };
        let limit = state.options.dirty_percent_max;
        let around = match () {
            () if limit < 100 && dirty_percent >= limit => Some(Why::DirtyLimit),
            () if !allowed.writes => Some(Why::Budget),
            () if is_overrun => Some(Why::Overrun),
            () => None,
        };
        self.writes_around.store(around.map_or(0, |why| why as u8), Relaxed);
        let worth = state.budget.write_worth_permille();
        if state.options.switch_policy {
            // Of other policies the pages would not be found.
            let may = |policy: PolicyKind| policy.directory() == Directory::Log;
            let told: Vec<_> = metrics.forecasts.iter().copied().collect();
            if let Some(advice) = state.switcher.look(&told, &tier.costs(), may) {
                state.advice = Some(advice);
                self.is_advised.store(true, Relaxed);
            }
        }
        drop(state);
        tier.set_write_worth(worth);
        if spares {
            tier.spare_writes(is_busy || !allowed.chances);
        }
    }
}
