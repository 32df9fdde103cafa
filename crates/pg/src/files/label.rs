//! The file with the label, which is synced only after a write. Every sync of relation files asks for a sync
//! of it, and of a file that has nothing to be written that is a flush of its disk, too.

use entresol_device::{Counters, Device, DeviceError, FileDevice, Geometry, Io};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// See the module's header.
pub(super) struct LabelFile {
    file: FileDevice,
    /// Batches with writes that have ended, and one for what was written before the file was opened.
    written: AtomicU64,
    /// Of these, how many a sync has made durable.
    synced: AtomicU64,
}

impl LabelFile {
    pub(super) fn new(file: FileDevice) -> Self {
        Self { file, written: AtomicU64::new(1), synced: AtomicU64::new(0) }
    }
}

impl Device for LabelFile {
    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let writes = batch.iter().any(|request| matches!(request, Io::Write { .. }));
        let result = self.file.run(batch);
        if writes {
            self.written.fetch_add(1, SeqCst);
        }
        result
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let written = self.written.load(SeqCst);
        // A sync that is under way has not counted yet: its writes are synced by this one, too.
        if self.synced.load(SeqCst) >= written {
            return Ok(());
        }
        self.file.sync()?;
        self.synced.fetch_max(written, SeqCst);
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let result = self.file.discard(offset, length);
        self.written.fetch_add(1, SeqCst);
        result
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.file.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.file.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_device::FileOptions;

    #[test]
    fn a_file_is_synced_once_after_each_write() {
        let folder = tempfile::tempdir().unwrap();
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(8192) };
        let label = LabelFile::new(FileDevice::open(folder.path().join("label"), options).unwrap());
        let syncs = |label: &LabelFile| {
            label.sync().unwrap();
            label.sync().unwrap();
            label.counters().syncs
        };
        let before = label.counters().syncs;
        assert_eq!(syncs(&label), before + 1, "what was written before the open");
        label.write(0, &[1; 4096]).unwrap();
        assert_eq!(syncs(&label), before + 2);
        let mut read = [0; 4096];
        label.read(0, &mut read).unwrap();
        assert_eq!(syncs(&label), before + 2, "a read is no write");
    }
}
