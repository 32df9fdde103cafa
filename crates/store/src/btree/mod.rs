//! B+-trees of byte-string keys in `memcmp` order.
//!
//! * [`ground`]: what all work on trees stands on.
//! * [`descend`]: from the root to a leaf.
//! * [`rows`]: reads, inserts, changes and deletes of a row.
//! * [`scan`]: rows in order, forward and backward.
//! * [`split`]: page splits. [`unlink`]: removal of empty pages.
//! * [`bulk`]: bottom-up construction of a tree.
//! * [`verify`]: a check of every page.
//!
//! Invariants:
//! 1. A tree is named by its root page, which never moves. All leaves are at level 0 and linked both ways.
//! 2. Readers and row changes latch from parent to child, and release the parent when the child is latched.
//!    They never wait for I/O while they hold a latch. If a child is not in DRAM, it is fetched while the
//!    parent is only pinned; the parent's LSN then tells whether the parent has changed meanwhile.
//! 3. Structure modifications are made one at a time (the modification lock, [`crate::space`]). So the inner
//!    pages and leaf links that they read cannot change meanwhile. They latch only the pages that they
//!    change, top down and from left to right, after all of these are in DRAM. Each modification is one log
//!    record of the system, which is redone but never undone.
//! 4. Undo of a row change is the inverse row change, at the row's current place.

pub(crate) mod bulk;
pub(crate) mod descend;
pub(crate) mod ground;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod split;
pub(crate) mod unlink;
pub(crate) mod verify;
