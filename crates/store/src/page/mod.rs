//! The content of the store's pages, after the common 32-byte header of `entresol_format::page`.
//!
//! Page 0 is the [`meta`] page. One page in each group is a [`bitmap`] of allocated pages. The others are
//! [`node`]s of B+-trees, or free. Every change of a page is a [`op::PageOp`], so the log contains exactly
//! the changes that were made.

pub(crate) mod bitmap;
mod kind;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod op;

pub(crate) use kind::{PageKind, clear, kind};
pub(crate) use node::is_sound;
