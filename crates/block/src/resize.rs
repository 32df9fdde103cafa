//! Another flash, or another size of it, for a volume without a server. While an exchange is under way, the
//! configuration names both devices, and the disk's label decides which one is in use.

use crate::open::{check_two_devices, detach_volume, look, open, open_volume, remove_ended_journal};
use crate::volume::room_on;
use crate::{Loss, OpenError, VolumeConfig};
use entresol_device::Device;
use entresol_engine::{DetachReport, FlashTier};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The flash device in use, of a configuration that may name the next one, too: that one, if the disk's label
/// names the cache on it, or the earlier one is gone.
pub(crate) fn flash_in_use(config: &VolumeConfig) -> PathBuf {
    let Some(next) = &config.flash_next else { return config.flash.clone() };
    let is_bound = |path: &Path| -> Result<bool, OpenError> {
        let (label, flash) = (look("label", &config.label)?, look("flash", path)?);
        Ok(FlashTier::bound_options(&*flash, &*label)?.is_some())
    };
    // What cannot be read is told by the open that follows.
    let is_next = is_bound(next).unwrap_or(false) || !config.flash.exists();
    if is_next { next.clone() } else { config.flash.clone() }
}

/// The configuration with the next flash in its place. `None`: none is named that is not the present one.
pub(crate) fn with_next_flash(config: &VolumeConfig) -> Option<VolumeConfig> {
    let next = config.flash_next.clone().filter(|next| *next != config.flash)?;
    Some(VolumeConfig { flash: next, flash_next: None, ..config.clone() })
}

/// Opens the flash of this configuration.
pub(crate) fn open_flash(config: &VolumeConfig) -> Result<Arc<dyn Device>, OpenError> {
    check_two_devices(config)?;
    open("flash", &config.flash, config.direct_io)
}

/// Begins an empty cache on `config.flash_next`, or on another size of the present flash, for a volume
/// without a server: all dirty pages are copied to disk first. `bytes`: of the flash; `None`: all. Returns
/// the outcome of the detach, and the configuration with the flash and the number of slots.
///
/// # Errors
/// [`OpenError`].
pub fn resize_volume(
    config: &VolumeConfig,
    bytes: Option<u64>,
    loss: Loss,
) -> Result<(DetachReport, VolumeConfig), OpenError> {
    let after = with_next_flash(config).unwrap_or_else(|| config.clone());
    let slots = after.options_for(room_on(&*open_flash(&after)?, bytes)?)?.slots();
    let report = detach_volume(config, loss)?;
    let after = VolumeConfig { slots, flash_next: None, ..after };
    let (volume, _) = open_volume(&after)?;
    volume.close()?;
    drop(volume);
    remove_ended_journal(&after);
    if bytes.is_some() {
        let cut = open_flash(&after)?.resize(bytes);
        cut.inspect_err(|error| tracing::warn!("the flash keeps its size: {error}")).ok();
    }
    Ok((report, after))
}
