//! Measuring what devices cost.
//!
//! Each rate is that of a device with a queue of work, since that is what limits a busy cache. A disk is only
//! read: it may have data. Its writes are taken to cost as much.
//!
//! Writes in a row are measured as a ring makes them: group by group, over and over the same place. A drive
//! that was written at random moves other pages out of the blocks that it erases, and some groups wait for
//! that. A ring pays it once: afterwards the drive erases blocks in which all pages are older ones of the
//! ring. So what counts is the time in which a quarter of the groups are written, not the mean.

use crate::buffer::AlignedBuffer;
use crate::disk::Home;
use crate::error::flash_error;
use crate::names::NoNames;
use crate::{TierError, TierOptions};
use entresol_core::{Costs, PageId, SlotId};
use entresol_device::{Device, DeviceError, Io};
use entresol_runtime::{Time, now, spawn};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Pages of a group, and requests under way at once.
const GROUP: u64 = 64;
const QUEUE: u64 = 32;
/// Groups that are written in a row, how often in turn, and for how long: then no further round begins.
const GROUPS: u64 = 24;
const ROUNDS: u32 = 16;
const ROUNDS_TAKE: Duration = Duration::from_secs(2);
/// Batches of single pages.
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
/// cannot be read yet, since they have no names, or if the cache is smaller than a group that is written. At
/// most 100 MB of pages of 4 KiB are written.
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

/// Nanoseconds of a page of a group that is written and durable: a quarter of the groups take less. In each
/// round `groups` groups are written from byte `start` on.
fn measure_groups(flash: &dyn Device, start: u64, groups: u64, group: &[u8]) -> Result<u32, DeviceError> {
    let began = now();
    let mut pages_ns = Vec::with_capacity((u64::from(ROUNDS) * groups) as usize);
    for _ in 0..ROUNDS {
        for number in 0..groups {
            let begin = now();
            flash.write(start + number * group.len() as u64, group)?;
            flash.sync()?;
            pages_ns.push(each(begin, GROUP));
        }
        if now().since(began) > ROUNDS_TAKE {
            break;
        }
    }
    pages_ns.sort_unstable();
    Ok(pages_ns[pages_ns.len() / 4])
}

fn measure_flash(flash: &dyn Device, bytes: Range<u64>, page: u64) -> Result<Costs, DeviceError> {
    let groups = (bytes.end - bytes.start) / (GROUP * page);
    let mut buffer = AlignedBuffer::new((GROUP * page) as usize);
    // Some drives store zeros as nothing.
    let mut draw = Draw(1);
    buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&draw.below(u64::MAX).to_le_bytes()));
    let written = groups.min(GROUPS);
    let flash_write_in_row_ns = measure_groups(flash, bytes.start, written, &buffer)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_device::{MemoryDevice, Profile, Scale};
    use entresol_runtime::sim::{Outcome, SimConfig, Simulation};

    const PAGE: u64 = 4096;
    const PAGES: u64 = 8192;
    /// Above what the bus and a program take, and what a sync after each group adds.
    const IN_ROW_NS_MAX: u32 = 50_000;

    /// On a drive that was written at random, which is small and stands for a larger one.
    fn on_a_used_drive<T: Send>(
        profile: &str,
        measure: impl FnOnce(&dyn Device) -> Result<T, DeviceError> + Send,
    ) -> T {
        let run = || {
            let media = Arc::new(MemoryDevice::new("flash", PAGES * PAGE));
            let scale = Scale::of(128 * PAGES * PAGE, PAGES * PAGE);
            measure(&Profile::named(profile).expect("a profile").build(media, scale)).expect("no failure")
        };
        match Simulation::new(SimConfig::default()).run(run) {
            Outcome::Finished(measured) => measured,
            _ => panic!("the simulation ended before its time"),
        }
    }

    #[test]
    fn a_ring_does_not_pay_for_what_was_on_the_drive_before() {
        for profile in ["mlc", "slc"] {
            let costs = on_a_used_drive(profile, |drive| measure_flash(drive, 0..PAGES * PAGE, PAGE));
            assert!(costs.flash_write_in_row_ns < IN_ROW_NS_MAX, "{profile}: {costs:?}");
            assert!(costs.flash_write_ns > 2 * costs.flash_write_in_row_ns, "{profile}: {costs:?}");
        }
        let of_first_round = on_a_used_drive("mlc", |drive| {
            let (begin, group) = (now(), vec![1; (GROUP * PAGE) as usize]);
            for number in 0..GROUPS {
                drive.write(number * GROUP * PAGE, &group)?;
                drive.sync()?;
            }
            Ok(each(begin, GROUPS * GROUP))
        });
        assert!(of_first_round > 2 * IN_ROW_NS_MAX, "on average the first round pays: {of_first_round}");
    }
}
