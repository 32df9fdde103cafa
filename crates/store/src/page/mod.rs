//! What lies in the store's pages, behind the common 32-byte header of `entresol_format::page`.
//!
//! Page 0 is the [`meta`] page, one page in each group a [`bitmap`] of allocated pages, the rest are
//! [`node`]s of B+-trees or free. Every change of a page is a [`op::PageOp`], so that what is logged is what
//! was done.

pub(crate) mod bitmap;
pub(crate) mod bytes;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod op;

use entresol_format::page::{header, header_mut};
use zerocopy::little_endian::U16;

/// Content of a page, as in the header's `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum PageKind {
    /// Page 0.
    Meta = 1,
    /// Which pages of a group are allocated.
    Bitmap = 2,
    /// Rows of a tree.
    Leaf = 3,
    /// Separators and children of a tree.
    Inner = 4,
    /// Given back; content meaningless.
    Free = 5,
}

/// The header's kind, as a number.
pub(crate) fn kind(page: &[u8]) -> u16 {
    header(page).kind.get()
}

/// Whether the page's content can be worked with at all: its checksum says that it is what was written, this
/// says that what was written makes sense.
pub(crate) fn is_sound(page: &[u8]) -> bool {
    !node::is_node(page) || node::is_sound(page)
}

/// Sets the header's kind and clears all behind the header.
pub(crate) fn clear(page: &mut [u8], kind: PageKind) {
    page[entresol_format::page::PAGE_HEADER_BYTES..].fill(0);
    let head = header_mut(page);
    head.kind = U16::new(kind as u16);
    head.flags = U16::new(0);
}
