//! The state that all tasks of a cache of fragments share: the core with its latch, the staging for the disk,
//! and the counters.

use super::FragmentOptions;
use super::versions::{StampedCopy, Versions};
use super::write::WRITES_COUNTED;
use crate::api::TierMetrics;
use crate::disk::WriteBehind;
use crate::signal::Signal;
use crate::{TierError, events};
use entresol_core::{FragmentConfig, Fragments, PageId, Population, SlotId};
use entresol_device::{BufferPool, Device};
use entresol_format::layout::fragment_page_offset;
use entresol_runtime::random;
use entresol_runtime::sync::{Rank, Semaphore, TinyMutex, allowing_allocation};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use zerocopy::IntoBytes;

/// Largest cache whose invariants are checked after every step in debug builds.
const CHECKED_FRAGMENTS_MAX: u32 = 1024;

/// The state under the latch.
struct Latched {
    /// The core's region.
    region: Vec<u64>,
    versions: Versions,
    /// Populations that have begun and wait for a worker: at most as many as there are workers.
    begun: VecDeque<Begun>,
}

/// A population, and the stamps of its pages.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub population: Population,
    pub copy: StampedCopy,
}

/// The state as a task sees it while it holds the latch.
pub(super) struct Locked<'a> {
    pub cache: Fragments<'a>,
    pub versions: &'a mut Versions,
}

impl Locked<'_> {
    /// As [`Fragments::fetch`].
    pub(super) fn fetch(&mut self, page: PageId) -> Option<StampedCopy> {
        self.cache.fetch(page).map(|copy| self.versions.of(copy))
    }

    /// As [`Fragments::peek`].
    pub(super) fn peek(&self, page: PageId) -> Option<StampedCopy> {
        self.cache.peek(page).map(|copy| self.versions.of(copy))
    }
}

pub(super) struct Shared {
    pub behind: Arc<WriteBehind>,
    pub flash: Arc<dyn Device>,
    pub options: FragmentOptions,
    config: FragmentConfig,
    latched: TinyMutex<Latched>,
    /// Buffers for pages that are being written to flash.
    pub buffers: BufferPool,
    /// Notifies the workers that a population may be due.
    pub populations: Signal,
    /// Permits for writes that bypass staging: one for each of their pages.
    pub unstaged: Semaphore,
    stopped: AtomicBool,
    /// The reason why flash is no longer used; `None`: it is used.
    off: TinyMutex<Option<String>>,
    is_off: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        options: FragmentOptions,
        config: FragmentConfig,
        mut region: Vec<u64>,
    ) -> Result<Self, TierError> {
        Fragments::format(region.as_mut_bytes(), &config)
            .map_err(|error| TierError::Config(error.to_string()))?;
        Ok(Self {
            behind: Arc::new(WriteBehind::of_format(disk, options.page_bytes, options.page_format)),
            flash,
            options,
            config,
            latched: TinyMutex::new(
                Rank::CachePartition,
                Latched {
                    region,
                    versions: Versions::new(options.flash_pages(), options.page_format, random()),
                    begun: VecDeque::with_capacity(options.workers as usize),
                },
            ),
            buffers: BufferPool::new(options.page_bytes as usize, usize::MAX),
            populations: Signal::default(),
            unstaged: Semaphore::new(Rank::PageTurn, WRITES_COUNTED),
            stopped: AtomicBool::new(false),
            off: TinyMutex::new(Rank::Failure, None),
            is_off: AtomicBool::new(false),
        })
    }

    fn latched<R>(&self, step: impl FnOnce(&mut Locked<'_>, &mut VecDeque<Begun>) -> R) -> R {
        entresol_runtime::may_preempt();
        let Latched { region, versions, begun } = &mut *self.latched.lock();
        let cache = Fragments::attach(region.as_mut_bytes()).expect("the region holds this tier's fragments");
        let mut state = Locked { cache, versions };
        let result = step(&mut state, begun);
        if cfg!(debug_assertions) && self.config.fragments() <= CHECKED_FRAGMENTS_MAX {
            allowing_allocation(|| state.cache.check()).expect("the invariants hold after every step");
        }
        result
    }

    /// Reads the state under the latch.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        self.latched(|state, _| step(state))
    }

    /// As [`Shared::with`], if `page` has a place on the volume and the flash is in use.
    pub(super) fn look<R>(&self, page: PageId, step: impl FnOnce(&mut Locked<'_>) -> Option<R>) -> Option<R> {
        if self.has_place(page) && self.is_running() { self.with(step) } else { None }
    }

    /// Takes one step of the core, and wakes idle workers for the populations that it begins.
    pub(super) fn step<R>(&self, step: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        let (result, begun) = self.latched(|state, waiting| {
            let result = step(state);
            let before = waiting.len();
            while self.is_running()
                && let Some(population) = state.cache.next_population()
            {
                let copy = state.versions.begin_population(population.copy, population.pages);
                waiting.push_back(Begun { population, copy });
            }
            (result, waiting.len() - before)
        });
        (0..begun).for_each(|_| self.populations.notify_one());
        result
    }

    pub(super) fn take_begun(&self) -> Option<Begun> {
        self.latched(|_, begun| begun.pop_front())
    }

    /// Whether `page` is a page of the volume. If not, the disk refuses it.
    pub(super) fn has_place(&self, page: PageId) -> bool {
        page.object() == self.config.volume && page.number() < self.config.volume_pages
    }

    pub(super) fn offset(&self, slot: SlotId) -> u64 {
        fragment_page_offset(slot, self.options.page_bytes)
    }

    pub(super) fn is_running(&self) -> bool {
        !self.is_off.load(SeqCst)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Switches off the flash, which has failed. It has no dirty pages, so the database continues without it.
    pub(super) fn switch_off(&self, error: &TierError) {
        let notice = || format!("the flash cache is switched off, all goes on from disk: {error}");
        let notice = self.off.lock().get_or_insert_with(notice).clone();
        if !self.is_off.swap(true, SeqCst) {
            events::switched_off(&notice);
        }
    }

    pub(super) fn notice(&self) -> Option<String> {
        self.off.lock().clone()
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        self.populations.notify_all();
        self.behind.stop();
    }

    pub(super) fn metrics(&self) -> TierMetrics {
        let (occupancy, decision_hash) =
            self.with(|state| (state.cache.occupancy(), state.cache.decision_hash()));
        let pages = |fragments: u32| u64::from(fragments) * u64::from(self.config.fragment_pages);
        TierMetrics {
            slots: pages(occupancy.slots),
            slots_valid: pages(occupancy.mapped),
            decision_hash,
            ..self.behind.tallies.read()
        }
    }
}
