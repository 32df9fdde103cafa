//! Configurations of caches that are smaller than usual: small ones, and samples that stand for large ones.

use crate::config::Config;
use crate::policy::PolicyKind;

/// Group sizes that are tried, largest first.
const GROUPS: [u32; 6] = [64, 32, 16, 8, 4, 2];
const GROUP_MIN: u32 = GROUPS[GROUPS.len() - 1];
/// Fewest groups of a cache, where groups can be smaller. Up to eight groups are kept free or becoming free:
/// of a cache of gigabytes that is nothing, and of a small one it must not be much either, or its hit rate is
/// that of another size.
const GROUPS_MIN: u32 = 256;
/// Smallest groups where the policy chooses which pages of a group stay: from fewer it cannot choose.
const CHOSEN_FROM_MIN: u32 = 8;
/// Fewest groups of a sample, if the whole cache has as many.
const SAMPLED_GROUPS_MIN: u32 = 1024;
/// The same, where the policy chooses which pages of a group stay: its choice depends on the group's size.
const CHOOSING_GROUPS_MIN: u32 = 64;

impl Config {
    /// The usual settings for `slots` slots, rounded down to whole groups of `group_pages`.
    pub fn with_group(policy: PolicyKind, slots: u32, group_pages: u32) -> Self {
        Self { group_pages, slots: slots / group_pages * group_pages, ..Self::new(policy, slots) }
    }

    /// The partition of `slots` slots: with the usual groups of 64 pages from 16,384 slots on, and smaller
    /// ones where the cache is smaller, down to two pages, or to eight where the policy chooses among them.
    /// It may be too small to be [valid](Self::validate).
    pub fn with_small_groups(policy: PolicyKind, slots: u32) -> Self {
        let is_chosen = |group: u32| {
            let fits = || slots >= Self::with_group(policy, slots, group).slots_min();
            policy.keeps_out() && group == CHOSEN_FROM_MIN && fits()
        };
        let wanted = |group: &u32| slots / group >= GROUPS_MIN || is_chosen(*group);
        let group = GROUPS.into_iter().find(wanted).unwrap_or(GROUP_MIN);
        Self::with_group(policy, slots, group)
    }

    /// The partition of about `slots` slots that stands in a sample, of `rate` of the pages, for `whole`: its
    /// groups are smaller, so that it has enough of them, and the same share of its slots is in use while
    /// groups are kept free. It may be too small to be [valid](Self::validate).
    pub fn of_sample(whole: &Config, slots: u32, rate: f64) -> Self {
        let policy = whole.policy;
        let keeps_out = policy.keeps_out();
        let smallest = if keeps_out { CHOSEN_FROM_MIN } else { GROUP_MIN };
        let groups_min = if keeps_out { CHOOSING_GROUPS_MIN } else { SAMPLED_GROUPS_MIN };
        let groups = (whole.slots / whole.group_pages).min(groups_min);
        let fits = |group: &u32| *group <= whole.group_pages && slots / group >= groups;
        let group = GROUPS.into_iter().find(fits).unwrap_or(smallest.min(whole.group_pages));
        let used = f64::from(whole.slots - whole.slots_kept_free()) * rate;
        // Rounded to the nearest group.
        let with_free = |free| Self::with_group(policy, used.round() as u32 + free + group / 2, group);
        // What is kept free makes the ring longer, and a longer ring keeps more free.
        let free = with_free(Self::with_group(policy, slots, group).slots_kept_free()).slots_kept_free();
        with_free(free)
    }
}

/// Smallest groups of all.
pub const GROUP_PAGES_MIN: u32 = GROUP_MIN;
