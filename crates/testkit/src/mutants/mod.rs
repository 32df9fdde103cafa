//! Mutation check: each mutant of the catalogue, brought to life in a build with the feature `mutants`, must be noticed by
//! the tests that look for lost and made-up data. A mutant that survives is a hole in the tests.
//!
//! Invariant: a hunt knows nothing of the mutant but its name: it runs the same trials that a sound build passes.

mod catalogue;
mod hunt;

pub use catalogue::{ALL, Mutant, OPEN, find};
pub use hunt::{Hunt, HuntError, Limit, hunt};
