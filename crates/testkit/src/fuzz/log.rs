//! Fuzz target of the write-ahead log: an image of its device, of at most a few MiB, with master records,
//! checkpoint and records.

use super::images::Images;
use super::reseal::seal_log;
use entresol_device::{Device, MemoryDevice};

/// Bytes of the log device: the smallest that a store accepts.
pub(super) const LOG_BYTES: usize = (1 << 20) + 8192;

pub(super) fn device(name: &str, image: &[u8]) -> MemoryDevice {
    let device = MemoryDevice::new(name, image.len() as u64);
    for (at, bytes) in image.chunks(4096).enumerate().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0))
    {
        device
            .write(at as u64 * 4096, bytes)
            .expect("the chunk lies on the device, and memory does not fail");
    }
    device
}

/// An input of [`Images`]. Only its log is used.
pub(super) fn wal(input: &[u8]) {
    let images = Images::decode(input);
    let [_, mut log, _] = images.lay_out([0, LOG_BYTES, 0]);
    if images.choice & 1 != 0 {
        seal_log(&mut log);
    }
    if let Ok(report) = entresol_store::examine_log(&device("log", &log)) {
        assert!(report.end >= report.redo_point && report.records > 0, "{report:?}");
    }
}
