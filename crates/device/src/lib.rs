//! Block devices with one blocking interface: file, io_uring, memory, modelled SSD and disk, faulty.
//!
//! All users take a device as `Arc<dyn Device>`. The implementation is chosen where the system is assembled.
#![deny(unsafe_code)]

mod best;
mod bounce;
mod buffer;
mod busy;
mod check;
mod counted;
mod error;
mod faulty;
mod file;
mod keeper;
pub mod memory;
pub mod model;
mod parts;
mod profile;
mod proved;
mod redo;
mod shared;
mod signature;
mod traits;
mod uring;

pub use best::{OpenDevice, held, open_device};
pub use buffer::{AlignedBuffer, BufferPool};
pub use busy::{Busy, BusyClock};
pub use check::batch as check_batch;
pub use counted::{CountedDevice, ErrorCounts};
pub use error::{DeviceError, ErrorKind};
pub use faulty::{Fault, FaultPlan, FaultyDevice, Injection, Moment, Outage, Survival};
pub use file::{FileDevice, FileOptions};
pub use keeper::{ReadKept, WriteKeeper, sector_runs};
pub use memory::{BaseImage, ImageDevice, MemoryDevice};
pub use model::ModelDevice;
pub use parts::ReadPart;
pub use profile::{Model, Profile, Scale, UnknownProfile};
pub use proved::{write_copies, write_proved};
pub use redo::RedoDevice;
pub use signature::{
    BLANK_HEAD_BYTES, BLANK_TAIL_BYTES, Contents, FirstBlock, is_cut_off, put_over, signature,
};
pub use traits::{Counters, Device, Geometry, Io, WritePlace};
pub use uring::{Ended, FileQueue, QueuedFile, UringDevice};
