//! What changes a volume's cache as a whole. Requests wait meanwhile.

use super::replay::in_tier;
use super::{Cache, CacheOptions, Volume, VolumeError};
use entresol_engine::{Mode, TierError};

impl Volume {
    /// Copies all dirty pages to disk, and begins an empty cache. Requests wait meanwhile.
    ///
    /// # Errors
    /// [`TierError`]. If the dirty pages could not be copied, the cache is closed and has to be opened again.
    /// If no new cache could be made, the disk alone serves: it has everything.
    pub fn drain(&self) -> Result<(), TierError> {
        let mut held = self.cache.write();
        let Some(Cache { tier, .. }) = &*held else { return Ok(()) };
        tier.detach()?;
        let Some(Cache { flash, options, .. }) = held.take() else { return Ok(()) };
        // The disk has everything: no record may be carried out after it.
        self.end_journal().map_err(in_tier)?;
        let Some(flash) = flash else { return Ok(()) };
        let tier = options.create(&flash, &self.home)?;
        let cache = Cache { tier, flash: Some(flash), options };
        self.begin_journal(&*cache.tier)?;
        *held = Some(cache);
        Ok(())
    }

    /// Copies all dirty pages to disk and releases it from the cache. From then on the disk alone serves.
    /// Requests wait meanwhile.
    ///
    /// # Errors
    /// As [`Volume::drain`].
    pub fn detach(&self) -> Result<(), TierError> {
        let mut held = self.cache.write();
        if let Some(Cache { tier, .. }) = &*held {
            tier.detach()?;
            *held = None;
            self.end_journal().map_err(in_tier)?;
        }
        Ok(())
    }

    /// Makes everything durable and ends. The next open finds a warm cache, if the policy keeps one.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub fn close(&self) -> Result<(), VolumeError> {
        let held = self.cache.write();
        if let Some(Cache { tier, .. }) = &*held {
            tier.close()?;
        }
        self.direct.flush()?;
        self.end_journal().map_err(VolumeError::Journal)
    }

    /// The cache goes on in another mode: it is closed and opened again. Log policies keep its pages.
    ///
    /// # Errors
    /// [`TierError::Config`] if the policy does not have the mode: nothing has changed. Else the mode is the
    /// old one if the cache could be opened in it again; if not, it is closed, and the volume has to be
    /// opened again.
    pub fn set_mode(&self, mode: Mode) -> Result<(), TierError> {
        let mut held = self.cache.write();
        let Some(Cache { tier, flash: Some(flash), options }) = &mut *held else {
            return Err(TierError::Refused(
                "the disk alone serves; there is no cache with a mode".to_owned(),
            ));
        };
        let new = options.in_mode(mode)?;
        let open = |options: &CacheOptions| options.open(flash, &self.home).map(|(tier, _)| tier);
        tier.close()?;
        self.end_journal().map_err(in_tier)?;
        match open(&new) {
            Ok(opened) => {
                (*tier, *options) = (opened, new);
                self.begin_journal(&**tier)
            }
            Err(error) => {
                *tier = open(options)?;
                self.begin_journal(&**tier)?;
                Err(error)
            }
        }
    }
}
