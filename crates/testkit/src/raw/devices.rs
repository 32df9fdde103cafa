//! The devices of a cache: requests take a random time, and disks are used in place.

use super::{failed, simulation};
use crate::machine::Media;
use crate::watched::{Pace, Watched};
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use entresol_engine::{InPlaceDisk, TierError, disk_binding};
use entresol_format::fingerprint::{
    COPIES, COPY_STRIDE, Fingerprint, LABEL_FILE_BYTES, SECTOR_BYTES, sectors,
};
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::sim::Outcome;
use std::sync::Arc;
use std::time::Duration;

/// A write that is held takes up to so many times as long as others.
pub(super) const HELD_FACTOR: u32 = 200;

/// `device` with requests that take a random time.
pub(super) fn at_pace(device: &Arc<FaultyDevice>, latency_max: Duration) -> Watched {
    let pace = Arc::new(Pace::default());
    pace.set(latency_max);
    Watched { inner: device.clone(), pace, factor: 1, held_max: Duration::ZERO, observer: None }
}

/// A device on `medium` with requests that take a random time.
pub(super) fn paced(
    name: &str,
    medium: MemoryDevice,
    plan: &Arc<FaultPlan>,
    latency_max: Duration,
) -> Arc<Watched> {
    Arc::new(at_pace(&Arc::new(FaultyDevice::new(name, medium, plan.clone())), latency_max))
}

/// As [`paced`], with some writes that are held far longer than others take.
pub(super) fn holding(
    name: &str,
    medium: MemoryDevice,
    plan: &Arc<FaultPlan>,
    latency_max: Duration,
) -> Arc<Watched> {
    let device = at_pace(&Arc::new(FaultyDevice::new(name, medium, plan.clone())), latency_max);
    Arc::new(Watched { held_max: latency_max * HELD_FACTOR, ..device })
}

/// Blanks a label file durably, before anything new is in it: in part it may read as a label again.
pub(super) fn blank(file: &dyn Device) -> Result<(), String> {
    let zeros = vec![0; LABEL_FILE_BYTES as usize];
    file.write(0, &zeros).and_then(|()| file.sync()).map_err(|error| error.to_string())
}

/// The disk with its label in `file`; a label that was never finished is made again.
pub(super) fn open_in_place(
    disk: Arc<Watched>,
    file: Arc<Watched>,
    page_bytes: u32,
) -> Result<Arc<dyn Device>, String> {
    let opened = match InPlaceDisk::open(disk.clone(), file.clone()) {
        Ok((_, Some(notice))) => return Err(notice),
        Ok((opened, None)) => opened,
        // Nothing was ever written through it.
        Err(_) if !matches!(disk_binding(&*file), Ok(Some(_))) => {
            blank(&*file)?;
            InPlaceDisk::create(disk, file, page_bytes).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    Ok(opened)
}

/// Whether the newest fingerprint in `file` knows what the sector at `offset` may hold. Of one that could not
/// be read when it was looked at, it does not, until a later write of it is durable.
fn knows(file: &dyn Device, offset: u64) -> bool {
    let copy = |number| {
        let mut bytes = vec![0; COPY_STRIDE as usize];
        file.read(LABEL_AREA_BYTES + number * COPY_STRIDE, &mut bytes).ok()?;
        Fingerprint::decode(&bytes).ok()
    };
    let newest = (0..COPIES).filter_map(copy).max_by_key(|print| print.sequence);
    newest.is_none_or(|print| {
        let sectors = sectors(print.capacity, print.seed);
        let place = sectors.iter().position(|sector| *sector == offset / SECTOR_BYTES);
        place.is_none_or(|place| !print.sums[place].is_unknown())
    })
}

/// Another program has written a byte at `offset` of the disk: that is noticed. Nothing is changed.
pub(super) fn written_by_others(media: &Media, offset: u64) -> Result<(), String> {
    let (disk, file) = (Arc::new(media.disk.fork("disk")), Arc::new(media.log.fork("label file")));
    let noticed = simulation(1).run(|| {
        if !matches!(disk_binding(&*file), Ok(Some(_))) || !knows(&*file, offset) {
            return Ok(true);
        }
        let mut sector = [0; 512];
        let sector_at = offset / 512 * 512;
        if disk.read(sector_at, &mut sector).is_err() {
            return Ok(true);
        }
        sector[(offset % 512) as usize] ^= 1;
        disk.write(sector_at, &sector).map_err(|error| TierError::Refused(error.to_string()))?;
        Ok::<_, TierError>(match InPlaceDisk::open(disk, file) {
            Ok((_, notice)) => notice.is_some(),
            Err(error) => error.to_string().contains("written by another program"),
        })
    });
    match noticed {
        Outcome::Finished(Ok(true)) => Ok(()),
        other => Err(format!("a byte at {offset} that another program wrote is not noticed: {other:?}")),
    }
}
