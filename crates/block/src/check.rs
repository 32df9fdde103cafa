//! Checking a volume without a server: as `entresol_engine::check`, with the label in a file.

use crate::journal;
use crate::open::{look, named_by, open};
use crate::volume::journal_is_gone;
use crate::words;
use crate::{CacheOptions, OpenError, VolumeConfig};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_engine::{CheckReport, FlashTier, TierError, disk_binding, is_cache_of_volume, is_flash_needed};
use entresol_format::label::LABEL_AREA_BYTES;
use std::sync::Arc;

/// A disk after its label, as a labelled disk is. To be read only.
struct Labelled {
    label: Arc<dyn Device>,
    disk: Arc<dyn Device>,
}

impl Device for Labelled {
    fn geometry(&self) -> Geometry {
        let disk = self.disk.geometry();
        Geometry { capacity_bytes: disk.capacity_bytes + LABEL_AREA_BYTES, ..disk }
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        for io in batch {
            match io {
                Io::Read { offset, buffer } if *offset < LABEL_AREA_BYTES => {
                    self.label.read(*offset, buffer)?
                }
                Io::Read { offset, buffer } => self.disk.read(*offset - LABEL_AREA_BYTES, buffer)?,
                Io::Write { offset, data } => {
                    return Err(DeviceError::Io {
                        device: "disk".to_owned(),
                        operation: "write",
                        offset: *offset,
                        length: data.len() as u64,
                        reason: "a check writes nothing".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn counters(&self) -> Counters {
        self.disk.counters()
    }
}

/// Verifies every invariant of a volume without a server, and changes nothing.
///
/// # Errors
/// [`OpenError`] if a part cannot be read, or a server has it open. Everything else is in the report.
pub fn check_volume(config: &VolumeConfig) -> Result<CheckReport, OpenError> {
    let label = open("label", &config.label, false)?;
    let disk = open("disk", &config.disk, config.direct_io)?;
    let mut notices = Vec::new();
    match journal::waiting(config, named_by(&*label)?) {
        Some(0) => {}
        Some(writes) => notices.push(format!(
            "the journal has {writes} writes that a killed server had acknowledged; the next start carries them out"
        )),
        None => notices.push(journal_is_gone(None)),
    }
    let needs_none = || -> Result<Option<&str>, OpenError> {
        if is_flash_needed(&*label)? {
            return Ok(None);
        }
        if !config.cache {
            return Ok(Some(
                "the volume is served without its cache (cache = false), and the disk has everything",
            ));
        }
        if matches!(config.cache_options()?, CacheOptions::Fragments(_)) {
            return Ok(Some(
                "the directory of this cache is in the server's memory: nothing on flash outlives it",
            ));
        }
        let flash = look("flash", &config.flash)?;
        let bound = FlashTier::bound_options(&*flash, &*label)?;
        Ok(bound
            .is_none()
            .then_some("the disk has everything, and is bound to no cache on this flash device"))
    };
    let mut report = match needs_none()? {
        Some(why) => {
            notices.push(why.to_owned());
            CheckReport::default()
        }
        None => {
            let flash = open("flash", &config.flash, config.direct_io)?;
            entresol_engine::check(&*flash, Some(Arc::new(Labelled { label, disk })))?
        }
    };
    for sentence in report.notices.iter_mut().chain(&mut report.faults) {
        *sentence = words::of_volumes(sentence);
    }
    report.notices.extend(notices);
    Ok(report)
}

/// Whether `flash` has the cache of a volume, and `disk` is not the labelled disk of it: the disk of a volume
/// has its label in a file.
///
/// # Errors
/// If a device cannot be read.
pub fn is_of_a_volume(flash: &dyn Device, disk: &dyn Device) -> Result<bool, TierError> {
    Ok(is_cache_of_volume(flash)? && disk_binding(disk)?.is_none())
}
