//! Writing behind: evicted pages are staged in memory and written to disk in the background. The layers
//! without dirty pages on flash share it: the disk alone, and SCE's cache.
//!
//! Invariant: when an eviction of a dirty page returns, the page is staged for the disk, and every fetch
//! returns that version or a newer one. A checkpoint makes it durable.

use super::staging::{DiskStaging, Staged, WRITERS};
use super::{DiskPages, DurableNotes, WholeDisk};
use crate::TierError;
use crate::api::{Evicted, Fetched, Source, Upstream, Victim};
use crate::metrics::Tallies;
use crate::names::NoNames;
use entresol_core::{Lsn, PageId};
use entresol_device::Device;
use entresol_format::PageFormat;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use std::sync::{Arc, Weak};

/// A disk and its staged pages.
pub(crate) struct WriteBehind {
    pub disk: DiskPages,
    staging: DiskStaging,
    pub tallies: Tallies,
    notes: DurableNotes,
    upstream: TinyMutex<Option<Weak<dyn Upstream>>>,
}

impl WriteBehind {
    pub(crate) fn new(device: Arc<dyn Device>, page_bytes: u32) -> Self {
        Self::of_format(device, page_bytes, PageFormat::Native)
    }

    /// With pages of `page_format`. Only native ones are staged.
    pub(crate) fn of_format(device: Arc<dyn Device>, page_bytes: u32, page_format: PageFormat) -> Self {
        let home = WholeDisk::new(device, page_bytes);
        Self {
            disk: DiskPages::at_home(home, Arc::new(NoNames), page_bytes, page_format),
            staging: DiskStaging::new(page_bytes),
            tallies: Tallies::default(),
            notes: DurableNotes::default(),
            upstream: TinyMutex::new(Rank::Upstream, None),
        }
    }

    /// Starts the writer tasks. `write` writes staged pages to their places.
    pub(crate) fn start_writers(
        self: &Arc<Self>,
        write: impl Fn(&[Staged<'_>]) -> Result<(), TierError> + Clone + Send + 'static,
    ) -> Vec<JoinHandle> {
        let task = |at| {
            let (behind, write) = (self.clone(), write.clone());
            spawn(&format!("disk writer {at}"), move || {
                behind.staging.writer_task(write, |pages| behind.written(pages));
            })
        };
        (0..WRITERS).map(task).collect()
    }

    fn written(&self, pages: &[(PageId, Lsn)]) -> Result<(), TierError> {
        self.tallies.disk_writes.add(pages.len());
        let upstream = self.upstream.lock().as_ref().and_then(Weak::upgrade);
        self.notes.add(&self.disk, upstream.as_deref(), pages.iter().copied())
    }

    pub(crate) fn attach(&self, upstream: Weak<dyn Upstream>) {
        *self.upstream.lock() = Some(upstream);
    }

    /// Fetches `page` into `buffer` if it is staged.
    pub(crate) fn fetch_staged(&self, page: PageId, buffer: &mut [u8]) -> Result<Option<Fetched>, TierError> {
        self.disk.check_length(buffer)?;
        if !self.staging.fetch(page, buffer)? {
            return Ok(None);
        }
        self.tallies.staging_hits.add(1);
        Ok(Some(clean(Source::Staging)))
    }

    /// Fetches the page from disk into `buffer`.
    pub(crate) fn fetch_from_disk(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.read(page, buffer)?;
        self.tallies.disk_reads.add(1);
        Ok(clean(Source::Disk))
    }

    pub(crate) fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.disk.check_victim(victim.page, data)?;
        if victim.dirty {
            self.staging.stage(victim.page, data)?;
        }
        self.tallies.evicted(victim.dirty, victim.dirty);
        Ok(Evicted { dirty: false })
    }

    pub(crate) fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.disk.check_victim(victim.page, data)?;
        if victim.dirty && !self.staging.try_stage(victim.page, data)? {
            return Ok(None);
        }
        self.tallies.evicted(victim.dirty, victim.dirty);
        Ok(Some(Evicted { dirty: false }))
    }

    pub(crate) fn checkpoint(&self) -> Result<(), TierError> {
        self.staging.drain()?;
        self.disk.sync()
    }

    /// Ends the writers.
    pub(crate) fn stop(&self) {
        self.staging.stop();
    }
}

/// The answer of a layer without dirty pages.
pub(crate) fn clean(source: Source) -> Fetched {
    Fetched { source, dirty: false, fdirty: false }
}
