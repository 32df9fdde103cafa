//! What a staging frame holds.

use entresol_core::Position;
use entresol_format::summary::Entry;

/// A position that no page has.
pub(super) const NOBODY: Position = Position(u64::MAX);

/// What a frame holds, for the group's summary.
#[derive(Clone, Copy)]
pub(super) struct Content {
    pub position: Position,
    pub entry: Entry,
}
