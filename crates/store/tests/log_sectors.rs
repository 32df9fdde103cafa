//! The sector size of a log is that of its creation, whatever device it lies on later.

mod support;

use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_store::StoreError;
use std::sync::Arc;
use support::shaped::Shaped;
use support::{ledger, simulate};

const DISK_BYTES: u64 = 8 << 20;
const LOG_BYTES: u64 = (1 << 20) + 8192;

/// A disk and a log without their devices' shapes.
struct Media(MemoryDevice, MemoryDevice);

/// Bytes of a sector, and of what the medium writes.
type Shape = (u32, u32);

fn faulty(memory: &MemoryDevice) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new("device", memory.fork("device"), Arc::new(FaultPlan::none())))
}

impl Media {
    fn blank() -> Media {
        Media(MemoryDevice::new("disk", DISK_BYTES), MemoryDevice::new("log", LOG_BYTES))
    }

    /// Opens (or creates) the ledger on a log device of that shape, expects `rows`, commits up to `more`, and
    /// crashes.
    fn live(&self, shape: Shape, new: bool, rows: u32, more: u32) -> Result<Media, StoreError> {
        let (disk, log) = (faulty(&self.0), faulty(&self.1));
        let shaped: Arc<dyn Device> = Shaped::new(log.clone(), shape.0, shape.1);
        simulate(1, || {
            let open = if new { ledger::create } else { ledger::open };
            let store = open(disk.clone(), shaped)?;
            assert_eq!(ledger::count(&store)?, rows, "on sectors of {shape:?}");
            ledger::commit(&store, more)?;
            assert_eq!(ledger::count(&store)?, more);
            store.verify()?;
            Ok::<_, StoreError>(())
        })
        .unwrap()?;
        Ok(Media(disk.after_crash(&Survival::None), log.after_crash(&Survival::None)))
    }
}

#[test]
fn a_log_of_large_sectors_opens_on_a_device_with_smaller_ones() {
    for created in [(4096, 4096), (512, 4096), (1024, 2048)] {
        let mut media = Media::blank().live(created, true, 0, 7).unwrap();
        let mut rows = 7;
        for shape in [(512, 512), created, (512, 512), (512, 512), (1024, 2048), created] {
            media = media.live(shape, false, rows, rows + 5).unwrap();
            rows += 5;
        }
    }
}

#[test]
fn a_device_with_larger_sectors_than_the_log_is_refused() {
    let media = Media::blank().live((512, 512), true, 0, 7).unwrap();
    for shape in [(4096, 4096), (512, 4096), (1024, 1024)] {
        let Err(StoreError::Config(why)) = media.live(shape, false, 7, 7) else {
            panic!("not refused on {shape:?}");
        };
        for part in ["sectors of 512 bytes", &format!("units of {}", shape.1), "copy the log"] {
            assert!(why.contains(part), "{why}");
        }
    }
    media.live((512, 512), false, 7, 9).unwrap();
}
