//! A volume that is opened without its flash: the disk alone serves.

use super::{Cache, CacheOptions, Volume, follow_no_journal};
use entresol_device::Device;
use entresol_engine::{DiskLayer, InPlaceDisk, Layer, TierError, flash_has_failed};
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
        let options = options.into();
        let (home, changed) = InPlaceDisk::open(disk, label)?;
        let page_bytes = options.page_bytes();
        let mut notices: Vec<String> = changed.into_iter().collect();
        if flash_has_failed(&*home)? {
            let (tier, told) = options.open_without_flash(&home)?;
            notices.extend(told);
            follow_no_journal(&*tier)?;
            let cache = Cache { tier, flash: None, options };
            return Ok((Self::assemble(home, page_bytes, Some(cache)), notices));
        }
        // Looks at the label, and changes it.
        let layer = DiskLayer::open(home.clone(), page_bytes)?;
        follow_no_journal(&*layer)?;
        layer.close()?;
        Ok((Self::assemble(home, page_bytes, None), notices))
    }
}
