//! Opening a file or block device for direct I/O; shared by the file and the io_uring device.
//!
//! Invariant: an open device is locked against other processes, its space is allocated if the file system
//! supports it, and every part of its range can be written. One that is opened to be read only is not locked.

use super::ADJACENT_MAX;
use super::options::FileOptions;
use crate::bounce;
use crate::busy::{Busy, BusyClock};
use crate::check::{self, SharedCounters};
use crate::traits::ZEROS_BYTES;
use crate::{AlignedBuffer, Counters, DeviceError, Geometry, Io};
use arrayvec::ArrayVec;
use entresol_runtime::{now, sleep};
use rustix::fs::{
    Advice, FallocateFlags, FileType, FlockOperation, OFlags, fadvise, fallocate, fdatasync, flock, fstat,
    fstatvfs, ftruncate, major, minor,
};
use rustix::io::{Errno, pwritev};
use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time to wait for the lock of a file. A killed process keeps its files until its last request is done.
/// A child of a process that closes a file keeps the file from its fork to its exec.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// The common part of both devices over a file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub name: String,
    pub file: File,
    capacity_bytes: AtomicU64,
    /// See [`Geometry`].
    sector_bytes: u32,
    physical_bytes: u32,
    /// Direct I/O: memory must be aligned.
    pub is_direct: bool,
    pub notice: Option<String>,
    pub counters: SharedCounters,
    pub busy: BusyClock,
    /// Set by the first failed sync: earlier writes may be lost, and a later sync would not report that.
    dead: OnceLock<String>,
    /// It is never set.
    outlives_syncs: bool,
}

impl OpenFile {
    /// `name`: what errors call it.
    pub fn open(path: &Path, name: &Path, options: FileOptions) -> Result<Self, DeviceError> {
        let name = name.display().to_string();
        let failed = |reason: String| DeviceError::Io {
            device: name.clone(),
            operation: "open",
            offset: 0,
            length: options.capacity_bytes.unwrap_or(0),
            reason,
        };
        let (file, is_direct) = open_file(path, options).map_err(|error| {
            failed(match Errno::from_io_error(&error) {
                Some(Errno::BUSY) => {
                    "it is in use: mounted, or part of an array or a volume group".to_owned()
                }
                _ => error.to_string(),
            })
        })?;
        let locked = if options.is_shared { Ok(()) } else { lock(&file) };
        locked.map_err(|error| {
            failed(match error {
                Errno::WOULDBLOCK => "another process (or this one) has it open; close it first".to_owned(),
                error => error.to_string(),
            })
        })?;
        let size = size_of_file(&file).map_err(|error| failed(error.to_string()))?;
        let capacity_bytes = options.capacity_bytes.unwrap_or(size);
        if capacity_bytes > size {
            grow(&file, (size, capacity_bytes)).map_err(failed)?;
        }
        let sector_bytes = if is_direct { direct_sector_bytes(&file) } else { 512 };
        if capacity_bytes == 0 || !capacity_bytes.is_multiple_of(sector_bytes.into()) {
            return Err(failed(format!(
                "its capacity must be a multiple of the sector size of {sector_bytes} bytes and not 0, but is \
                 {capacity_bytes}"
            )));
        }
        let notice = (options.is_direct_wanted && !is_direct).then(|| {
            format!("{name}: the file system refuses direct I/O; reads and writes go through the page cache")
        });
        let physical_bytes = physical_bytes(&file).unwrap_or(0).max(sector_bytes);
        Ok(Self {
            name,
            file,
            capacity_bytes: AtomicU64::new(capacity_bytes),
            sector_bytes,
            physical_bytes,
            is_direct,
            notice,
            counters: SharedCounters::default(),
            busy: BusyClock::default(),
            dead: OnceLock::new(),
            outlives_syncs: options.outlives_syncs,
        })
    }

    pub fn error(
        &self,
        operation: &'static str,
        offset: u64,
        length: u64,
        error: impl Into<std::io::Error>,
    ) -> DeviceError {
        DeviceError::of_system(&self.name, operation, (offset, length), &error.into())
    }

    pub fn geometry(&self) -> Geometry {
        Geometry {
            capacity_bytes: self.capacity_bytes.load(Relaxed),
            sector_bytes: self.sector_bytes,
            physical_bytes: self.physical_bytes,
        }
    }

    /// See [`crate::Device::resize`].
    pub fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        let failed = |error: std::io::Error| self.error("change of the size", 0, bytes.unwrap_or(0), error);
        let sector = u64::from(self.sector_bytes);
        let size = size_of_file(&self.file).map_err(failed)?;
        if let Some(bytes) = bytes.map(|bytes| bytes / sector * sector).filter(|bytes| *bytes != size)
            && self.file.metadata().map_err(failed)?.is_file()
        {
            match bytes > size {
                true => grow(&self.file, (size, bytes)).map_err(|why| failed(std::io::Error::other(why)))?,
                false => ftruncate(&self.file, bytes).map_err(|error| failed(error.into()))?,
            }
        }
        let size = size_of_file(&self.file).map_err(failed)? / sector * sector;
        self.capacity_bytes.store(size, Relaxed);
        Ok(size)
    }

    /// Refuses all requests once a sync has failed.
    pub fn check_alive(&self) -> Result<(), DeviceError> {
        match self.dead.get() {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Dead { device: self.name.clone(), reason: reason.clone() }),
        }
    }

    /// Checks and counts `batch`; the device is busy until the guard is dropped.
    pub fn begin(&self, batch: &[Io<'_>]) -> Result<Busy<'_>, DeviceError> {
        self.check_alive()?;
        check::batch(&self.name, self.geometry(), batch)?;
        let busy = self.busy.start();
        self.counters.count(batch);
        Ok(busy)
    }

    pub fn needs_bounce(&self, buffer: &[u8]) -> bool {
        self.is_direct && !bounce::is_aligned(buffer)
    }

    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let length = buffer.len();
        let result = if self.needs_bounce(buffer) {
            bounce::with(length, |aligned| {
                self.file.read_exact_at(aligned, offset)?;
                buffer.copy_from_slice(aligned);
                Ok(())
            })
        } else {
            self.file.read_exact_at(buffer, offset)
        };
        result.map_err(|error: std::io::Error| self.error("read", offset, length as u64, error))
    }

    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let result = if self.needs_bounce(data) {
            bounce::with(data.len(), |aligned| {
                aligned.copy_from_slice(data);
                self.file.write_all_at(aligned, offset)
            })
        } else {
            self.file.write_all_at(data, offset)
        };
        result.map_err(|error| self.error("write", offset, data.len() as u64, error))
    }

    /// Carries out adjacent writes, in one system call where that is possible.
    pub fn write_all_at(&self, writes: &[Io<'_>]) -> Result<(), DeviceError> {
        let writes = writes.iter().filter_map(|io| match io {
            Io::Write { offset, data } => Some((*offset, *data)),
            Io::Read { .. } => None,
        });
        let slices: ArrayVec<IoSlice<'_>, ADJACENT_MAX> =
            writes.clone().map(|(_, data)| IoSlice::new(data)).collect();
        let mut done = match writes.clone().next() {
            Some((first, _)) if slices.len() > 1 && !slices.iter().any(|data| self.needs_bounce(data)) => {
                // Writes that are short, or fail, are repeated one by one, so that an error names its write.
                pwritev(&self.file, &slices, first).unwrap_or(0)
            }
            _ => 0,
        };
        for (offset, data) in writes {
            if done < data.len() {
                self.write_at(offset + done as u64, &data[done..])?;
            }
            done = done.saturating_sub(data.len());
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<(), DeviceError> {
        self.check_alive()?;
        let _busy = self.busy.start();
        self.counters.count_sync();
        fdatasync(&self.file).map_err(|error| {
            let error = self.error("sync", 0, self.geometry().capacity_bytes, error);
            if !self.outlives_syncs {
                let _already_dead = self.dead.set(error.to_string());
            }
            error
        })
    }

    /// Drops the page cache's copy of the file. Direct I/O has none.
    pub fn drop_cached(&self) -> Result<(), DeviceError> {
        if self.is_direct {
            return Ok(());
        }
        fadvise(&self.file, 0, None, Advice::DontNeed)
            .map_err(|error| self.error("drop of the cached copy", 0, self.geometry().capacity_bytes, error))
    }

    pub fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_alive()?;
        check::range(&self.name, self.geometry(), "discard", offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error("discard", offset, length, error)),
        }
    }

    /// See [`crate::Device::zero`]. Where neither a file system nor a driver does it, zeros are written.
    pub fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        self.check_alive()?;
        check::range(&self.name, self.geometry(), "write of zeros", offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let _busy = self.busy.start();
        let punch = may_punch.then_some(FallocateFlags::PUNCH_HOLE);
        for flags in punch.into_iter().chain([FallocateFlags::ZERO_RANGE]) {
            match fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, length) {
                Ok(()) => {
                    self.counters.count_zeros();
                    return Ok(());
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(error) => return Err(self.error("write of zeros", offset, length, error)),
            }
        }
        self.write_zeros(offset..offset + length, |_| ())?;
        self.counters.count_zeros();
        Ok(())
    }

    /// Writes zeros to a range. `written` is told bytes, some at a time.
    pub(super) fn write_zeros(
        &self,
        range: Range<u64>,
        mut written: impl FnMut(u64),
    ) -> Result<(), DeviceError> {
        let zeros = AlignedBuffer::new(ZEROS_BYTES.min(range.end - range.start) as usize);
        for from in range.clone().step_by(ZEROS_BYTES as usize) {
            let some = (range.end - from).min(ZEROS_BYTES);
            self.write_at(from, &zeros[..some as usize])?;
            written(some);
        }
        Ok(())
    }

    pub fn counters(&self) -> Counters {
        Counters { busy: self.busy.total(), ..self.counters.snapshot() }
    }
}

/// Locks the file against other processes.
fn lock(file: &File) -> Result<(), Errno> {
    let began = now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if now().since(began) < LOCK_PATIENCE => sleep(LOCK_RETRY),
            result => return result,
        }
    }
}

/// The file, and whether it is open for direct I/O. A new file is accessible by its owner only, and its name
/// is durable. A block device is opened exclusively: a mounted one is refused.
fn open_file(path: &Path, options: FileOptions) -> std::io::Result<(File, bool)> {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    let exclusive = match &kind {
        Ok(kind) if kind.is_block_device() && !options.is_shared => OFlags::EXCL,
        _ => OFlags::empty(),
    };
    let mut open = OpenOptions::new();
    // A block device is there. With O_EXCL, O_CREAT would refuse it for that.
    let create = options.create && exclusive.is_empty();
    open.read(true).write(!options.is_shared).create(create).mode(0o600);
    let with = |flags: OFlags| open.clone().custom_flags((exclusive | flags).bits() as i32).open(path);
    let direct = match options.is_direct_wanted {
        true => Some(with(OFlags::DIRECT)),
        false => None,
    };
    let opened = match direct {
        Some(Ok(file)) => (file, true),
        Some(Err(error)) if Errno::from_io_error(&error) != Some(Errno::INVAL) => return Err(error),
        _ => (with(OFlags::empty())?, false),
    };
    if kind.is_err() {
        sync_folder(path)?;
    }
    Ok(opened)
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// The unit that the medium of the file writes at once, if the system reports it. Units larger than 4 KiB are
/// stripes of arrays, in which a torn write endangers only its own sectors.
fn physical_bytes(file: &File) -> Option<u32> {
    let stat = fstat(file).ok()?;
    let is_block_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let device = if is_block_device { stat.st_rdev } else { stat.st_dev };
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition uses the queue of its device.
    let queues = ["queue", "../queue"].map(|queue| format!("{place}/{queue}/physical_block_size"));
    let told = queues.iter().find_map(|queue| std::fs::read_to_string(queue).ok())?;
    told.trim().parse().ok().filter(|bytes: &u32| bytes.is_power_of_two()).map(|bytes| bytes.min(4096))
}

/// Size of a regular file or block device in bytes.
fn size_of_file(mut file: &File) -> std::io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::End(0))
}

/// Gives a regular file of the first size the second one, in bytes. An error is why it cannot be.
fn grow(file: &File, (size, wanted): (u64, u64)) -> Result<(), String> {
    if file.metadata().map_err(|error| error.to_string())?.file_type().is_block_device() {
        return Err(format!("the block device has only {size} bytes"));
    }
    let free = fstatvfs(file).map_err(|error| error.to_string())?;
    // Checked first: a reservation that fails halfway would have filled the file system.
    if wanted - size > free.f_bavail * free.f_frsize {
        return Err(format!(
            "no space: the file must grow by {} bytes, but only {} are free on its file system",
            wanted - size,
            free.f_bavail * free.f_frsize
        ));
    }
    allocate(file, wanted).map_err(|error| error.to_string())
}

/// Grows a regular file and reserves its space, so that a full file system is noticed now and not by a later
/// write.
fn allocate(file: &File, capacity_bytes: u64) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::empty(), 0, capacity_bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(file, capacity_bytes),
        result => result,
    }
}

/// The smallest unit of direct reads: 512 bytes, or 4096 on drives with such sectors.
fn direct_sector_bytes(file: &File) -> u32 {
    let accepts_512 = bounce::with(512, |buffer| file.read_at(buffer, 0)).is_ok();
    if accepts_512 { 512 } else { 4096 }
}
