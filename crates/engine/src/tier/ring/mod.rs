//! A cache whose pages are in a log on flash: a ring that is written at its rear only.
//!
//! | file | what it does |
//! |---|---|
//! | `writer` | staging → flash: groups, parts of groups, and their summaries |
//! | `summary_records` | records of forgotten pages that summaries name |
//! | `dequeuer` | flash → disk, and second chances |
//! | `waves` | dequeues that sync the disk together |
//! | `flusher`, `confirms` | flushes, and telling a flush from a torn one |
//! | `segments` | directory segments |
//! | `deletions` | pages that are forgotten, at once or for what makes them dead |
//! | `write_through` | changed pages to disk, where no log stands above |
//! | `unsure` | what flash has and the disk may lack |
//! | `durable` | what a checkpoint makes durable |

pub(crate) mod confirms;
pub(crate) mod deletions;
pub(crate) mod dequeuer;
pub(crate) mod durable;
pub(crate) mod flusher;
pub(crate) mod segments;
pub(crate) mod summary_records;
pub(crate) mod unsure;
pub(crate) mod waves;
pub(crate) mod write_through;
pub(crate) mod writer;

use super::degrader::Degrader;
use super::floor::Floor;
use super::floor::background::BackgroundQueue;
use super::floor::checkpointer::Checkpointer;
use super::floor::confirmer::Confirmer;
use crate::api::Survivors;
use confirms::ConfirmsRing;
use deletions::Deletions;
use dequeuer::Dequeuer;
use durable::DurableRing;
use entresol_core::Forgotten;
use entresol_device::BusyClock;
use flusher::Flusher;
use segments::Segments;
use std::sync::Arc;
use summary_records::SummaryRecords;
use unsure::Unsure;
use write_through::WriteThrough;
use writer::Writer;

/// What an open has found of a ring.
#[derive(Default)]
pub(crate) struct FoundRing {
    /// The groups that the open has found; `None` in a new cache.
    pub survivors: Option<Survivors>,
    /// Records of forgotten pages that the summaries of groups name, with these groups, and that no directory
    /// segment covers.
    pub records: Vec<(u64, Forgotten)>,
    /// Dirty pages in it have bases.
    pub has_bases: bool,
}

/// See the module's header.
pub(crate) struct Ring {
    pub survivors: Option<Survivors>,
    /// Dirty pages that the open has found have bases.
    pub has_bases: bool,
    pub writer: Arc<Writer>,
    pub background: BackgroundQueue,
    pub flusher: Arc<Flusher>,
    /// Where a flush is a part of a group.
    pub confirmer: Option<Confirmer<ConfirmsRing>>,
    pub segments: Arc<Segments>,
    pub deletions: Arc<Deletions>,
    /// Where no log stands above.
    pub write_through: Option<WriteThrough>,
    pub degrader: Option<Degrader>,
    pub checkpointer: Arc<Checkpointer>,
}

impl Ring {
    pub(crate) fn new(floor: &Floor, found: FoundRing) -> Self {
        let work = Arc::new(BusyClock::default());
        let records = Arc::new(SummaryRecords::new(found.records));
        let unsure = Arc::new(Unsure::new(floor));
        let checkpointer = floor.checkpointer(DurableRing::new(floor, &unsure));
        let segments = Arc::new(Segments::new(floor, &checkpointer, &unsure, &records));
        let writer = Arc::new(Writer::new(floor, &segments, &unsure, &records, &work));
        let flusher = Arc::new(Flusher::new(floor, &records, &writer));
        let deletions = Arc::new(Deletions::new(floor));
        let dequeuer = Dequeuer::new(floor, &work);
        Self {
            survivors: found.survivors,
            has_bases: found.has_bases,
            writer,
            background: BackgroundQueue::new(floor, Arc::new(dequeuer)),
            confirmer: (floor.flash.layout.summary_copies() > 1)
                .then(|| Confirmer::new(floor, ConfirmsRing::new(floor))),
            write_through: WriteThrough::new(floor, &flusher),
            degrader: Degrader::new(floor),
            flusher,
            segments,
            deletions,
            checkpointer,
        }
    }
}
