//! B+-trees of byte-string keys in `memcmp` order.
//!
//! * [`descend`]: from the root to a leaf.
//! * [`rows`]: reading, inserting, changing and deleting a row.
//! * [`scan`]: rows in order, forward and backward.
//! * [`split`]: making room. [`unlink`]: giving empty pages back.
//! * [`bulk`]: building a tree bottom-up.
//! * [`verify`]: checking every page.
//!
//! Invariants:
//! 1. A tree is named by its root page, which never moves. All leaves are at level 0 and linked both ways.
//! 2. Readers and row changes latch from parent to child, letting the parent go when the child is latched.
//!    They never wait for I/O while they hold a latch: a child that is not in DRAM is fetched with the parent
//!    pinned only, and the parent's LSN tells whether it has changed meanwhile.
//! 3. Structure modifications are made one at a time (the core's modification lock). So what they read of
//!    inner pages and leaf links cannot change under them; they latch, top down and from left to right, only
//!    what they change, after all of it is in DRAM. Each is one log record of the system, redone but never
//!    undone.
//! 4. Undo of a row change is the inverse row change, wherever the row lies by then.

pub(crate) mod bulk;
pub(crate) mod descend;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod split;
pub(crate) mod unlink;
pub(crate) mod verify;
