//! A change of the policy in the middle of a run, when the shadows of the cache advise it.
//!
//! It is done as by a close and an open: what is staged is written, and the pages stay where they are. What
//! the old policy has learned is lost, and shadows begin anew. The directory that a close writes takes no
//! time here.
//!
//! Invariant: it is decided by counts of fetches alone, as everything here.

use entresol_core::{Advice, Config, Costs, Partition, Switcher, region_bytes};
use entresol_engine::Shadow;
use std::slice::IterMut;
use zerocopy::IntoBytes;

/// What the shadows tell is looked at after so many fetches.
const FETCHES: u64 = 1024;
/// Most changes of a run.
pub const EXCHANGES_MAX: usize = 64;

/// A change of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// After so many fetches of the run.
    pub fetches: u64,
    /// What advised it.
    pub advice: Advice,
}

/// See the module's header.
pub struct Exchange<'t> {
    switcher: Switcher,
    costs: Costs,
    /// The caches that are possible.
    configs: Vec<Config>,
    /// Memory of the next partitions: those before lend theirs until the run ends.
    regions: IterMut<'t, Vec<u64>>,
    fetches: u64,
    done: Vec<Exchanged>,
}

impl<'t> Exchange<'t> {
    /// Among the caches `configs`, as often as there are `regions`, which are empty.
    pub fn new(configs: Vec<Config>, costs: Costs, regions: &'t mut [Vec<u64>]) -> Self {
        let (switcher, regions) = (Switcher::default(), regions.iter_mut());
        Self { switcher, costs, configs, regions, fetches: 0, done: Vec::new() }
    }

    /// DRAM has missed a page: under which cache to go on, if under another one.
    pub(super) fn fetch(&mut self, shadows: &Shadow) -> Option<Config> {
        self.fetches += 1;
        if !self.fetches.is_multiple_of(FETCHES) || self.regions.len() == 0 {
            return None;
        }
        let told: Vec<_> = shadows.forecasts().iter().copied().collect();
        let is_possible = |policy| self.configs.iter().any(|config| config.policy == policy);
        let advice = self.switcher.look(&told, &self.costs, is_possible)?;
        self.done.push(Exchanged { fetches: self.fetches, advice });
        self.configs.iter().find(|config| config.policy == advice.to).copied()
    }

    /// The partition that continues where `old` ends.
    pub(super) fn successor(&mut self, config: &Config, old: &Partition<'_>) -> Partition<'t> {
        let region = self.regions.next().expect("it was advised while there was one");
        *region = vec![0; region_bytes(config) / size_of::<u64>()];
        let mut partition =
            Partition::format(region.as_mut_bytes(), config).expect("it was validated before the run");
        partition.take_over(old);
        partition.set_costs(&self.costs);
        partition
    }

    /// What the devices cost.
    pub(super) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The changes so far.
    pub(super) fn done(&self) -> &[Exchanged] {
        &self.done
    }
}
