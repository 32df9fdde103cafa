//! Block devices behind one blocking interface: file, io_uring, memory, modelled SSD and disk, faulty.
//!
//! Everything takes a device as `Arc<dyn Device>`; what is behind it is chosen where the system is put together.
#![deny(unsafe_code)]

mod check;
mod error;
pub mod memory;
pub mod model;
mod profile;
mod shared;
mod traits;

pub use error::DeviceError;
pub use memory::{BaseImage, MemoryDevice};
pub use model::ModelDevice;
pub use profile::{Model, Profile, Scale, UnknownProfile};
pub use traits::{Counters, Device, Geometry, Io};
