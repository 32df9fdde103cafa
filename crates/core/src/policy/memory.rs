//! The policy's data in the region, by its types. The region sizes, places and hands out the sections. The
//! policy's file defines the types and their invariants.
//!
//! A policy of slots has a note (its [`Note`](super::SlotPolicy::Note)) in the node of each slot, after the
//! links of its lists. It also has a memory ([`Memory`](super::Policy::Memory)) for the partition: scalars
//! and tables, a section each.

use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;

/// A policy's memory, attached: references to its sections of the region.
pub(crate) trait Memory<'r>: Sized {
    /// Its sections, in order. Their entries are aligned to 4 bytes at most.
    const SECTIONS: &'static [SectionPlan];
    /// Attaches to the sections, in their order. `None`: the region is too short.
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self>;
    /// Initialises zeroed sections for an empty cache.
    fn format(&mut self, _sizes: &Sizes) {}
}

/// No memory.
impl Memory<'_> for () {
    const SECTIONS: &'static [SectionPlan] = &[];
    fn attach(_carver: &mut Carver<'_, '_>) -> Option<Self> {
        Some(())
    }
}
