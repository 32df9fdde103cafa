//! Another flash device, another size of it, and a disk that has grown: while clients continue.
//!
//! A slot is its position modulo the number of slots, so a cache of another size begins empty. The steps:
//!
//! 1. A flash that is a file and is to grow has the room reserved.
//! 2. Dirty pages are copied to disk while requests continue, and writes of clean pages bypass the flash.
//! 3. Requests wait. The last dirty pages are copied, and the old cache releases the disk, durably.
//! 4. The new cache is made. The disk's label names it: that is the commit.
//! 5. A file that has shrunk is cut.
//!
//! Invariant: a kill at any time leaves the old cache, none, or the new one, and the disk has everything that
//! the cache it is bound to has not. Pages enter the new cache again as they are read and written.

use super::phases::{Loss, Watch};
use super::{CacheOptions, Volume};
use crate::ConfigError;
use crate::journal::Origin;
use entresol_device::{CountedDevice, Device};
use entresol_engine::TierError;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The flash that a volume is to have.
pub struct NewFlash<'a> {
    /// The device; `None`: the present one.
    pub device: Option<NewDevice<'a>>,
    /// Bytes of it that the cache may use; `None`: all. A regular file gets this size.
    pub bytes: Option<u64>,
    /// The options of a cache on so many bytes.
    pub options: &'a dyn Fn(u64) -> Result<CacheOptions, ConfigError>,
}

/// A flash device that is to take the place of the present one.
pub struct NewDevice<'a> {
    /// Its path.
    pub path: PathBuf,
    /// How it is opened.
    pub open: &'a dyn Fn() -> Result<Arc<dyn Device>, TierError>,
    /// The keeper of the journal with that device.
    pub origin: Origin,
}

/// The place of a new cache.
pub(super) struct Place {
    pub flash: Arc<dyn Device>,
    /// The keeper of the journal then; `None`: that of before.
    pub origin: Option<Origin>,
}

/// Bytes of `device` that may be used, if `wanted` are to be. A regular file grows to that.
pub(crate) fn room_on(device: &dyn Device, wanted: Option<u64>) -> Result<u64, TierError> {
    let failed = |error| TierError::Device { role: "flash", source: error };
    let capacity = device.resize(None).map_err(failed)?;
    let Some(wanted) = wanted else { return Ok(capacity) };
    let capacity = if wanted > capacity { device.resize(Some(wanted)).map_err(failed)? } else { capacity };
    match wanted > capacity {
        true => Err(TierError::Config(format!(
            "the flash device has {capacity} bytes, {wanted} were asked for; give at most what it has"
        ))),
        false => Ok(wanted),
    }
}

impl Volume {
    /// Begins an empty cache on another flash device, or of another size. `watch` as of
    /// [`Volume::drain_watched`].
    ///
    /// # Errors
    /// [`TierError::Config`] for what is not possible, and [`TierError::Losing`] as of [`Volume::drain`]:
    /// nothing has changed. Else the cache is of the old size on the old flash, empty; if that cannot be
    /// made, the disk alone serves.
    pub fn set_flash_watched(
        &self,
        new: NewFlash<'_>,
        loss: Loss,
        watch: Watch<'_>,
    ) -> Result<bool, TierError> {
        let turn = self.turn(if new.device.is_some() { "exchange of the flash" } else { "resize" });
        if new.device.as_ref().is_some_and(|new| new.path == self.devices.paths().flash) {
            // The change before this one has made it so.
            return Ok(true);
        }
        let device = match &new.device {
            Some(new) => Some(CountedDevice::new((new.open)()?, &self.devices.flash) as Arc<dyn Device>),
            None => self.cache.read().as_ref().and_then(|cache| cache.flash.clone()),
        };
        let device = device.ok_or_else(|| {
            TierError::Refused("the disk alone serves; there is no cache to change".to_owned())
        })?;
        let bytes = room_on(&*device, new.bytes)?;
        let options = (new.options)(bytes).map_err(|error| TierError::Config(error.to_string()))?;
        if !self.prepare(watch)? {
            return Ok(false);
        }
        let (path, origin) = new.device.map(|new| (new.path, new.origin)).unzip();
        {
            let mut held = self.change(&turn);
            let place = Place { flash: device.clone(), origin };
            let begun = self.begin_empty_on(&mut held, options, Some(place), loss);
            begun.inspect_err(|_| held.iter().for_each(|cache| self.limit_dirt(&*cache.tier)))?;
        }
        if let Some(path) = path {
            self.devices.has_flash_at(path);
        }
        if new.bytes.is_some() {
            // It works without, too: the cache does not use what is past its end.
            let cut = device.resize(new.bytes);
            cut.inspect_err(|error| tracing::warn!("the flash keeps its size: {error}")).ok();
        }
        self.steer(self.steering.state().0);
        Ok(true)
    }

    /// Looks at the size of the disk anew: the volume grows with it. Requests wait for a moment. Returns the
    /// volume's bytes.
    ///
    /// # Errors
    /// As [`entresol_engine::InPlaceDisk::grow`]: the volume keeps its size.
    pub fn grow(&self) -> Result<u64, TierError> {
        let turn = self.turn("growth of the disk");
        // Requests at the old end would be served by the disk alone, and by the cache then.
        let held = self.change(&turn);
        if let Some((before, now)) = self.home.grow()? {
            tracing::info!("the disk has grown from {before} to {now} bytes, and the volume with it");
        }
        self.bytes.store(self.direct.bytes(), SeqCst);
        drop(held);
        Ok(self.bytes())
    }
}
