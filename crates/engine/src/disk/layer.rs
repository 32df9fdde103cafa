//! The layer without flash: the two-layer baseline.
//!
//! Invariant: when [`Layer::evict`] of a dirty page returns, the disk holds it; [`Layer::checkpoint`] makes it durable.

use super::{DiskPages, LabelState, read_label, write_label};
use crate::api::{Fetched, HandedDown, Layer, Source, TierMetrics, Upstream, Victim};
use crate::buffer::PageBuffers;
use crate::metrics::Tallies;
use crate::{TierError, tier};
use entresol_core::{PageId, Position};
use entresol_device::Device;
use entresol_format::layout::page_bytes_possible;
use entresol_format::{Uuid, label::Label, page};
use std::sync::{Arc, Weak};

/// A disk without a flash tier.
pub struct DiskLayer {
    disk: DiskPages,
    buffers: PageBuffers,
    tallies: Tallies,
}

impl DiskLayer {
    fn new(device: Arc<dyn Device>, page_bytes: u32) -> Arc<Self> {
        Arc::new(Self {
            disk: DiskPages { device, page_bytes },
            buffers: PageBuffers::new(page_bytes),
            tallies: Tallies::default(),
        })
    }

    /// Labels `disk` as new, with pages of `page_bytes`. What was on it is lost.
    ///
    /// # Errors
    /// [`TierError::Refused`] if a flash cache may hold newer pages of what is on it.
    pub fn create(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        if !page_bytes_possible(page_bytes) {
            return Err(TierError::Config(format!(
                "a page of {page_bytes} bytes is not possible; choose 4096, 8192, 16384 or 32768"
            )));
        }
        let old = read_label(&*disk)?;
        if let LabelState::Valid(label) = &old {
            refuse_if_bound(label)?;
        }
        let mut label = tier::new_label(page_bytes);
        if let LabelState::Valid(old) = old {
            label.sequence = old.sequence;
        }
        write_label(&*disk, &mut label)?;
        Ok(Self::new(disk, page_bytes))
    }

    /// Opens a labelled disk without flash. A flash cache of it that holds nothing newer is left behind and will be
    /// emptied when it is opened.
    ///
    /// # Errors
    /// [`TierError::Refused`] if there is no label, if the page size differs, or if a flash cache may hold newer pages.
    pub fn open(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        let mut label = tier::expect_label(&*disk, page_bytes)?;
        refuse_if_bound(&label)?;
        label.epoch += 1;
        label.cache = Uuid::NIL;
        write_label(&*disk, &mut label)?;
        Ok(Self::new(disk, page_bytes))
    }
}

fn refuse_if_bound(label: &Label) -> Result<(), TierError> {
    if !label.dirty_possible {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "disk {} belongs to the flash cache {}, which may hold newer pages; open it with that flash device, or detach \
         the cache from it first",
        label.disk, label.cache
    )))
}

impl Layer for DiskLayer {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.check_length(buffer)?;
        self.disk.read(page, buffer)?;
        self.tallies.disk_reads.add(1);
        Ok(Fetched { source: Source::Disk, dirty: false })
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<HandedDown, TierError> {
        self.disk.check_length(data)?;
        self.tallies.handed_down(victim.dirty, victim.fdirty);
        if victim.dirty {
            let mut buffer = self.buffers.take();
            buffer.copy_from_slice(data);
            page::seal(&mut buffer, victim.page, Position(0));
            let written = self.disk.write(victim.page, &buffer);
            self.buffers.give_back(buffer);
            written?;
            self.tallies.disk_writes.add(1);
        }
        Ok(HandedDown { dirty: false })
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<HandedDown>, TierError> {
        if victim.dirty { Ok(None) } else { self.evict(victim, data).map(Some) }
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.disk.sync()
    }

    fn attach(&self, _upstream: Weak<dyn Upstream>) {}

    fn metrics(&self) -> TierMetrics {
        self.tallies.read()
    }

    fn close(&self) -> Result<(), TierError> {
        self.disk.sync()
    }
}
