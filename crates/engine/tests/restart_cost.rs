//! Bringing back a full cache of 4 GiB reads less than 3 % of it (FaCE §4.2), right after a crash.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{FlashTier, Layer, TierOptions, flash_bytes};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use support::{PAGE, build, disk_bytes, load, simulate, victim};

const SLOTS: u32 = 1 << 20;
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

#[test]
fn a_cache_of_four_gibibytes_comes_back_for_less_than_three_percent_of_it() {
    simulate(1, || {
        let options = TierOptions { write_workers: 1, ..TierOptions::new(PolicyKind::FaceGr, SLOTS) };
        let flash = Arc::new(Forgetful {
            capacity: flash_bytes(&options),
            memory: Mutex::default(),
            read_bytes: Mutex::new(0),
        });
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(SLOTS.into())));
        load(disk.clone(), 1);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        // As many pages as fit without a dequeue; then the power fails.
        let pages = u64::from(SLOTS) - 5 * 64;
        let mut data = build(PageId(0), 2);
        for number in 0..pages {
            let page = PageId(number);
            entresol_format::page::header_mut(&mut data).page.set(number);
            tier.evict(victim(page, 2, true, true), &data).unwrap();
        }
        drop(tier);
        let before = *flash.read_bytes.lock();
        let (tier, report) = FlashTier::open(flash.clone(), disk, options.clone()).unwrap();
        let read = *flash.read_bytes.lock() - before;
        let total = flash_bytes(&options);
        // The superblocks are read, and read back when all are written for the new epoch, twice. They are not
        // counted as part of the directory.
        assert_eq!(read - report.bytes_read, (4 + 2 * 4) * BLOCK as u64);
        assert!(read * 100 < total * 3, "{read} of {total} bytes read: {report:?}");
        assert_eq!(report.segments_read, pages / 64_000);
        assert!(report.entries > pages - 4 * 64 && report.entries <= pages, "{report:?}");
        // The last groups are served, proved.
        let mut buffer = vec![0; PAGE];
        tier.fetch(PageId(report.entries - 100), &mut buffer).unwrap();
        println!("{read} of {total} bytes read, {:.2} %", read as f64 * 100.0 / total as f64);
    });
}
