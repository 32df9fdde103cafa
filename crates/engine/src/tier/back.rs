//! The back: everything that writes. Its tasks share it, and with them the front, in which they meet the
//! users' tasks.

use super::degrade::Degradable;
use super::destaged::Destaged;
use super::flash::Flash;
use super::objects::ObjectLog;
use super::placed::{LogParts, Placed};
use super::renewal::Renewals;
use super::slot_directory::SlotDirectory;
use super::superblock_copies::Superblocks;
use super::thrift::Thrift;
use super::through::Through;
use crate::api::{TierMetrics, Upstream};
use crate::disk::{DiskPages, DurableNotes};
use crate::front::{Front, Served};
use entresol_device::BufferPool;
use entresol_format::{Layout, PageFormat};
use entresol_runtime::sync::TinyMutex;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Weak};

/// See the module's header.
pub(crate) struct Back {
    pub front: Arc<Front>,
    pub flash: Flash,
    pub disk: DiskPages,
    /// What only log placement has, or only slot placement.
    pub placed: Placed,
    /// For pages on their way to disk.
    pub buffers: BufferPool,
    pub superblocks: Superblocks,
    pub renewals: Renewals,
    pub destaged: Destaged,
    /// Pages written to disk, for the buffer pool's log: destaged from slots, or kept out.
    pub notes: DurableNotes,
    /// Of a cache with a table of objects.
    pub objects: Option<ObjectLog>,
    /// Of a cache of raw pages: nobody above orders their writes, or settles what a crash leaves of them.
    pub through: Option<Through>,
    /// Of a cache that can go on without its flash though pages on it are newer.
    pub degradable: Option<Degradable>,
    /// The owner's budget of writes to flash.
    pub thrift: Thrift,
    /// No second chances: the owner wants fewer writes to flash.
    pub spares_writes: AtomicBool,
    /// Uses that a write to flash must promise, in thousandths.
    pub write_worth_permille: AtomicU32,
    pub upstream: TinyMutex<Option<Weak<dyn Upstream>>>,
    /// What fronts in other processes share with this back, if there may be any.
    pub served: Option<Served>,
}

impl Back {
    pub(crate) fn is_log(&self) -> bool {
        self.log().is_some()
    }

    pub(crate) fn log(&self) -> Option<&LogParts> {
        match &self.placed {
            Placed::Log(log) => Some(log),
            Placed::Slots(_) => None,
        }
    }

    /// The slot directory on flash, of a policy that keeps it up with every page.
    pub(crate) fn directory(&self) -> Option<&SlotDirectory> {
        match &self.placed {
            Placed::Log(_) => None,
            Placed::Slots(slots) => slots.directory.as_ref(),
        }
    }

    /// How pages lie on flash.
    pub(crate) fn flash_format(&self) -> (&Layout, PageFormat) {
        (&self.flash.layout, self.front.options.page_format)
    }

    pub(crate) fn upstream(&self) -> Option<Arc<dyn Upstream>> {
        self.upstream.lock().as_ref().and_then(Weak::upgrade)
    }

    pub(crate) fn metrics(&self) -> TierMetrics {
        self.front.metrics()
    }
}
