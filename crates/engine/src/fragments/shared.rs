//! What all tasks share.

use super::FragmentOptions;
use crate::TierError;
use crate::api::TierMetrics;
use crate::buffer::PageBuffers;
use crate::disk::WriteBehind;
use crate::signal::Signal;
use entresol_core::{FlashCopy, FragmentConfig, Fragments, PageId, Population, Position};
use entresol_device::Device;
use entresol_format::layout::fragment_page_offset;
use entresol_runtime::random;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use zerocopy::IntoBytes;

/// Largest cache whose invariants are checked after every step in debug builds.
const CHECKED_FRAGMENTS_MAX: u32 = 1024;

/// What the latch is around.
struct Latched {
    /// The core's.
    region: Vec<u64>,
    /// Populations that are begun and that no worker has taken yet: never more than there are workers.
    begun: VecDeque<Population>,
}

pub(super) struct Shared {
    pub behind: Arc<WriteBehind>,
    pub flash: Arc<dyn Device>,
    pub options: FragmentOptions,
    config: FragmentConfig,
    /// Upper half of what is stamped into pages on flash, so that those of earlier opens differ.
    salt: u64,
    latched: Mutex<Latched>,
    /// For pages on their way to flash.
    pub buffers: PageBuffers,
    /// For the workers: there may be one.
    pub populations: Signal,
    stopped: AtomicBool,
    /// Flash is no longer used: why.
    off: Mutex<Option<String>>,
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
            behind: Arc::new(WriteBehind::new(disk, options.page_bytes)),
            flash,
            options,
            config,
            salt: random() << 32,
            latched: Mutex::new(Latched { region, begun: VecDeque::with_capacity(options.workers as usize) }),
            buffers: PageBuffers::new(options.page_bytes),
            populations: Signal::default(),
            stopped: AtomicBool::new(false),
            off: Mutex::new(None),
            is_off: AtomicBool::new(false),
        })
    }

    fn latched<R>(&self, step: impl FnOnce(&mut Fragments<'_>, &mut VecDeque<Population>) -> R) -> R {
        entresol_runtime::may_preempt();
        let Latched { region, begun } = &mut *self.latched.lock();
        let mut cache =
            Fragments::attach(region.as_mut_bytes()).expect("the region holds this tier's fragments");
        let result = step(&mut cache, begun);
        if cfg!(debug_assertions) && self.config.fragments() <= CHECKED_FRAGMENTS_MAX {
            cache.check().expect("the invariants hold after every step");
        }
        result
    }

    /// One look at the core, under the latch.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Fragments<'_>) -> R) -> R {
        self.latched(|cache, _| step(cache))
    }

    /// As [`Shared::with`], where `page` has a place on the volume and the flash is in use.
    pub(super) fn look<R>(
        &self,
        page: PageId,
        step: impl FnOnce(&mut Fragments<'_>) -> Option<R>,
    ) -> Option<R> {
        if self.has_place(page) && self.is_running() { self.with(step) } else { None }
    }

    /// One step of the core, after which free workers may have something to do.
    pub(super) fn step<R>(&self, step: impl FnOnce(&mut Fragments<'_>) -> R) -> R {
        let (result, begun) = self.latched(|cache, waiting| {
            let result = step(cache);
            let before = waiting.len();
            while self.is_running()
                && let Some(population) = cache.next_population()
            {
                waiting.push_back(population);
            }
            (result, waiting.len() - before)
        });
        (0..begun).for_each(|_| self.populations.notify_one());
        result
    }

    pub(super) fn take_begun(&self) -> Option<Population> {
        self.latched(|_, begun| begun.pop_front())
    }

    /// Whether the core knows of `page`: another one is the disk's to refuse.
    pub(super) fn has_place(&self, page: PageId) -> bool {
        page.object() == self.config.volume && page.number() < self.config.volume_pages
    }

    pub(super) fn offset(&self, copy: FlashCopy) -> u64 {
        fragment_page_offset(copy.slot, self.options.page_bytes)
    }

    /// What is stamped into pages of that population.
    pub(super) fn stamp(&self, copy: FlashCopy) -> Position {
        Position(self.salt | u64::from(copy.population))
    }

    pub(super) fn is_running(&self) -> bool {
        !self.is_off.load(SeqCst)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// The flash has failed. Nothing on it is newer than disk, so the database goes on without it.
    pub(super) fn switch_off(&self, error: &TierError) {
        let notice = || format!("the flash cache is switched off, the database goes on from disk: {error}");
        self.off.lock().get_or_insert_with(notice);
        self.is_off.store(true, SeqCst);
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
        let (occupancy, decision_hash) = self.with(|cache| (cache.occupancy(), cache.decision_hash()));
        let pages = |fragments: u32| u64::from(fragments) * u64::from(self.config.fragment_pages);
        TierMetrics {
            slots: pages(occupancy.slots),
            slots_valid: pages(occupancy.mapped),
            decision_hash,
            ..self.behind.tallies.read()
        }
    }
}
