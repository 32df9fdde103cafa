//! A cache that is open: the engine's own interface, or the block door before it.

use super::door::Door;
use super::files::{FILE_PAGES, Files};
use super::oracle::Shared;
use entresol_core::{Lsn, PageId};
use entresol_engine::{Deletes, Evicted, FlashTier, Layer, PageCache, ReadRoute, Source, TierError, Victim};
use std::sync::Arc;

/// A cache that is open, with the homes of its objects.
#[derive(Clone)]
pub(super) struct Opened {
    /// `None`: it is behind the door.
    pub tier: Option<Arc<FlashTier>>,
    pub files: Option<Arc<Files>>,
    /// This client's connection.
    pub door: Option<Arc<Door>>,
    /// The open has told that acknowledged writes were not carried out, since the page cannot be read.
    pub has_lost: bool,
    /// The open has told that a flash which had failed before cannot be read: what only it has is lost until
    /// the next open.
    pub is_blind: bool,
}

impl Opened {
    /// For another client: with a connection of its own.
    pub fn for_another(&self, page_bytes: usize) -> Result<Self, String> {
        let connect = |door: &Arc<Door>| Door::connect(door.volume.clone(), page_bytes).map(Arc::new);
        Ok(Self { door: self.door.as_ref().map(connect).transpose()?, ..self.clone() })
    }

    fn layer(&self) -> Result<&FlashTier, TierError> {
        self.tier.as_deref().ok_or_else(|| TierError::Refused("the cache is behind the door".to_owned()))
    }

    /// What the cache calls `page`. `None`: it must stay out of the cache, the table of objects being full.
    pub fn id(&self, page: u64) -> Result<Option<PageId>, String> {
        let (Some(files), Some(tier)) = (&self.files, &self.tier) else { return Ok(Some(PageId(page))) };
        let object = files.object_of(tier, page)?;
        Ok(object.map(|object| object.page((page % FILE_PAGES) as u32)))
    }

    /// Fetches a page, or reads it as an owner without memory of its own does. The source is a guess then.
    pub fn fetch(&self, id: PageId, buffer: &mut [u8], as_reader: bool) -> Result<Source, TierError> {
        let source = |is_cached| if is_cached { Source::Flash } else { Source::Disk };
        if let Some(door) = &self.door {
            let source = source(door.is_cached(id.0));
            return door.read(id.0, buffer, as_reader).map(|()| source);
        }
        let tier = self.layer()?;
        if !as_reader {
            return tier.fetch(id, buffer).map(|fetched| fetched.source);
        }
        let source = source(tier.is_on_flash(id));
        tier.read_pages(id, buffer, ReadRoute::Populates).map(|_| source)
    }

    /// Writes a page.
    pub fn write(&self, page: PageId, data: &[u8]) -> Result<Evicted, TierError> {
        let victim = Victim { page, lsn: Lsn(0), dirty: true, fdirty: true };
        self.layer()?.evict(victim, data)
    }

    /// Writes adjacent pages together.
    pub fn write_run(&self, first: PageId, data: &[u8], as_stream: bool) -> Result<(), TierError> {
        match &self.door {
            Some(door) => door.write(first.0, data, false, as_stream),
            None if as_stream => self.layer()?.write_around(first, data).map(drop),
            None => self.layer()?.write_pages(first, data),
        }
    }

    /// Forgets pages, or trims them. Returns their copies, or number.
    pub fn forget(&self, oracle: &Shared, first: PageId, last: PageId) -> Result<u64, TierError> {
        match &self.door {
            Some(door) => door.trim(oracle, first.0, last.0 - first.0 + 1).map(|()| last.0 - first.0 + 1),
            None => self.layer()?.forget(first, last),
        }
    }

    pub fn flush(&self) -> Result<(), TierError> {
        match &self.door {
            Some(door) => door.flush(),
            None => self.layer()?.flush(),
        }
    }

    /// Closes the cache: everything is durable.
    pub fn close(&self) -> Result<(), TierError> {
        match &self.door {
            Some(door) => door.close(),
            None => self.layer()?.close(),
        }
    }

    /// Makes a checkpoint; behind the door, a flush.
    pub fn checkpoint(&self) -> Result<(), TierError> {
        match &self.tier {
            Some(tier) => tier.checkpoint(),
            None => self.flush(),
        }
    }
}
