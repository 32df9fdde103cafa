//! Which fragments are on flash: the core with its latch, the proofs of pages, and whether the flash is in
//! use. All tasks share it.

use super::FragmentOptions;
use super::copies::FlashCopies;
use super::proofs::{Proofs, ProvableCopy};
use crate::signal::Signal;
use crate::{TierError, events};
use entresol_core::{FragmentConfig, Fragments, PageId, Population, SlotId};
use entresol_runtime::sync::{Rank, TinyMutex, allowing_allocation};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use zerocopy::IntoBytes;

/// Pages that are forgotten under one hold of the latch.
const FORGOTTEN_AT_ONCE: u64 = 512;

/// Largest cache whose invariants are checked after every step in debug builds.
const CHECKED_FRAGMENTS_MAX: u32 = 1024;

/// The state under the latch.
struct Latched {
    /// The core's region.
    region: Vec<u64>,
    proofs: Proofs,
    /// Populations that have begun and have no worker yet: never more than the workers.
    begun: VecDeque<Begun>,
}

/// A population, and its first page.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub population: Population,
    pub copy: ProvableCopy,
}

/// The state as a task sees it while it holds the latch.
pub(super) struct Locked<'a> {
    pub cache: Fragments<'a>,
    pub proofs: &'a mut Proofs,
}

impl Locked<'_> {
    /// As [`Fragments::fetch`].
    pub(super) fn fetch(&mut self, page: PageId) -> Option<ProvableCopy> {
        let copy = self.cache.fetch(page)?;
        self.proofs.note_use(copy.slot);
        Some(self.proofs.of(copy))
    }

    /// As [`Fragments::peek`].
    pub(super) fn peek(&self, page: PageId) -> Option<ProvableCopy> {
        self.cache.peek(page).map(|copy| self.proofs.of(copy))
    }
}

/// See the module's header.
pub(super) struct Mapping {
    pub config: FragmentConfig,
    latched: TinyMutex<Latched>,
    /// Notifies the workers that a population may be due.
    pub populations: Signal,
    stopped: AtomicBool,
    /// Flash is no longer used: why.
    off: TinyMutex<Option<String>>,
    is_off: AtomicBool,
}

impl Mapping {
    pub(super) fn new(
        options: &FragmentOptions,
        config: FragmentConfig,
        mut region: Vec<u64>,
    ) -> Result<Self, TierError> {
        Fragments::format(region.as_mut_bytes(), &config)
            .map_err(|error| TierError::Config(error.to_string()))?;
        Ok(Self {
            config,
            latched: TinyMutex::new(
                Rank::CachePartition,
                Latched {
                    region,
                    proofs: Proofs::new(options.slots, options.fragment_pages, options.proofs_kept()),
                    begun: VecDeque::with_capacity(options.workers as usize),
                },
            ),
            populations: Signal::default(),
            stopped: AtomicBool::new(false),
            off: TinyMutex::new(Rank::Failure, None),
            is_off: AtomicBool::new(false),
        })
    }

    fn latched<R>(&self, step: impl FnOnce(&mut Locked<'_>, &mut VecDeque<Begun>) -> R) -> R {
        entresol_runtime::may_preempt();
        let Latched { region, proofs, begun } = &mut *self.latched.lock();
        let cache = Fragments::attach(region.as_mut_bytes()).expect("the region holds this tier's fragments");
        let mut state = Locked { cache, proofs };
        let result = step(&mut state, begun);
        if cfg!(debug_assertions) && self.config.fragments() <= CHECKED_FRAGMENTS_MAX {
            allowing_allocation(|| state.cache.check()).expect("the invariants hold after every step");
            state.proofs.check();
        }
        result
    }

    /// Reads the state under the latch.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        self.latched(|state, _| step(state))
    }

    /// As [`Mapping::with`], if `page` has a place on the volume and the flash is in use.
    pub(super) fn look<R>(&self, page: PageId, step: impl FnOnce(&mut Locked<'_>) -> Option<R>) -> Option<R> {
        if self.has_place(page) && self.is_running() { self.with(step) } else { None }
    }

    /// Takes one step of the core, after which idle workers may have work.
    pub(super) fn step<R>(&self, step: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        let (result, begun) = self.latched(|state, waiting| {
            let result = step(state);
            let before = waiting.len();
            while self.is_running()
                && let Some(population) = state.cache.next_population()
            {
                let copy = state.proofs.begin_population(population.copy);
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

    /// Whether the core has `page`. If not, the disk refuses it.
    pub(super) fn has_place(&self, page: PageId) -> bool {
        page.object() == self.config.volume && page.number() < self.config.volume_pages
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
    }

    /// Memory keeps the words of a block of proofs, if there is room.
    pub(super) fn keep_proofs(&self, copies: &FlashCopies, slot: SlotId, number: u32, block: &[u8]) {
        let pages = self.config.fragment_pages;
        let first = slot.0 / pages * pages;
        let words = (first..first + pages).map(|slot| copies.word_in(block, SlotId(slot)));
        self.with(|state| state.proofs.keep(slot, number, words));
    }

    /// Copies of these pages are served no more.
    pub(super) fn forget(&self, first: PageId, last: PageId) {
        let pages = |from: u64| (from..=last.0.min(from + (FORGOTTEN_AT_ONCE - 1))).map(PageId);
        for from in (first.0..=last.0).step_by(FORGOTTEN_AT_ONCE as usize) {
            let known = pages(from).filter(|page| self.has_place(*page));
            self.with(|state| known.for_each(|page| Fragments::discard(&mut state.cache, page)));
        }
    }
}
