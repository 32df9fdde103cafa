//! The configuration of a partition. All sizes are fixed by it, once.

use crate::placement::{GROUPS_AHEAD_MIN, groups_ahead, spare_groups};
use crate::policy::{Placement, PolicyKind};
use crate::sizes::{DEQUEUES_MAX, DEQUEUES_USUAL, GROUP_PAGES_MAX, STAGING_GROUPS_MAX, Sizes};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sizes and knobs of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The policy.
    pub policy: PolicyKind,
    /// Slots on flash; a multiple of `group_pages` with log placement.
    pub slots: u32,
    /// Pages of a group, 2 ..= 128 (64 unless there is a reason).
    pub group_pages: u32,
    /// Groups that staging holds, 2 to [`STAGING_GROUPS_MAX`].
    pub staging_groups: u32,
    /// Policies with a cleaner: the cleaner works while more than this many per mille of the slots are dirty.
    pub dirty_permille_max: u32,
    /// Policies that remember evicted pages: how many they remember.
    pub history: u32,
    /// Policies whose slots are divided into sets: slots of a set (the associativity).
    pub set_slots: u32,
    /// A checksum is kept for each slot, 4 bytes, for pages that carry no proof of their own.
    pub proofs: bool,
    /// The disk may refuse pages of a dequeue, which then stay ([`Log::keep`](crate::Log::keep)). A group of
    /// a log is kept free for them.
    pub refusals: bool,
    /// Log placement: dequeues that may be under way at once, [`DEQUEUES_USUAL`] to [`DEQUEUES_MAX`]. So many
    /// groups of a long ring are kept free or are being freed.
    pub dequeues: u32,
    /// Slot placement: what is in the slots survives a crash. Pages are written in batches, never over a
    /// slot that a crash may have to find, and the driver writes a summary with each
    /// ([`Slots::batch`](crate::Slots::batch)).
    pub keeps_slots: bool,
    /// Log placement: the partition knows how much of its owner's log is needed if the flash is lost
    /// ([`Log::horizon`](crate::Log::horizon)). A byte for each slot.
    pub keeps_bases: bool,
}

/// flashcache's usual associativity (SCE §2).
const SET_SLOTS: u32 = 512;
/// The dirty share of a policy without a cleaner: it is not used.
const NO_CLEANER: u32 = 900;

impl Config {
    /// The usual settings for `slots` slots, rounded down to whole groups.
    pub fn new(policy: PolicyKind, slots: u32) -> Self {
        let group_pages = 64;
        let slots = slots / group_pages * group_pages;
        let history = policy.history(slots);
        let cleans_above = policy.facts().slots().and_then(|facts| facts.cleans_above_permille);
        let dirty_permille_max = cleans_above.unwrap_or(NO_CLEANER);
        let set_slots = SET_SLOTS;
        let (staging_groups, proofs, refusals) = (4, false, false);
        Self {
            policy,
            slots,
            group_pages,
            staging_groups,
            dirty_permille_max,
            history,
            set_slots,
            proofs,
            refusals,
            dequeues: DEQUEUES_USUAL,
            keeps_slots: false,
            keeps_bases: false,
        }
    }

    /// The sizes from which the parts are made.
    #[inline(always)]
    pub(crate) const fn sizes(&self) -> Sizes {
        let Self { slots, group_pages, staging_groups, .. } = *self;
        let Self { dirty_permille_max, history, set_slots, proofs, refusals, dequeues, .. } = *self;
        let Self { keeps_slots, keeps_bases: bases, .. } = *self;
        Sizes {
            slots,
            group_pages,
            staging_groups,
            dirty_permille_max,
            history,
            set_slots,
            proofs,
            refusals,
            dequeues,
            keeps_slots,
            bases,
            references: self.policy.facts().hits_only_refer,
            unlatched: self.policy.facts().hits_need_no_latch(),
        }
    }

    /// Lists that the policy keeps.
    pub(crate) const fn lists(&self) -> u32 {
        match self.policy.facts().slots() {
            Some(facts) => facts.lists.count(&self.sizes()),
            None => 0,
        }
    }

    /// Pages that staging holds.
    pub const fn staging_pages(&self) -> u32 {
        self.group_pages.saturating_mul(self.staging_groups)
    }

    /// The smallest number of slots with which this configuration works: in-flight dequeues and staging must
    /// never overlap (see [`crate::placement`]).
    pub const fn slots_min(&self) -> u32 {
        let groups = 2 * (GROUPS_AHEAD_MIN as u32 + 2);
        self.group_pages.saturating_mul(groups).saturating_add(self.staging_pages().saturating_mul(2))
    }

    /// Slots that are free or being freed in a full cache: groups of log placement, none in place.
    pub fn slots_kept_free(&self) -> u32 {
        self.policy.facts().log().map_or(0, |facts| {
            let spare = spare_groups(&self.sizes(), facts);
            groups_ahead(self.slots, self.group_pages, self.dequeues.into(), spare) as u32 * self.group_pages
        })
    }

    /// Checks that a partition can be built from this configuration.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.group_pages < 2 || self.group_pages as usize > GROUP_PAGES_MAX {
            return Err(ConfigError::GroupPages { found: self.group_pages });
        }
        if self.staging_groups < 2 || self.staging_groups > STAGING_GROUPS_MAX {
            return Err(ConfigError::StagingGroups { found: self.staging_groups });
        }
        if self.set_slots == 0 {
            return Err(ConfigError::Set { found: self.set_slots });
        }
        let behind = self.staging_pages().max(self.lists());
        let slots_max = crate::slot::LINK_MAX - behind - 1;
        if self.slots < self.slots_min() || self.slots > slots_max {
            return Err(ConfigError::Slots { found: self.slots, min: self.slots_min(), max: slots_max });
        }
        if self.policy.placement() == Placement::Log && !self.slots.is_multiple_of(self.group_pages) {
            return Err(ConfigError::PartialGroup { slots: self.slots, group_pages: self.group_pages });
        }
        if self.keeps_slots && !self.policy.may_keep_slots() {
            return Err(ConfigError::KeptSlots { policy: self.policy.name() });
        }
        if self.keeps_bases && self.policy.placement() != Placement::Log {
            return Err(ConfigError::Bases { policy: self.policy.name() });
        }
        if self.dirty_permille_max > 1000 {
            return Err(ConfigError::DirtyShare { found: self.dirty_permille_max });
        }
        if self.history > slots_max {
            return Err(ConfigError::History { found: self.history, max: slots_max });
        }
        if !(DEQUEUES_USUAL..=DEQUEUES_MAX).contains(&self.dequeues) {
            return Err(ConfigError::Dequeues { found: self.dequeues });
        }
        Ok(())
    }
}

/// A configuration as stored in a region. Its words are those of [`Config`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct StoredConfig {
    policy: u32,
    slots: u32,
    group_pages: u32,
    staging_groups: u32,
    dirty_permille_max: u32,
    history: u32,
    set_slots: u32,
    /// Bit 0: proofs are kept. Bit 1: the disk may refuse pages. Bit 2: slots survive. Bit 3: bases are kept.
    /// From bit 8 on: [`Config::dequeues`].
    flags: u32,
}

impl StoredConfig {
    /// `config`, without the settings that its policy does not use.
    pub(crate) fn of(config: &Config) -> Self {
        let Config { slots, group_pages, staging_groups, dirty_permille_max, set_slots, .. } = *config;
        let policy = config.policy as u32;
        let history = if config.policy.remembers() { config.history } else { 0 };
        Self {
            policy,
            slots,
            group_pages,
            staging_groups,
            dirty_permille_max,
            history,
            set_slots,
            flags: u32::from(config.proofs)
                | u32::from(config.refusals) << 1
                | u32::from(config.keeps_slots) << 2
                | u32::from(config.keeps_bases) << 3
                | config.dequeues << 8,
        }
    }

    /// The stored configuration.
    ///
    /// # Errors
    /// The policy is unknown to this version.
    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        let Self { slots, group_pages, staging_groups, dirty_permille_max, history, set_slots, .. } = *self;
        let policy = PolicyKind::from_code(self.policy).ok_or(ConfigError::Policy { found: self.policy })?;
        let (proofs, refusals, keeps_slots) = (self.flags & 1 != 0, self.flags & 2 != 0, self.flags & 4 != 0);
        Ok(Config {
            policy,
            slots,
            group_pages,
            staging_groups,
            dirty_permille_max,
            history,
            set_slots,
            proofs,
            refusals,
            dequeues: self.flags >> 8,
            keeps_slots,
            keeps_bases: self.flags & 8 != 0,
        })
    }
}

/// A configuration from which no partition can be built, or a region that does not hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Group size out of range.
    #[error("a group of {found} pages is not possible; choose 2 to 128 (64 is usual)")]
    GroupPages {
        /// Pages asked for.
        found: u32,
    },
    /// Number of staging groups out of range.
    #[error("{found} staging groups are not possible; choose 2 to 64")]
    StagingGroups {
        /// Groups asked for.
        found: u32,
    },
    /// Number of dequeues out of range.
    #[error("{found} dequeues at once are not possible; choose 8 to 32")]
    Dequeues {
        /// Dequeues asked for.
        found: u32,
    },
    /// Number of slots out of range.
    #[error(
        "a flash cache of {found} pages is not possible; with these groups it takes {min} to {max} pages"
    )]
    Slots {
        /// Slots asked for.
        found: u32,
        /// Fewest possible.
        min: u32,
        /// Most possible.
        max: u32,
    },
    /// The number of slots is not a whole number of groups.
    #[error("{slots} slots are not a whole number of groups of {group_pages} pages; round the size down")]
    PartialGroup {
        /// Slots asked for.
        slots: u32,
        /// Pages of a group.
        group_pages: u32,
    },
    /// Slots of this policy do not survive.
    #[error(
        "slots that survive a crash are not possible with policy {policy}; choose one of these: {}",
        policies_that_keep_slots()
    )]
    KeptSlots {
        /// The policy.
        policy: &'static str,
    },
    /// Only a log knows the bases of its pages.
    #[error("policy {policy} places pages in slots, and does not tell how old their changes are")]
    Bases {
        /// The policy.
        policy: &'static str,
    },
    /// Dirty share over 100 %.
    #[error("a dirty share of {found} per mille is over 1000; choose 0 to 1000")]
    DirtyShare {
        /// Per mille asked for.
        found: u32,
    },
    /// A set of no slots.
    #[error("a set of {found} slots is not possible; choose 1 or more (512 is usual)")]
    Set {
        /// Slots asked for.
        found: u32,
    },
    /// The history is too long.
    #[error("a history of {found} pages is too long; at most {max} are possible")]
    History {
        /// Entries asked for.
        found: u32,
        /// Most possible.
        max: u32,
    },
    /// The region's size does not fit the configuration.
    #[error("the region has {found} bytes, but this configuration needs {expected}")]
    RegionSize {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The region does not begin at a multiple of its alignment.
    #[error("the region does not begin at a multiple of {expected} bytes; map or allocate it so")]
    Alignment {
        /// Bytes of alignment.
        expected: usize,
    },
    /// The region's policy is unknown to this version.
    #[error(
        "the region holds a partition of policy number {found}, which this version does not have; format it anew"
    )]
    Policy {
        /// The policy's number in the region.
        found: u32,
    },
    /// The region was not written by this version.
    #[error(
        "the region does not hold a cache partition (magic {found:#x}, expected {expected:#x}); format it first"
    )]
    Magic {
        /// The magic of this version.
        expected: u64,
        /// The magic found in the region.
        found: u64,
    },
}

/// The names of the policies whose slots may survive a crash.
fn policies_that_keep_slots() -> String {
    let keep = PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots());
    keep.map(PolicyKind::name).collect::<Vec<_>>().join(", ")
}
