//! Shadows: what other policies, or another size of flash, would make of a cache's load. Small partitions see
//! one page of many, drawn by its hash, and decide as caches that are smaller by as much (*Cache Modeling and
//! Optimization using Miniature Simulations*, Waldspurger et al., ATC 2017). They store nothing.
//!
//! | candidate | tells |
//! |---|---|
//! | the cache's own policy, same size | how far a sample is from the cache itself |
//! | the same, half and twice the size | whether flash pays |
//! | other policies, same size | which one would do better |
//!
//! A shadow hears of a page what the cache hears: that it is fetched, and that DRAM evicts it. Whether the
//! page is then newer than disk depends on the shadow: it is if it has changed since it was fetched, or if
//! the shadow holds it as a dirty one. Pages that are forgotten stay until they are evicted.
//!
//! Invariants: all memory is one region, of at most a [`SHARE`]th of the directory's. A page that is not
//! drawn costs a hash.

use crate::config::Config;
use crate::costs::Costs;
use crate::job::{Admission, Fate, Job, Lookup};
use crate::mode::Mode;
use crate::partition::Partition;
use crate::policy::PolicyKind;
use crate::region::{Shape, region_bytes};
use crate::sample::Drawn;
use crate::{Lsn, PageId};
use arrayvec::ArrayVec;
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most candidates.
pub const SHADOWS_MAX: usize = 8;
/// The shadows' memory is at most the directory's part of so many.
pub const SHARE: usize = 20;
/// Of so many pages, as a power of two, at most one is drawn.
const SHIFT_MIN: u32 = 6;
const SHIFT_MAX: u32 = 16;
/// Fewest slots of a shadow.
const SLOTS_MIN: u32 = 256;
/// Staging of a shadow: nothing waits for it.
const STAGING_GROUPS: u32 = 2;
/// Counts of the recent past fade by half after as many fetches as this times the slots of a shadow.
const RECENT: u64 = 4;
/// A shadow tells nothing until as many pages have been fetched as it has slots, times this.
const SETTLED: u64 = 4;
const SEED: u64 = 0x5AD0;

/// Policies of the shadows of each cache, where its mode allows them.
const OTHERS: [PolicyKind; 5] =
    [PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc, PolicyKind::S3Fifo, PolicyKind::ReuseSlots];

/// A cache that could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its policy.
    pub policy: PolicyKind,
    /// Its flash, in per cent of the cache's.
    pub percent: u32,
}

/// What a candidate has done, so far and recently. In pages of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// Fetched.
    pub fetches: u64,
    /// Of these, found on flash or in staging.
    pub hits: u64,
    /// Written to flash.
    pub flash_writes: u64,
    /// Written to disk.
    pub disk_writes: u64,
    /// Read from flash to be written again, there or to disk.
    pub dequeue_reads: u64,
    /// By so many more pages of the cache are newer than disk, and are to be written there later.
    pub owed: i64,
}

impl Counts {
    /// What was counted after `before`.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        Self {
            fetches: self.fetches - before.fetches,
            hits: self.hits - before.hits,
            flash_writes: self.flash_writes - before.flash_writes,
            disk_writes: self.disk_writes - before.disk_writes,
            dequeue_reads: self.dequeue_reads - before.dequeue_reads,
            owed: self.owed - before.owed,
        }
    }

    /// Adds what others counted.
    pub(crate) fn add(&mut self, others: &Self) {
        self.fetches += others.fetches;
        self.hits += others.hits;
        self.flash_writes += others.flash_writes;
        self.disk_writes += others.disk_writes;
        self.dequeue_reads += others.dequeue_reads;
        self.owed += others.owed;
    }

    /// Forgets half of it.
    pub(crate) fn halve(&mut self) {
        let Self { fetches, hits, flash_writes, disk_writes, dequeue_reads, owed } = self;
        *owed /= 2;
        for count in [fetches, hits, flash_writes, disk_writes, dequeue_reads] {
            *count /= 2;
        }
    }
}

/// What a shadow tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Of which cache.
    pub candidate: Candidate,
    /// Slots of the shadow.
    pub slots: u32,
    /// Since the shadows began.
    pub all: Counts,
    /// The same, in which what is long past fades.
    pub recent: Counts,
    /// It has seen enough to be told.
    pub is_settled: bool,
}

impl Forecast {
    /// The recent share of fetches that hit, in tenths of a per cent.
    pub fn hit_permille(&self) -> u64 {
        self.recent.hits * 1000 / self.recent.fetches.max(1)
    }
}

/// Why a cache has no shadows: the end of a sentence that begins with the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoShadows(pub &'static str);

#[derive(Clone, Copy, Debug)]
struct Planned {
    candidate: Candidate,
    config: Config,
    /// Where its partition is in the region.
    at: usize,
    bytes: usize,
}

/// Which shadows a cache has, and where they are in their region.
#[derive(Clone, Debug)]
pub struct ShadowPlan {
    drawn: Drawn,
    shift: u32,
    planned: ArrayVec<Planned, SHADOWS_MAX>,
}

/// Begins the region.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    all: [Counts; SHADOWS_MAX],
    recent: [Counts; SHADOWS_MAX],
}

impl ShadowPlan {
    /// The shadows of a cache of this configuration, in `mode`.
    ///
    /// # Errors
    /// [`NoShadows`].
    pub fn of(config: &Config, mode: Mode) -> Result<Self, NoShadows> {
        if config.policy.exclusive() {
            return Err(NoShadows("gives its pages up to memory, which no shadow can follow"));
        }
        if config.policy == PolicyKind::Tac {
            return Err(NoShadows("knows the temperatures of neighbours, of which a sample has none"));
        }
        let plans = (SHIFT_MIN..=SHIFT_MAX).map(|shift| Self::at(config, mode, shift));
        let most = region_bytes(config) / SHARE;
        plans.map_while(|plan| plan).find(|plan| plan.bytes() <= most).ok_or(NoShadows(
            "is too small: shadows would take more than a twentieth of its directory's memory",
        ))
    }

    /// With one of 2^`shift` pages. `None`: a shadow would be too small to tell anything.
    fn at(config: &Config, mode: Mode, shift: u32) -> Option<Self> {
        let own = [100, 50, 200].map(|percent| Candidate { policy: config.policy, percent });
        let is_possible = |policy: &PolicyKind| *policy != config.policy && policy.refusal(mode).is_none();
        let others = OTHERS.into_iter().filter(is_possible);
        let others = others.map(|policy| Candidate { policy, percent: 100 });
        let (mut planned, mut at) = (ArrayVec::new(), size_of::<Head>());
        for candidate in own.into_iter().chain(others) {
            let slots = u64::from(config.slots) * u64::from(candidate.percent) / 100;
            let whole = Config::with_group(candidate.policy, u32::try_from(slots).ok()?, config.group_pages);
            let slots = (slots >> shift) as u32;
            if slots < SLOTS_MIN {
                return None;
            }
            let sampled = Config::of_sample(&whole, slots, 0.5f64.powi(shift as i32));
            let sampled = Config { staging_groups: STAGING_GROUPS, proofs: false, ..sampled };
            sampled.validate().ok()?;
            let bytes = region_bytes(&sampled);
            planned.push(Planned { candidate, config: sampled, at, bytes });
            at += bytes;
        }
        Some(Self { drawn: Drawn::one_of(shift, SEED), shift, planned })
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> usize {
        self.planned.last().map_or(size_of::<Head>(), |last| last.at + last.bytes)
    }

    /// One page of so many is drawn.
    pub fn one_of(&self) -> u64 {
        1 << self.shift
    }

    /// Whether the shadows are to be told of `page`.
    #[inline]
    pub fn holds(&self, page: PageId) -> bool {
        self.drawn.holds(page)
    }

    /// Makes `region`, which has [`ShadowPlan::bytes`] and is aligned to 8 of them, that of empty shadows.
    ///
    /// # Panics
    /// If it is another one.
    pub fn format<'r>(&'r self, region: &'r mut [u8], costs: &Costs) -> Shadows<'r> {
        region.fill(0);
        for planned in &self.planned {
            let mut partition =
                Partition::format(&mut region[planned.range()], &planned.config).expect("it was validated");
            partition.set_costs(costs);
        }
        self.attach(region)
    }

    /// Attaches to a region that was formatted.
    ///
    /// # Panics
    /// If it is another one.
    pub fn attach<'r>(&'r self, region: &'r mut [u8]) -> Shadows<'r> {
        assert!(region.len() == self.bytes(), "a region of {} bytes is not the shadows'", region.len());
        Shadows { plan: self, region }
    }
}

impl Planned {
    fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes
    }
}

/// The shadows of a cache. To be told of pages that the plan [holds](ShadowPlan::holds).
pub struct Shadows<'r> {
    plan: &'r ShadowPlan,
    region: &'r mut [u8],
}

impl Shadows<'_> {
    /// What the owner wants, and what devices cost, from now on.
    pub fn set_costs(&mut self, costs: &Costs) {
        self.each(|partition, _| partition.set_costs(costs));
    }

    /// DRAM misses `page`.
    pub fn fetch(&mut self, page: PageId) {
        self.each(|partition, counts| {
            counts.fetches += 1;
            if partition.fetch(page) != Lookup::Absent {
                counts.hits += 1;
                return;
            }
            let policy = partition.config().policy;
            if policy.learns_from_misses() {
                partition.missed(page);
            }
            if policy.populates()
                && let Some(slots) = partition.slots_mut()
                && let Admission::Stage { frame, .. } = slots.arrived(page)
            {
                partition.staged(frame);
                settle(partition, counts);
            }
        });
        let recent_fetches = RECENT * u64::from(self.plan.planned[0].config.slots);
        let (head, _) = Head::mut_from_prefix(self.region).expect("the region begins with its head");
        if head.recent[0].fetches >= recent_fetches {
            head.recent.iter_mut().for_each(Counts::halve);
        }
    }

    /// DRAM evicts `page`. `dirty`: it may be newer than disk; `fdirty`: it has changed since it was fetched.
    /// A page that has changed and is not newer than disk was written there first.
    pub fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool) {
        self.each(|partition, counts| {
            counts.disk_writes += u64::from(fdirty && !dirty);
            let held = partition.peek(page);
            let held_dirty =
                matches!(held, Lookup::Staged { dirty: true, .. } | Lookup::Flash { dirty: true, .. });
            let dirty = dirty && (fdirty || held_dirty);
            loop {
                match partition.evict(page, Lsn(1), dirty, fdirty) {
                    Admission::AlreadyThere => return,
                    Admission::Full => settle(partition, counts),
                    Admission::Bypass { .. } => {
                        counts.disk_writes += u64::from(dirty);
                        return;
                    }
                    Admission::Stage { frame, position } => {
                        partition.staged(frame);
                        let group = u64::from(partition.config().group_pages);
                        if partition.write_due(frame) || position.0.is_multiple_of(group) {
                            settle(partition, counts);
                        }
                        return;
                    }
                }
            }
        });
    }

    /// What each candidate tells.
    pub fn forecasts(&mut self) -> ArrayVec<Forecast, SHADOWS_MAX> {
        let (head, _) = Head::mut_from_prefix(self.region).expect("the region begins with its head");
        let planned = self.plan.planned.iter().enumerate();
        planned
            .map(|(nth, planned)| Forecast {
                candidate: planned.candidate,
                slots: planned.config.slots,
                all: head.all[nth],
                recent: head.recent[nth],
                is_settled: head.all[nth].fetches >= SETTLED * u64::from(planned.config.slots),
            })
            .collect()
    }

    /// Does `step` with each partition, and adds what it counts.
    fn each(&mut self, mut step: impl FnMut(&mut Partition<'_>, &mut Counts)) {
        for (nth, planned) in self.plan.planned.iter().enumerate() {
            let mut counts = Counts::default();
            let region = &mut self.region[planned.range()];
            let shape = Shape::known(&planned.config);
            let mut partition = Partition::attach_to(region, &shape);
            let dirty = i64::from(partition.occupancy().dirty);
            step(&mut partition, &mut counts);
            counts.owed = i64::from(partition.occupancy().dirty) - dirty;
            let (head, _) = Head::mut_from_prefix(self.region).expect("the region begins with its head");
            for sum in [&mut head.all[nth], &mut head.recent[nth]] {
                sum.add(&counts);
            }
        }
    }
}

/// Does all jobs of a partition at once, in the order of an engine with one writer: all writes, then all
/// background jobs, and again.
pub(crate) fn settle(partition: &mut Partition<'_>, counts: &mut Counts) {
    loop {
        write_all(partition, counts);
        let mut any = false;
        while let Some(job) = partition.next_background() {
            any = true;
            match job {
                Job::Write { .. } => unreachable!("next_background gives no write jobs"),
                // The coldest pages of DRAM are not in the sample.
                Job::PullVictims(_) => {}
                Job::Clean(page) => {
                    counts.disk_writes += 1;
                    counts.dequeue_reads += 1;
                    partition.cleaned(&page);
                }
                Job::Dequeue { ticket, pages, .. } => {
                    for page in pages.iter().filter(|page| page.page.is_some()) {
                        counts.dequeue_reads += u64::from(page.fate != Fate::Drop);
                        match page.fate {
                            Fate::Drop => {}
                            Fate::Destage => counts.disk_writes += 1,
                            // Only a log gives them.
                            Fate::SecondChance => {
                                while let Some(log) = partition.log_mut() {
                                    match log.restage(ticket, page, Lsn(1)) {
                                        Admission::Stage { frame, .. } => {
                                            partition.staged(frame);
                                            break;
                                        }
                                        Admission::AlreadyThere => break,
                                        Admission::Full | Admission::Bypass { .. } => {
                                            write_all(partition, counts)
                                        }
                                    }
                                }
                            }
                        }
                    }
                    partition.dequeued(ticket);
                }
            }
        }
        if !any {
            return;
        }
    }
}

pub(crate) fn write_all(partition: &mut Partition<'_>, counts: &mut Counts) {
    while let Some(job) = partition.next_write() {
        let Job::Write { ticket, pages, completes_group, .. } = job else {
            unreachable!("these are write jobs")
        };
        counts.flash_writes += pages.iter().filter(|page| page.page.is_some()).count() as u64;
        // A group's summary records the front.
        let front = partition.window().0;
        if let (true, Some(log)) = (completes_group, partition.log_mut()) {
            log.front_is_durable(front);
        }
        partition.written(ticket, &pages);
    }
}
