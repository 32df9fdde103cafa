//! The invariants of a cache of fragments. Its tests assert them after every step.

use super::region::{FREE, FragmentId, Fragments, MAPPED, NONE, POPULATING, RECENT, UNMAPPED};
use crate::violation::{Violation, same};

impl Fragments<'_> {
    /// Verifies every invariant. Takes time proportional to the size of the region.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self) -> Result<(), Violation> {
        let count = |state| self.descriptors.iter().filter(|d| d.state() == state).count();
        same(|| "mapped fragments", count(MAPPED), self.head.mapped as usize)?;
        same(|| "fragments being populated", count(POPULATING), self.head.populating as usize)?;
        same(|| "not more populations than workers", true, self.head.populating <= self.head.workers)?;
        self.check_free(count(FREE))?;
        for (slot, descriptor) in self.descriptors.iter().enumerate().filter(|(_, d)| d.state() != FREE) {
            same(|| format!("the state of slot {slot} is known"), true, descriptor.state() <= MAPPED)?;
            let Some(logical) = self.map.get(descriptor.fragment as usize) else {
                return same(|| format!("slot {slot} holds a fragment of the volume"), true, false);
            };
            let fragment = FragmentId(descriptor.fragment);
            same(|| format!("where fragment {} is", fragment.0), slot as u32, logical.slot)?;
            let pages = self.pages_of(fragment);
            same(|| format!("slot {slot} has no valid pages beyond its own"), true, descriptor.fits(pages))?;
        }
        let on_flash = self.map.iter().filter(|logical| logical.slot < RECENT).count();
        same(|| "fragments that the map leads to", count(MAPPED) + count(POPULATING), on_flash)?;
        self.check_recent()
    }

    fn check_free(&self, free: usize) -> Result<(), Violation> {
        let (mut chained, mut at) = (0, self.head.free_first);
        while at != NONE && chained <= free {
            let Some(descriptor) = self.descriptors.get(at as usize) else {
                return same(|| "free slots exist", true, false);
            };
            same(|| format!("slot {at} is free"), FREE, descriptor.state())?;
            (chained, at) = (chained + 1, descriptor.fragment);
        }
        same(|| "free slots in their chain", free, chained)
    }

    fn check_recent(&self) -> Result<(), Violation> {
        let listed = |fragment: usize| self.recent.iter().filter(|at| **at == fragment as u32).count();
        for (fragment, logical) in self.map.iter().enumerate() {
            let expected = usize::from(logical.slot == RECENT);
            same(|| format!("fragment {fragment} among the recent ones"), expected, listed(fragment))?;
            let known = logical.slot >= RECENT || logical.slot < self.head.slots;
            same(|| format!("fragment {fragment} is somewhere"), true, known)?;
        }
        debug_assert_eq!(UNMAPPED, NONE);
        Ok(())
    }
}
