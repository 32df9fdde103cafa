//! The shadows of a cache: what other policies and sizes would make of its load ([`ShadowPlan`]).
//!
//! Invariants: shadows decide, and do nothing: no page, device or counter of the cache depends on them. They
//! have a latch of their own, which only drawn pages take, and never with another one.

use crate::TierOptions;
use crate::forecast::Forecasts;
use entresol_core::{Config, Costs, Mode, NoShadows, PageId, ShadowPlan, Shadows};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::{Guarded, Holder};
use zerocopy::IntoBytes;

/// The shadows of a cache, or why it has none.
pub struct Shadow(Result<Running, NoShadows>);

struct Running {
    plan: ShadowPlan,
    region: ShadowRegion,
}

/// Where the shadows are: in memory of this process, or in a segment.
enum ShadowRegion {
    Private(TinyMutex<Vec<u64>>),
    Mapped { area: Guarded, me: Holder },
}

impl Running {
    /// `None`: processes share the shadows, and one of them died in a step.
    fn with<R>(&self, step: impl FnOnce(&mut Shadows<'_>) -> R) -> Option<R> {
        let work =
            |words: &mut [u64]| step(&mut self.plan.attach(&mut words.as_mut_bytes()[..self.plan.bytes()]));
        match &self.region {
            ShadowRegion::Private(region) => Some(work(&mut region.lock())),
            ShadowRegion::Mapped { area, me } => Some(work(&mut area.lock(*me).ok()?)),
        }
    }
}

/// Which shadows a cache with these options has.
pub(crate) fn plan_of(options: &TierOptions) -> Result<ShadowPlan, NoShadows> {
    match options.shadows {
        true => ShadowPlan::of(&options.config(), options.mode),
        false => Err(NoShadows("was opened without shadows")),
    }
}

/// Words of a region for them.
pub(crate) fn words_of(plan: &ShadowPlan) -> usize {
    plan.bytes().div_ceil(size_of::<u64>())
}

/// Makes a region of [`words_of`] words that of empty shadows.
pub(crate) fn format_region(plan: &ShadowPlan, words: &mut [u64], costs: &Costs) {
    plan.format(&mut words.as_mut_bytes()[..plan.bytes()], costs);
}

impl Shadow {
    /// Those of a cache of this configuration, in `mode`, whose devices cost that.
    pub fn new(config: &Config, mode: Mode, costs: &Costs) -> Self {
        Self::private(ShadowPlan::of(config, mode), costs)
    }

    /// Of a cache that no other process uses.
    pub(crate) fn private(plan: Result<ShadowPlan, NoShadows>, costs: &Costs) -> Self {
        Self(plan.map(|plan| {
            let mut region = vec![0; words_of(&plan)];
            format_region(&plan, &mut region, costs);
            Running { plan, region: ShadowRegion::Private(TinyMutex::new(Rank::Shadows, region)) }
        }))
    }

    /// Those in an area of a segment, which the back has formatted.
    pub(crate) fn mapped(plan: ShadowPlan, area: Guarded, me: Holder) -> Self {
        Self(Ok(Running { plan, region: ShadowRegion::Mapped { area, me } }))
    }

    /// None, and why.
    pub fn none(why: &'static str) -> Self {
        Self(Err(NoShadows(why)))
    }

    /// What the devices cost, from now on.
    pub fn set_costs(&self, costs: &Costs) {
        if let Ok(running) = &self.0 {
            running.with(|shadows| shadows.set_costs(costs));
        }
    }

    fn drawn(&self, page: PageId) -> Option<&Running> {
        self.0.as_ref().ok().filter(|running| running.plan.holds(page))
    }

    /// DRAM misses `page`.
    #[inline]
    pub fn fetch(&self, page: PageId) {
        if let Some(running) = self.drawn(page) {
            running.with(|shadows| shadows.fetch(page));
        }
    }

    /// DRAM evicts `page`, and the mode offers it to the flash with these flags.
    #[inline]
    pub fn evict(&self, page: PageId, dirty: bool, fdirty: bool) {
        if let Some(running) = self.drawn(page) {
            running.with(|shadows| shadows.evict(page, dirty, fdirty));
        }
    }

    /// What they tell.
    pub fn forecasts(&self) -> Forecasts {
        match &self.0 {
            Err(why) => Forecasts::none(*why),
            Ok(running) => match running.with(|shadows| shadows.forecasts()) {
                Some(told) => Forecasts::new(&told, running.plan.one_of()),
                None => Forecasts::none(NoShadows("was given up")),
            },
        }
    }
}
