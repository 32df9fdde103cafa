//! The systems under test: the disk alone, a small flash cache under each policy and in each mode, and a
//! small SCE.
//!
//! Invariant: all are as small as allowed, so a short run fills all structures and wraps all rings.

use crate::machine::Machine;
use entresol_core::{PolicyKind, System};
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, FragmentTier, Layer, Mode, TierError, TierOptions, flash_bytes,
};
use entresol_store::{FlashLoss, Options};
use std::fmt;
use std::sync::Arc;

/// Bytes of a page, in all systems.
pub const PAGE_BYTES: u32 = 4096;

/// The storage below the buffer pool: a system in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The system.
    pub system: System,
    /// Its mode.
    pub mode: Mode,
    /// Slots survive a crash.
    pub keeps_slots: bool,
    /// The log is kept so that the flash may be lost.
    pub survives: bool,
}

impl Subject {
    /// The two-layer baseline.
    pub const DISK_ONLY: Subject = Self::usual(System::DiskOnly);
    /// SCE: a cache of fragments.
    pub const FRAGMENTS: Subject = Self::usual(System::Fragments);

    /// The subjects that a seed selects from. The list must not change: it gives each seed its meaning.
    pub const DRAWN: [Subject; 12] = [
        Self::DISK_ONLY,
        Self::cached(PolicyKind::Lc),
        Self::cached(PolicyKind::Face),
        Self::cached(PolicyKind::FaceGr),
        Self::cached(PolicyKind::FaceGsc),
        Self::write_through(PolicyKind::FaceGsc),
        Self::cached(PolicyKind::Tac),
        Self::cached(PolicyKind::Exadata),
        Self::cached(PolicyKind::Loc),
        Self::cached(PolicyKind::Glb),
        Self::cached(PolicyKind::Flashcache),
        Self::FRAGMENTS,
    ];

    const fn usual(system: System) -> Self {
        Self { system, mode: system.usual_mode(), keeps_slots: false, survives: false }
    }

    /// Those whose slots survive a crash, for seeds that select from these alone.
    pub const KEPT: [Subject; 4] = [
        Self::with_kept_slots(PolicyKind::Lc),
        Self::with_kept_slots(PolicyKind::ReuseSlots),
        Self::with_kept_slots(PolicyKind::S3Fifo),
        Self::with_kept_slots(PolicyKind::Clock),
    ];

    /// Those whose log is kept so that the flash may be lost.
    pub const SURVIVING: [Subject; 4] = [
        Self::surviving(PolicyKind::FaceGsc),
        Self::surviving(PolicyKind::Reuse),
        Self::surviving(PolicyKind::FaceGr),
        Self::surviving(PolicyKind::Face),
    ];

    const fn surviving(policy: PolicyKind) -> Self {
        Self { survives: true, ..Self::cached(policy) }
    }

    /// The settings of a store on this system, in `machine`.
    pub(crate) fn settings(self, machine: &Machine, options: Options) -> Options {
        let flash_loss = match machine.needs_flash {
            true => FlashLoss::Fatal,
            false => FlashLoss::Survive { log_bytes: LOG_KEPT_BYTES },
        };
        match self.survives {
            true => Options { full_page_writes: true, flash_loss, ..options },
            false => options,
        }
    }

    /// A flash cache under `policy`, with slots that survive a crash.
    pub const fn with_kept_slots(policy: PolicyKind) -> Self {
        Self { keeps_slots: true, ..Self::cached(policy) }
    }

    /// A flash cache under `policy`, in its usual mode.
    pub const fn cached(policy: PolicyKind) -> Self {
        Self::usual(System::Cached(policy))
    }

    /// A write-through flash cache under `policy`.
    pub const fn write_through(policy: PolicyKind) -> Self {
        Self { system: System::Cached(policy), mode: Mode::WriteThrough, ..Self::cached(policy) }
    }

    /// All subjects: the drawn ones, then every other policy.
    pub fn all() -> Vec<Subject> {
        let policies = PolicyKind::ALL.into_iter().map(Subject::cached);
        let others = policies.filter(|subject| !Self::DRAWN.contains(subject));
        Self::DRAWN.into_iter().chain(others).chain(Self::KEPT).collect()
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self.system {
            // One name is enough: the write path to disk does not depend on the policy.
            System::Cached(PolicyKind::Lc) if self.keeps_slots => "lc-kept",
            System::Cached(PolicyKind::ReuseSlots) if self.keeps_slots => "reuse-slots-kept",
            System::Cached(PolicyKind::S3Fifo) if self.keeps_slots => "s3-fifo-kept",
            System::Cached(_) if self.keeps_slots => "clock-kept",
            System::Cached(PolicyKind::FaceGsc) if self.survives => "face-gsc-survives",
            System::Cached(PolicyKind::Reuse) if self.survives => "reuse-survives",
            System::Cached(PolicyKind::FaceGr) if self.survives => "face-gr-survives",
            System::Cached(_) if self.survives => "face-survives",
            System::Cached(_) if self.mode != self.system.usual_mode() => self.mode.name(),
            _ => self.system.name(),
        }
    }

    /// The subject of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().chain(Self::SURVIVING).find(|subject| subject.name() == name)
    }

    /// A flash cache of `groups` groups of 4 pages, or of the core's minimum if that is more. `None` without
    /// a flash tier.
    pub fn tier_options(self, groups: u32) -> Option<TierOptions> {
        let System::Cached(policy) = self.system else { return None };
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
                mode: self.mode,
                keeps_slots: self.keeps_slots,
                keeps_bases: self.survives,
                write_workers: 2,
                background_workers: 2,
                ..TierOptions::new(policy, slots)
            }
        };
        (groups.max(1)..GROUPS_MAX).map(of_groups).find(|options| options.validate().is_ok())
    }

    /// A cache of `groups` fragments of 4 pages, but with at least enough fragments that some are read while
    /// they are cached.
    fn fragments(groups: u32) -> FragmentOptions {
        let slots = groups.max(FRAGMENTS_MIN);
        let usual = FragmentOptions { page_bytes: PAGE_BYTES, ..FragmentOptions::new(slots * 4) };
        FragmentOptions { slots, fragment_pages: 4, workers: 2, pace_permille: 1000, proofs_kept: 2, ..usual }
    }

    /// Bytes of flash of such a cache; 0 without flash.
    pub fn flash_bytes(self, groups: u32) -> u64 {
        match self {
            Self::FRAGMENTS => Self::fragments(groups).flash_bytes(),
            _ => self.tier_options(groups).as_ref().map_or(0, flash_bytes),
        }
    }

    /// A new layer on blank devices.
    pub fn create(self, machine: &Machine) -> Result<Arc<dyn Layer>, TierError> {
        if self == Self::FRAGMENTS {
            DiskLayer::create(machine.disk(), PAGE_BYTES)?.close()?;
            return self.open(machine);
        }
        Ok(match self.tier_options(machine.flash_groups) {
            None => DiskLayer::create(machine.disk(), PAGE_BYTES)?,
            Some(options) => FlashTier::create(machine.flash(), machine.disk(), options)?,
        })
    }

    /// Opens the layer on the devices, after a shutdown or a crash.
    pub fn open(self, machine: &Machine) -> Result<Arc<dyn Layer>, TierError> {
        if self == Self::FRAGMENTS {
            let options = Self::fragments(machine.flash_groups);
            return Ok(FragmentTier::open(machine.flash(), machine.disk(), options)?);
        }
        Ok(match self.tier_options(machine.flash_groups) {
            _ if machine.is_flash_lost => DiskLayer::open_without_flash(machine.disk(), PAGE_BYTES)?,
            None => DiskLayer::open(machine.disk(), PAGE_BYTES)?,
            Some(options) => FlashTier::open(machine.flash(), machine.disk(), options)?.0,
        })
    }
}

/// Bytes of log that are kept for a lost flash: as many as the smallest log may keep.
const LOG_KEPT_BYTES: u64 = 256 << 10;
/// Fragments of a small cache.
const FRAGMENTS_MIN: u32 = 16;
/// More groups than any small cache has.
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
        for system in Subject::all().into_iter().chain(Subject::SURVIVING) {
            assert_eq!(Subject::from_name(system.name()), Some(system));
            let Some(options) = system.tier_options(0) else { continue };
            options.validate().expect("the smallest cache is possible");
            let smaller = TierOptions { slots: options.slots - options.group_pages, ..options };
            assert!(smaller.validate().is_err(), "{system} could be smaller");
        }
    }
}
