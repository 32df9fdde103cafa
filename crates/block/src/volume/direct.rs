//! Bytes without a cache: those after the last whole page, or all of them if there is no cache.
//!
//! Invariant: after a failed sync nothing is read or written here, since writes may be lost; not of a disk
//! that keeps what is not durable.

use super::VolumeError;
use entresol_device::{Device, DeviceError};
use entresol_engine::{AlignedBuffer, InPlaceDisk, PageCache, TierError};
use entresol_format::label::LABEL_AREA_BYTES;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

pub(super) struct Direct {
    home: Arc<InPlaceDisk>,
    /// Writes that have ended, and those of them that are known to be durable.
    written: AtomicU64,
    durable: AtomicU64,
    failed: OnceLock<DeviceError>,
}

/// What failed below a cache.
fn of_disk(error: TierError) -> DeviceError {
    match error {
        TierError::Device { source, .. } => source,
        error => DeviceError::Dead { device: "disk".to_owned(), reason: error.to_string() },
    }
}

impl Direct {
    pub fn new(home: Arc<InPlaceDisk>) -> Self {
        let (written, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { home, written, durable, failed: OnceLock::new() }
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.home.geometry().capacity_bytes - LABEL_AREA_BYTES
    }

    fn check(&self) -> Result<(), VolumeError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))?;
        // A cache's, or one before a sector of the fingerprint.
        Ok(self.home.check_syncs()?)
    }

    /// Why nothing can be read or written any more: a sync of the disk has failed.
    pub fn failure(&self) -> Option<VolumeError> {
        self.check().err()
    }

    /// The range in whole sectors of the disk, which may be larger than the volume's.
    fn sectors(&self, offset: u64, length: u64) -> Range<u64> {
        let sector = u64::from(self.home.geometry().sector_bytes);
        offset / sector * sector..(offset + length).next_multiple_of(sector)
    }

    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        if buffer.is_empty() {
            return Ok(());
        }
        self.check()?;
        let sectors = self.sectors(offset, buffer.len() as u64);
        if sectors == (offset..offset + buffer.len() as u64) {
            self.home.read(LABEL_AREA_BYTES + offset, buffer)?;
        } else {
            let mut whole = AlignedBuffer::new((sectors.end - sectors.start) as usize);
            self.home.read(LABEL_AREA_BYTES + sectors.start, &mut whole)?;
            buffer.copy_from_slice(&whole[(offset - sectors.start) as usize..][..buffer.len()]);
        }
        // A sync that has failed meanwhile may have restored older bytes.
        self.check()
    }

    /// Writes to sectors that no other task writes to meanwhile.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.check()?;
        let sectors = self.sectors(offset, data.len() as u64);
        if sectors == (offset..offset + data.len() as u64) {
            self.home.write(LABEL_AREA_BYTES + offset, data)?;
        } else {
            let mut whole = AlignedBuffer::new((sectors.end - sectors.start) as usize);
            self.home.read(LABEL_AREA_BYTES + sectors.start, &mut whole)?;
            whole[(offset - sectors.start) as usize..][..data.len()].copy_from_slice(data);
            self.home.write(LABEL_AREA_BYTES + sectors.start, &whole)?;
        }
        self.written.fetch_add(1, SeqCst);
        Ok(())
    }

    /// The whole sectors of the disk in this range are needed no more.
    pub fn discard(&self, bytes: Range<u64>) -> Result<(), VolumeError> {
        self.check()?;
        let sector = u64::from(self.home.geometry().sector_bytes);
        let (start, end) = (bytes.start.next_multiple_of(sector), bytes.end / sector * sector);
        if start < end {
            self.home.discard(LABEL_AREA_BYTES + start, end - start)?;
            self.written.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// Makes zeros of these bytes, whole sectors of the disk; other parts of sectors are written.
    pub fn zero(&self, bytes: Range<u64>, may_punch: bool) -> Result<(), VolumeError> {
        self.check()?;
        let sector = u64::from(self.home.geometry().sector_bytes);
        let (start, end) = (bytes.start.next_multiple_of(sector), bytes.end / sector * sector);
        if start >= end {
            return self.write(bytes.start, &AlignedBuffer::new((bytes.end - bytes.start) as usize));
        }
        for part in [bytes.start..start, end..bytes.end].iter().filter(|part| !part.is_empty()) {
            self.write(part.start, &AlignedBuffer::new((part.end - part.start) as usize))?;
        }
        let zeroed = self.home.zero(LABEL_AREA_BYTES + start, end - start, may_punch);
        self.written.fetch_add(1, SeqCst);
        Ok(zeroed?)
    }

    /// A cache of the same disk makes the sync, if there is one: then it knows if that fails.
    pub fn flush(&self, tier: Option<&dyn PageCache>) -> Result<(), VolumeError> {
        self.check()?;
        let written = self.written.load(SeqCst);
        if written > self.durable.load(SeqCst) {
            let synced = match tier {
                Some(tier) => tier.sync_disk().map_err(of_disk),
                None => self.home.sync(),
            };
            let keeps = self.home.keeps_unsynced();
            synced.inspect_err(|error| _ = if keeps { Ok(()) } else { self.failed.set(error.clone()) })?;
            self.durable.fetch_max(written, SeqCst);
        }
        Ok(())
    }
}
