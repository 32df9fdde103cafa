//! Block devices behind one blocking interface: file, io_uring, memory, modelled SSD and disk, faulty.
#![deny(unsafe_code)]

mod error;
mod traits;

pub use error::DeviceError;
pub use traits::{Counters, Device, Geometry, Io};
