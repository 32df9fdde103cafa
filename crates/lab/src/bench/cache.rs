//! The shape of a run's flash cache: slots under a policy, or SCE's fragments.

use crate::bench::image::PAGE_BYTES;
use crate::config::{BenchConfig, Run};
use crate::replay::FragmentKnobs;
use crate::replay::device::Catalogue;
use anyhow::Context;
use entresol_core::{PolicyKind, System};
use entresol_device::Device;
use entresol_engine::{
    DailyWrites, FlashTier, FragmentOptions, FragmentTier, Layer, TierOptions, WriteBudget, flash_bytes,
};
use entresol_store::FlashLoss;
use std::sync::Arc;
use std::time::Duration;

/// What the cache is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOptions {
    /// Slots under a policy of the core.
    Slots(TierOptions),
    /// SCE's fragments.
    Fragments(FragmentOptions),
}

impl CacheOptions {
    /// The cache of a run with so many pages of flash, if it has one.
    ///
    /// # Errors
    /// If there are more pages than can be numbered.
    pub fn of(config: &BenchConfig, run: Run, pages: u64) -> anyhow::Result<Option<Self>> {
        let pages = || u32::try_from(pages).context("the flash cache is too large: at most 2^28 pages");
        Ok(match run.system {
            System::DiskOnly | System::FlashOnly => None,
            System::Cached(policy) => {
                let mut options = TierOptions {
                    keeps_slots: config.keeps_slots && policy.may_keep_slots(),
                    keeps_bases: config.flash_loss != FlashLoss::Fatal,
                    measures_costs: true,
                    write_budget: write_budget(config, policy)?,
                    ..TierOptions::new(policy, pages()?)
                };
                let TierOptions { slots, history, dirty_permille_max, .. } = &mut options;
                config.lc.set(policy, *slots, history, dirty_permille_max);
                Some(Self::Slots(options))
            }
            System::Fragments => Some(Self::Fragments(fragment_options(config.fragments, pages()?))),
        })
    }

    /// How large the flash device must be, in bytes.
    pub fn flash_bytes(&self) -> u64 {
        match self {
            Self::Slots(options) => flash_bytes(options),
            Self::Fragments(options) => options.flash_bytes(),
        }
    }

    /// A new, empty cache.
    pub(super) fn create(
        &self,
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
    ) -> anyhow::Result<Arc<dyn Layer>> {
        Ok(match self {
            Self::Slots(options) => FlashTier::create(flash, disk, options.clone())?,
            Self::Fragments(options) => FragmentTier::open(flash, disk, *options)?,
        })
    }

    /// The cache after a crash, and how long its directory took to come back. SCE's is in memory only.
    pub(super) fn reopen(
        &self,
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
    ) -> anyhow::Result<(Arc<dyn Layer>, Duration)> {
        Ok(match self {
            Self::Slots(options) => {
                let (layer, report) = FlashTier::open(flash, disk, options.clone())?;
                (layer, report.duration)
            }
            Self::Fragments(options) => (FragmentTier::open(flash, disk, *options)?, Duration::ZERO),
        })
    }
}

/// The bucket holds as much as flows in in so long a time: runs take minutes.
const HOLDS: Duration = Duration::from_secs(10);

/// How much a policy may write, if it weighs what a write is worth.
pub(super) fn write_budget(config: &BenchConfig, policy: PolicyKind) -> anyhow::Result<WriteBudget> {
    if config.flash_writes_per_day == DailyWrites::Unlimited || !policy.facts().weighs_costs {
        return Ok(WriteBudget::UNLIMITED);
    }
    let device = Catalogue::builtin().flash(&config.flash_device)?.capacity_gb * 1e9;
    Ok(WriteBudget { bytes_per_day: config.flash_writes_per_day.bytes(device as u64), holds: HOLDS })
}

/// A cache of fragments with these knobs in `pages` pages of flash. Whether it is possible,
/// [`FragmentOptions::validate`] says.
pub fn fragment_options(knobs: FragmentKnobs, pages: u32) -> FragmentOptions {
    let config = knobs.sized(1, pages, PAGE_BYTES);
    FragmentOptions {
        slots: config.slots,
        fragment_pages: config.fragment_pages,
        workers: config.workers,
        pace_permille: config.pace_permille,
        ..FragmentOptions::new(pages)
    }
}
