//! Opens a disk that lacks pages since its flash failed. The flash is only read, if it is there at all: the
//! tier is degraded from the beginning, and copies to disk what it still finds. A flash that cannot be read
//! is tried for [`PATIENCE`]: a device that is reset comes back in that time.

use super::assembly::{Base, assemble};
use super::plan::{ToRead, decide};
use crate::disk::binding::begin_epoch;
use crate::disk::{LabelState, Labels, Missing, read_label, read_missing, write_label};
use crate::region::Region;
use crate::superblock::{empty_superblock, read_newest};
use crate::tier::parts::Parts;
use crate::tier::room::FoundPages;
use crate::{OpenReport, TierError, TierOptions, events, points, recover};
use entresol_core::{Lookup, PageId};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_format::label::Label;
use entresol_format::superblock::Superblock;
use entresol_runtime::{now, sleep};
use std::time::Duration;

/// In the place of a flash device that is not there.
pub(crate) struct NoFlash;

impl NoFlash {
    fn error() -> DeviceError {
        DeviceError::Dead { device: "flash".to_owned(), reason: "the volume is used without it".to_owned() }
    }
}

impl Device for NoFlash {
    fn geometry(&self) -> Geometry {
        Geometry { capacity_bytes: 0, sector_bytes: 512, physical_bytes: 4096 }
    }
    fn run(&self, _: &mut [Io<'_>]) -> Result<(), DeviceError> {
        Err(Self::error())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Err(Self::error())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Err(Self::error())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Err(Self::error())
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// Whether the disk with the label on this device lacks pages since its flash failed. False, too, if there is
/// no label.
///
/// # Errors
/// [`TierError::Device`].
pub fn flash_has_failed(label_device: &dyn Device) -> Result<bool, TierError> {
    let label = read_label(label_device)?;
    Ok(matches!(label, LabelState::Valid(labels) if labels.newest.failed_epoch != 0))
}

/// How long a flash that cannot be read is tried again, and the pause before each try.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// As [`read_now`], and tries again for a while if the flash cannot be read.
fn read(
    flash: &dyn Device,
    label: &Label,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<Option<(Superblock, Region)>, TierError> {
    let begun = now();
    loop {
        let mut tried = OpenReport::default();
        let error = match read_now(flash, label, options, &mut tried) {
            Err(TierError::Device { source, .. }) => source,
            found => {
                *report = tried;
                return found;
            }
        };
        if !error.is_unreadable() || now().since(begun) >= PATIENCE {
            report.notices.push(format!(
                "{error}: pages that only the flash has are lost until the volume is opened again and the flash can be read"
            ));
            return Ok(None);
        }
        sleep(PAUSE);
    }
}

/// The cache that is on the failed flash, if it is the one that the disk needs.
///
/// # Errors
/// [`TierError::Device`]: the flash cannot be read. [`TierError::Config`]: the options do not fit.
fn read_now(
    flash: &dyn Device,
    label: &Label,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<Option<(Superblock, Region)>, TierError> {
    let superblock = match read_newest(flash) {
        Ok((superblock, faults)) => {
            report.notices.extend(faults);
            superblock
        }
        Err(error @ TierError::Device { .. }) => return Err(error),
        Err(error) => {
            report.notices.push(error.to_string());
            None
        }
    };
    let Some(superblock) = superblock else { return Ok(None) };
    let reading = decide(label, &superblock, options)?.reading;
    if reading == ToRead::Nothing {
        report.notices.push(format!(
            "the flash device holds cache {} of epoch {}; that of this disk failed in epoch {}, and this is not it",
            superblock.cache, superblock.epoch, label.failed_epoch
        ));
        return Ok(None);
    }
    let region = match reading {
        ToRead::Slots => recover::restore_slots(flash, &superblock, options, report)
            .map(|restored| restored.map(|slots| slots.region)),
        _ => recover::restore(flash, &superblock, options, report).map(|restored| Some(restored.region)),
    };
    match region {
        Ok(region) => Ok(region.map(|region| (superblock, region))),
        Err(error @ TierError::Device { .. }) => Err(error),
        Err(error) => {
            report.forget_directory();
            report.notices.push(error.to_string());
            Ok(None)
        }
    }
}

/// As the module's header says. `is_there`: whether the flash can be read, as its medium has it.
pub(super) fn open(
    base: Base<'_>,
    labels: Labels,
    is_there: Result<(), TierError>,
    report: &mut OpenReport,
) -> Result<Parts, TierError> {
    points::DEGRADED_OPENED.reach();
    let Base { flash, home, options, .. } = &base;
    let mut label = labels.newest;
    let record = read_missing(home.label(), &label)?;
    let found = match is_there {
        Ok(()) => read(&**flash, &label, options, report)?,
        Err(error) => {
            report.notices.push(error.to_string());
            None
        }
    };
    begin_epoch(&mut label);
    write_label(home.label(), &mut label)?;
    let is_read = found.is_some();
    let (superblock, region) = match found {
        Some((superblock, region)) => (superblock, region),
        None => {
            let superblock = empty_superblock(&label, options, 0);
            (superblock, Region::new(options, superblock.cache)?)
        }
    };
    // Never written.
    let superblock = Superblock { cache: label.cache, epoch: label.epoch, ..superblock };
    let pages = FoundPages::empty(options, &superblock);
    let parts = assemble(base, superblock, region, pages)?;
    let (access, disk) = (&parts.floor.access, &parts.floor.disk);
    let missing = Missing::restored(&record, access.rescuer.clone());
    // Without the flash nobody knows what arrived there: all of it, so that nothing is lost in silence.
    let is_newer = |page: PageId| {
        let found = access.directory.with(|partition| partition.peek(page));
        !is_read || matches!(found, Ok(Lookup::Flash { dirty: true, .. }))
    };
    missing.settle(&disk.label.device(), is_newer)?;
    let notice = format!(
        "the flash has failed in epoch {} of its cache: {} pages that the disk lacks since are read from it while that is \
         possible, and copied to disk; the disk alone serves the others",
        label.failed_epoch,
        missing.count().0
    );
    disk.missing.lacks(missing);
    events::degraded(&notice);
    access.state.degrade(notice.clone());
    report.notices.push(notice);
    Ok(parts)
}
