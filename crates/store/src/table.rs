//! Tables of a store.

use crate::PageNumber;
use crate::bytes::u32_at;

/// A B+-tree of byte-string keys and values; cheap to copy. Its number is that of its root page, which never
/// moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table {
    /// Number of the table's root page.
    pub id: u32,
}

impl Table {
    /// Decodes the table's row in the catalog.
    pub(crate) fn from_row(row: &[u8]) -> Option<Table> {
        (row.len() == 4).then(|| Table { id: u32_at(row, 0) })
    }

    pub(crate) fn root(self) -> PageNumber {
        PageNumber(self.id)
    }
}
