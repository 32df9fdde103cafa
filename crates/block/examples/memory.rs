//! How much memory a cache of the block door takes: `memory GIB [POLICY]` fills a flash device of `GIB` GiB
//! with dirty pages, until each slot has been used, and prints the slots and the resident set.
//!
//! Pages are zeros, and the devices are sparse files that leave blocks of zeros out. So the program is the
//! one that serves, the directory is full, and the files have little but summaries and labels.

use entresol_block::{Volume, VolumeConfig};
use entresol_device::{Counters, Device, DeviceError, FileDevice, FileOptions, Geometry, Io};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BLOCK: usize = 4096;
const GIB: u64 = 1 << 30;
/// Written at once.
const CHUNK: u64 = 1 << 20;

/// Largest device.
const BYTES_MAX: u64 = 32 * GIB;

/// A file in which a block of zeros that was never anything else takes no room. It knows of each block
/// whether it is blank, in memory of the same size for every device, all of it in use from the beginning.
struct Sparse(FileDevice, Vec<AtomicU64>);

impl Sparse {
    fn make(path: &Path, bytes: u64) -> Result<Arc<dyn Device>, Box<dyn Error>> {
        std::fs::File::create(path)?.set_len(bytes)?;
        let blank = (0..BYTES_MAX / BLOCK as u64 / 64).map(|_| AtomicU64::new(u64::MAX)).collect();
        Ok(Arc::new(Self(FileDevice::open(path, FileOptions::existing())?, blank)))
    }

    fn write_block(&self, offset: u64, block: &[u8]) -> Result<(), DeviceError> {
        let (word, bit) = (offset / BLOCK as u64 / 64, 1 << (offset / BLOCK as u64 % 64));
        let blank = &self.1[word as usize];
        if block.iter().all(|byte| *byte == 0) && blank.load(Relaxed) & bit > 0 {
            return Ok(());
        }
        blank.fetch_and(!bit, Relaxed);
        self.0.write(offset, block)
    }
}

impl Device for Sparse {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        for io in batch {
            match io {
                Io::Read { offset, buffer } => self.0.read(*offset, buffer)?,
                Io::Write { offset, data } => {
                    for (at, block) in data.chunks(BLOCK).enumerate() {
                        self.write_block(*offset + (at * BLOCK) as u64, block)?;
                    }
                }
            }
        }
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// Resident memory of this process, without what it has mapped from files, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).ok_or("no RssAnon")?;
    let kib = line.split_whitespace().nth(1).ok_or("no number")?;
    Ok(kib.parse::<u64>()? * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let gib: u64 = arguments.next().ok_or("usage: memory GIB [POLICY]")?.parse()?;
    let usual = VolumeConfig::usual("write-back");
    let config = VolumeConfig { policy: arguments.next().unwrap_or(usual.policy.clone()), ..usual };
    let options = config.options_for(gib * GIB)?;
    let slots = u64::from(options.slots());
    // More than fits, so that every slot is used.
    let disk_bytes = (slots * BLOCK as u64 * 5 / 4).next_multiple_of(CHUNK);
    let folder = tempfile::tempdir()?;
    let file = |name: &str, bytes| Sparse::make(&folder.path().join(name), bytes);
    let [disk, label, flash] =
        [file("disk", disk_bytes)?, file("label", LABEL_FILE_BYTES)?, file("flash", gib * GIB)?];
    let volume = Volume::create(disk, label, flash, options)?;
    let empty = resident()?;
    let zeros = vec![0; CHUNK as usize];
    (0..disk_bytes).step_by(CHUNK as usize).try_for_each(|at| volume.write(at, &zeros, false))?;
    let status = volume.status();
    println!(
        "{gib} GiB, {}: {slots} slots, {} with a page, {} of them newer than disk; resident {empty} bytes when made, {} bytes when full",
        config.policy,
        status.pages,
        status.dirty_pages,
        resident()?,
    );
    Ok(())
}
