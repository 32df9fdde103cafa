//! Describes a flash device: its superblocks, its layout and how full it is.

use super::{newest, superblocks};
use crate::{OpenReport, TierError, TierOptions, recover};
use entresol_core::{Directory, Occupancy, Placement, Position};
use entresol_device::Device;
use entresol_format::superblock::Superblock;
use entresol_runtime::say::thousands;
use std::fmt;

/// The directory that an open would recover now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryReport {
    /// All positions below this one are released; of slots, 0.
    pub front: Position,
    /// The next position; of slots, the number of the next batch.
    pub rear: Position,
    /// The occupancy.
    pub occupancy: Occupancy,
    /// The report of the recovery.
    pub open: OpenReport,
    /// How much of the owner's log replaces the flash, if that is lost; `None`: none does.
    pub horizon: Option<HorizonReport>,
}

/// How much of its owner's log a cache needs in place of its flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HorizonReport {
    /// The owner's last complete checkpoint that the cache knows.
    pub checkpoint: u64,
    /// The log is needed from the redo point of this one on.
    pub horizon: u64,
    /// Pages that need the log from before the redo point of `checkpoint`.
    pub behind: u32,
}

/// The content of a flash device. Displayed as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectReport {
    /// The copies of the superblock, in the order of their places: the sequence, or why it cannot be used.
    pub copies: Vec<Result<u64, String>>,
    /// The newest superblock.
    pub superblock: Superblock,
    /// Bytes that the cache takes.
    pub device_bytes: u64,
    /// Its directory; `None` with slots that do not survive.
    pub directory: Option<DirectoryReport>,
}

/// Examines `flash`.
///
/// # Errors
/// [`TierError::Refused`] if there is no cache, if it is truncated, or if its directory cannot be recovered.
pub fn inspect(flash: &dyn Device) -> Result<InspectReport, TierError> {
    let copies = superblocks(flash)?;
    let superblock = newest(&copies)?;
    let options = TierOptions::of(&superblock);
    let device_bytes = crate::flash_bytes(&options);
    let capacity = flash.geometry().capacity_bytes;
    if capacity < device_bytes {
        return Err(TierError::Refused(format!(
            "the flash device has {capacity} bytes, its cache takes {device_bytes}: it is truncated"
        )));
    }
    let directory = match superblock.policy.placement() {
        Placement::Slots if !superblock.keeps_slots => None,
        Placement::Slots => {
            let mut open = OpenReport::default();
            let restored = recover::restore_slots(flash, &superblock, &options, &mut open)?;
            restored.map(|mut restored| {
                let occupancy = restored.region.partition().occupancy();
                let next = restored.kept.map_or(0, |kept| kept.next);
                let (front, rear, horizon) = (Position(0), Position(next), None);
                DirectoryReport { front, rear, occupancy, open, horizon }
            })
        }
        Placement::Log => {
            let mut open = OpenReport::default();
            let mut restored = recover::restore(flash, &superblock, &options, &mut open)?;
            let partition = restored.region.partition();
            let occupancy = partition.occupancy();
            let horizon = partition.log().filter(|_| superblock.knows_bases()).map(|log| HorizonReport {
                checkpoint: log.last_checkpoint(),
                horizon: log.horizon(),
                behind: log.behind(log.last_checkpoint()),
            });
            Some(DirectoryReport { front: restored.front, rear: restored.rear, occupancy, open, horizon })
        }
    };
    let copies = copies.into_iter().map(|copy| copy.map(|s| s.sequence).map_err(|fault| fault.to_string()));
    Ok(InspectReport { copies: copies.collect(), superblock, device_bytes, directory })
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = &self.superblock;
        let mut line = |name: &str, value: String| writeln!(f, "{name:<22}{value}");
        line("cache", superblock.cache.to_string())?;
        line("disk", format!("{} at epoch {}", superblock.disk, superblock.epoch))?;
        line("policy", format!("{}, {}", superblock.policy.name(), superblock.mode.name()))?;
        let (slots, page_bytes) = (superblock.slots, superblock.page_bytes);
        let slots = thousands(slots);
        line("slots", format!("{slots} of {page_bytes} bytes, in groups of {}", superblock.group_pages))?;
        line("bytes on the device", thousands(self.device_bytes))?;
        line("shut down", if superblock.clean { "cleanly" } else { "not cleanly, or open now" }.to_owned())?;
        for (at, copy) in self.copies.iter().enumerate() {
            let state = copy.as_ref().map_or_else(Clone::clone, |sequence| format!("sequence {sequence}"));
            line(&format!("superblock copy {at}"), state)?;
        }
        let Some(directory) = &self.directory else {
            return line("directory", "does not survive a restart with this policy".to_owned());
        };
        let (occupancy, open) = (&directory.occupancy, &directory.open);
        match superblock.directory_kind() {
            Directory::Batches => line("batches", thousands(directory.rear.0))?,
            Directory::SegmentsAtShutdown if superblock.directory => {
                line("directory", "of the last shutdown".to_owned())?;
            }
            Directory::SegmentsAtShutdown => line("directory", "of no shutdown: it begins empty".to_owned())?,
            _ => {
                let (front, rear) = (thousands(directory.front.0), thousands(directory.rear.0));
                line("positions", format!("{front} to {rear}"))?;
                line("segments", format!("{} to {}", superblock.segment_first, superblock.segment_next))?;
            }
        }
        line("pages", thousands(occupancy.valid))?;
        line("newer than disk", thousands(occupancy.dirty))?;
        line("superseded versions", thousands(occupancy.superseded))?;
        if superblock.keeps_bases {
            let of = |found: HorizonReport| {
                let HorizonReport { checkpoint, horizon, behind } = found;
                let [checkpoint, horizon, behind] = [checkpoint, horizon, behind.into()].map(thousands);
                format!(
                    "may be lost: the log replaces it from checkpoint {horizon} on, of {checkpoint}; {behind} pages are behind"
                )
            };
            let needed = || "is needed until pages from before were copied to disk".to_owned();
            line("this flash", directory.horizon.map_or_else(needed, of))?;
        }
        let reads = format!(
            "{} bytes: {} segments, {} summaries, {} pages",
            thousands(open.bytes_read),
            thousands(open.segments_read),
            thousands(open.summaries_read),
            thousands(open.pages_verified)
        );
        line("read to find out", reads)?;
        open.notices.iter().try_for_each(|notice| line("notice", notice.clone()))
    }
}
