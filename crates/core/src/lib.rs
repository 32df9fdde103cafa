//! The flash directory and the cache policies as a sans-I/O state machine (docs/DESIGN.md §3).
//!
//! It uses no file, clock or thread, and does not allocate after open. Events enter and decisions are
//! returned. All state is in one flat region, linked by index, which may be attached at any address.
#![forbid(unsafe_code)]

mod bases;
mod cache;
mod check;
mod config;
mod contents;
mod costs;
mod deletion;
mod directory;
mod fragments;
mod hash;
mod hits;
mod id;
mod index;
mod job;
mod kept_log;
mod lists;
mod mode;
mod pages;
mod partition;
pub mod placement;
mod policy;
mod region;
mod sample;
mod scaled;
mod sections;
mod sequence;
mod sets;
mod shadow;
mod sizes;
mod slot;
mod slot_ages;
mod staging;
mod switch;
mod system;
mod take_over;
mod unlatched;
mod violation;
mod walk;
mod words;
mod writeback;

pub use bases::BASES_MAX;
pub use cache::{BlockKind, Cache};
pub use config::{Config, ConfigError};
pub use costs::{Costs, Load};
pub use deletion::{Deletion, Extent, FlushGoal, Next, Settle, Touched};
pub use fragments::{
    FRAGMENT_BYTES, FRAGMENT_PAGES_MAX, FlashCopy, FragmentConfig, FragmentConfigError, FragmentId,
    FragmentOccupancy, Fragments, Population, WritePath, fragment_region_bytes, fragment_sections,
};
pub use id::{Lsn, PageId, Position, SlotId};
pub use job::{
    Admission, BackgroundJob, CleanPage, Cleaning, DequeuePage, DequeuePages, FORGET_PAGES_MAX, Fate, Flush,
    Forget, Forgotten, ForgottenPages, FrameId, Generation, Job, Lookup, SlotView, Taken, Ticket, WriteJob,
    WritePage, WritePages,
};
pub use kept_log::{HorizonAt, KeptCheckpoint, KeptCheckpoints, KeptLog, LogBound};
pub use mode::{Mode, Route};
pub use partition::{Occupancy, Partition, Unsaved};
pub use placement::ring::{CLEANINGS_MAX, HOLDS_MAX};
pub use placement::slots::{
    BATCH_EMPTIED_MAX, BATCH_PAGES_MAX, BATCHES_MAX, BatchView, DurableBatches, OlderSlot,
};
pub use placement::{Log, Slots};
pub use policy::{
    Directory, Facts, Lists, LogFacts, Placement, PlacementFacts, PolicyKind, SecondChances, SlotFacts,
    Survives,
};
pub use region::{Shape, bytes_per_slot, index_words, own_bytes, region_bytes, sections};
pub use sample::Drawn;
pub use scaled::GROUP_PAGES_MIN;
pub use sections::Section;
pub use shadow::{Candidate, Counts, Forecast, NoShadows, SHADOWS_MAX, ShadowPlan, Shadows};
pub use sizes::{DEQUEUES_MAX, DEQUEUES_USUAL, GROUP_PAGES_MAX, STAGING_GROUPS_MAX};
pub use slot_ages::SlotAges;
pub use switch::{Advice, LOOKS, Switcher};
pub use system::System;
pub use unlatched::{Hit, Unlatched};
pub use violation::Violation;
pub use walk::Walk;
pub use writeback::{Aged, Writeback, WritebackLook, WritebackOptions, WritebackStep};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
