//! A device of another shape: larger sectors, sectors smaller than what the medium writes, and unreadable
//! ones.

use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

pub struct Shaped {
    inner: Arc<dyn Device>,
    sector_bytes: u32,
    physical_bytes: u32,
    /// Offsets of sectors of the inner device.
    unreadable: Mutex<BTreeSet<u64>>,
}

const SECTOR: u64 = 512;

impl Shaped {
    pub fn new(inner: Arc<dyn Device>, sector_bytes: u32, physical_bytes: u32) -> Arc<Shaped> {
        Arc::new(Shaped { inner, sector_bytes, physical_bytes, unreadable: Mutex::default() })
    }

    /// The 512 bytes at `offset` cannot be read until they are written.
    pub fn make_unreadable(&self, offset: u64) {
        self.unreadable.lock().unwrap().insert(offset / SECTOR * SECTOR);
    }
}

impl Device for Shaped {
    fn geometry(&self) -> Geometry {
        Geometry {
            sector_bytes: self.sector_bytes,
            physical_bytes: self.physical_bytes,
            ..self.inner.geometry()
        }
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let aligned = |offset: u64, length: usize| {
            let sector = u64::from(self.sector_bytes);
            assert!(offset.is_multiple_of(sector) && (length as u64).is_multiple_of(sector), "misaligned");
        };
        let mut failed = Ok(());
        for io in batch.iter() {
            let mut unreadable = self.unreadable.lock().unwrap();
            match io {
                Io::Read { offset, buffer } => {
                    aligned(*offset, buffer.len());
                    let end = offset + buffer.len() as u64;
                    if let Some(at) = unreadable.range(*offset..end).next() {
                        failed = Err(DeviceError::Io {
                            device: "shaped".into(),
                            operation: "read",
                            offset: *at,
                            length: SECTOR,
                            reason: "input/output error".into(),
                        });
                    }
                }
                Io::Write { offset, data } => {
                    aligned(*offset, data.len());
                    let physical = u64::from(self.physical_bytes);
                    let whole =
                        offset.is_multiple_of(physical) && (data.len() as u64).is_multiple_of(physical);
                    assert!(whole, "a write endangers its neighbours: {} bytes at {offset}", data.len());
                    unreadable.retain(|at| !(*offset..offset + data.len() as u64).contains(at));
                }
            }
        }
        self.inner.run(batch)?;
        failed
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.inner.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, length)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.inner.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
