//! The catalogue of systems on which a database can run, with their names on the command line and in results.

use crate::cache::Cache;
use crate::mode::Mode;
use crate::policy::PolicyKind;

/// The storage of a database: a disk, flash, or a disk with a flash cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// The disk device, no flash (HDD-only).
    DiskOnly,
    /// The flash device, no disk (SSD-only).
    FlashOnly,
    /// A disk with a flash cache under a policy.
    Cached(PolicyKind),
    /// A disk with SCE's cache of fragments.
    Fragments,
}

impl System {
    /// All systems: those without a flash cache, every policy in the order of the papers' tables, then SCE.
    pub const ALL: [System; PolicyKind::ALL.len() + 3] = {
        let mut all = [System::Fragments; PolicyKind::ALL.len() + 3];
        (all[0], all[1]) = (System::DiskOnly, System::FlashOnly);
        let mut at = 0;
        while at < PolicyKind::ALL.len() {
            all[2 + at] = System::Cached(PolicyKind::ALL[at]);
            at += 1;
        }
        all
    };

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            System::DiskOnly => "disk-only",
            System::FlashOnly => "flash-only",
            System::Cached(policy) => policy.name(),
            System::Fragments => Cache::Fragments.name(),
        }
    }

    /// The system of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Whether it has a flash cache.
    pub const fn has_cache(self) -> bool {
        self.cache().is_some()
    }

    /// Its flash cache, if it has one.
    pub const fn cache(self) -> Option<Cache> {
        match self {
            System::DiskOnly | System::FlashOnly => None,
            System::Cached(policy) => Some(Cache::Policy(policy)),
            System::Fragments => Some(Cache::Fragments),
        }
    }

    /// The mode that the papers run it in.
    pub const fn usual_mode(self) -> Mode {
        match self.cache() {
            None => Mode::WriteBack,
            Some(cache) => cache.usual_mode(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_name_of_its_own() {
        for system in System::ALL {
            assert_eq!(System::from_name(system.name()), Some(system));
        }
    }
}
