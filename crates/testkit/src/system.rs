//! The systems under test: the disk alone, a small flash cache under each policy and in each mode, and a small SCE.
//!
//! Invariant: all are as small as they may be, so that a short run fills and wraps everything there is.

use crate::machine::Machine;
use entresol_core::PolicyKind;
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, FragmentTier, Layer, Mode, TierError, TierOptions, flash_bytes,
};
use std::fmt;
use std::sync::Arc;

/// Bytes of a page, in all systems.
pub const PAGE_BYTES: u32 = 4096;

/// What stands below the buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The two-layer baseline.
    DiskOnly,
    /// A flash cache under this policy, in its usual mode.
    Cached(PolicyKind),
    /// A write-through flash cache under this policy.
    WriteThrough(PolicyKind),
    /// SCE: a cache of fragments.
    Fragments,
}

impl System {
    /// All systems.
    pub const ALL: [System; 12] = [
        System::DiskOnly,
        System::Cached(PolicyKind::Lc),
        System::Cached(PolicyKind::Face),
        System::Cached(PolicyKind::FaceGr),
        System::Cached(PolicyKind::FaceGsc),
        System::WriteThrough(PolicyKind::FaceGsc),
        System::Cached(PolicyKind::Tac),
        System::Cached(PolicyKind::Exadata),
        System::Cached(PolicyKind::Loc),
        System::Cached(PolicyKind::Glb),
        System::Cached(PolicyKind::Flashcache),
        System::Fragments,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            System::DiskOnly => "disk-only",
            System::Cached(policy) => policy.name(),
            // One is enough: how a page goes to disk does not depend on the policy.
            System::WriteThrough(_) => "write-through",
            System::Fragments => "sce",
        }
    }

    /// The system of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    /// A flash cache of `groups` groups of 4 pages (as few as the core allows, if fewer are asked for); `None` without a
    /// flash tier.
    pub fn tier_options(self, groups: u32) -> Option<TierOptions> {
        let (policy, mode) = match self {
            System::DiskOnly | System::Fragments => return None,
            System::Cached(policy) => (policy, policy.usual_mode()),
            System::WriteThrough(policy) => (policy, Mode::WriteThrough),
        };
        let of_groups = |groups: u32| {
            let group_pages = 4;
            let slots = groups * group_pages;
            TierOptions {
                page_bytes: PAGE_BYTES,
                group_pages,
                staging_groups: 2,
                segment_entries: 32,
                history: policy.history(slots),
                slots,
                mode,
                write_workers: 2,
                background_workers: 2,
                ..TierOptions::new(policy, slots)
            }
        };
        (groups.max(1)..GROUPS_MAX).map(of_groups).find(|options| options.validate().is_ok())
    }

    /// A cache of `groups` fragments of 4 pages, and of enough of them that some are read while they are there.
    fn fragments(groups: u32) -> FragmentOptions {
        let slots = groups.max(FRAGMENTS_MIN);
        let usual = FragmentOptions { page_bytes: PAGE_BYTES, ..FragmentOptions::new(slots * 4) };
        FragmentOptions { slots, fragment_pages: 4, workers: 2, pace_permille: 1000, ..usual }
    }

    /// Bytes of flash that such a cache takes; 0 without flash.
    pub fn flash_bytes(self, groups: u32) -> u64 {
        match self {
            System::Fragments => Self::fragments(groups).flash_bytes(),
            _ => self.tier_options(groups).as_ref().map_or(0, flash_bytes),
        }
    }

    /// A new layer on blank devices.
    pub fn create(self, machine: &Machine) -> Result<Arc<dyn Layer>, TierError> {
        if self == System::Fragments {
            DiskLayer::create(machine.disk(), PAGE_BYTES)?.close()?;
            return self.open(machine);
        }
        Ok(match self.tier_options(machine.flash_groups) {
            None => DiskLayer::create(machine.disk(), PAGE_BYTES)?,
            Some(options) => FlashTier::create(machine.flash(), machine.disk(), options)?,
        })
    }

    /// The layer that lies on the devices, after a shutdown or a crash.
    pub fn open(self, machine: &Machine) -> Result<Arc<dyn Layer>, TierError> {
        if self == System::Fragments {
            let options = Self::fragments(machine.flash_groups);
            return Ok(FragmentTier::open(machine.flash(), machine.disk(), options)?);
        }
        Ok(match self.tier_options(machine.flash_groups) {
            None => DiskLayer::open(machine.disk(), PAGE_BYTES)?,
            Some(options) => FlashTier::open(machine.flash(), machine.disk(), options)?.0,
        })
    }
}

/// Fragments of a small cache.
const FRAGMENTS_MIN: u32 = 16;
/// More groups than a small cache has.
const GROUPS_MAX: u32 = 1 << 16;

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_caches_are_possible_and_none_is_smaller() {
        for system in System::ALL {
            assert_eq!(System::from_name(system.name()), Some(system));
            let Some(options) = system.tier_options(0) else { continue };
            options.validate().expect("the smallest cache is possible");
            let smaller = TierOptions { slots: options.slots - options.group_pages, ..options };
            assert!(smaller.validate().is_err(), "{system} could be smaller");
        }
    }
}
