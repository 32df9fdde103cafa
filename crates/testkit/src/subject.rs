//! The systems under test: the disk alone, a small flash cache under each policy and in each mode, and a
//! small SCE.
//!
//! Invariant: all are as small as they may be, so that a short run fills and wraps everything there is.

use crate::machine::Machine;
use entresol_core::{PolicyKind, System};
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, FragmentTier, Layer, Mode, TierError, TierOptions, flash_bytes,
};
use std::fmt;
use std::sync::Arc;

/// Bytes of a page, in all systems.
pub const PAGE_BYTES: u32 = 4096;

/// What stands below the buffer pool: a [`System`] in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The two-layer baseline.
    DiskOnly,
    /// A flash cache under this policy, in its usual mode.
    Cached(PolicyKind),
    /// A write-through flash cache under this policy.
    WriteThrough(PolicyKind),
    /// SCE: a cache of fragments.
    Fragments,
}

impl Subject {
    /// Those that a seed draws from. A seed has its meaning from this list, so it stays as it is.
    pub const DRAWN: [Subject; 12] = [
        Subject::DiskOnly,
        Subject::Cached(PolicyKind::Lc),
        Subject::Cached(PolicyKind::Face),
        Subject::Cached(PolicyKind::FaceGr),
        Subject::Cached(PolicyKind::FaceGsc),
        Subject::WriteThrough(PolicyKind::FaceGsc),
        Subject::Cached(PolicyKind::Tac),
        Subject::Cached(PolicyKind::Exadata),
        Subject::Cached(PolicyKind::Loc),
        Subject::Cached(PolicyKind::Glb),
        Subject::Cached(PolicyKind::Flashcache),
        Subject::Fragments,
    ];

    /// All: those that are drawn, then every other policy.
    pub fn all() -> Vec<Subject> {
        let policies = PolicyKind::ALL.into_iter().map(Subject::Cached);
        let others = policies.filter(|subject| !Self::DRAWN.contains(subject));
        Self::DRAWN.into_iter().chain(others).collect()
    }

    /// The system; its mode is the usual one but for [`Subject::WriteThrough`].
    pub const fn system(self) -> System {
        match self {
            Subject::DiskOnly => System::DiskOnly,
            Subject::Cached(policy) | Subject::WriteThrough(policy) => System::Cached(policy),
            Subject::Fragments => System::Fragments,
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            // One is enough: how a page goes to disk does not depend on the policy.
            Subject::WriteThrough(_) => "write-through",
            Subject::DiskOnly | Subject::Cached(_) | Subject::Fragments => self.system().name(),
        }
    }

    /// The subject of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|system| system.name() == name)
    }

    /// A flash cache of `groups` groups of 4 pages (as few as the core allows, if fewer are asked for);
    /// `None` without a flash tier.
    pub fn tier_options(self, groups: u32) -> Option<TierOptions> {
        let (policy, mode) = match self {
            Subject::DiskOnly | Subject::Fragments => return None,
            Subject::Cached(policy) => (policy, policy.usual_mode()),
            Subject::WriteThrough(policy) => (policy, Mode::WriteThrough),
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

    /// A cache of `groups` fragments of 4 pages, and of enough of them that some are read while they are
    /// there.
    fn fragments(groups: u32) -> FragmentOptions {
        let slots = groups.max(FRAGMENTS_MIN);
        let usual = FragmentOptions { page_bytes: PAGE_BYTES, ..FragmentOptions::new(slots * 4) };
        FragmentOptions { slots, fragment_pages: 4, workers: 2, pace_permille: 1000, ..usual }
    }

    /// Bytes of flash that such a cache takes; 0 without flash.
    pub fn flash_bytes(self, groups: u32) -> u64 {
        match self {
            Subject::Fragments => Self::fragments(groups).flash_bytes(),
            _ => self.tier_options(groups).as_ref().map_or(0, flash_bytes),
        }
    }

    /// A new layer on blank devices.
    pub fn create(self, machine: &Machine) -> Result<Arc<dyn Layer>, TierError> {
        if self == Subject::Fragments {
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
        if self == Subject::Fragments {
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

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_caches_are_possible_and_none_is_smaller() {
        for system in Subject::all() {
            assert_eq!(Subject::from_name(system.name()), Some(system));
            let Some(options) = system.tier_options(0) else { continue };
            options.validate().expect("the smallest cache is possible");
            let smaller = TierOptions { slots: options.slots - options.group_pages, ..options };
            assert!(smaller.validate().is_err(), "{system} could be smaller");
        }
    }
}
