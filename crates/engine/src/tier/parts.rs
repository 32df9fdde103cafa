//! All parts of a tier, put together. Arrows between rooms point one way: `life`, `serve` → `access` →
//! `room` (`ring` or `slots`) → `floor`.

use super::degrader::Degrader;
use super::floor::horizon::Horizon;
use super::floor::wanted::WantedPages;
use super::floor::writeback::WritebackTask;
use super::floor::writers::WriterLoop;
use super::floor::{Floor, Ground};
use super::leaver::Leaver;
use super::life::close::Closer;
use super::life::detach::Detacher;
use super::life::loss::Losses;
use super::requests::reads::Reads;
use super::requests::writes::Writes;
use super::room::{FoundPages, Room};
use super::serve::Server;
use crate::TierError;
use entresol_shm::NewSegment;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Parts {
    pub floor: Floor,
    pub room: Room,
    pub writers: WriterLoop,
    pub reads: Arc<Reads>,
    pub writes: Writes,
    pub wanted: Arc<WantedPages>,
    pub writeback: Option<WritebackTask>,
    /// Of a cache whose flash may be lost.
    pub horizon: Option<Horizon>,
    /// Of a tier that continues when its flash fails.
    pub leaver: Option<Leaver>,
    pub closer: Closer,
    pub detacher: Detacher,
    pub losses: Losses,
    /// Of a cache with fronts in other processes.
    pub server: Option<Server>,
    /// The memory for them, until it is published.
    unpublished: Option<NewSegment>,
}

impl Parts {
    pub(crate) fn new(ground: Ground, found: FoundPages, unpublished: Option<NewSegment>) -> Self {
        let floor = Floor::new(ground);
        let room = Room::new(&floor, found);
        let reads = Arc::new(Reads::new(&floor));
        let wanted = Arc::new(WantedPages::new(&floor));
        Self {
            writeback: WritebackTask::new(&floor, &wanted),
            horizon: Horizon::new(&floor, &wanted, room.ring().is_some_and(|ring| ring.has_bases)),
            leaver: Leaver::new(&floor, &room),
            writers: WriterLoop::new(&floor),
            writes: Writes::new(&floor, &room),
            closer: Closer::new(&floor, &room),
            detacher: Detacher::new(&floor),
            losses: Losses::new(&floor, &room, &wanted),
            server: Server::new(&floor, &room, &reads, &wanted),
            room,
            reads,
            wanted,
            floor,
            unpublished,
        }
    }

    /// Lets fronts of other processes attach, if the cache is shared.
    pub(crate) fn publish(&mut self) -> Result<(), TierError> {
        match self.unpublished.take() {
            Some(segment) => Ok(segment.publish().map(drop)?),
            None => Ok(()),
        }
    }

    /// Brings everything that is in staging to flash. False if the disk alone serves.
    pub(crate) fn prepare_to_detach(&self) -> Result<bool, TierError> {
        self.room.checkpointer().checkpoint()?;
        self.floor.access.signals.check_running()
    }

    /// A degraded tier whose tasks have ended releases its disk.
    pub(crate) fn release_degraded(&self) -> Result<(), TierError> {
        self.room.degrader().map_or(Ok(()), Degrader::release)
    }
}
