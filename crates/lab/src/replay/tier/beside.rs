//! The companions of a cache: shadows, which may advise another policy; and a budget of writes to flash, in
//! virtual time, which tells the policy what a write must be worth.

use super::super::pool::Victim;
use super::exchange::{Exchange, Exchanged};
use entresol_core::{Config, Costs, Mode, PageId, Partition, Route};
use entresol_engine::{Budget, Forecasts, Shadow};
use entresol_runtime::Time;
use std::time::Duration;

/// The bucket holds as much as flows in in so long a time: a trace is a few minutes long.
const HOLDS: Duration = Duration::from_secs(10);
/// It is looked at so often.
const TICK: Duration = Duration::from_millis(100);

/// A budget of writes.
struct Thrift {
    budget: Budget,
    page_bytes: u64,
    costs: Costs,
    last: Time,
    /// Pages that were written until then.
    written: u64,
    /// What a write must be worth now, in thousandths of a use.
    worth: u32,
}

impl Thrift {
    fn new(bytes_per_day: u64, page_bytes: u64, costs: Costs) -> Self {
        let budget = Budget::holding(Some(bytes_per_day), HOLDS);
        Self { budget, page_bytes, costs, last: Time(0), written: 0, worth: 0 }
    }

    /// The counter of written pages begins anew.
    fn begin_measurement(&mut self) {
        self.written = 0;
    }

    /// So many pages have been written by `now`: decides anew, when it is time, what a write must be worth.
    fn tick(&mut self, now: Time, written: u64, partition: &mut Partition<'_>) {
        if now < self.last + TICK {
            return;
        }
        let passed = now.since(std::mem::replace(&mut self.last, now));
        let pages = written - std::mem::replace(&mut self.written, written);
        self.budget.tick(passed, pages * self.page_bytes);
        let worth = self.budget.write_worth_permille();
        if worth != std::mem::replace(&mut self.worth, worth) {
            partition.set_costs(&Costs { write_worth_permille: worth, ..self.costs });
        }
    }
}

/// See the module's header.
#[derive(Default)]
pub struct Beside<'t> {
    shadows: Option<Shadow>,
    /// What they said when the measurement began.
    told_before: Forecasts,
    thrift: Option<Thrift>,
    exchange: Option<Exchange<'t>>,
}

impl<'t> Beside<'t> {
    /// From now on at most so many bytes are written to flash in a day, where the policy weighs writes.
    pub fn limit_writes(&mut self, bytes_per_day: u64, page_bytes: u64, costs: Costs) {
        self.thrift = Some(Thrift::new(bytes_per_day, page_bytes, costs));
    }

    /// From now on shadows run with the cache of this configuration, as they do in the engine.
    pub fn run_shadows(&mut self, config: &Config, mode: Mode, costs: &Costs) {
        self.shadows = Some(Shadow::new(config, mode, costs));
    }

    /// What the devices cost, from now on.
    pub(super) fn set_costs(&mut self, costs: &Costs, partition: &mut Partition<'_>) {
        let worth = self.thrift.as_mut().map_or(0, |thrift| {
            thrift.costs = *costs;
            thrift.worth
        });
        let costs = Costs { write_worth_permille: worth, ..*costs };
        partition.set_costs(&costs);
        if let Some(shadows) = &self.shadows {
            shadows.set_costs(&costs);
        }
    }

    /// From now on the cache takes another policy when its shadows advise it.
    pub fn follow_shadows(&mut self, exchange: Exchange<'t>) {
        self.exchange = Some(exchange);
    }

    /// The partition that continues where `old` ends, with shadows of its own.
    pub(super) fn successor(&mut self, config: &Config, mode: Mode, old: &Partition<'_>) -> Partition<'t> {
        let exchange = self.exchange.as_mut().expect("it was advised by it");
        let partition = exchange.successor(config, old);
        let costs = *exchange.costs();
        self.run_shadows(config, mode, &costs);
        self.told_before = Forecasts::default();
        partition
    }

    /// How the policy has changed so far.
    pub(super) fn exchanged(&self) -> Vec<Exchanged> {
        self.exchange.as_ref().map(|exchange| exchange.done().to_vec()).unwrap_or_default()
    }

    /// DRAM misses `page` at `now`; so many pages have been written to flash. Says under which cache to go on
    /// now, if under another one.
    pub(super) fn fetch(
        &mut self,
        page: PageId,
        now: Time,
        written: u64,
        partition: &mut Partition<'_>,
    ) -> Option<Config> {
        if let Some(thrift) = &mut self.thrift {
            thrift.tick(now, written, partition);
        }
        let shadows = self.shadows.as_ref()?;
        shadows.fetch(page);
        self.exchange.as_mut()?.fetch(shadows)
    }

    /// DRAM evicts `page`.
    pub(super) fn evict(&self, page: PageId, mode: Mode, victim: Victim) {
        let Some(shadows) = &self.shadows else { return };
        match mode.route(victim.dirty(), victim.fdirty()) {
            Route::Around { .. } => {}
            route => {
                let dirty = victim.dirty() && route == Route::Flash;
                shadows.evict(page, dirty, victim.fdirty());
            }
        }
    }

    pub(super) fn begin_measurement(&mut self) {
        self.told_before = self.told();
        if let Some(thrift) = &mut self.thrift {
            thrift.begin_measurement();
        }
    }

    fn told(&self) -> Forecasts {
        self.shadows.as_ref().map(Shadow::forecasts).unwrap_or_default()
    }

    /// What the shadows say of the measured part.
    pub(super) fn forecasts(&self) -> Forecasts {
        self.told().since(&self.told_before)
    }
}
