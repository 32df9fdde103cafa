//! Mutation check: each mutant of the catalogue, brought to life in a build with the feature `mutants`, must
//! be noticed by the tests that look for lost and made-up data. A mutant that survives is a hole in the
//! tests.
//!
//! Invariant: a hunt knows of the mutant only in which caches, or in which part of a store's life, it can
//! show itself (`aim`); the trials are those that a sound build passes, with the same judges.

mod aim;
mod catalogue;
mod hunt;

pub use catalogue::{ALL, Mutant, OPEN, find};
pub use hunt::{Hunt, HuntError, Limit, hunt};
