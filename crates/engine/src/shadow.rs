//! The shadows of a cache: what other policies and sizes would make of its load ([`ShadowPlan`]).
//!
//! Invariants: shadows decide, and do nothing: no page, device or counter of the cache depends on them. They
//! have a latch of their own, which only drawn pages take, and never with another one.

use crate::forecast::Forecasts;
use entresol_core::{Config, Costs, Mode, NoShadows, PageId, ShadowPlan, Shadows};
use entresol_runtime::sync::{Rank, TinyMutex};
use zerocopy::IntoBytes;

/// The shadows of a cache, or why it has none.
pub struct Shadow(Result<Running, NoShadows>);

struct Running {
    plan: ShadowPlan,
    region: TinyMutex<Vec<u64>>,
}

impl Running {
    fn with<R>(&self, step: impl FnOnce(&mut Shadows<'_>) -> R) -> R {
        let mut region = self.region.lock();
        step(&mut self.plan.attach(&mut region.as_mut_bytes()[..self.plan.bytes()]))
    }
}

impl Shadow {
    /// Those of a cache of this configuration, in `mode`, whose devices cost that.
    pub fn new(config: &Config, mode: Mode, costs: &Costs) -> Self {
        let plan = ShadowPlan::of(config, mode);
        Self(plan.map(|plan| {
            let mut region = vec![0u64; plan.bytes().div_ceil(size_of::<u64>())];
            plan.format(&mut region.as_mut_bytes()[..plan.bytes()], costs);
            Running { plan, region: TinyMutex::new(Rank::Shadows, region) }
        }))
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
            Ok(running) => {
                let told = running.with(|shadows| shadows.forecasts());
                Forecasts::new(&told, running.plan.one_of())
            }
        }
    }
}
