//! The disk: its pages, its label, and the layer without flash.

pub(crate) mod binding;
mod label;
mod layer;
mod notes;
mod pages;
mod staging;

pub(crate) use label::{LabelState, read_label, write_label};
pub use layer::DiskLayer;
pub(crate) use notes::DurableNotes;
pub(crate) use pages::{DiskPages, disk_error};
