//! A disk whose owner has a log.

use super::PAGE;
use entresol_core::PageId;
use entresol_device::{Device, DeviceError};
use entresol_engine::{Home, LogPosition, Names, OwnersLog, WholeDisk};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A log that is durable up to a place. Logs of other branches have other digests.
#[derive(Default)]
pub struct Log {
    pub end: AtomicU64,
    pub branch: u64,
}

impl Log {
    pub fn at(end: u64) -> Self {
        Self { end: AtomicU64::new(end), branch: 0 }
    }

    fn digest(&self, place: u64) -> u64 {
        place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.branch
    }
}

impl OwnersLog for Log {
    fn position(&self) -> LogPosition {
        let lsn = self.end.load(SeqCst);
        LogPosition { timeline: 1, lsn, digest: self.digest(lsn) }
    }

    fn digests_at(&self, marks: [u64; 2]) -> [u64; 2] {
        marks.map(|mark| self.digest(mark))
    }

    fn prove(&self, newest: LogPosition, _: [(u64, u64); 2]) -> Result<(), String> {
        match newest.lsn <= self.end.load(SeqCst) && newest.digest == self.digest(newest.lsn) {
            true => Ok(()),
            false => Err(format!("the log does not have {}", newest.lsn)),
        }
    }
}

/// A disk of pages whose owner has a log. Objects are of 16 pages, by the first byte of their names.
pub struct Logged {
    disk: Arc<WholeDisk>,
    /// The label's own device, if it is not on the disk.
    label: Option<Arc<dyn Device>>,
    log: Arc<Log>,
}

impl Logged {
    fn page(page: PageId, names: &dyn Names) -> Option<PageId> {
        match page.object() {
            0 => Some(page),
            object => {
                let name = names.locator(entresol_objects::ObjectId(object))?;
                Some(PageId(u64::from(name[0]) * 16 + u64::from(page.number())))
            }
        }
    }
}

impl Home for Logged {
    fn label(&self) -> &dyn Device {
        self.label.as_deref().unwrap_or(self.disk.label())
    }
    fn capacity_pages(&self) -> u64 {
        self.disk.capacity_pages()
    }
    fn has_room(&self, _: PageId, _: &dyn Names) -> bool {
        true
    }
    fn place(&self, page: PageId, names: &dyn Names) -> String {
        self.disk.place(page, names)
    }
    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        Self::page(first, names).map_or(Ok(()), |page| self.disk.read(page, buffer, names))
    }
    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        let found = pages.iter().filter_map(|(page, data)| Some((Self::page(*page, names)?, *data)));
        self.disk.write(&found.collect::<Vec<_>>(), names)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.disk.sync()?;
        self.label.as_ref().map_or(Ok(()), |label| label.sync())
    }
    fn log(&self) -> Option<&dyn OwnersLog> {
        Some(&*self.log)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.disk.drop_cached()
    }
}

pub fn home(disk: Arc<dyn Device>, log: &Arc<Log>) -> Arc<Logged> {
    Arc::new(Logged { disk: WholeDisk::new(disk, PAGE as u32), label: None, log: log.clone() })
}

/// As [`home`], with the label on a device of its own: its syncs are not those of the pages.
pub fn home_with_label(disk: Arc<dyn Device>, label: Arc<dyn Device>, log: &Arc<Log>) -> Arc<Logged> {
    Arc::new(Logged { disk: WholeDisk::new(disk, PAGE as u32), label: Some(label), log: log.clone() })
}
