//! Before the disk is released: the pages that are lost with that.

use crate::access::{Directory, Signals};
use crate::api::{PageSet, Progress};
use crate::disk::{DiskPages, PageRanges};
use crate::error::Losing;
use crate::tier::floor::Floor;
use crate::tier::floor::lost::LostPages;
use crate::tier::floor::wanted::WantedPages;
use crate::tier::room::Room;
use crate::to_disk::named;
use crate::{TierError, events};
use std::ops::ControlFlow;
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

    /// Copies everything to disk, durably, that is newer in the cache, can be read there, and is taken by the
    /// disk. Returns how many pages that were, and the rest.
    pub(crate) fn copy_to_disk_what_is_there(
        &self,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(u64, Losing), TierError> {
        if let Some(missing) = self.disk.missing.since_failure() {
            if let Some(degrader) = self.room.degrader() {
                degrader.salvage_all(&false.into())?;
            }
            let (_, lost) = missing.count();
            return Ok((0, Losing { lost, refused: Vec::new() }));
        }
        let (mut stays, mut copied) = (Vec::new(), 0);
        if self.directory.keeps_pages() && self.signals.check_running()? {
            copied = self.wanted.destage_found(&PageSet::ALL, &mut stays, watch)?;
        }
        let (mut lost, mut refused) = (self.lost.now()?, PageRanges::default());
        for fault in &stays {
            let is_refused = matches!(fault, TierError::NotTaken { .. });
            let pages = if is_refused { &mut refused } else { &mut lost };
            named([fault]).into_iter().for_each(|page| pages.insert(page));
        }
        Ok((copied, Losing { lost: lost.list(), refused: refused.list() }))
    }

    /// Before the disk is released: the pages that are lost with that. Nothing is closed yet.
    ///
    /// # Errors
    /// [`TierError::Losing`], unless the owner `accepts` it.
    pub(crate) fn prepare_to_lose(&self, accepts: bool) -> Result<(), TierError> {
        let (_, lost) = self.copy_to_disk_what_is_there(&mut |_| ControlFlow::Continue(()))?;
        if lost.is_nothing() {
            return Ok(());
        }
        if !accepts {
            return Err(TierError::Losing(lost));
        }
        events::given_up(&TierError::Losing(lost));
        Ok(())
    }
}
