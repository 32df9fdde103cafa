//! How much the use of a dirty page is worth. It saves a read of the disk, as each use does, and a write if
//! the page has changed again when it comes back from DRAM: then one destage serves both versions. How often
//! that is so is learned.

use super::hazard::CERTAIN;
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One part in so many of the counts is forgotten at each refresh.
const FADES: u32 = 8;
/// Pages that were rewritten beforehand, as long as few have come back.
const PRIOR: u32 = 32;

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Rewrites {
    /// Pages that came back from DRAM to a dirty version on flash, and how many of them had changed.
    returned: u32,
    rewritten: u32,
    /// Probability that such a page has changed.
    chance: u32,
}

impl Rewrites {
    pub const NONE: Self = Self { returned: 0, rewritten: 0, chance: CERTAIN };

    /// A page came back to a dirty version of it.
    pub fn returned(&mut self, has_changed: bool) {
        self.returned = self.returned.saturating_add(1);
        self.rewritten += u32::from(has_changed && self.rewritten < self.returned);
    }

    /// Computes the chance anew, and lets the counts fade.
    pub fn refresh(&mut self) {
        let [all, changed] = [self.returned, self.rewritten].map(|count| u64::from(count) + u64::from(PRIOR));
        self.chance = (changed * u64::from(CERTAIN) / all) as u32;
        // Of the rest, so that no more were rewritten than returned.
        self.returned -= self.returned / FADES;
        self.rewritten -= self.rewritten / FADES;
        self.rewritten = self.rewritten.min(self.returned);
    }

    /// What a page's chance, or its rate, of uses is worth.
    #[inline(always)]
    pub fn weighed(&self, uses: u32, dirty: bool) -> u32 {
        let saved = if dirty { self.chance } else { 0 };
        (u64::from(uses) * u64::from(CERTAIN + saved) / u64::from(CERTAIN)) as u32
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self) -> Result<(), Violation> {
        same(|| "no more pages rewritten than came back", true, self.rewritten <= self.returned)?;
        same(|| "a possible chance of a rewrite", true, self.chance <= CERTAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worth of 1,000 uses of a dirty page, if of 100 that come back so many have changed.
    fn worth(changed: u32) -> u32 {
        let mut rewrites = Rewrites::NONE;
        for _ in 0..100 {
            (0..100).for_each(|at| rewrites.returned(at < changed));
            rewrites.refresh();
        }
        rewrites.check().unwrap();
        assert_eq!(rewrites.weighed(1000, false), 1000, "a clean page saves no write");
        rewrites.weighed(1000, true)
    }

    #[test]
    fn a_dirty_page_is_worth_a_write_as_often_as_it_changes_again() {
        assert_eq!(Rewrites::NONE.weighed(1000, true), 2000, "nothing is known yet");
        for changed in [0, 30, 70, 100] {
            let expected = 1000 + 10 * changed;
            assert!(worth(changed).abs_diff(expected) < 50, "{changed} %: {}", worth(changed));
        }
    }
}
