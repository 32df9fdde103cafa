//! The sections of a region: their sizes, and how they are cut from it.

use crate::index::Index;
use crate::sizes::Sizes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Plain words, of which all bit patterns are valid. All data in the region is of such types.
pub(crate) trait Plain: FromBytes + IntoBytes + KnownLayout + Immutable {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable> Plain for T {}

/// One line of `entresol inspect layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The section's name.
    pub name: &'static str,
    /// Its number of entries.
    pub entries: usize,
    /// Bytes of an entry.
    pub entry_bytes: usize,
}

/// The planned size of a section.
#[derive(Clone, Copy)]
pub(crate) struct SectionPlan {
    pub name: &'static str,
    pub entries: fn(&Sizes) -> u32,
    pub entry_bytes: usize,
}

impl SectionPlan {
    /// One `T`.
    pub(crate) const fn one<T: Plain>(name: &'static str) -> Self {
        Self { name, entries: |_| 1, entry_bytes: size_of::<T>() }
    }

    /// As many `T` as `entries` returns.
    pub(crate) const fn many<T: Plain>(name: &'static str, entries: fn(&Sizes) -> u32) -> Self {
        Self { name, entries, entry_bytes: size_of::<T>() }
    }

    /// The section in a partition of these sizes.
    pub(crate) fn section(&self, sizes: &Sizes) -> Section {
        let Self { name, entries, entry_bytes } = *self;
        Section { name, entries: entries(sizes) as usize, entry_bytes }
    }

    /// Its bytes in a partition of these sizes.
    #[inline(always)]
    pub(crate) fn bytes(&self, sizes: &Sizes) -> usize {
        (self.entries)(sizes) as usize * self.entry_bytes
    }
}

/// Cuts the own part of a region into its sections, from the front, and keeps the index.
pub(crate) struct Carver<'r, 'c> {
    rest: &'r mut [u8],
    index: Index<'r>,
    sizes: &'c Sizes,
}

impl<'r, 'c> Carver<'r, 'c> {
    /// A carver that cuts `region`.
    pub(crate) fn new(region: &'r mut [u8], index: Index<'r>, sizes: &'c Sizes) -> Self {
        Self { rest: region, index, sizes }
    }

    /// The index.
    #[inline(always)]
    pub(crate) fn index(&self) -> Index<'r> {
        self.index
    }

    /// The sizes from which the sections are made.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> &'c Sizes {
        self.sizes
    }

    /// The next section, which was planned as `plan`. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn take<T: Plain>(&mut self, plan: &SectionPlan) -> Option<&'r mut [T]> {
        let entries = plan.bytes(self.sizes) / size_of::<T>();
        let (section, rest) =
            <[T]>::mut_from_prefix_with_elems(std::mem::take(&mut self.rest), entries).ok()?;
        self.rest = rest;
        Some(section)
    }

    /// The next section, of one entry, which was planned as such. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn take_one<T: Plain>(&mut self) -> Option<&'r mut T> {
        let (section, rest) = T::mut_from_prefix(std::mem::take(&mut self.rest)).ok()?;
        self.rest = rest;
        Some(section)
    }

    /// Whether only the padding to the region's last 8 bytes is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.len() < 8
    }
}
