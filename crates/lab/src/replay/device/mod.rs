//! The devices of a simulation: what they are ([`Catalogue`]) and how long they take ([`Device`]).
//!
//! Invariant: timing never changes what is decided. The replay decides in the order of the trace; devices
//! only say when.

mod catalogue;
mod queue;
mod timed;

pub(super) use catalogue::costs;
pub use catalogue::{Catalogue, CatalogueError, DeviceKind, DeviceSpec, MachineSpec, MemorySpec};
pub use timed::Device;
