//! The content of the store's pages, after the common 32-byte header of `entresol_format::page`.
//!
//! Page 0 is the [`meta`] page. One page in each group is a [`bitmap`] of allocated pages. The others are
//! [`node`]s of B+-trees, or free. Every change of a page is a [`op::PageOp`], so the log contains exactly
//! the changes that were made.

pub(crate) mod bitmap;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod op;

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

/// Whether the page's content is safe to use. The checksum proves only that the page is as written; this
/// proves that the written content is valid.
pub(crate) fn is_sound(page: &[u8]) -> bool {
    !node::is_node(page) || node::is_sound(page)
}

/// Sets the header's kind and clears all bytes after the header.
pub(crate) fn clear(page: &mut [u8], kind: PageKind) {
    page[entresol_format::page::PAGE_HEADER_BYTES..].fill(0);
    let head = header_mut(page);
    head.kind = U16::new(kind as u16);
    head.flags = U16::new(0);
}
