//! The flash device of a tier, its syncs and its layout.

use crate::TierError;
use crate::access::BoardRef;
use crate::error::flash_error;
use crate::syncs::Syncs;
use entresol_device::Device;
use entresol_format::Layout;
use entresol_runtime::now;
use std::ops::Deref;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flash {
    device: Arc<dyn Device>,
    syncs: Syncs,
    board: BoardRef,
    pub layout: Layout,
}

impl Flash {
    pub(crate) fn new(device: Arc<dyn Device>, layout: Layout, board: BoardRef) -> Self {
        Self { device, syncs: Syncs::default(), board, layout }
    }

    /// Makes all completed writes durable. Callers at the same time share a sync.
    pub(crate) fn sync_writes(&self) -> Result<(), TierError> {
        let begin = now();
        self.syncs.sync(|| self.device.sync()).map_err(flash_error)?;
        self.board.tallies.syncs_took.ends(begin);
        Ok(())
    }
}

impl Deref for Flash {
    type Target = dyn Device;

    fn deref(&self) -> &Self::Target {
        &*self.device
    }
}
