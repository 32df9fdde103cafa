//! The disk: its pages, its label, and the layer without flash.

mod behind;
pub(crate) mod binding;
mod disk_label;
mod home;
mod in_place;
mod label;
mod layer;
mod missing;
mod missing_from_disk;
mod notes;
mod pages;
mod ranges;
mod redo_log;
mod staging;

pub(crate) use behind::{WriteBehind, clean};
pub use binding::{disk_binding, is_disk_bound, is_flash_needed, name_no_log};
pub use home::{Home, OwnersLog, WholeDisk};
pub use in_place::InPlaceDisk;
pub(crate) use label::{LabelState, Labels, made_equal, read_label, write_label};
pub use layer::DiskLayer;
pub(crate) use layer::open_unbound;
pub(crate) use missing::{Missing, RANGES_AT_FIRST, on_flash_or_nowhere, read_missing};
pub(crate) use notes::DurableNotes;
pub(crate) use pages::DiskPages;
pub(crate) use ranges::PageRanges;
pub use redo_log::RedoLog;
pub(crate) use staging::{BATCH, Staged, WRITERS};
