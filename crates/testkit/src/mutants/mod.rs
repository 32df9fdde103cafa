//! Mutation check. Each mutant of the catalogue, activated in a build with the feature `mutants`, must be
//! detected by the tests for lost and invented data. A mutant that survives is a gap in the tests.
//!
//! Invariant: about the mutant, a hunt knows only in which caches, or in which part of a store's life, it can
//! have an effect (`aim`). The trials are those that a sound build passes, with the same judges.

mod aim;
mod catalogue;
mod hunt;

pub use catalogue::{ALL, IN_THE_BLOCK_DOOR, IN_THE_CORE, IN_THE_ENGINE, IN_THE_FRONTS, Mutant, OPEN, find};
pub use hunt::{Hunt, HuntError, Limit, control, hunt};
