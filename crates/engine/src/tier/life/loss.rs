//! Before the disk is released: the pages that are lost with that.

use crate::access::{Directory, Signals};
use crate::api::PageSet;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::lost::LostPages;
use crate::tier::floor::wanted::WantedPages;
use crate::tier::room::Room;
use crate::to_disk::named;
use crate::{TierError, events};
use entresol_format::missing::PageRange;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Losses {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    lost: Arc<LostPages>,
    wanted: Arc<WantedPages>,
    room: Room,
}

impl Losses {
    pub(crate) fn new(floor: &Floor, room: &Room, wanted: &Arc<WantedPages>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            signals: floor.access.signals.clone(),
            disk: floor.disk.clone(),
            lost: floor.lost.clone(),
            wanted: wanted.clone(),
            room: room.clone(),
        }
    }

    /// Copies everything to disk that is newer in the cache and can be read, durably. Returns what cannot.
    pub(crate) fn copy_to_disk_what_is_there(&self) -> Result<Vec<PageRange>, TierError> {
        if let Some(missing) = self.disk.missing.since_failure() {
            if let Some(degrader) = self.room.degrader() {
                degrader.salvage_all(&false.into())?;
            }
            let (_, lost) = missing.count();
            return Ok(lost);
        }
        let mut damaged = Vec::new();
        if self.directory.is_log() && self.signals.check_running()? {
            self.wanted.destage_found(&PageSet::ALL, &mut damaged)?;
        }
        let mut lost = self.lost.now()?;
        named(&damaged).into_iter().for_each(|page| lost.insert(page));
        Ok(lost.list())
    }

    /// Before the disk is released: the pages that are lost with that. Nothing is closed yet.
    ///
    /// # Errors
    /// [`TierError::Losing`], unless the owner `accepts` it.
    pub(crate) fn prepare_to_lose(&self, accepts: bool) -> Result<(), TierError> {
        let lost = self.copy_to_disk_what_is_there()?;
        if lost.is_empty() {
            return Ok(());
        }
        if !accepts {
            return Err(TierError::Losing(lost));
        }
        events::given_up(&TierError::Losing(lost));
        Ok(())
    }
}
