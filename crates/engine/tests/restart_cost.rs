//! Bringing back a full cache of 4 GiB reads less than 1 % of it right after a crash, whatever its pages are
//! (FaCE §4.3).

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Layer, Source, TierOptions, disk_offset, flash_bytes};
use entresol_format::PageFormat;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use support::{PAGE, build, simulate, victim};

const BLOCK: usize = 4096;
/// Pages kept: more than can be in the middle of being written.
const KEPT: usize = 4096;

#[derive(Default)]
struct Memory {
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// Blocks that hold pages, oldest first.
    pages: VecDeque<u64>,
}

/// Flash that remembers everything but the pages written long ago, which recovery must not need.
struct Forgetful {
    capacity: u64,
    memory: Mutex<Memory>,
    read_bytes: Mutex<u64>,
}

impl Device for Forgetful {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.capacity, 512)
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let mut memory = self.memory.lock();
        let Memory { blocks, pages } = &mut *memory;
        for io in batch {
            match io {
                Io::Read { offset, buffer } => {
                    *self.read_bytes.lock() += buffer.len() as u64;
                    for (at, part) in buffer.chunks_mut(BLOCK).enumerate() {
                        match blocks.get(&(*offset / BLOCK as u64 + at as u64)) {
                            Some(block) => part.copy_from_slice(block),
                            None => part.fill(0),
                        }
                    }
                }
                Io::Write { offset, data } => {
                    for (at, part) in data.chunks(BLOCK).enumerate() {
                        let number = *offset / BLOCK as u64 + at as u64;
                        blocks.insert(number, part.into());
                        // Everything before the slots stays, and so do the summaries.
                        if number * BLOCK as u64 > 32 << 20 && !part.starts_with(b"ENTR") {
                            pages.push_back(number);
                        }
                        if pages.len() > KEPT {
                            blocks.remove(&pages.pop_front().unwrap());
                        }
                    }
                }
            }
        }
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// Page `number`, as its format wants it.
fn page_of(page_format: PageFormat, number: u64, page_bytes: usize) -> Vec<u8> {
    match page_format {
        PageFormat::Native => build(PageId(number), 2),
        _ => {
            let mut bytes = vec![number as u8; page_bytes];
            // Of PostgreSQL: as its reader would get it.
            page_format.unseal(&mut bytes, PageId(number));
            bytes
        }
    }
}

/// Fills a cache of 4 GiB up to the last group, lets the power fail, opens it, and returns the share of the
/// flash that was read, in per cent.
fn percent_read(page_format: PageFormat) -> f64 {
    let page_bytes = page_format.page_bytes().unwrap_or(PAGE);
    let slots = (4_u64 << 30) as usize / page_bytes;
    let options = TierOptions {
        page_format,
        page_bytes: page_bytes as u32,
        write_workers: 1,
        ..TierOptions::new(PolicyKind::FaceGr, slots as u32)
    };
    let capacity = flash_bytes(&options);
    let (memory, read_bytes) = (Mutex::default(), Mutex::new(0));
    let flash = Arc::new(Forgetful { capacity, memory, read_bytes });
    let disk = Arc::new(MemoryDevice::new("disk", disk_offset(PageId(slots as u64), page_bytes as u32)));
    DiskLayer::create(disk.clone(), page_bytes as u32).unwrap().close().unwrap();
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    // As many pages as fit without a dequeue.
    let pages = slots as u64 - 5 * 64;
    for number in 0..pages {
        let data = page_of(page_format, number, page_bytes);
        let lsn = if page_format == PageFormat::Native { 2 } else { 0 };
        tier.evict(victim(PageId(number), lsn, true, true), &data).unwrap();
    }
    drop(tier);
    let before = *flash.read_bytes.lock();
    let (tier, report) = FlashTier::open(flash.clone(), disk, options.clone()).unwrap();
    let read = *flash.read_bytes.lock() - before;
    // The superblocks are read, and read back when all are written for the new epoch, twice. They are not
    // counted as part of the directory.
    assert_eq!(read - report.bytes_read, (4 + 2 * 4) * BLOCK as u64);
    assert_eq!(report.segments_read, pages / u64::from(options.segment_entries));
    assert!(report.entries > pages - 4 * 64 && report.entries <= pages, "{report:?}");
    // The last groups are served, proved.
    let number = report.entries - 100;
    let mut buffer = vec![0; page_bytes];
    assert_eq!(tier.fetch(PageId(number), &mut buffer).unwrap().source, Source::Flash);
    if page_format != PageFormat::Native {
        assert!(buffer == page_of(page_format, number, page_bytes), "page {number}");
    }
    read as f64 * 100.0 / capacity as f64
}

#[test]
fn a_cache_of_four_gibibytes_comes_back_for_less_than_one_percent_of_it() {
    for page_format in [PageFormat::Native, PageFormat::Raw, PageFormat::Postgres] {
        let percent = simulate(1, || percent_read(page_format));
        println!("{page_format:?}: {percent:.2} % of the cache read");
        assert!(percent < 1.0, "{page_format:?}: {percent}");
    }
}
