//! Data shared by all runs of one trace, and the checks before a run.

use super::config::{Arrival, RunConfig, layer_name};
use super::device::{Device, DeviceSpec, costs};
use super::error::SimulationError;
use entresol_core::{BlockKind, Cache, Config, Costs, GROUP_PAGES_MIN, Mode, Placement, PolicyKind};
use entresol_ftl::cache::{
    BLOCKS_MIN, BlockCache, CacheSizes, FlashTier, FlashTierConfig, RwFdb, RwFdbConfig,
};
use entresol_ftl::{HybridConfig, hybrid};
use entresol_trace::Trace;

/// Most DRAM frames.
const DRAM_PAGES_MAX: u32 = u32::MAX - 1;

/// The place of each page of a trace on disk: pages in the order of their numbers, without gaps.
pub(crate) struct Places(Vec<u32>);

impl Places {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut places = vec![0; trace.pages.len()];
        if let Some(page_of) = by_number(&trace.pages) {
            let known = page_of.into_iter().filter(|&page| page != u32::MAX);
            for (place, page) in known.enumerate() {
                places[page as usize] = place as u32;
            }
            return Self(places);
        }
        // Beside their numbers, so that comparing them does not go through memory at random.
        let mut order: Vec<(u64, u32)> = trace.pages.iter().copied().zip(0..).collect();
        order.sort_unstable();
        for (place, (_, page)) in order.into_iter().enumerate() {
            places[page as usize] = place as u32;
        }
        Self(places)
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

/// Numbers that are this close together, on average, are put in order by a table instead of by comparing.
const NUMBERS_A_PAGE: u64 = 4;

/// The page of each number from the smallest on, `u32::MAX` where there is none; `None` if numbers are too
/// far apart for that.
fn by_number(numbers: &[u64]) -> Option<Vec<u32>> {
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    if (last - first) / NUMBERS_A_PAGE >= numbers.len() as u64 {
        return None;
    }
    let mut page_of = vec![u32::MAX; (last - first) as usize + 1];
    for (page, number) in (0..).zip(numbers) {
        page_of[(number - first) as usize] = page;
    }
    Some(page_of)
}

/// References of each relation in the measured part of the trace; empty if it has no relations.
pub(super) fn references_of(trace: &Trace, config: &RunConfig) -> Vec<u64> {
    let Some(relations) = &trace.relations else { return Vec::new() };
    let mut references = vec![0u64; relations.len()];
    for request in &trace.requests[config.measure_from..config.records.end] {
        references[usize::from(relations.of_pages()[request.page() as usize])] +=
            u64::from(request.is_reference());
    }
    references
}

/// Fewest flash slots that a policy works with.
pub fn flash_pages_min(policy: PolicyKind) -> u32 {
    Config::with_group(policy, u32::MAX / 2, GROUP_PAGES_MIN).slots_min()
}

/// The partition of `slots` flash slots, with [small groups](Config::with_small_groups) if it is small.
///
/// # Errors
/// [`SimulationError::FlashPages`] if even the smallest groups do not fit.
pub fn core_config(policy: PolicyKind, slots: u32) -> Result<Config, SimulationError> {
    large_enough(Config::with_small_groups(policy, slots), slots, flash_pages_min(policy))
}

/// The partition of about `slots` slots that stands [in a sample](Config::of_sample) for the one that
/// [`core_config`] makes of `whole`.
///
/// # Errors
/// [`SimulationError::FlashPages`] if even the smallest groups do not fit.
fn sampled_core_config(policy: PolicyKind, slots: u32, whole: u32) -> Result<Config, SimulationError> {
    let rate = f64::from(slots) / f64::from(whole);
    let config = Config::of_sample(&core_config(policy, whole)?, slots, rate);
    let min = Config::with_group(policy, u32::MAX / 2, config.group_pages).slots_min();
    large_enough(config, slots, min)
}

/// `config`, which was made for `slots` slots, if it works; `min` slots would.
fn large_enough(config: Config, slots: u32, min: u32) -> Result<Config, SimulationError> {
    if config.slots < config.slots_min() {
        return Err(SimulationError::FlashPages { policy: config.policy.name(), found: slots, min });
    }
    config.validate()?;
    Ok(config)
}

/// Bytes of a flash page.
const FLASH_PAGE_BYTES: u32 = 4096;
/// Flash pages of an erase block (thesis §4.2).
const BLOCK_PAGES: u32 = 64;
/// More blocks than that are refused anyway.
const BLOCKS_MAX: u32 = (1 << 31) / BLOCK_PAGES;
/// Pages of flash to a page of the write buffer: 4 GB of flash and 8 MB (thesis §4.1.3).
const FLASH_TO_BUFFER: u32 = 512;

/// Fewest pages of the trace that a cache which is its own translation layer works with: the data blocks of
/// the smallest chip.
pub fn block_pages_min(trace: &Trace) -> u32 {
    let chip = HybridConfig::of_chip(BLOCKS_MIN, BLOCK_PAGES);
    chip.logical_pages.div_ceil(trace.page_bytes.div_ceil(FLASH_PAGE_BYTES))
}

/// A chip whose data blocks hold `flash_pages` pages of the trace, in front of all of its pages; log and
/// spare blocks come on top.
pub fn block_sizes(trace: &Trace, flash_pages: u32, buffer: u32) -> CacheSizes {
    let unit_pages = trace.page_bytes.div_ceil(FLASH_PAGE_BYTES);
    let data = u64::from(flash_pages) * u64::from(unit_pages) / u64::from(BLOCK_PAGES);
    let data = u32::try_from(data).unwrap_or(u32::MAX).min(BLOCKS_MAX);
    let shares = 1.0 - hybrid::SPARE_SHARE - hybrid::LOG_SHARE;
    let mut blocks = ((f64::from(data) / shares) as u32).max(BLOCKS_MIN).saturating_sub(2);
    while blocks < BLOCKS_MIN || HybridConfig::of_chip(blocks, BLOCK_PAGES).data_blocks < data {
        blocks += 1;
    }
    let disk_pages = trace.unique_pages() as u32;
    CacheSizes { disk_pages, unit_pages, blocks, block_pages: BLOCK_PAGES, buffer }
}

/// An empty cache of `flash_pages` pages of the trace. Write buffers hold a 512th of that, and at least a
/// block.
///
/// # Errors
/// [`SimulationError::Blocks`] if such a cache is not possible.
pub(super) fn block_cache(
    kind: BlockKind,
    trace: &Trace,
    flash_pages: u32,
) -> Result<Box<dyn BlockCache>, SimulationError> {
    let sizes = |buffer| block_sizes(trace, flash_pages, buffer);
    let buffer = (flash_pages / FLASH_TO_BUFFER).max(BLOCK_PAGES / sizes(1).unit_pages.min(BLOCK_PAGES));
    Ok(match kind {
        BlockKind::RwFdb => Box::new(RwFdb::new(RwFdbConfig::new(sizes(buffer)))?),
        BlockKind::FlashTier => Box::new(FlashTier::new(FlashTierConfig::new(sizes(0)))?),
        BlockKind::FlashTierBuffered => Box::new(FlashTier::new(FlashTierConfig::new(sizes(buffer)))?),
    })
}

/// Whether a log above can be kept so that this cache may be lost.
pub fn may_keep_log(cache: Cache, mode: Mode) -> bool {
    let has_log = matches!(cache, Cache::Policy(policy) if policy.placement() == Placement::Log);
    has_log && mode == Mode::WriteBack
}

impl RunConfig {
    /// The partition of the flash layer under `policy`.
    pub(super) fn core_config(&self, policy: PolicyKind) -> Result<Config, SimulationError> {
        let mut config = match self.stands_for {
            None => core_config(policy, self.flash_pages)?,
            Some(whole) => sampled_core_config(policy, self.flash_pages, whole)?,
        };
        self.lc.set(policy, config.slots, &mut config.history, &mut config.dirty_permille_max);
        config.keeps_bases = self.keep_log.is_some();
        Ok(config)
    }

    /// The partitions that can go on with the pages of `core`, under other policies.
    pub(super) fn exchangeable(&self, core: &Config) -> Vec<Config> {
        let sizes = |config: &Config| (config.slots, config.group_pages);
        let others = PolicyKind::ALL
            .into_iter()
            .filter(|policy| policy.finds_pages_of(core.policy) && policy.refusal(self.mode).is_none());
        let configs = others.filter_map(|policy| self.core_config(policy).ok());
        configs.filter(|config| sizes(config) == sizes(core)).collect()
    }

    /// What the devices cost, for policies that weigh that, of pages of so many bytes.
    pub fn costs(&self, page_bytes: u32) -> Costs {
        costs(&self.flash_device, &self.disk_device, page_bytes)
    }

    /// Bytes that may be written to flash in a day, if that is limited.
    pub(super) fn write_budget(&self) -> Option<u64> {
        self.flash_writes_per_day.bytes((self.flash_device.capacity_gb * 1e9) as u64)
    }

    /// A device of so many pages, timed as the run asks for.
    pub(super) fn device(
        &self,
        spec: &DeviceSpec,
        trace: &Trace,
        pages: u64,
    ) -> Result<Device, SimulationError> {
        if self.exact_devices {
            return Ok(Device::exact(spec, trace.page_bytes, pages)?);
        }
        Ok(Device::new(spec, trace.page_bytes))
    }

    fn check_mode(&self, cache: Cache) -> Result<(), SimulationError> {
        if cache.runs_in(self.mode) {
            return Ok(());
        }
        let possible: Vec<_> =
            Mode::ALL.into_iter().filter(|mode| cache.runs_in(*mode)).map(Mode::name).collect();
        Err(SimulationError::Mode {
            policy: cache.name(),
            mode: self.mode.name(),
            possible: possible.join(", "),
        })
    }

    /// Says whether the run is possible on `trace`.
    ///
    /// # Errors
    /// [`SimulationError`] says what is not and what is possible.
    pub fn validate(&self, trace: &Trace) -> Result<(), SimulationError> {
        let measured = self.measure_from.max(self.records.start)..self.records.end.min(trace.len());
        if !trace.has_reference(&measured)? {
            return Err(SimulationError::Nothing { trace: trace.name.clone() });
        }
        match self.arrival {
            Arrival::Timed if !trace.has_times() => {
                return Err(SimulationError::NoTimes { trace: trace.name.clone() });
            }
            Arrival::Closed { clients: 0 } => return Err(SimulationError::NoClients),
            _ => {}
        }
        if self.dram_pages > DRAM_PAGES_MAX {
            return Err(SimulationError::DramPages { found: self.dram_pages, max: DRAM_PAGES_MAX });
        }
        self.device(&self.disk_device, trace, 1)?;
        self.flash_layer.map_or(Ok(()), |cache| self.check_mode(cache))?;
        if self.keep_log.is_some() && !self.flash_layer.is_some_and(|cache| may_keep_log(cache, self.mode)) {
            return Err(SimulationError::NoLog {
                policy: layer_name(self.flash_layer),
                mode: self.mode.name(),
            });
        }
        match self.flash_layer {
            None => {}
            Some(Cache::Policy(policy)) => {
                self.device(&self.flash_device, trace, 1)?;
                self.core_config(policy)?;
            }
            Some(Cache::Fragments) => {
                self.device(&self.flash_device, trace, 1)?;
                self.fragments.config(trace, self.flash_pages)?;
            }
            Some(Cache::Blocks(kind)) => {
                let (policy, found, min) = (kind.name(), self.flash_pages, block_pages_min(trace));
                if found < min {
                    return Err(SimulationError::FlashPages { policy, found, min });
                }
                block_sizes(trace, self.flash_pages, 1).validate()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_ranks_of_numbers_close_together_or_far_apart() {
        for spread in [1, 3, 4, 5, 1 << 40] {
            let pages: Vec<u64> = [7, 0, 3, 9, 1].map(|number| 11 + number * spread).to_vec();
            let trace = Trace { pages, ..Trace::default() };
            assert_eq!(Places::of(&trace).as_slice(), [3, 0, 2, 4, 1], "{spread}");
        }
        assert!(by_number(&[11, 14, 12]).is_some() && by_number(&[0, u64::MAX]).is_none());
        assert!(Places::of(&Trace::default()).as_slice().is_empty());
    }

    #[test]
    fn a_samples_partition_uses_the_same_share_of_its_slots() {
        for policy in [PolicyKind::Face, PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc] {
            for whole in [3000, 20_000, 1_000_000] {
                let exact = core_config(policy, whole).expect("large enough");
                let used = |config: &Config| f64::from(config.slots - config.slots_kept_free());
                for rate in [1.0, 0.5, 0.1, 0.01] {
                    let slots = (f64::from(whole) * rate).round() as u32;
                    if slots < 256 {
                        continue;
                    }
                    let sampled = sampled_core_config(policy, slots, whole).expect("large enough");
                    let error = used(&sampled) - used(&exact) * rate;
                    let group = f64::from(sampled.group_pages);
                    assert!(
                        error.abs() <= group,
                        "{policy:?}, {whole}, {rate}: {sampled:?} is off by {error}"
                    );
                    let groups = sampled.slots / sampled.group_pages;
                    let least = if policy.keeps_out() { 8 } else { 2 };
                    let enough = groups >= 1024.min(exact.slots / exact.group_pages);
                    let kept = policy.keeps_out() && groups >= 64;
                    assert!(enough || kept || sampled.group_pages == least, "{sampled:?} of {exact:?}");
                    assert!(rate < 1.0 || sampled == exact, "{sampled:?} {exact:?}");
                }
            }
        }
    }
}
