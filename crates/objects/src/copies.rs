//! The two copies of the areas on flash: reading them, and the differences between them.

use crate::snapshot::SnapshotArea;

/// The content of one copy of the areas.
#[derive(Clone, Copy)]
pub struct TableCopy<'a> {
    /// The snapshots' areas, even and odd, at least as far as each snapshot's header says.
    pub areas: [&'a [u8]; 2],
    /// The whole log area.
    pub log: &'a [u8],
}

/// A snapshot that is whole in one copy only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRepair {
    /// Where it is.
    pub area: SnapshotArea,
    /// The copy that is whole.
    pub from: usize,
    /// The copy that is not.
    pub to: usize,
}

/// What one copy does not have, and the other one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The copy, counted from 0.
    pub copy: usize,
    /// Its kind.
    pub part: Part,
    /// Other findings prove that both copies were durable. Otherwise power may have failed while they were
    /// written.
    pub was_durable: bool,
}

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The newest snapshot, in this area.
    Snapshot(SnapshotArea),
    /// The block of the log at this place.
    LogBlock(u32),
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            Part::Snapshot(area) => write!(f, "copy {} of the snapshot in the {area} area", self.copy),
            Part::LogBlock(place) => write!(f, "copy {} of block {place} of the object log", self.copy),
        }
    }
}
