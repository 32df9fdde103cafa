//! The cache under torture: a flash tier under one of the policies, or a cache of fragments (SCE); and the
//! properties of it that the rest of the torture needs.
//!
//! Invariant: differences between the two are handled here, except properties that only one of them has.

use super::target::Target;
use crate::machine::Machine;
use entresol_core::{Placement, SlotId};
use entresol_engine::{
    FlashTier, FragmentOptions, FragmentTier, Layer, Mode, TierError, TierOptions, check, flash_bytes,
};
use std::fmt;
use std::sync::Arc;

/// See the module's header.
#[derive(Clone, Debug)]
pub(super) enum Cache {
    Tier(TierOptions),
    Fragments(FragmentOptions),
}

/// An opened cache, and the notices of its open.
pub(super) type Opened = (Arc<dyn Layer>, Vec<String>);

impl Cache {
    pub(super) fn target(&self) -> Target {
        match self {
            Cache::Tier(options) if options.keeps_slots => Target::with_kept_slots(options.policy),
            Cache::Tier(options) => Target::new(options.policy, options.mode),
            Cache::Fragments(_) => Target::FRAGMENTS,
        }
    }

    pub(super) fn tier(&self) -> Option<&TierOptions> {
        if let Cache::Tier(options) = self { Some(options) } else { None }
    }

    pub(super) fn mode(&self) -> Mode {
        self.target().mode()
    }

    pub(super) fn page_bytes(&self) -> u32 {
        match self {
            Cache::Tier(options) => options.page_bytes,
            Cache::Fragments(options) => options.page_bytes,
        }
    }

    /// Number of pages that fit on flash.
    pub(super) fn slots(&self) -> u32 {
        match self {
            Cache::Tier(options) => options.slots,
            Cache::Fragments(options) => options.slots * options.fragment_pages,
        }
    }

    /// Offset on flash of the page in a slot.
    pub(super) fn slot_offset(&self, slot: SlotId) -> u64 {
        match self {
            Cache::Tier(options) => options.layout().slot_offset(slot),
            Cache::Fragments(options) => options.slot_offset(slot),
        }
    }

    /// Offsets on flash of the blocks that prove pages.
    pub(super) fn proofs_offsets(&self) -> Vec<u64> {
        match self {
            Cache::Tier(_) => Vec::new(),
            Cache::Fragments(options) => options.proofs_offsets().collect(),
        }
    }

    /// Bytes of flash of the cache.
    pub(super) fn flash_bytes(&self) -> u64 {
        match self {
            Cache::Tier(options) => flash_bytes(options),
            Cache::Fragments(options) => options.flash_bytes(),
        }
    }

    /// Whether the cache forgets its copy of a fetched page.
    pub(super) fn is_exclusive(&self) -> bool {
        self.tier().is_some_and(|options| options.policy.exclusive())
    }

    /// Whether dirty pages survive on flash, so that the loss of the flash loses data.
    pub(super) fn keeps_dirty(&self) -> bool {
        self.is_log() && self.tier().is_some_and(|options| options.mode == Mode::WriteBack)
            || self.keeps_slots()
    }

    /// Whether slots survive a crash.
    pub(super) fn keeps_slots(&self) -> bool {
        self.tier().is_some_and(|options| options.keeps_slots)
    }

    /// Whether flash is a log with a directory that survives. Then a copy that was dropped from flash may be
    /// there again after a crash, until the front is recorded.
    pub(super) fn is_log(&self) -> bool {
        self.tier().is_some_and(|options| options.policy.placement() == Placement::Log)
    }

    /// Whether changed pages may be kept out of a cache that survives, so that only the disk has them.
    pub(super) fn keeps_out(&self) -> bool {
        self.keeps_slots() || self.tier().is_some_and(|options| options.policy.keeps_out())
    }

    #[cfg(test)]
    pub(super) fn validate(&self) -> Result<(), TierError> {
        match self {
            Cache::Tier(options) => options.validate(),
            Cache::Fragments(options) => options.validate(),
        }
    }

    /// Opens the cache on these devices.
    pub(super) fn open(&self, machine: &Machine) -> Result<Opened, TierError> {
        match self {
            Cache::Tier(options) => {
                let (tier, report) = FlashTier::open(machine.flash(), machine.disk(), options.clone())?;
                Ok((tier, report.notices))
            }
            Cache::Fragments(options) => {
                Ok((FragmentTier::open(machine.flash(), machine.disk(), *options)?, Vec::new()))
            }
        }
    }

    /// The same cache, which overwrites the content of the devices.
    pub(super) fn overwriting(&self) -> Cache {
        match self {
            Cache::Tier(options) => Cache::Tier(TierOptions { overwrite: true, ..options.clone() }),
            Cache::Fragments(options) => Cache::Fragments(FragmentOptions { overwrite: true, ..*options }),
        }
    }

    /// Creates a cache. A cache of fragments is new at each open; its disk must have been created before.
    pub(super) fn create(&self, machine: &Machine) -> Result<Opened, TierError> {
        match self {
            Cache::Tier(options) => {
                Ok((FlashTier::create(machine.flash(), machine.disk(), options.clone())?, Vec::new()))
            }
            Cache::Fragments(options) => {
                let (disk, page_bytes) = (machine.disk(), options.page_bytes);
                entresol_engine::DiskLayer::create_on(disk, page_bytes, options.overwrite)?.close()?;
                self.open(machine)
            }
        }
    }

    /// Checks the invariants of flash and disk, and that they agree about which version is newer.
    pub(super) fn expect_sound(&self, machine: &Machine, when: &str) -> Result<(), String> {
        if self.tier().is_none() {
            return match super::damage::newest_superblock(&*machine.flash()) {
                None => Ok(()),
                Some(_) => Err(format!("the flash passes for another cache {when}")),
            };
        }
        let report = check(&*machine.flash(), Some(machine.disk()))
            .map_err(|error| format!("checking the flash {when}: {error}"))?;
        match report.is_sound() && report.older_than_disk == 0 {
            true => Ok(()),
            false => Err(format!("the flash is not sound {when}: {report}")),
        }
    }

    /// Whether the cache found damage on flash and read a clean page from disk instead.
    pub(super) fn is_damaged(&self, layer: &dyn Layer) -> bool {
        layer.metrics().damaged_clean > 0
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target();
        match self {
            Cache::Tier(options) => write!(
                f,
                "{target}: {} slots in groups of {} pages of {} bytes, {} groups in staging, segments of {}, {} writers, {} \
                 in the background",
                options.slots,
                options.group_pages,
                options.page_bytes,
                options.staging_groups,
                options.segment_entries,
                options.write_workers,
                options.background_workers
            ),
            Cache::Fragments(FragmentOptions {
                page_bytes,
                page_format: _,
                slots,
                fragment_pages,
                workers,
                pace_permille,
                proofs_kept,
                overwrite: _,
            }) => {
                write!(
                    f,
                    "{target}: {slots} fragments of {fragment_pages} pages of {page_bytes} bytes, proofs of \
                     {proofs_kept} (0: all) in memory, {workers} workers, at most {pace_permille} populations in a \
                     thousand accesses"
                )
            }
        }
    }
}
