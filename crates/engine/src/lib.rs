//! The core with devices: a crash-safe flash tier between a buffer pool and a disk.
//!
//! [`FlashTier`], [`FragmentTier`] and [`DiskLayer`] have one interface, [`Layer`]. The folder `tier` has the
//! flash tier, one file for each of its tasks; `fragments` has SCE's cache; `disk` has the disk below them,
//! its label and the layer without flash; `recover` has the recovery at an open; `examine` reads a flash
//! device without opening it.
#![forbid(unsafe_code)]

mod access;
mod api;
mod budget;
mod buffer;
mod claim;
mod costs;
mod disk;
mod durations;
mod error;
mod events;
mod examine;
mod forecast;
mod fragments;
mod front_flash;
mod front_lsns;
mod front_surveys;
#[cfg(feature = "hooks")]
pub mod hooks;
mod interface;
mod metrics;
mod names;
mod options;
mod points;
mod recover;
mod region;
mod report;
mod rescue;
mod scan;
mod shadow;
mod shared;
mod signal;
mod superblock;
mod syncs;
mod tally;
mod tier;
mod to_disk;
mod unreadable;

pub use access::Place;
pub use api::{
    Binding, DiskState, DurableGroup, Evicted, Fetched, Layer, Materialised, MissingPages, PageSet, Progress,
    ReadCounts, ReadRoute, Source, Survivors, TierMetrics, Upstream, Victim, WritebackState,
};
pub use budget::{Allowed, Budget, DailyWrites, NotABudget, WriteBudget, bytes_of};
pub use buffer::AlignedBuffer;
pub use disk::{
    DiskLayer, Home, InPlaceDisk, OwnersLog, RedoLog, WholeDisk, disk_binding, is_disk_bound,
    is_flash_needed, name_no_log,
};
pub use durations::{DURATION_BUCKETS, DurationTally, Durations};
pub use entresol_core::{Costs, Mode, PageId, PolicyKind};
pub use entresol_device::{Device, FileOptions, open_device};
pub use entresol_format::label::Session;
pub use entresol_format::layout::disk_offset;
pub use entresol_format::losses::{Loss, Losses};
pub use entresol_format::{LogPosition, PageFormat, Uuid};
pub use error::Losing;
pub use error::{HOW_TO_DETACH, TierError};
pub use examine::{
    CheckReport, DirectoryReport, HorizonReport, InspectReport, check, check_watched, inspect,
    is_cache_of_volume,
};
pub use forecast::Forecasts;
pub use fragments::{FragmentOptions, FragmentTier, POINTS as FRAGMENT_POINTS};
pub use front_flash::FlashPlace;
pub use interface::{AroundWrite, Deletes, FLASH_READ_PAGES_MAX, LookedUp, PageCache};
pub use metrics::{Metric, MetricValue};
pub use names::Names;
pub use options::{DiskErrors, Flushed, TierOptions, flash_bytes};
pub use points::POINTS;
pub use report::OpenReport;
pub use shadow::Shadow;
pub use shared::{AttachOptions, Handed, SegmentMemory, SharedFront, Sharing, segment_bytes};
pub use tier::{
    DetachReport, FlashTier, FoundCache, cache_on, check_new_flash, detach, detach_with_loss, disown,
    flash_has_failed, give_up_cache, give_up_lost, lost_on, marks_on, renewals_that_differ, renounce,
};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
