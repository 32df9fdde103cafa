//! The kind of a page's content.

use entresol_format::page::{header, header_mut};
use zerocopy::little_endian::U16;

/// The kind of a page's content, as in the header's `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum PageKind {
    /// Page 0.
    Meta = 1,
    /// The allocated pages of a group.
    Bitmap = 2,
    /// Rows of a tree.
    Leaf = 3,
    /// Separators and children of a tree.
    Inner = 4,
    /// A freed page; its content is meaningless.
    Free = 5,
}

/// The header's kind, as a number.
pub(crate) fn kind(page: &[u8]) -> u16 {
    header(page).kind.get()
}

/// Sets the header's kind and clears all bytes after the header.
pub(crate) fn clear(page: &mut [u8], kind: PageKind) {
    page[entresol_format::page::PAGE_HEADER_BYTES..].fill(0);
    let head = header_mut(page);
    head.kind = U16::new(kind as u16);
    head.flags = U16::new(0);
}
