//! A cache whose pages are in slots, written in place.
//!
//! | file | what it does |
//! |---|---|
//! | `writer` | staging → flash |
//! | `batches`, `segments` | pages with summaries, and segments of the directory: slots that survive a crash |
//! | `at_shutdown` | segments of the directory: slots that survive a shutdown |
//! | `directory`, `upkeep` | the slot directory on flash, and how it is kept true (TAC) |
//! | `cleaner` | flash → disk |
//! | `flusher`, `confirms` | flushes, and telling a flush from a torn one |
//! | `deletions` | pages that are forgotten |
//! | `write_through` | changed pages to disk, where no log stands above |
//! | `materialiser` | what is left on flash at checkpoints and shutdowns |
//! | `durable` | what a checkpoint makes durable |

mod at_shutdown;
pub(crate) mod batches;
pub(crate) mod cleaner;
pub(crate) mod confirms;
pub(crate) mod deletions;
pub(crate) mod directory;
pub(crate) mod durable;
pub(crate) mod flusher;
pub(crate) mod materialiser;
pub(crate) mod segments;
pub(crate) mod upkeep;
pub(crate) mod write_through;
pub(crate) mod writer;

use super::degrader::Degrader;
use super::floor::Floor;
use super::floor::background::BackgroundQueue;
use super::floor::checkpointer::Checkpointer;
use super::floor::confirmer::Confirmer;
use crate::api::{Materialised, Survivors};
use crate::recover::KeptSlots;
use crate::{TierError, TierOptions};
use batches::Batches;
use cleaner::Cleaner;
use confirms::ConfirmsSlots;
use deletions::Deletions;
use directory::SlotDirectory;
use durable::DurableSlots;
use entresol_core::{Directory, Position};
use entresol_format::superblock::Superblock;
use flusher::Flusher;
use materialiser::Materialiser;
use segments::SlotSegments;
use std::sync::Arc;
use upkeep::Upkeep;
use write_through::WriteThrough;
use writer::Writer;

/// What an open has found of slots.
pub(crate) struct FoundSlots {
    /// No page that is served from flash has a position below.
    pub first: Position,
    /// The slot directory on flash, of a policy that keeps it up with every page.
    pub directory: Option<SlotDirectory>,
    /// Copies of the temperatures written, ever.
    pub temperatures_written: u64,
    /// Of slots that survive a crash; `None` in an empty cache, too.
    pub kept: Option<KeptSlots>,
    /// Of slots that survive a crash, the batches that the open has found; `None` in a new cache.
    pub survivors: Option<Survivors>,
    /// What was in the directory of a shutdown.
    pub materialised: Materialised,
}

impl FoundSlots {
    /// Of an empty cache.
    pub(crate) fn empty(options: &TierOptions, superblock: &Superblock) -> Self {
        let is_kept = options.directory() == Directory::Slots;
        let directory =
            is_kept.then(|| SlotDirectory::empty(&options.layout(), options.slots, superblock.cache));
        let materialised = Materialised::default();
        Self {
            first: Position(0),
            directory,
            temperatures_written: 0,
            kept: None,
            survivors: None,
            materialised,
        }
    }
}

/// See the module's header.
pub(crate) struct Slots {
    pub writer: Arc<Writer>,
    pub background: BackgroundQueue,
    /// Of a policy that keeps its directory up with every page.
    pub upkeep: Option<Arc<Upkeep>>,
    pub survivors: Option<Survivors>,
    /// Where slots survive a crash.
    pub segments: Option<Arc<SlotSegments>>,
    /// The open needs all segments anew ([`KeptSlots`]).
    rewrites_segments: bool,
    pub deletions: Arc<Deletions>,
    pub flusher: Arc<Flusher>,
    /// Where slots survive a crash, and no log stands above.
    pub confirmer: Option<Confirmer<ConfirmsSlots>>,
    pub degrader: Option<Degrader>,
    /// Where no log stands above.
    pub write_through: Option<WriteThrough>,
    pub materialiser: Arc<Materialiser>,
    pub checkpointer: Arc<Checkpointer>,
    /// What the open has found in the directory of a shutdown.
    pub materialised: Materialised,
}

impl Slots {
    pub(crate) fn new(floor: &Floor, found: FoundSlots) -> Self {
        let upkeep = found.directory.map(|directory| Arc::new(Upkeep::new(floor, directory)));
        let kept = found.kept.unwrap_or_default();
        let keeps_batches = floor.access.options.keeps_batches();
        let segments = keeps_batches.then(|| Arc::new(SlotSegments::new(floor, &kept)));
        let batches = segments.as_ref().map(|segments| Batches::new(floor, segments));
        let cleaner = Arc::new(Cleaner::new(floor));
        let materialiser = Arc::new(Materialiser::new(floor, found.temperatures_written));
        let checkpointer = floor.checkpointer(DurableSlots::new(floor, &cleaner, &materialiser));
        let deletions = Arc::new(Deletions::new(floor, &upkeep));
        let writer = Arc::new(Writer::new(floor, &upkeep, batches));
        let flusher = Arc::new(Flusher::new(floor, &checkpointer, &writer));
        let confirms = keeps_batches && floor.turns.is_some();
        Self {
            writer,
            background: BackgroundQueue::new(floor, cleaner),
            write_through: WriteThrough::new(floor, &flusher),
            flusher,
            confirmer: confirms.then(|| Confirmer::new(floor, ConfirmsSlots::new(floor))),
            degrader: keeps_batches.then(|| Degrader::new(floor)).flatten(),
            survivors: found.survivors,
            upkeep,
            segments,
            rewrites_segments: kept.rewrites_segments,
            deletions,
            materialiser,
            checkpointer,
            materialised: found.materialised,
        }
    }

    /// No open after this one finds batches that were cut off.
    pub(crate) fn repair(&self) -> Result<(), TierError> {
        match &self.segments {
            Some(segments) if self.rewrites_segments => segments.write_all(),
            _ => Ok(()),
        }
    }
}
