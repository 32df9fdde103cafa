//! Mutation check: named bugs, each of which the tests must notice. A mutant that survives is a gap in the
//! tests. The mutants are files (`crates/testkit/mutants`); `cargo xtask mutants` builds them into a copy of
//! the tree, where one of them is [`alive`] in a process, and sees that it is noticed.
//!
//! [`hunt()`] notices mutants with the rigs of this crate. Invariant: about the mutant, a hunt knows only in
//! which caches, or in which part of a store's life, it can have an effect ([`Aim`]). The trials are those
//! that a sound build passes, with the same judges.

mod aim;
pub mod alive;
mod hunt;

pub use aim::Aim;
pub use hunt::{Hunt, Limit, hunt};
