//! Measuring what devices cost.
//!
//! Each rate is that of a device with a queue of work, since that is what limits a busy cache. A disk is only
//! read: it may hold somebody's data. Its writes are taken to cost as much.

use crate::buffer::AlignedBuffer;
use crate::disk::{Home, NoNames};
use crate::error::flash_error;
use crate::{TierError, TierOptions};
use entresol_core::{Costs, PageId, SlotId};
use entresol_device::{Device, DeviceError, Io};
use entresol_runtime::{Time, now, spawn};
use std::ops::Range;
use std::sync::Arc;

/// Pages of a group, and requests under way at once.
const GROUP: u64 = 64;
const QUEUE: u64 = 32;
/// Groups that are written in a row, and batches of single pages.
const GROUPS: u64 = 24;
const BATCHES: u64 = 24;
/// Pages that each of as many readers reads from disk: all of them together take a slow one two seconds.
const DISK_READS: u64 = 8;

/// Places that are drawn (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// Nanoseconds of each of `count` pages since `begin`; at least one.
fn each(begin: Time, count: u64) -> u32 {
    let nanos = now().since(begin).as_nanos() / u128::from(count);
    u32::try_from(nanos).unwrap_or(u32::MAX).max(1)
}

/// Measures a flash device, whose slots have nothing that is needed, and a home. Unknown if pages of that
/// cannot be read yet, since they have no names, or if the cache is smaller than a group that is written.
/// About a second, and 20 MB of writes.
pub(crate) fn measure_costs(
    flash: &dyn Device,
    home: &Arc<dyn Home>,
    options: &TierOptions,
) -> Result<Costs, TierError> {
    if u64::from(options.slots) < GROUP {
        return Ok(Costs::default());
    }
    let Some(disk_read_ns) = measure_disk(home, options.page_bytes) else { return Ok(Costs::default()) };
    let layout = options.layout();
    let first = layout.slot_offset(SlotId(0));
    let slots = first..layout.slot_offset(SlotId(options.slots - 1)) + u64::from(options.page_bytes);
    let measured = measure_flash(flash, slots, options.page_bytes.into()).map_err(flash_error)?;
    let worth = options.costs.write_worth_permille;
    let disk_write_ns = disk_read_ns;
    Ok(Costs { disk_read_ns, disk_write_ns, write_worth_permille: worth, ..measured })
}

fn measure_flash(flash: &dyn Device, bytes: Range<u64>, page: u64) -> Result<Costs, DeviceError> {
    let groups = (bytes.end - bytes.start) / (GROUP * page);
    let mut buffer = AlignedBuffer::new((GROUP * page) as usize);
    // Some drives store zeros as nothing.
    let mut draw = Draw(1);
    buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&draw.below(u64::MAX).to_le_bytes()));
    let written = groups.min(GROUPS);
    let begin = now();
    for group in 0..written {
        flash.write(bytes.start + group * GROUP * page, &buffer)?;
        flash.sync()?;
    }
    let flash_write_in_row_ns = each(begin, written * GROUP);
    let begin = now();
    for _ in 0..written {
        let place = bytes.start + draw.below(written) * GROUP * page;
        flash.read(place, &mut buffer)?;
    }
    let flash_read_in_row_ns = each(begin, written * GROUP);
    let begin = now();
    for _ in 0..BATCHES {
        let pages = buffer.chunks_exact_mut(page as usize).take(QUEUE as usize);
        let place = |draw: &mut Draw| bytes.start + draw.below(written * GROUP) * page;
        let mut batch: Vec<Io<'_>> =
            pages.map(|buffer| Io::Read { offset: place(&mut draw), buffer }).collect();
        flash.run(&mut batch)?;
    }
    let flash_read_ns = each(begin, BATCHES * QUEUE);
    let begin = now();
    for _ in 0..BATCHES {
        let data = &buffer[..page as usize];
        let mut place = || bytes.start + draw.below(groups * GROUP) * page;
        let mut batch: Vec<Io<'_>> = (0..QUEUE).map(|_| Io::Write { offset: place(), data }).collect();
        flash.run(&mut batch)?;
    }
    flash.sync()?;
    let flash_write_ns = each(begin, BATCHES * QUEUE);
    let times = [flash_read_ns, flash_read_in_row_ns, flash_write_ns, flash_write_in_row_ns, 0, 0];
    Ok(Costs::of_times_ns(times))
}

/// Nanoseconds of each page read from disk, with as many reads under way as a busy cache has. `None`: it
/// cannot be read.
fn measure_disk(home: &Arc<dyn Home>, page_bytes: u32) -> Option<u32> {
    let read = move |reader: u64, home: &dyn Home| -> Result<(), DeviceError> {
        let mut buffer = AlignedBuffer::new(page_bytes as usize);
        let mut draw = Draw(reader);
        (0..DISK_READS)
            .try_for_each(|_| home.read(PageId(draw.below(home.capacity_pages())), &mut buffer, &NoNames))
    };
    // One first: whether it works at all.
    if home.capacity_pages() == 0 {
        return None;
    }
    let mut buffer = AlignedBuffer::new(page_bytes as usize);
    home.read(PageId(0), &mut buffer, &NoNames).ok()?;
    let begin = now();
    let readers: Vec<_> = (1..=QUEUE)
        .map(|reader| {
            let home = home.clone();
            spawn(&format!("cost of disk {reader}"), move || {
                // A read that fails takes its time, too. What it means is told when the page is needed.
                let _ = read(reader, &*home);
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| drop(reader.join_or_panic()));
    Some(each(begin, QUEUE * DISK_READS))
}
