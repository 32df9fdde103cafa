//! A volume that is opened without its flash: the disk alone serves.

use super::devices::Devices;
use super::{Cache, CacheOptions, Volume, follow_no_journal};
use entresol_device::Device;
use entresol_engine::{DiskLayer, InPlaceDisk, Layer, TierError, Uuid, flash_has_failed};
use std::sync::Arc;

impl Volume {
    /// Opens `disk` without its cache, which must not have newer pages. A clean cache is known to be out of
    /// date from then on. If the flash has failed, and the disk lacks pages since, requests for these fail
    /// until they are written again; `options` are those of the cache.
    ///
    /// # Errors
    /// As [`InPlaceDisk::open`] and [`DiskLayer::open`].
    pub fn open_without_cache(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
    ) -> Result<(Self, Vec<String>), TierError> {
        let has_failed = flash_has_failed(&*label)?;
        let (mut volume, mut notices, is_named) =
            Self::open_disk_alone(disk, label, options.into(), has_failed)?;
        if let Some(cache) = &*volume.cache.read() {
            follow_no_journal(&*cache.tier)?;
        }
        if is_named {
            notices.push(volume.lacks_its_journal(None));
        }
        Ok((volume, notices))
    }

    /// As [`Volume::open_without_cache`], and whether the label named a journal. If the flash has failed, it
    /// still does.
    pub(super) fn open_disk_alone(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        options: CacheOptions,
        has_failed: bool,
    ) -> Result<(Self, Vec<String>, bool), TierError> {
        let devices = Devices::default();
        let (disk, label) = devices.counted_disk(disk, label);
        let (home, changed) = InPlaceDisk::open(disk, label)?;
        let page_bytes = options.page_bytes();
        let mut notices: Vec<String> = changed.into_iter().collect();
        if has_failed {
            let (tier, told) = options.open_without_flash(&home)?;
            notices.extend(told);
            let is_named = tier.binding()?.log != Uuid::NIL;
            let cache = Cache { tier, flash: None, options };
            return Ok((Self::assemble(home, page_bytes, Some(cache), devices), notices, is_named));
        }
        // Looks at the label, and changes it.
        let layer = DiskLayer::open(home.clone(), page_bytes)?;
        let is_named = follow_no_journal(&*layer)?;
        layer.close()?;
        Ok((Self::assemble(home, page_bytes, None, devices), notices, is_named))
    }
}
