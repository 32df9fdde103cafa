//! A journal's file that is in memory (tmpfs), as a device: its bytes are mapped, so a record costs a copy,
//! and no system call. They are the kernel's, and stay when the program is killed, as those of a `pwrite` do.
//!
//! Only a file whose room was reserved is mapped: for a page that the file system could not give, the kernel
//! would end the program.

use entresol_device::{Counters, Device, DeviceError, FileDevice, Geometry, Io, check_batch};
use entresol_shm::Bytes;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The kernel's number of the file system (`linux/magic.h`).
const TMPFS: i64 = 0x0102_1994;

/// See the module's header.
pub(super) struct InMemory {
    /// It has the lock, and says how large it is.
    file: FileDevice,
    bytes: Bytes,
}

impl InMemory {
    /// The file at `path`, mapped if that can be done.
    pub fn or_file(file: FileDevice, path: &Path) -> Arc<dyn Device> {
        match map(path, file.geometry().capacity_bytes) {
            Some(bytes) => Arc::new(Self { file, bytes }),
            None => Arc::new(file),
        }
    }
}

/// `None`: the file is not in memory, lacks some of its room, or cannot be mapped.
fn map(path: &Path, length: u64) -> Option<Bytes> {
    let file = File::options().read(true).write(true).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_reserved = metadata.len() == length && metadata.blocks() * 512 >= length;
    let is_in_memory = rustix::fs::fstatfs(&file).ok()?.f_type as i64 == TMPFS;
    if is_reserved && is_in_memory { Bytes::of_file(&file, usize::try_from(length).ok()?).ok() } else { None }
}

impl Device for InMemory {
    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check_batch("journal", self.geometry(), batch)?;
        for io in batch {
            match io {
                Io::Read { offset, buffer } => self.bytes.copy_out(*offset as usize, buffer),
                Io::Write { offset, data } => self.bytes.copy_in(*offset as usize, data),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.file.sync()
    }

    /// Nothing: the file keeps its room.
    fn discard(&self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
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

    const BYTES: u64 = 64 << 10;

    fn make(path: &Path) -> Arc<dyn Device> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(BYTES) };
        InMemory::or_file(FileDevice::open(path, options).expect("the file is made"), path)
    }

    #[test]
    fn what_is_written_is_in_the_file_and_a_bad_request_is_refused() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let path = folder.path().join("a.journal");
        let device = make(&path);
        assert!(map(&path, BYTES).is_some(), "it is mapped");
        let data: Vec<u8> = (0..1024).map(|at| at as u8).collect();
        device.write(4096, &data).expect("written");
        assert_eq!(std::fs::read(&path).expect("read")[4096..5120], data, "another program sees it");
        let mut back = vec![0; 1024];
        device.read(4096, &mut back).expect("read");
        assert_eq!(back, data);
        for (offset, length) in [(BYTES, 512), (BYTES - 512, 1024), (100, 512), (0, 100), (u64::MAX, 512)] {
            device.write(offset, &vec![0; length]).expect_err("out of range, or no sectors");
        }
    }

    #[test]
    fn a_file_without_its_room_is_not_mapped() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let path = folder.path().join("a.journal");
        File::create(&path).and_then(|file| file.set_len(BYTES)).expect("a sparse file");
        assert!(map(&path, BYTES).is_none());
    }
}
