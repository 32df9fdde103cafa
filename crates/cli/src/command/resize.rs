//! `entresol volume resize|replace-flash`.

use super::volume::{Edited, absolute, asked, opening, read};
use crate::args::{FlashSize, LossArgs, VolumeArgs};
use crate::failure::Failure;
use crate::output;
use entresol_block::{ControlRequest, Loss, VolumeConfig, VolumeStatus, resize_volume};
use std::path::Path;

/// Another size of the flash, or of the disk.
pub fn resize(args: &VolumeArgs, size: Option<FlashSize>, loss: &LossArgs) -> Result<(), Failure> {
    let edited = Edited::begin(&args.config)?;
    let config = edited.before.clone();
    let grown = asked(args, &config, ControlRequest::Grow)?;
    if let Some(size) = size {
        begin_on_flash(edited, args, config, size, loss)?;
    }
    output::print(&match grown {
        Some(VolumeStatus { volume_bytes, .. }) => {
            format!("the volume has {volume_bytes} bytes, as its disk\n")
        }
        None => "the volume has the size of its disk when it is served next\n".to_owned(),
    })
}

/// Another flash device.
pub fn replace(
    args: &VolumeArgs,
    flash: &Path,
    size: Option<FlashSize>,
    loss: &LossArgs,
) -> Result<(), Failure> {
    let mut edited = Edited::begin(&args.config)?;
    let flash = absolute(flash)?;
    if flash == edited.before.flash {
        return finish(edited, args);
    }
    // Before anything is changed: a kill leaves a configuration that names both.
    let config = VolumeConfig { flash_next: Some(flash), ..edited.before.clone() };
    edited.write(&config)?;
    begin_on_flash(edited, args, config, size.unwrap_or(FlashSize::Max), loss)
}

/// The new flash is in use: what a killed command has not written is written.
fn finish(mut edited: Edited, args: &VolumeArgs) -> Result<(), Failure> {
    let mut config = edited.before.clone();
    let is_done = config.flash_next.take().is_none();
    if !is_done && let Some(status) = asked(args, &config, ControlRequest::Status)? {
        config.slots = status.slots as u32;
    }
    edited.write(&config)?;
    output::print(&format!("{} is the flash of this volume already\n", config.flash.display()))
}

/// An empty cache of this size, on the next flash if one is named.
fn begin_on_flash(
    mut edited: Edited,
    args: &VolumeArgs,
    config: VolumeConfig,
    size: FlashSize,
    loss: &LossArgs,
) -> Result<(), Failure> {
    let (bytes, accept_loss) = (size.bytes(), loss.accept_loss);
    let request = ControlRequest::SetFlash { config: Box::new(config.clone()), bytes, accept_loss };
    let changed = match asked(args, &config, request) {
        Ok(Some(status)) => Ok(VolumeConfig {
            flash: config.flash_next.clone().unwrap_or_else(|| config.flash.clone()),
            flash_next: None,
            slots: status.slots as u32,
            ..config
        }),
        Ok(None) => resize_volume(&config, bytes, Loss::accepted(accept_loss))
            .map(|(report, after)| {
                report.notices.iter().for_each(|notice| output::notice(notice));
                after
            })
            .map_err(opening),
        Err(failure) => Err(failure),
    };
    let after = match changed {
        Ok(after) => after,
        Err(failure) => {
            // Refused, or cancelled: the flash in use is the one of before, as the label says.
            let found = read(&args.config)?;
            edited.write(&VolumeConfig { flash_next: None, ..found })?;
            return Err(failure);
        }
    };
    edited.write(&after)?;
    let bytes = u64::from(after.slots) * u64::from(after.page_bytes);
    output::print(&format!(
        "the cache on {} is empty, and has room for {} pages, {bytes} bytes\n",
        after.flash.display(),
        after.slots
    ))
}
