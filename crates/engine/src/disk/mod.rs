//! The disk: its pages, its label, and the layer without flash.

mod label;
mod layer;
mod pages;
mod staging;

pub(crate) use label::{LabelState, read_label, write_label};
pub use layer::DiskLayer;
pub(crate) use pages::{DiskPages, disk_error};
