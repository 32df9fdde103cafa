//! The flash device of a tier, its syncs and its layout.

use crate::TierError;
use crate::error::flash_error;
use crate::syncs::Syncs;
use entresol_device::Device;
use entresol_format::Layout;
use std::ops::Deref;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flash {
    device: Arc<dyn Device>,
    syncs: Syncs,
    pub layout: Layout,
}

impl Flash {
    pub(crate) fn new(device: Arc<dyn Device>, layout: Layout) -> Self {
        Self { device, syncs: Syncs::default(), layout }
    }

    /// Makes all completed writes durable. Callers at the same time share a sync.
    pub(crate) fn sync_writes(&self) -> Result<(), TierError> {
        self.syncs.sync(|| self.device.sync()).map_err(flash_error)
    }
}

impl Deref for Flash {
    type Target = dyn Device;

    fn deref(&self) -> &Self::Target {
        &*self.device
    }
}
