//! The catalogue of flash caches, by the names of the command line and of results: the policies of the
//! engine, SCE's cache of fragments, and caches that are their own translation layer, which only the lab
//! simulates.

use crate::mode::Mode;
use crate::policy::PolicyKind;

/// A flash cache between DRAM and disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cache {
    /// Pages under a policy.
    Policy(PolicyKind),
    /// SCE's cache of fragments.
    Fragments,
    /// A cache that is its own translation layer.
    Blocks(BlockKind),
}

/// The flash caches that are their own translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// RFDB/WFDB with its write buffer.
    RwFdb,
    /// FlashTier.
    FlashTier,
    /// FlashTier with a write buffer.
    FlashTierBuffered,
}

impl BlockKind {
    /// All of them.
    pub const ALL: [BlockKind; 3] = [BlockKind::RwFdb, BlockKind::FlashTier, BlockKind::FlashTierBuffered];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BlockKind::RwFdb => "rwfdb",
            BlockKind::FlashTier => "flashtier",
            BlockKind::FlashTierBuffered => "flashtier-buffer",
        }
    }
}

impl Cache {
    /// All: every policy in the order of the papers' tables, SCE, then the caches of blocks.
    pub const ALL: [Cache; PolicyKind::ALL.len() + 1 + BlockKind::ALL.len()] = {
        let mut all = [Cache::Fragments; PolicyKind::ALL.len() + 1 + BlockKind::ALL.len()];
        let mut at = 0;
        while at < PolicyKind::ALL.len() {
            all[at] = Cache::Policy(PolicyKind::ALL[at]);
            at += 1;
        }
        let mut kind = 0;
        while kind < BlockKind::ALL.len() {
            all[at + 1 + kind] = Cache::Blocks(BlockKind::ALL[kind]);
            kind += 1;
        }
        all
    };

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Cache::Policy(policy) => policy.name(),
            Cache::Fragments => "sce",
            Cache::Blocks(kind) => kind.name(),
        }
    }

    /// What it is, for help texts.
    pub fn about(self) -> &'static str {
        match self {
            Cache::Policy(policy) => policy.about(),
            Cache::Fragments => {
                "SCE: fragments of 1 MiB, populated in the background, write-through if mapped"
            }
            Cache::Blocks(BlockKind::RwFdb) => "RFDB/WFDB with its write buffer",
            Cache::Blocks(BlockKind::FlashTier) => "FlashTier",
            Cache::Blocks(BlockKind::FlashTierBuffered) => "FlashTier with a write buffer",
        }
    }

    /// The cache of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cache| cache.name() == name)
    }

    /// The mode that the papers run it in. SCE writes through the pages that it holds and around the others.
    pub const fn usual_mode(self) -> Mode {
        match self {
            Cache::Policy(policy) => policy.usual_mode(),
            Cache::Fragments | Cache::Blocks(_) => Mode::WriteThrough,
        }
    }

    /// Whether it can run in `mode`.
    pub fn runs_in(self, mode: Mode) -> bool {
        match self {
            Cache::Policy(policy) => policy.refusal(mode).is_none(),
            Cache::Fragments | Cache::Blocks(_) => mode == Mode::WriteThrough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_has_a_name_of_its_own_and_runs_in_its_usual_mode() {
        for cache in Cache::ALL {
            assert_eq!(Cache::from_name(cache.name()), Some(cache));
            assert!(cache.runs_in(cache.usual_mode()), "{}", cache.name());
        }
    }
}
