//! The tasks of a driver, cut into steps between which any other task may work. A step is what the engine
//! does under one hold of the latch, or one request to a device.

use super::devices::Version;
use entresol_core::{Deletion, DequeuePages, FlushGoal, PageId, Settle, Ticket, WriteJob, WritePages};

/// What a task waits for, and whether that was told since it last looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sleep {
    pub asleep: bool,
    pub told: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a handful of tasks")]
pub enum Task {
    /// Deletes pages; then writes the new version of a page to disk, if there is one.
    Deleter { deletion: Deletion, pages: (PageId, PageId), write: Option<(PageId, Version)>, at: Deleting },
    /// Flushes, or makes a checkpoint.
    Flusher { published: bool, at: Flushing },
    /// Evicts pages: each with its new version, dirty or not.
    Evictor { pages: Vec<(PageId, Version, bool)> },
    /// Writes groups, for ever.
    Writer { at: Writing },
    /// Dequeues groups and settles causes, for ever.
    Background { at: Dequeuing },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deleting {
    Steps,
    Write,
    Ends,
    Over,
}

#[derive(Clone, Debug)]
pub enum Flushing {
    /// What callers wrote to disk is synced, and settled.
    SyncCallers,
    Begin,
    Look(FlushGoal),
    /// The disk is about to be synced for these.
    Settle(FlushGoal, Option<Settle>, Option<Settle>, bool),
    Step(FlushGoal, bool),
    Over,
}

#[derive(Clone, Debug)]
pub enum Writing {
    Look,
    Compose(WriteJob, WritePages),
    Sync(Ticket, WritePages, u64, Option<u64>),
    Recorded(Ticket, WritePages, u64, Option<u64>),
    Written(Ticket, WritePages),
}

#[derive(Clone, Debug)]
pub enum Dequeuing {
    Look,
    /// Copies to disk, and their pages' new positions.
    Destage(Ticket, DequeuePages),
    Sync(Ticket, DequeuePages),
    Restage(Ticket, DequeuePages, usize),
    Ends(Ticket),
    /// Settles, then looks again; the rest of a dequeue's second chances wait for it.
    Settle(Settle, Option<(Ticket, DequeuePages, usize)>),
}

impl Task {
    /// Whether its work is done, or it has none of its own.
    pub fn is_over(&self) -> bool {
        match self {
            Task::Deleter { at, .. } => *at == Deleting::Over,
            Task::Flusher { at, .. } => matches!(at, Flushing::Over),
            Task::Evictor { pages } => pages.is_empty(),
            Task::Writer { .. } | Task::Background { .. } => true,
        }
    }
}
