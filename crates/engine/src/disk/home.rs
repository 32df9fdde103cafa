//! Where a page lives when it is not on flash: its *home*. A disk of pages side by side is one, a database's
//! relation files are another.

use crate::names::Names;
use arrayvec::ArrayVec;
use entresol_core::{GROUP_PAGES_MAX, PageId};
use entresol_device::{Device, DeviceError, Io, WritePlace};
use entresol_format::LogPosition;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_format::layout::disk_offset;
use std::sync::Arc;
use std::time::Duration;

/// The log of the pages' owner. A cache may be ahead of files that were put back to an earlier state; the log
/// tells (docs/POSTGRESQL.md, "A snapshot that is rolled back").
pub trait OwnersLog: Send + Sync {
    /// How far it is durable now. What was handed down or forgotten before the call depends on no record
    /// after that.
    fn position(&self) -> LogPosition;

    /// The digests of the log before these marks, the owner's last two checkpoints. 0: unknown.
    fn digests_at(&self, marks: [u64; 2]) -> [u64; 2];

    /// Reads the log from where the owner's redo begins up to `newest`, and compares it. `marks` are
    /// checkpoints with their digests. Then [`OwnersLog::position`] is `newest`, or a later place.
    ///
    /// # Errors
    /// A sentence: the log ends before `newest`, or is another one.
    fn prove(&self, newest: LogPosition, marks: [(u64, u64); 2]) -> Result<(), String>;
}

/// The homes of all pages of a cache, and the label that binds them to it.
///
/// The layers above see to it that one page is not written by two at once, and that a page whose write a
/// failed sync lost is not taken for kept.
pub trait Home: Send + Sync {
    /// The device whose first 64 KiB hold the label. Nobody else uses it.
    fn label(&self) -> &dyn Device;

    /// Pages for which there is room: for messages, and for what a database may still grow.
    fn capacity_pages(&self) -> u64;

    /// Whether `page` can be written.
    fn has_room(&self, page: PageId, _: &dyn Names) -> bool {
        page.0 < self.capacity_pages()
    }

    /// Where `page` is, for messages.
    fn place(&self, page: PageId, names: &dyn Names) -> String;

    /// Reads adjacent pages from `first` on.
    ///
    /// # Errors
    /// The device's.
    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError>;

    /// Writes pages, in ascending order or nearly so. They are durable after the next sync. A page whose
    /// object has no name is dead, and is left out.
    ///
    /// # Errors
    /// The device's. Then any of the pages may have been written, and any part of them.
    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError>;

    /// Writes adjacent pages of `page_bytes` from `first` on, in as few requests as the home can.
    ///
    /// # Errors
    /// As [`Home::write`].
    fn write_run(
        &self,
        first: PageId,
        data: &[u8],
        page_bytes: usize,
        names: &dyn Names,
    ) -> Result<(), DeviceError> {
        let pages = data.chunks_exact(page_bytes).zip(first.0..).map(|(data, page)| (PageId(page), data));
        self.write(&pages.collect::<Vec<_>>(), names)
    }

    /// Begins a write of `length` bytes from the page `first` on, which the caller carries out
    /// ([`Device::begin_write`]). `None`: only [`Home::write_run`] can do it now.
    fn begin_write(&self, first: PageId, length: usize) -> Option<WritePlace> {
        let _ = (first, length);
        None
    }

    /// See [`Device::write_begun`].
    ///
    /// # Errors
    /// The device's.
    fn write_begun(&self, first: PageId, data: &[u8]) -> Result<(), DeviceError> {
        let _ = (first, data);
        unreachable!("no write has begun")
    }

    /// See [`Device::end_write`].
    ///
    /// # Errors
    /// As [`Home::write`].
    fn end_write(&self, first: PageId, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        let _ = (first, data, is_written);
        Ok(())
    }

    /// Makes all completed writes durable, those of the label, too.
    ///
    /// # Errors
    /// The device's. Then writes since the last sync may be lost.
    fn sync(&self) -> Result<(), DeviceError>;

    /// The log of the pages' owner, if what is in the cache is to be bound to it. The label is renewed then.
    fn log(&self) -> Option<&dyn OwnersLog> {
        None
    }

    /// See [`Device::await_own_syncs`].
    ///
    /// # Errors
    /// The device's.
    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// See [`Device::keeps_unsynced`]; of the label's device, too.
    fn keeps_unsynced(&self) -> bool {
        false
    }

    /// Time in which the disk had at least one request, if that is known.
    fn busy(&self) -> Option<Duration> {
        None
    }

    /// Reads come from the devices from now on, not from memory ([`Device::drop_cached`]).
    ///
    /// # Errors
    /// The device's.
    fn drop_cached(&self) -> Result<(), DeviceError>;
}

/// A disk whose pages are adjacent, after its label: page `n` is at 64 KiB + `n` pages.
pub struct WholeDisk {
    device: Arc<dyn Device>,
    page_bytes: u32,
}

impl WholeDisk {
    /// `device`, with pages of `page_bytes`.
    pub fn new(device: Arc<dyn Device>, page_bytes: u32) -> Arc<Self> {
        Arc::new(Self { device, page_bytes })
    }

    fn offset(&self, page: PageId) -> u64 {
        disk_offset(page, self.page_bytes)
    }
}

impl Home for WholeDisk {
    fn label(&self) -> &dyn Device {
        &*self.device
    }

    fn capacity_pages(&self) -> u64 {
        let room = self.device.geometry().capacity_bytes.saturating_sub(LABEL_AREA_BYTES);
        room / u64::from(self.page_bytes)
    }

    fn place(&self, page: PageId, _: &dyn Names) -> String {
        format!("disk offset {}", self.offset(page))
    }

    fn read(&self, first: PageId, buffer: &mut [u8], _: &dyn Names) -> Result<(), DeviceError> {
        self.device.read(self.offset(first), buffer)
    }

    fn write(&self, pages: &[(PageId, &[u8])], _: &dyn Names) -> Result<(), DeviceError> {
        for some in pages.chunks(GROUP_PAGES_MAX) {
            let mut ios = ArrayVec::<Io<'_>, GROUP_PAGES_MAX>::new();
            ios.extend(some.iter().map(|(page, data)| Io::Write { offset: self.offset(*page), data }));
            self.device.run(&mut ios)?;
        }
        Ok(())
    }

    fn write_run(&self, first: PageId, data: &[u8], _: usize, _: &dyn Names) -> Result<(), DeviceError> {
        self.device.write(self.offset(first), data)
    }

    fn begin_write(&self, first: PageId, length: usize) -> Option<WritePlace> {
        self.device.begin_write(self.offset(first), length)
    }

    fn write_begun(&self, first: PageId, data: &[u8]) -> Result<(), DeviceError> {
        self.device.write_begun(self.offset(first), data)
    }

    fn end_write(&self, first: PageId, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        self.device.end_write(self.offset(first), data, is_written)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.device.sync()
    }

    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        self.device.await_own_syncs()
    }

    fn keeps_unsynced(&self) -> bool {
        self.device.keeps_unsynced()
    }

    fn busy(&self) -> Option<Duration> {
        Some(self.device.counters().busy)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
}
